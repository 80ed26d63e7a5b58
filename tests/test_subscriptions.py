"""What the core tells its subscribers: every entering, and every amend."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime.layers import SUBSCRIBERS, Layer, amending
from ctxruntime.subscriptions import defer, subscribe


class Recorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def entered(self, layer: Layer) -> None:
        self.told.append(("entered", ctx.SESSION_ID.peek(layer)))

    def amended(self, layer: Layer, keys: Sequence[ctx.Key[Any]]) -> None:
        self.told.append((type(layer).__name__, {key.name: key.peek(layer) for key in keys}))


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    before = SUBSCRIBERS.copy()
    unsubscribe = subscribe(recorder)
    yield recorder
    unsubscribe()
    unsubscribe()
    assert before == SUBSCRIBERS


def by_with() -> None:
    with ctx.session(session_id="s1"):
        pass


def by_async_with() -> None:
    async def main() -> None:
        async with ctx.session(session_id="s1"):
            pass

    asyncio.run(main())


def by_open() -> None:
    scope = ctx.session(session_id="s1")
    scope.open()
    scope.close()


def by_function() -> None:
    ctx.session(session_id="s1")(lambda: None)()


def by_computing() -> None:
    @ctx.session(session_id=lambda event: event)
    def handle(event: str) -> None: ...

    handle("s1")


def by_coroutine() -> None:
    @ctx.session(session_id="s1")
    async def handle() -> None: ...

    asyncio.run(handle())


def by_generator() -> None:
    @ctx.session(session_id="s1")
    def steps() -> Iterator[int]:
        yield 1
        yield 2

    list(steps())


def by_async_generator() -> None:
    @ctx.session(session_id="s1")
    async def steps() -> AsyncIterator[int]:
        yield 1
        yield 2

    async def main() -> None:
        async for _ in steps():
            pass

    asyncio.run(main())


def by_bind() -> None:
    with ctx.bind(session_id="s1"):
        pass


def by_bound_function() -> None:
    ctx.bind(session_id="s1")(lambda: None)()


def by_join() -> None:
    with ctx.session.join(session_id="s1"):
        pass


WAYS = [
    *(by_with, by_async_with, by_open, by_function, by_computing, by_coroutine, by_generator, by_async_generator),
    *(by_bind, by_bound_function, by_join),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_entering_is_told_once(recorder: Recorder, way: Callable[[], None]) -> None:
    """Whatever way a scope is entered by, subscribers are told once, with the layer and its values."""
    way()

    assert recorder.told == [("entered", "s1")]


def test_each_entry_of_one_scope_object_is_told(recorder: Recorder) -> None:
    """A scope object that is entered again is told again."""
    scope = ctx.session(session_id="s1")
    with scope, scope:
        pass

    assert recorder.told == [("entered", "s1")] * 2


def test_a_joined_door_is_told_with_what_it_amends(recorder: Recorder) -> None:
    """Joining a turn tells what it adds to the turn, then the door."""
    with ctx.session(gateway_session_key="k1"), ctx.session.join(gateway_session_key="k1", session_id="s1"):
        pass

    assert recorder.told == [("entered", ctx.UNSET), ("Turn", {"session_id": "s1"}), ("entered", "s1")]


def test_an_amend_is_told_with_the_scope_that_binds(recorder: Recorder) -> None:
    """Subscribers are told the scope where a key changed, the keys, and nothing of an amend that was refused."""
    with ctx.session(gateway_session_key="k1"), ctx.bind(session_id="child-1"):
        recorder.told.clear()
        ctx.amend(session_id="child-2", user_id="u1")
        with pytest.raises(ctx.InvalidValueError):
            ctx.amend(session_id="a\nb")

    rotated = {"session_id": "child-2", "previous_session_id": "child-1"}
    assert recorder.told == [("Bound", rotated), ("Turn", {"user_id": "u1"})]


def test_what_is_carried_is_not_told(recorder: Recorder) -> None:
    """A snapshot put in effect and a carried call enter nothing."""
    with ctx.session(session_id="s1"):
        snapshot, job = ctx.capture(), ctx.carry(lambda: None)
    with snapshot:
        job()

    assert recorder.told == [("entered", "s1")]


def test_no_lock_is_held_while_subscribers_are_told() -> None:
    """A subscriber may wait for another thread that enters, binds or amends."""

    class Waiting(Recorder):
        def entered(self, layer: Layer) -> None:
            self.check()

        def amended(self, layer: Layer, keys: Sequence[ctx.Key[Any]]) -> None:
            self.check()

        def check(self) -> None:
            thread = threading.Thread(target=self.probe)
            thread.start()
            thread.join()

        def probe(self) -> None:
            free = amending().acquire(blocking=False)
            self.told.append(("free", free))
            if free:
                amending().release()

    waiting = Waiting()
    unsubscribe = subscribe(waiting)
    with ctx.session(gateway_session_key="k1"), ctx.session.join(gateway_session_key="k1", session_id="s1"):
        ctx.amend(session_id="s2")
    unsubscribe()

    assert waiting.told == [("free", True)] * 4


def test_subscribing_twice_is_subscribing_once() -> None:
    """A subscriber is told once however often it subscribed, and not after it has unsubscribed."""
    recorder = Recorder()
    unsubscribe = subscribe(recorder)
    subscribe(recorder)
    by_with()
    unsubscribe()
    by_with()

    assert recorder.told == [("entered", "s1")]


# Doors that wait


class Deferring(Recorder):
    """Defers work at every door, and remembers which doors could wait for it, and what was done in which order."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.waits: list[bool] = []
        self.work: Callable[[], Awaitable[object]] = self.little
        self.begun = asyncio.Event()

    def entered(self, layer: Layer) -> None:
        super().entered(layer)
        self.waits.append(defer(self.work))

    def amended(self, layer: Layer, keys: Sequence[ctx.Key[Any]]) -> None:
        self.entered(layer)

    async def little(self) -> None:
        await asyncio.sleep(0)
        self.done.append(f"work in {ctx.SESSION_ID.get('nothing')}")

    async def endless(self) -> None:
        self.begun.set()
        await asyncio.Event().wait()

    async def failing(self) -> None:
        raise ZeroDivisionError


@pytest.fixture
def deferring() -> Iterator[Deferring]:
    deferring = Deferring()
    unsubscribe = subscribe(deferring)
    yield deferring
    unsubscribe()


SCOPES: dict[str, Callable[[], Any]] = {
    "session": lambda: ctx.session(session_id="s1"),
    "take": lambda: ctx.session(session_id="s1", take=(ctx.USER_ID,)),
    "join": lambda: ctx.session.join(session_id="s1"),
    "bind": lambda: ctx.bind(session_id="s1"),
}
scopes = pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES.keys())


@scopes
def test_async_with_awaits_what_was_deferred(deferring: Deferring, scope: Callable[[], Any]) -> None:
    """Work that a subscriber deferred is done, with the scope in effect, before the body begins."""

    async def main() -> None:
        async with scope():
            deferring.done.append("body")

    asyncio.run(main())

    assert (deferring.waits, deferring.done) == ([True], ["work in s1", "body"])


@scopes
def test_a_coroutine_function_awaits_what_was_deferred(deferring: Deferring, scope: Callable[[], Any]) -> None:
    """So it is before the body of a decorated coroutine function, which alone has the scope in effect."""

    @scope()
    async def body() -> str:
        deferring.done.append("body")
        return str(ctx.SESSION_ID.get())

    assert asyncio.run(body()) == "s1"
    assert (deferring.waits, deferring.done) == ([True], ["work in nothing", "body"])


@pytest.mark.parametrize("decorated", [False, True], ids=["with", "decorated"])
def test_what_a_joined_door_amends_is_awaited_too(deferring: Deferring, decorated: bool) -> None:
    """A door that adds to its turn lets in after what was deferred for the amend and for the door."""

    async def body() -> None:
        deferring.done.append("body")

    async def main() -> None:
        door = ctx.session.join(gateway_session_key="k1", session_id="s1")
        with ctx.session(gateway_session_key="k1"):
            deferring.waits.clear()
            if decorated:
                await door(body)()
            else:
                async with door:
                    await body()

    asyncio.run(main())

    assert (deferring.waits, deferring.done) == ([True, True], ["work in s1", "work in s1", "body"])


def test_no_other_door_waits(deferring: Deferring) -> None:
    """In a plain `with`, in the other decorators and in an amend nothing can be deferred, nor within one that waits."""

    async def main() -> None:
        async with ctx.session(session_id="outer") as turn:
            deferring.waits.clear()
            for way in (by_with, by_open, by_function, by_computing, by_generator, by_bind, by_bound_function, by_join):
                way()
            turn.amend(user_id="u1")
            ctx.amend(session_id="s2")

    asyncio.run(main())
    by_async_generator()

    assert deferring.waits == [False] * 11
    assert not defer(deferring.little)


@scopes
@pytest.mark.parametrize("decorated", [False, True], ids=["with", "decorated"])
def test_a_door_that_is_cancelled_while_it_waits_is_left(
    deferring: Deferring, scope: Callable[[], Any], decorated: bool
) -> None:
    """It lets nobody in, its scope is not in effect any more, and the work behind what was cancelled is not begun."""

    async def body() -> None:
        pytest.fail("it was let in")

    async def enter(door: Any) -> None:
        try:
            if decorated:
                await door(body)()
            else:
                async with door:
                    await body()
        finally:
            assert not ctx.SESSION_ID.is_bound()

    async def main() -> None:
        deferring.work = deferring.endless
        deferring.begun = asyncio.Event()
        door = scope()
        task = asyncio.create_task(enter(door))
        await deferring.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not getattr(door, "opened", None)
        assert not getattr(door, "within", None)
        deferring.work = deferring.little
        async with door:  # it can be entered again
            assert ctx.SESSION_ID.get() == "s1"

    asyncio.run(main())


@pytest.mark.parametrize("decorated", [False, True], ids=["with", "decorated"])
def test_a_joined_door_that_is_cancelled_while_it_waits_is_not_counted(deferring: Deferring, decorated: bool) -> None:
    """The turn ends with the doors that were let in."""

    async def body() -> None:
        pytest.fail("it was let in")

    async def enter() -> None:
        door = ctx.session.join(session_id="s1")
        if decorated:
            await door(body)()
        else:
            async with door:
                await body()

    async def main() -> ctx.Turn:
        with ctx.session(session_id="s1") as turn:
            deferring.work = deferring.endless
            task = asyncio.create_task(enter())
            await deferring.begun.wait()
            assert turn.joined == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert turn.joined == 0
        return turn

    assert asyncio.run(main()).ended


def test_work_that_fails_lets_nobody_in(deferring: Deferring) -> None:
    """What a subscriber does not guard reaches the host, after the scope was left."""
    deferring.work = deferring.failing

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with ctx.session(session_id="s1"):
                pytest.fail("it was let in")
        assert not ctx.SESSION_ID.is_bound()

    asyncio.run(main())
