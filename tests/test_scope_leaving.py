"""Leaving works from anywhere, and ends the binding in the context that entered it."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any

import pytest

import ctxruntime as ctx


@contextmanager
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield
    assert caplog.records == []


def from_thread(fn: Callable[[], object]) -> None:
    thread = threading.Thread(target=fn)
    thread.start()
    thread.join()


def from_context(fn: Callable[[], object]) -> None:
    copy_context().run(fn)


def from_empty_context(fn: Callable[[], object]) -> None:
    Context().run(fn)


def from_task(fn: Callable[[], object]) -> None:
    async def main() -> None:
        fn()

    asyncio.run(main())


ELSEWHERE = pytest.mark.parametrize(
    "elsewhere", [from_thread, from_context, from_empty_context, from_task], ids=lambda fn: fn.__name__
)
SCOPES: dict[str, Callable[[], Any]] = {
    "session": lambda: ctx.session(session_id="in"),
    "join that enters": lambda: ctx.session.join(session_id="in"),
    "join that joins": lambda: ctx.session.join(gateway_session_key="k1", session_id="in"),
    "bind": lambda: ctx.bind(session_id="in"),
    "cleared": ctx.cleared,
}
EACH_SCOPE = pytest.mark.parametrize("make", SCOPES.values(), ids=SCOPES.keys())


@ELSEWHERE
@EACH_SCOPE
def test_close_from_elsewhere_ends_the_binding(make: Any, elsewhere: Any) -> None:
    """A close from elsewhere ends the binding in the entering context, at its next read."""
    with ctx.session(gateway_session_key="k1", session_id="out", user_id="u1") as turn:
        scope = make()
        scope.open()
        elsewhere(scope.close)

        assert ctx.USER_ID.get() == "u1"
        assert ctx.current_turn() is turn


@EACH_SCOPE
def test_close_twice_is_harmless(make: Any) -> None:
    """Closing again changes nothing."""
    with ctx.session(gateway_session_key="k1") as turn:
        scope = make()
        scope.open()
        scope.close()
        scope.close()
        from_thread(scope.close)

        assert ctx.current_turn() is turn
        assert not turn.ended


@EACH_SCOPE
def test_close_before_open_is_harmless(make: Any) -> None:
    """A scope that was never entered closes without a word."""
    make().close()


def test_close_after_close_from_elsewhere_is_harmless() -> None:
    """The entering context may close what was closed from elsewhere."""
    with ctx.session(user_id="u1"):
        scope = ctx.session(session_id="s1")
        scope.open()
        from_thread(scope.close)
        scope.close()
        assert dict(ctx.current()) == {"user_id": "u1"}


@ELSEWHERE
def test_context_that_took_over_keeps_the_values(elsewhere: Any) -> None:
    """Whoever took the state over keeps it after a close, with `ended` true."""
    scope = ctx.session(session_id="s1")
    turn = scope.open()
    holder = copy_context()

    elsewhere(scope.close)

    assert holder.run(ctx.SESSION_ID.get) == "s1"
    assert holder.run(ctx.current_turn) is turn
    assert turn.ended
    assert dict(ctx.current()) == {}


def test_context_that_took_over_keeps_the_values_after_a_plain_exit() -> None:
    """The same holds where the scope was left by its own `with`."""
    with ctx.session(session_id="s1"), ctx.bind(user_id="u1"):
        holder = copy_context()

    assert dict(holder.run(ctx.current)) == {"session_id": "s1", "user_id": "u1"}


def test_copy_that_closes_keeps_the_values() -> None:
    """A context that took a scope over and closes it still sees it: it did not enter it."""
    scope = ctx.session(session_id="s1")
    scope.open()

    def close_and_read() -> object:
        scope.close()
        return ctx.SESSION_ID.get(None)

    assert copy_context().run(close_and_read) == "s1"
    assert ctx.SESSION_ID.get(None) is None


def test_scopes_closed_out_of_order_end_both() -> None:
    """Closing the outer scope first leaves the inner in effect, and then nothing."""
    outer, inner = ctx.session(session_id="outer"), ctx.session(session_id="inner")
    outer.open()
    inner.open()

    outer.close()
    between = ctx.SESSION_ID.get()
    inner.close()

    assert between == "inner"
    assert dict(ctx.current()) == {}


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
@pytest.mark.parametrize("elsewhere", [lambda fn: fn(), from_thread], ids=["here", "elsewhere"])
def test_any_order_of_leaving(order: str, elsewhere: Any) -> None:
    """In whichever order scopes are closed, the newest that is open is in effect."""
    scopes = {name: ctx.session(session_id=name) for name in "abc"}
    for scope in scopes.values():
        scope.open()

    for name in order:
        elsewhere(scopes.pop(name).close)
        assert ctx.SESSION_ID.get(None) == max(scopes, default=None)


def test_bind_outlives_the_turn_it_is_in() -> None:
    """A bind whose turn was closed under it still sees what it inherited, until it is left."""
    turn, child = ctx.session(session_id="s1", user_id="u1"), ctx.bind(session_id="child")
    turn.open()
    child.open()

    turn.close()
    between = dict(ctx.current())
    child.close()

    assert between == {"session_id": "child", "user_id": "u1"}
    assert dict(ctx.current()) == {}


@EACH_SCOPE
def test_error_in_the_body_is_not_swallowed(make: Any) -> None:
    """An error in the body reaches the caller, and the scope is left."""
    with pytest.raises(ZeroDivisionError), make():
        raise ZeroDivisionError
    assert dict(ctx.current()) == {}


@pytest.mark.asyncio
async def test_cancelled_task_leaves_its_scope() -> None:
    """Cancelling a task ends the turn that it is in."""
    inside, turns = asyncio.Event(), []

    async def serve() -> None:
        with ctx.session(session_id="s1") as turn:
            turns.append(turn)
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(serve())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert turns[0].ended


def test_undecorated_generator_collected_leaves_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    """A scope in a generator that the collector closes is left quietly."""

    def body() -> Iterator[object]:
        with ctx.session(session_id="inner") as turn:
            turns.append(turn)
            yield ctx.SESSION_ID.get()

    turns: list[ctx.Turn] = []
    with quiet(caplog):
        generator = body()
        assert next(generator) == "inner"
        del generator
        gc.collect()

    assert turns[0].ended
    assert dict(ctx.current()) == {}


def test_undecorated_generator_closed_from_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    """A generator with a scope in it, closed in another context, unbinds in the one that stepped it."""

    def body() -> Iterator[None]:
        with ctx.session(session_id="inner"):
            yield

    with quiet(caplog), ctx.session(session_id="outer"):
        generator = body()
        next(generator)
        from_thread(generator.close)  # type: ignore[attr-defined]

        assert ctx.SESSION_ID.get() == "outer"


@pytest.mark.asyncio
async def test_undecorated_async_generator_closed_by_another_task(caplog: pytest.LogCaptureFixture) -> None:
    """`aclose` from another task leaves the scope without an error or a log line."""

    async def body() -> Any:
        with ctx.session(session_id="inner"):
            yield

    with quiet(caplog), ctx.session(session_id="outer"):
        generator = body()
        await anext(generator)
        await asyncio.create_task(generator.aclose())

        assert ctx.SESSION_ID.get() == "outer"


def test_snapshot_of_a_scope_left_elsewhere_is_of_what_is_below() -> None:
    """A capture after a close from elsewhere captures what is in effect then."""
    with ctx.session(session_id="outer"):
        scope = ctx.session(session_id="inner")
        scope.open()
        from_thread(scope.close)
        snapshot = ctx.capture()

    with snapshot:
        assert ctx.SESSION_ID.get() == "outer"


def test_bind_after_a_close_from_elsewhere_inherits_from_below() -> None:
    """Entering settles first: a bind does not inherit from a scope that was left."""
    with ctx.session(session_id="outer"):
        scope = ctx.session(session_id="inner", user_id="u1")
        scope.open()
        from_thread(scope.close)

        with ctx.bind(frontend="cli"):
            assert dict(ctx.current()) == {"session_id": "outer", "frontend": "cli"}


def test_amend_after_a_close_from_elsewhere_reaches_what_is_below() -> None:
    """An amend goes to the scope in effect, not to the one that was left."""
    with ctx.session(session_id="outer") as turn:
        scope = ctx.session(session_id="inner")
        inner = scope.open()
        from_thread(scope.close)
        ctx.amend(user_id="u1")

    assert turn.get(ctx.USER_ID) == "u1"
    assert inner.get(ctx.USER_ID, None) is None


def test_session_under_a_scope_left_elsewhere_returns_below_it() -> None:
    """Leaving a scope that was entered above a left one does not bring the left one back."""
    with ctx.session(session_id="outer"):
        dead = ctx.session(session_id="dead")
        dead.open()
        with ctx.session(session_id="top"):
            from_thread(dead.close)
        assert ctx.SESSION_ID.get() == "outer"


def test_left_turns_do_not_chain() -> None:
    """A turn that was left keeps no layer below it alive."""
    import weakref

    with ctx.session(session_id="s0") as below:
        above = ctx.session(session_id="s1").open()
        above.close()
    reference = weakref.ref(below)
    del below
    gc.collect()

    assert reference() is None
    assert above.ended
