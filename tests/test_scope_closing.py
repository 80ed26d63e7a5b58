"""Which entry a close ends, and that what was left is never read again."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from enum import Enum
from types import FrameType
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime import layers


def elsewhere(act: Callable[[], object]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def both(session_id: str | None = None, gateway_session_key: str | None = None) -> tuple[str | None, str | None]:
    return session_id, gateway_session_key


def any_key(**keys: Any) -> tuple[Any, Any]:
    return keys.get("session_id"), keys.get("gateway_session_key")


@pytest.mark.parametrize("handler", [both, any_key], ids=["named", "kwargs"])
@pytest.mark.parametrize(
    "way", [ctx.adapt, ctx.inject, lambda fn: lambda: ctx.call(fn)], ids=["adapt", "inject", "call"]
)
def test_a_handler_never_gets_keys_of_two_sessions(way: Any, handler: Any) -> None:
    """The first handler called after a close from elsewhere gets all its keys from the session that is in effect."""
    outer = ctx.session(session_id="A", gateway_session_key="kA")
    inner = ctx.session(session_id="B", gateway_session_key="kB")
    adapted = way(handler)
    outer.open()
    inner.open()
    elsewhere(inner.close)

    assert adapted() == ("A", "kA")
    outer.close()


@pytest.mark.asyncio
async def test_a_task_after_closes_out_of_order_inherits_nothing() -> None:
    """A task that is started before anybody reads does not take over what was left under another scope."""

    async def child() -> Any:
        return ctx.SESSION_ID.get(None)

    first, second = ctx.session(session_id="A"), ctx.session(session_id="B")
    first.open()
    second.open()
    first.close()
    second.close()

    assert await asyncio.create_task(child()) is None


def test_leaving_a_block_ends_no_other_flow() -> None:
    """A block whose entry was closed from elsewhere ends nobody else's entry when it is left."""
    scope = ctx.bind(user_id="u")
    one, two = Context(), Context()
    one.run(scope.__enter__)
    two.run(scope.__enter__)
    scope.close()
    two.run(scope.__exit__, None, None, None)

    assert one.run(ctx.USER_ID.get, None) == "u"
    one.run(scope.__exit__, None, None, None)
    assert one.run(ctx.USER_ID.get, None) is None


def test_a_turn_closes_itself() -> None:
    """Closing a turn that a re-usable scope object made ends that turn, also twice, and never the newest one."""
    scope = ctx.session(session_id="D", take=(ctx.USER_ID,))
    older, newer = Context().run(scope.open), Context().run(scope.open)
    older.close()
    older.close()

    assert (older.ended, newer.ended) == (True, False)


def test_a_snapshot_left_from_another_context_is_left() -> None:
    """A block with a snapshot, in a generator that is closed from another context, ends where it was entered."""
    with ctx.session(session_id="s1"):
        snapshot = ctx.capture()

    def body() -> Iterator[None]:
        with snapshot:
            yield

    context = copy_context()
    generator = body()
    context.run(next, generator)
    generator.close()

    assert context.run(ctx.SESSION_ID.get, None) is None


class Step:
    def __await__(self) -> Iterator[None]:
        yield


@pytest.mark.parametrize("kind", ["coroutine", "async generator"])
def test_a_body_closed_from_another_session_ends_in_its_own(kind: str) -> None:
    """What runs when a decorated body is closed elsewhere, in the middle of an await, runs in the body's session."""
    seen: list[Any] = []

    @ctx.session(session_id="A")
    async def coroutine() -> None:
        try:
            await Step()
        finally:
            seen.append(ctx.SESSION_ID.get(None))

    @ctx.session(session_id="A")
    async def generator() -> Any:
        try:
            await Step()
            yield
        finally:
            seen.append(ctx.SESSION_ID.get(None))

    body: Any = coroutine() if kind == "coroutine" else generator().asend(None)
    copy_context().run(body.send, None)
    with ctx.session(session_id="B"):
        with pytest.raises(KeyError):
            body.throw(KeyError)
        assert ctx.SESSION_ID.get() == "B"

    assert seen == ["A"]


def test_an_enum_member_that_can_be_called_is_a_value() -> None:
    """A value of the key's type is no function to compute it with, also where it can be called."""

    class Shade(Enum):
        DARK = 1

        def __call__(self) -> None: ...

    key = ctx.Key("closing_shade", Shade)
    with ctx.bind({key: Shade.DARK}):
        assert key.get() is Shade.DARK


def bind_traced(each_line: Callable[[int], None]) -> None:
    """Enter and leave a bind; call `each_line` before each line by which its layer gets the values of the turn."""

    def tracing(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is layers.inherit.__code__ and event == "line":
            each_line(frame.f_lineno - frame.f_code.co_firstlineno)
        return tracing

    traced = sys.gettrace()
    sys.settrace(tracing)
    try:
        with ctx.bind(frontend="f"):
            sys.settrace(traced)
            assert dict(ctx.current()) == {"session_id": "B", "user_id": "uB", "frontend": "f"}
    finally:
        sys.settrace(traced)


def test_bind_while_the_turn_is_left_elsewhere_is_of_one_session() -> None:
    """A bind that is made just as another thread leaves the turn, at any moment, inherits from that turn alone."""
    lines: list[int] = []
    with ctx.session(session_id="B", user_id="uB"):
        bind_traced(lines.append)
    assert len(lines) > 10

    for moment in lines:
        inner = ctx.session(session_id="B", user_id="uB")
        with ctx.session(session_id="A", user_id="uA"):
            inner.open()
            bind_traced(lambda line: elsewhere(inner.close) if line == moment else None)  # noqa: B023
            assert inner.ended is True
            assert ctx.SESSION_ID.get() == "A"


def test_close_ends_the_entry_here_under_what_was_left_elsewhere() -> None:
    """A scope object that is closed ends its entry here, even if what stands above it was left by another thread."""
    scope, other = ctx.bind(frontend="f"), Context()
    scope.open()
    inner = ctx.bind(user_id="u")
    inner.open()
    other.run(scope.open)
    elsewhere(inner.close)

    scope.close()

    assert dict(ctx.current()) == {}
    assert other.run(ctx.FRONTEND.get) == "f"
    scope.close()
    assert other.run(ctx.FRONTEND.get, None) is None


def test_turn_closed_by_two_threads_at_once_is_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that close one turn in the same moment leave it as one does."""
    turn = ctx.session(session_id="s1").open()
    in_effect = layers.in_effect

    def closed_meanwhile() -> Iterator[layers.Layer]:
        monkeypatch.setattr(layers, "in_effect", in_effect)
        elsewhere(turn.close)
        return in_effect()

    monkeypatch.setattr(layers, "in_effect", closed_meanwhile)
    elsewhere(turn.close)

    assert turn.ended
    assert ctx.SESSION_ID.get(None) is None
    assert type(turn) is ctx.Turn


@pytest.mark.parametrize("scope", [ctx.session(session_id="s1"), ctx.bind(session_id="s1")], ids=["session", "bind"])
def test_closes_by_two_threads_at_once_end_two_entries(scope: Any) -> None:
    """Each of two closes from two threads that have none of the entries in effect ends one of its own."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    together = threading.Barrier(2)

    def close() -> None:
        together.wait()
        Context().run(scope.close)

    try:
        for _ in range(300):
            for _ in range(3):
                scope.open()
            threads = [threading.Thread(target=close) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert ctx.SESSION_ID.get() == "s1"
            scope.close()
            assert ctx.SESSION_ID.get(None) is None
    finally:
        sys.setswitchinterval(interval)


def used_bind() -> Any:
    scope = ctx.bind(session_id="s1")
    with scope:
        return scope


@pytest.mark.parametrize(
    "make",
    [
        lambda: ctx.session(session_id="s1"),
        lambda: ctx.session(session_id="s1", take=(ctx.USER_ID,)),
        lambda: ctx.session.join(session_id="s1"),
        lambda: ctx.bind(session_id="s1"),
        used_bind,
        ctx.cleared,
    ],
    ids=["session", "session that takes", "join", "bind", "bind used before", "cleared"],
)
def test_a_block_is_left_as_often_as_one_likes(make: Callable[[], Any]) -> None:
    """Leaving a block again, or one that was never entered, is harmless; after `open` it closes."""
    scope = make()
    scope.__exit__(None, None, None)
    with scope:
        pass
    scope.__exit__(None, None, None)
    with ctx.session(session_id="outer"):
        scope.open()
        scope.__exit__(None, None, None)

        assert ctx.SESSION_ID.get() == "outer"


def test_leaving_a_block_under_an_open_entry_ends_no_other_flow() -> None:
    """A block that is left while the same scope object is open above it ends its own entry, not another flow's."""
    scope = ctx.session(user_id="u", take=(ctx.SESSION_ID,))
    one, two = Context(), Context()
    one.run(scope.__enter__)
    one.run(scope.open)
    two.run(scope.__enter__)
    one.run(scope.__exit__, None, None, None)

    assert two.run(ctx.USER_ID.get, None) == "u"
    one.run(scope.close)
    assert one.run(ctx.USER_ID.get, None) is None


@pytest.mark.parametrize("make", [lambda: ctx.session(session_id="s1"), lambda: ctx.bind(session_id="s1")])
def test_a_close_within_the_first_block_ends_no_other_flows_entry(make: Any) -> None:
    """Of two flows that use one scope object, one may close its entry inside its block: the other keeps its own."""
    scope = make()
    first, second = Context(), Context()
    first.run(scope.__enter__)
    second.run(scope.__enter__)

    first.run(scope.close)
    first.run(scope.__exit__, None, None, None)

    assert second.run(ctx.SESSION_ID.get, None) == "s1"
    second.run(scope.__exit__, None, None, None)
    assert second.run(ctx.SESSION_ID.get, None) is None
    assert first.run(ctx.SESSION_ID.get, None) is None
