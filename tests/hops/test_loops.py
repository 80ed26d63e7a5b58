"""Event loops: what Python carries by itself, on each kind of loop, and whose keys an exception handler sees."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from asyncio.base_events import BaseEventLoop
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio
import uvloop

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.hops.loops import asyncio_patches, uvloop_patches

HOSTS: ContextVar[str] = ContextVar("loops_hosts", default="unset")
Hop = Callable[[], Awaitable[Any]]
Run = Callable[[Coroutine[Any, Any, Any]], Any]
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def here() -> Any:
    return ctx.SESSION_ID.get(None)


async def ahere() -> Any:
    await asyncio.sleep(0)
    return ctx.SESSION_ID.get(None)


@pytest.fixture(params=list(LOOPS))
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine on one kind of loop."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(main)

    return run


async def served(hop: Hop) -> list[Any]:
    """Take the same hop in two sessions at once, then outside of any; return what its far side saw each time."""
    both_in = asyncio.Barrier(2)

    async def turn(name: str) -> Any:
        with ctx.session(session_id=name):
            await both_in.wait()
            return await hop()

    return [*await asyncio.gather(turn("A"), turn("B")), await hop()]


EACH_ITS_OWN = ["A", "B", None]


# Hops on a loop


def test_await(run: Run) -> None:
    """What is awaited runs in the flow that awaits it."""
    assert run(served(ahere)) == EACH_ITS_OWN


def test_create_task(run: Run) -> None:
    """A task has what was in effect where it was created."""

    async def hop() -> Any:
        return await asyncio.create_task(ahere())

    assert run(served(hop)) == EACH_ITS_OWN


def test_a_task_keeps_its_session_after_the_turn_was_left(run: Run) -> None:
    """A task that outlives the turn that created it keeps the keys, and knows that the turn ended."""

    async def main() -> Any:
        left = asyncio.Event()

        async def later() -> Any:
            await left.wait()
            turn = ctx.current_turn()
            return here(), turn and turn.ended

        with ctx.session(session_id="A"):
            task = asyncio.create_task(later())
        left.set()
        return await task

    assert run(main()) == ("A", True)


def test_gather(run: Run) -> None:
    """Every coroutine that is gathered has what was in effect where gather was called."""

    async def hop() -> Any:
        return await asyncio.gather(ahere(), ahere())

    assert run(served(hop)) == [["A", "A"], ["B", "B"], [None, None]]


def test_task_group(run: Run) -> None:
    """A task of a group has what was in effect where it was created, not where the group was entered."""

    async def main() -> Any:
        async with asyncio.TaskGroup() as group:
            with ctx.session(session_id="A"):
                inside = group.create_task(ahere())
            outside = group.create_task(ahere())
        return inside.result(), outside.result()

    assert run(main()) == ("A", None)


@pytest.mark.parametrize("schedule", ["call_soon", "call_later", "call_at", "call_soon_threadsafe"])
def test_a_callback_of_the_loop(run: Run, schedule: str) -> None:
    """A callback has what was in effect where it was scheduled."""

    async def hop() -> Any:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        when = {"call_later": (0.001,), "call_at": (loop.time(),)}.get(schedule, ())
        getattr(loop, schedule)(*when, lambda: done.set_result(here()))
        return await done

    assert run(served(hop)) == EACH_ITS_OWN


def test_call_soon_threadsafe_from_a_plain_thread(run: Run) -> None:
    """A callback that a thread schedules has what is in effect in that thread, not in the loop."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        with ctx.session(session_id="loop's"):
            in_nothing, in_a = loop.create_future(), loop.create_future()

        def plain() -> None:
            loop.call_soon_threadsafe(lambda: in_nothing.set_result(here()))
            with ctx.session(session_id="A"):
                loop.call_soon_threadsafe(lambda: in_a.set_result(here()))

        thread = threading.Thread(target=plain)
        thread.start()
        return await in_nothing, await in_a

    assert run(main()) == (None, "A")


def test_asyncio_done_callback(run: Run) -> None:
    """A done-callback has what was in effect where it was added, not where the future is completed."""

    async def main() -> Any:
        future = asyncio.get_running_loop().create_future()
        seen: list[Any] = []
        with ctx.session(session_id="A"):
            future.add_done_callback(lambda _: seen.append(here()))
        with ctx.session(session_id="B"):
            future.set_result(None)
        await asyncio.sleep(0)
        return seen

    assert run(main()) == ["A"]


def test_to_thread(run: Run) -> None:
    """What to_thread runs has what was in effect where it was called."""

    async def hop() -> Any:
        return await asyncio.to_thread(here)

    assert run(served(hop)) == EACH_ITS_OWN


def test_an_amend_in_a_thread_reaches_the_turn(run: Run) -> None:
    """A fact that a to_thread function amends is seen by the coroutine that awaits it."""

    async def main() -> Any:
        with ctx.session(gateway_session_key="k1"):
            await asyncio.to_thread(ctx.amend, session_id="A")
            return here()

    assert run(main()) == "A"


def test_run_coroutine_threadsafe(run: Run) -> None:
    """A coroutine that a thread hands over has what is in effect in that thread."""

    async def hop() -> Any:
        loop = asyncio.get_running_loop()
        return await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(ahere(), loop).result(10))

    assert run(served(hop)) == EACH_ITS_OWN


def test_run_coroutine_threadsafe_from_a_plain_thread(run: Run) -> None:
    """A coroutine from a thread without a session has none, whatever the loop is serving."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        seen: list[Any] = []

        def plain() -> None:
            with ctx.cleared():  # a thread may be born with its starter's state
                seen.append(asyncio.run_coroutine_threadsafe(ahere(), loop).result(10))
            with ctx.session(session_id="A"):
                seen.append(asyncio.run_coroutine_threadsafe(ahere(), loop).result(10))

        with ctx.session(session_id="loop's"):
            thread = threading.Thread(target=plain)
            thread.start()
            await asyncio.to_thread(thread.join)
        return seen

    assert run(main()) == [None, "A"]


def test_start_server(run: Run) -> None:
    """A session that a server's handler enters starts clean, whoever started the server."""

    async def main() -> Any:
        seen: list[Any] = []

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with ctx.session(session_id=(await reader.readline()).decode().strip()):
                await asyncio.sleep(0)
                seen.append(dict(ctx.current()))
            writer.close()

        with ctx.session(session_id="starter's", user_id="starter"):
            server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            for name in ("A", "B"):
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(f"{name}\n".encode())
                await reader.read()
                writer.close()
        return seen

    assert run(main()) == [{"session_id": "A"}, {"session_id": "B"}]


def test_a_server_that_is_started_cleared(run: Run) -> None:
    """The handler of a server that was started under `cleared()` is called with nothing in effect."""

    async def main() -> Any:
        seen: list[Any] = []

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(here())
            writer.close()

        with ctx.session(session_id="starter's"), ctx.cleared():
            server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await reader.read()
            writer.close()
        return seen

    assert run(main()) == [None]


def test_async_with(run: Run) -> None:
    """`async with session`, `bind` and a snapshot hold over every await of their bodies."""

    async def hop() -> Any:
        async with ctx.bind(user_id="u1"):
            await asyncio.sleep(0)
            snapshot = ctx.capture()
        async with ctx.session(session_id="other"), snapshot:
            await asyncio.sleep(0)
            return here(), ctx.USER_ID.get(None)

    assert run(served(hop)) == [("A", "u1"), ("B", "u1"), (None, "u1")]


@pytest.mark.parametrize("way", ["with", "async with", "carry"])
def test_asyncio_queue(run: Run, way: str) -> None:
    """A consumer that serves everybody has each item's own keys while it serves it, and between items nothing."""

    async def main() -> Any:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        seen: list[Any] = []

        async def consume() -> None:
            while (item := await queue.get()) is not None:
                await serve(item)
                seen.append(("between", here()))

        async def serve(item: Any) -> None:
            if way == "carry":
                seen.append(item())
            elif way == "with":
                with item:
                    seen.append(here())
            else:
                async with item:
                    seen.append(await ahere())

        consumer = asyncio.create_task(consume())
        for name in ("A", "B"):
            with ctx.session(session_id=name):
                await queue.put(ctx.carry(here) if way == "carry" else ctx.capture())
        await queue.put(None)
        await consumer
        return seen

    assert run(main()) == ["A", ("between", None), "B", ("between", None)]


# anyio and trio

ANYIO = {
    "asyncio": {"backend": "asyncio"},
    "uvloop": {"backend": "asyncio", "backend_options": {"use_uvloop": True}},
    "trio": {"backend": "trio"},
}


@pytest.fixture(params=list(ANYIO))
def anyio_run(request: pytest.FixtureRequest) -> Callable[[Hop], Any]:
    """Run an async function by anyio, on one of its backends."""
    return lambda main: anyio.run(main, **ANYIO[request.param])


def turn_by_anyio(hop: Hop) -> Hop:
    async def main() -> list[Any]:
        seen: dict[str, Any] = {}
        entered = {"A": anyio.Event(), "B": anyio.Event()}

        async def turn(name: str, other: str) -> None:
            with ctx.session(session_id=name):
                entered[name].set()
                await entered[other].wait()
                seen[name] = await hop()

        async with anyio.create_task_group() as group:
            group.start_soon(turn, "A", "B")
            group.start_soon(turn, "B", "A")
        return [seen["A"], seen["B"], await hop()]

    return main


def test_anyio_task_group(anyio_run: Callable[[Hop], Any]) -> None:
    """A task that an anyio task group starts, by either method, has what was in effect where it was started."""

    async def hop() -> Any:
        seen: list[Any] = []

        async def soon() -> None:
            await anyio.lowlevel.checkpoint()
            seen.append(here())

        async def at_once(*, task_status: anyio.abc.TaskStatus[Any]) -> None:
            await anyio.lowlevel.checkpoint()
            task_status.started(here())

        async with anyio.create_task_group() as group:
            group.start_soon(soon)
            seen.append(await group.start(at_once))
        return seen

    assert anyio_run(turn_by_anyio(hop)) == [["A", "A"], ["B", "B"], [None, None]]


def test_anyio_to_thread(anyio_run: Callable[[Hop], Any]) -> None:
    """anyio's worker threads, which are reused, have the caller's keys for each call."""

    async def hop() -> Any:
        return await anyio.to_thread.run_sync(here, limiter=anyio.CapacityLimiter(1))

    assert anyio_run(turn_by_anyio(hop)) == EACH_ITS_OWN


def test_anyio_from_thread(anyio_run: Callable[[Hop], Any]) -> None:
    """What a worker thread of anyio's calls back into the loop has that call's keys."""

    async def far() -> Any:
        await anyio.lowlevel.checkpoint()
        return here()

    async def hop() -> Any:
        return await anyio.to_thread.run_sync(lambda: (anyio.from_thread.run(far), anyio.from_thread.run_sync(here)))

    assert anyio_run(turn_by_anyio(hop)) == [("A", "A"), ("B", "B"), (None, None)]


def test_anyio_memory_stream(anyio_run: Callable[[Hop], Any]) -> None:
    """A snapshot that rides with an item gives the receiver the sender's keys while it serves the item."""

    async def main() -> Any:
        send, receive = anyio.create_memory_object_stream[Any](0)
        seen: list[Any] = []

        async def consume() -> None:
            async with receive:
                async for item, snapshot in receive:
                    with snapshot:
                        await anyio.lowlevel.checkpoint()
                        seen.append((item, here()))
                    seen.append(here())

        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            async with send:
                for name in ("A", "B"):
                    with ctx.session(session_id=name):
                        await send.send((f"{name}'s item", ctx.capture()))
        return seen

    assert anyio_run(main) == [("A's item", "A"), None, ("B's item", "B"), None]


def test_trio_nursery() -> None:
    """A task that a nursery starts has what was in effect where it was started, not where the nursery was opened."""

    async def main() -> Any:
        seen: dict[str, Any] = {}

        async def far(name: str) -> None:
            await trio.lowlevel.checkpoint()
            seen[name] = here()

        async with trio.open_nursery() as nursery:
            for name in ("A", "B"):
                with ctx.session(session_id=name):
                    nursery.start_soon(far, name)
            nursery.start_soon(far, "outside")
        return seen

    assert trio.run(main) == {"A": "A", "B": "B", "outside": None}


def test_trio_to_thread() -> None:
    """A worker thread of trio's, which is reused, has the caller's keys for each call."""

    async def main() -> Any:
        seen: list[Any] = []
        for name in ("A", "B"):
            with ctx.session(session_id=name):
                seen.append(await trio.to_thread.run_sync(here))
        return [*seen, await trio.to_thread.run_sync(here)]

    assert trio.run(main) == EACH_ITS_OWN


def test_trio_from_thread() -> None:
    """What a worker thread of trio's calls back into the loop has that call's keys."""

    async def far() -> Any:
        await trio.lowlevel.checkpoint()
        return here()

    async def main() -> Any:
        with ctx.session(session_id="A"):
            return await trio.to_thread.run_sync(lambda: (trio.from_thread.run(far), trio.from_thread.run_sync(here)))

    assert trio.run(main) == ("A", "A")


# A loop's exception handler


@pytest.fixture
def patched() -> Iterator[None]:
    patches = [*asyncio_patches(), *uvloop_patches()]
    for patch in patches:
        patch.apply()
    yield
    for patch in patches:
        patch.undo()


class Reports(logging.Handler):
    """What the handler of a loop sees: a custom one, or whoever takes the default one's log record."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.seen: list[Any] = []

    def listen(self) -> None:
        if self.kind == "custom":
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.seen.append(here()))

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(here())


@pytest.fixture(params=["custom", "default"])
def reports(request: pytest.FixtureRequest, patched: None) -> Iterator[Reports]:
    reports = Reports(request.param)
    logger = logging.getLogger("asyncio")
    logger.addHandler(reports)
    yield reports
    logger.removeHandler(reports)


async def fail() -> None:
    await asyncio.sleep(0)
    raise RuntimeError("on purpose")


def fail_now(*_: object) -> None:
    raise RuntimeError("on purpose")


async def a_few_turns_of_the_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_task_that_nobody_awaits_reports_its_own_session(run: Run, reports: Reports) -> None:
    """The handler has the keys of the task that failed, also if it is collected while another session is served."""

    async def main() -> None:
        reports.listen()
        with ctx.session(session_id="A"):
            task = asyncio.create_task(fail())
        await a_few_turns_of_the_loop()
        with ctx.session(session_id="B"):
            del task
            gc.collect()
            assert here() == "B"

    run(main())

    assert reports.seen == ["A"]


def test_a_task_without_a_session_reports_none(run: Run, reports: Reports) -> None:
    """The handler has no keys for a task that had none, also if another session is being served."""

    async def main() -> None:
        reports.listen()
        task = asyncio.create_task(fail())
        await a_few_turns_of_the_loop()
        with ctx.session(session_id="B"):
            del task
            gc.collect()

    run(main())

    assert reports.seen == [None]


def test_a_task_that_is_destroyed_while_it_waits_reports_its_own_session(run: Run, reports: Reports) -> None:
    """The handler has the keys of a task of which nobody kept a reference."""

    async def wait_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        reports.listen()
        with ctx.session(session_id="A"):
            task = asyncio.create_task(wait_for_ever())
            task.add_done_callback(lambda _: None)
        with ctx.session(session_id="B"):
            await a_few_turns_of_the_loop()
            del task
            gc.collect()

    run(main())

    assert reports.seen == ["A"]


@pytest.mark.parametrize("schedule", ["call_soon", "call_later", "call_soon_threadsafe"])
def test_a_callback_that_fails_reports_its_own_session(run: Run, reports: Reports, schedule: str) -> None:
    """The handler has the keys that were in effect where the failing callback was scheduled."""

    async def main() -> None:
        reports.listen()
        loop = asyncio.get_running_loop()
        afterwards = loop.create_future()
        with ctx.session(session_id="A"):
            getattr(loop, schedule)(*((0.001,) if schedule == "call_later" else ()), fail_now)
        loop.call_later(0.02, afterwards.set_result, None)
        await afterwards

    run(main())

    assert reports.seen == ["A"]


def test_a_done_callback_that_fails_reports_its_own_session(run: Run, reports: Reports) -> None:
    """The handler has the keys that were in effect where the failing done-callback was added."""

    async def main() -> None:
        reports.listen()
        future = asyncio.get_running_loop().create_future()
        with ctx.session(session_id="A"):
            future.add_done_callback(fail_now)
        with ctx.session(session_id="B"):
            future.set_result(None)
        await a_few_turns_of_the_loop()

    run(main())

    assert reports.seen == ["A"]


def test_a_task_that_fails_at_the_end_of_the_run_reports_its_own_session(run: Run, reports: Reports) -> None:
    """The handler has the keys of a task that fails while the runner cancels what is left."""

    async def fail_when_cancelled() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            fail_now()

    async def main() -> Any:
        reports.listen()
        with ctx.session(session_id="A"):
            task = asyncio.create_task(fail_when_cancelled())
        await asyncio.sleep(0)
        return task  # somebody keeps it, so that it is not collected first

    task = run(main())

    assert reports.seen == ["A"]
    assert isinstance(task.exception(), RuntimeError)


def test_a_report_that_names_no_flow_is_handled_as_ever(run: Run, reports: Reports) -> None:
    """Where no task, future or handle is named, the handler runs with what is in effect where it is called."""

    async def main() -> None:
        reports.listen()
        with ctx.session(session_id="B"):
            asyncio.get_running_loop().call_exception_handler({"message": "somebody's own"})

    run(main())

    assert reports.seen == ["B"]


def test_a_future_that_no_task_stands_for_is_handled_as_ever(run: Run, reports: Reports) -> None:
    """A plain future belongs to no flow: its handler runs with what is in effect where it is called."""

    async def main() -> None:
        reports.listen()
        loop = asyncio.get_running_loop()
        with ctx.session(session_id="B"):
            loop.call_exception_handler({"message": "somebody's own", "future": loop.create_future()})

    run(main())

    assert reports.seen == ["B"]


def test_a_task_reports_itself(run: Run, reports: Reports) -> None:
    """A task may call the handler about itself, from within the flow that failed."""

    async def main() -> None:
        reports.listen()
        with ctx.session(session_id="A"):
            asyncio.get_running_loop().call_exception_handler({"message": "mine", "task": asyncio.current_task()})

    run(main())  # from 3.12 on asyncio cannot enter the context for a custom handler again, and logs that

    assert reports.seen == ["A"]


def test_a_handler_that_fails_is_reported_for_the_same_session(run: Run, patched: None) -> None:
    """The record about a failing custom handler has the keys of the flow that it was called about."""
    reports = Reports("default")
    logging.getLogger("asyncio").addHandler(reports)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(fail_now)
        with ctx.session(session_id="A"):
            asyncio.get_running_loop().call_soon(fail_now)
        await a_few_turns_of_the_loop()

    try:
        run(main())
    finally:
        logging.getLogger("asyncio").removeHandler(reports)

    assert reports.seen == ["A"]


def test_a_turn_that_was_closed_elsewhere_is_not_reported(run: Run, reports: Reports) -> None:
    """The handler has nothing of a turn that the task itself opened and that somebody else closed since."""

    async def main() -> None:
        reports.listen()
        scope = ctx.session(session_id="A")

        async def opening() -> None:
            scope.open()
            await fail()

        task = asyncio.create_task(opening())
        await a_few_turns_of_the_loop()
        scope.close()
        with ctx.session(session_id="B"):
            del task
            gc.collect()

    run(main())

    assert reports.seen == [None]


def test_a_turn_that_the_task_took_over_is_reported_after_it_was_closed(run: Run, reports: Reports) -> None:
    """The handler has the keys of a turn that the task took over, however that turn was left."""

    async def main() -> None:
        reports.listen()
        scope = ctx.session(session_id="A")
        scope.open()
        task = asyncio.create_task(fail())
        await asyncio.to_thread(scope.close)
        await a_few_turns_of_the_loop()
        with ctx.session(session_id="B"):
            del task
            gc.collect()

    run(main())

    assert reports.seen == ["A"]


@pytest.mark.parametrize("kind", list(LOOPS))
def test_the_handler_gets_the_keys_alone_unless_python_gives_it_more(kind: str, patched: None) -> None:
    """The failing flow's keys go to the handler, and other variables only where CPython takes them there (3.12)."""
    seen: list[Any] = []

    async def set_and_fail() -> None:
        HOSTS.set("the task's")
        await fail()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: seen.append((here(), HOSTS.get())))
        with ctx.session(session_id="A"):
            task = asyncio.create_task(set_and_fail())
        await a_few_turns_of_the_loop()
        del task
        gc.collect()

    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        runner.run(main())

    whole = kind == "asyncio" and sys.version_info >= (3, 12)
    assert seen == [("A", "the task's" if whole else "unset")]


def test_a_fault_of_ours_does_not_keep_a_report_from_the_handler(run: Run, reports: Reports) -> None:
    """If the failing flow cannot be looked at, the handler is called all the same, once, and the fault is counted."""

    class Unreadable:
        @property
        def _context(self) -> object:
            raise RuntimeError("on purpose")

    async def main() -> None:
        reports.listen()
        with ctx.session(session_id="B"):
            asyncio.get_running_loop().call_exception_handler({"message": "odd", "handle": Unreadable()})

    before = fault_counts().get("call_exception_handler", 0)
    run(main())

    assert reports.seen == ["B"]
    assert fault_counts()["call_exception_handler"] == before + 1


def test_nothing_that_a_loop_calls_often_is_patched() -> None:
    """A loop's exception handler is all that is patched."""
    assert [(patch.owner, patch.name) for patch in [*asyncio_patches(), *uvloop_patches()]] == [
        (BaseEventLoop, "call_exception_handler"),
        (uvloop.Loop, "call_exception_handler"),
    ]


def test_undo_puts_the_very_objects_back() -> None:
    """After the undo the classes are as they were: asyncio's own function is there, uvloop's class has none."""
    before = vars(BaseEventLoop)["call_exception_handler"]
    patches = [*asyncio_patches(), *uvloop_patches()]

    for patch in [*patches, *patches]:
        patch.apply()
    assert vars(BaseEventLoop)["call_exception_handler"] is not before
    for patch in [*patches, *patches]:
        patch.undo()

    assert vars(BaseEventLoop)["call_exception_handler"] is before
    assert "call_exception_handler" not in vars(uvloop.Loop)
