"""Faults that people reported in public, as they go with ctxruntime: what scopes, generators and snapshots mend."""

from __future__ import annotations

import asyncio
import decimal
import gc
import inspect
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import pytest

import ctxruntime as ctx


def here() -> Any:
    return ctx.SESSION_ID.get(None)


def in_threads(*jobs: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


# 05: a stream that is left early


@ctx.session(session_id="inner")
async def stream() -> AsyncIterator[Any]:
    for _ in range(3):
        yield here()


async def leave_by_break() -> None:
    async for _ in stream():
        break
    gc.collect()


async def leave_by_cancel() -> None:
    started = asyncio.Event()

    async def consume() -> None:
        async for _ in stream():
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await started.wait()
    task.cancel()
    await asyncio.wait([task])


async def leave_by_error() -> None:
    async def consume() -> None:
        async for _ in stream():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await consume()


async def leave_by_aclose_elsewhere() -> None:
    generator: Any = stream()
    await anext(generator)
    await asyncio.create_task(generator.aclose())


@pytest.mark.parametrize(
    "leave",
    [leave_by_break, leave_by_cancel, leave_by_error, leave_by_aclose_elsewhere],
    ids=lambda leave: leave.__name__,
)
def test_case_05_stream_left_early(leave: Any, caplog: pytest.LogCaptureFixture) -> None:
    """However a stream is left early, the consumer has its own session at once, and nothing is logged."""

    async def main() -> Any:
        with ctx.session(session_id="outer"):
            await leave()
            return here()

    with caplog.at_level(logging.INFO):
        assert asyncio.run(main()) == "outer"
    assert caplog.records == []


def test_case_05_plain_with_in_a_stream(caplog: pytest.LogCaptureFixture) -> None:
    """A `with session` inside a generator that is not decorated is closed by the loop without a word."""

    async def plain() -> AsyncIterator[None]:
        with ctx.session(session_id="inner"):
            yield

    async def main() -> None:
        async for _ in plain():
            break
        gc.collect()
        await asyncio.sleep(0)

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    assert caplog.records == []


# 06: two chats, one process


def test_case_06_two_chats_at_once() -> None:
    """Two chats that are served at once each see their own session, and the environment nothing."""
    environment, both_inside = dict(os.environ), threading.Barrier(2)

    def serve(chat: str) -> Any:
        with ctx.session(session_id=chat):
            both_inside.wait()
            return here()

    assert in_threads(lambda: serve("chat-A"), lambda: serve("chat-B")) == ["chat-A", "chat-B"]
    assert dict(os.environ) == environment


# 07: never bound, bound to something empty, left


def reader() -> Any:
    """A host's reader that falls back to the environment, where it may."""
    return ctx.SESSION_ID.get() if ctx.SESSION_ID.is_bound() or ctx.current_turn() else "stale"


def test_case_07_closed_and_empty_never_fall_back() -> None:
    """A live session, one that was closed, and an explicitly empty one are told apart from never bound."""
    with ctx.session(session_id="live"):
        live = reader()
    with ctx.session(session_id=""):
        empty = reader()

    assert (live, empty, reader()) == ("live", "", "stale")


def test_case_07_unknown_id_in_a_turn_is_not_never_bound() -> None:
    """In a turn without an id the turn is there, so that a reader has no reason to look elsewhere."""
    with ctx.session(session_id=None):
        assert ctx.current_turn() is not None
        assert ctx.SESSION_ID.get("") == ""


# 08: one decorator for all kinds


@pytest.mark.asyncio
async def test_case_08_every_kind_of_function_is_in_its_session() -> None:
    """A decorator that binds holds for the bodies of all four kinds, and `inspect` sees the kinds unchanged."""
    scope = ctx.session(session_id="s1")

    @scope
    def function() -> Any:
        return here()

    @scope
    async def coroutine() -> Any:
        await asyncio.sleep(0)
        return here()

    @scope
    def generator() -> Iterator[Any]:
        yield here()

    @scope
    async def async_generator() -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        yield here()

    seen = [function(), await coroutine(), next(iter(generator())), await anext(aiter(async_generator()))]
    assert seen == ["s1"] * 4
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator)
    assert inspect.isasyncgenfunction(async_generator)


# 09: an entry point that forgot to bind


def test_case_09_forgotten_bind_raises() -> None:
    """A plugin that reads where nobody bound gets a named error, and no shared bucket."""
    notes: dict[str, list[str]] = {}

    def note(text: str) -> None:
        notes.setdefault(ctx.SESSION_ID.get(), []).append(text)

    ctx.session(session_id="alice")(note)("a1")
    for secret in ("secret of alice", "secret of bob"):
        with pytest.raises(ctx.UnboundKeyError, match="'session_id' is not bound here"):
            note(secret)

    assert notes == {"alice": ["a1"]}


def test_case_09_unset_is_no_default() -> None:
    """UNSET means "no default given": a reader that passes it on gets the error, and no value to file things under."""
    with pytest.raises(ctx.UnboundKeyError):
        ctx.SESSION_ID.get(ctx.UNSET)


# 15: mutable values


def test_case_15_parallel_requests_share_nothing() -> None:
    """Two requests that started from one turn and learn their users do not see each other's."""
    both_inside = threading.Barrier(2)

    def serve(user: str) -> Any:
        with ctx.session(take=[ctx.FRONTEND]):
            ctx.amend(user_id=user)
            both_inside.wait()
            return ctx.USER_ID.get()

    with ctx.session(frontend="web"):
        contexts = [copy_context(), copy_context()]
    jobs = [lambda c=c, u=u: c.run(serve, u) for c, u in zip(contexts, ("alice", "bob"), strict=True)]
    assert in_threads(*jobs) == ["alice", "bob"]


@pytest.mark.parametrize("value", [{}, [], set(), bytearray(), object()], ids=lambda value: type(value).__name__)
def test_case_15_mutable_values_are_refused(value: Any) -> None:
    """Nothing that could be changed in place gets into a scope."""
    with pytest.raises(ctx.InvalidValueError):
        ctx.session(user_id=value)


def test_case_15_what_is_read_back_cannot_be_written_into() -> None:
    """The mapping and the values that are read back are immutable."""
    tags = ctx.Key("cases_tags", tuple)
    with ctx.session({tags: ("a",)}):
        with pytest.raises(TypeError):
            tags.get()[0] = "b"  # type: ignore[index]
        with pytest.raises(TypeError):
            ctx.current()["cases_tags"] = ()  # type: ignore[index]


# 18: an id that a worker finds out


@pytest.mark.asyncio
async def test_case_18_late_id_reaches_the_outer_layer() -> None:
    """The id that a worker finds out is seen by the post-hook of the same turn, and by no other turn."""

    def worker() -> None:
        ctx.amend(session_id="20260101_ab12")

    async def neighbour(amended: asyncio.Event) -> Any:
        with ctx.session(gateway_session_key="discord:g1"):
            await amended.wait()
            return here()

    amended = asyncio.Event()
    other = asyncio.create_task(neighbour(amended))
    with ctx.session(gateway_session_key="discord:g1"):
        await asyncio.to_thread(worker)
        amended.set()
        seen = (ctx.GATEWAY_SESSION_KEY.get(), ctx.SESSION_ID.get(""))

    assert seen == ("discord:g1", "20260101_ab12")
    assert await other is None


# 19: one snapshot, many workers


@pytest.mark.parametrize("way", ["run", "with", "carry"])
def test_case_19_one_snapshot_many_workers(way: str) -> None:
    """One captured state is used by three workers at once, within itself, and again."""
    together = threading.Barrier(3)

    def job() -> Any:
        together.wait()
        return snapshot.run(here)

    with ctx.session(session_id="s1"):
        snapshot, carried = ctx.capture(), ctx.carry(job)

    def within() -> Any:
        with snapshot:
            return job()

    worker = {"run": lambda: snapshot.run(job), "with": within, "carry": carried}[way]
    assert in_threads(worker, worker, worker) == ["s1"] * 3
    assert in_threads(worker, worker, worker) == ["s1"] * 3


# 20: a body that is streamed after the endpoint returned


@pytest.mark.asyncio
async def test_case_20_streamed_body_keeps_its_session() -> None:
    """A carried body has its session at each step, in whichever task it is pulled after the endpoint returned."""

    async def body() -> AsyncIterator[Any]:
        yield here()
        yield here()

    async def endpoint() -> Any:
        with ctx.session(session_id="s1"):
            return ctx.carry(body())

    response = await endpoint()

    async def pull() -> Any:
        return await anext(response), here()

    assert [await asyncio.create_task(pull()) for _ in range(2)] == [("s1", None)] * 2
    await response.aclose()


@pytest.mark.asyncio
async def test_case_20_streaming_response_of_starlette() -> None:
    """The same through a real streaming response."""
    from starlette import responses

    async def body() -> AsyncIterator[str]:
        yield here()

    with ctx.session(session_id="s1"):
        response = responses.StreamingResponse(ctx.carry(body()))
    assert [chunk async for chunk in response.body_iterator] == ["s1"]


@pytest.mark.asyncio
async def test_case_20_turn_is_released_when_the_client_leaves() -> None:
    """A stream that is a door of the turn ends it when the client leaves."""

    @ctx.session.join(session_id="s1")
    async def body() -> AsyncIterator[Any]:
        yield here()
        yield here()

    with ctx.session(session_id="s1") as turn:
        response: Any = body()
    await anext(response)
    streaming = not turn.ended
    await response.aclose()

    assert streaming
    assert turn.ended


# 26: a sub-agent's generator


@pytest.mark.parametrize("step", ["next", "send", "throw"])
def test_case_26_sub_agents_generator_does_not_leak(step: str) -> None:
    """The host that iterates a sub-agent's generator keeps its session between the steps."""

    @ctx.bind(session_id="child")
    def sub_agent() -> Any:
        while True:
            with suppress(ValueError):
                yield here()

    with ctx.session(session_id="parent"):
        agent = sub_agent()
        seen = [next(agent), here()]
        advance = {"next": lambda: next(agent), "send": lambda: agent.send(1), "throw": lambda: agent.throw(ValueError)}
        seen += [advance[step](), here()]
        agent.close()

    assert seen == ["child", "parent", "child", "parent"]


@pytest.mark.asyncio
async def test_case_26_async_sub_agent_does_not_leak() -> None:
    """The same for async generators."""

    @ctx.bind(session_id="child")
    async def sub_agent() -> AsyncIterator[Any]:
        yield here()
        yield here()

    with ctx.session(session_id="parent"):
        assert [(step, here()) async for step in sub_agent()] == [("child", "parent")] * 2


# Extras


@pytest.mark.asyncio
async def test_case_e05_running_a_coroutine_function_isolates() -> None:
    """What a coroutine function binds, or sets, in `snapshot.run` stays in it."""

    async def handler() -> Any:
        ctx.session(session_id="inner").open()
        await asyncio.sleep(0)
        return here()

    with ctx.session(session_id="outer"):
        assert await ctx.capture().run(handler) == "inner"
        assert here() == "outer"


@pytest.mark.parametrize("way", ["carry", "with"])
def test_case_e10_only_keys_are_taken_along(way: str) -> None:
    """A detached job gets the keys, and no decimal precision of whoever started it."""
    native = decimal.getcontext().prec

    def job() -> tuple[Any, int]:
        return here(), decimal.getcontext().prec

    def in_snapshot() -> tuple[Any, int]:
        with snapshot:
            return job()

    with ctx.session(session_id="s1"), decimal.localcontext(prec=3):
        snapshot, carried = ctx.capture(), ctx.carry(job)

    assert copy_context().run(carried if way == "carry" else in_snapshot) == ("s1", native)


def test_case_e12_overlapping_scopes() -> None:
    """Two scopes that are closed out of order bring no dead session back."""
    first, second = ctx.session(session_id="A"), ctx.session(session_id="B")
    first.open()
    second.open()
    first.close()
    between = here()
    second.close()

    assert (between, here()) == ("B", None)


@pytest.mark.asyncio
async def test_case_e13_eager_task_does_not_leak() -> None:
    """A task that runs eagerly in its creator's step, from 3.12 on, leaves the creator its session."""

    async def child() -> Any:
        with ctx.session(session_id="child"):
            await asyncio.sleep(0)
            return here()

    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
    with ctx.session(session_id="parent"):
        task = asyncio.create_task(child())
        assert [here(), await task, here()] == ["parent", "child", "parent"]
