"""One scope object, entered by many at once and again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime import doors, scope

SCOPES: dict[str, Callable[[], Any]] = {
    "session": lambda: ctx.session(session_id="s1"),
    "session taking": lambda: ctx.session(session_id="s1", take=(ctx.USER_ID,)),
    "join": lambda: ctx.session.join(session_id="s1"),
    "bind": lambda: ctx.bind(session_id="s1"),
    "cleared": ctx.cleared,
}
EACH_SCOPE = pytest.mark.parametrize("make", SCOPES.values(), ids=SCOPES.keys())


@EACH_SCOPE
def test_entered_again_after_leaving(make: Any) -> None:
    """A scope object can be entered again."""
    scope, seen = make(), []
    for _ in range(3):
        with scope:
            seen.append(dict(ctx.current()))
    assert seen[0] == seen[1] == seen[2]


def test_each_entry_of_a_session_is_a_turn() -> None:
    """Entering a session object again makes another turn; the first stays ended."""
    scope = ctx.session(session_id="s1")
    with scope as first:
        pass
    with scope as second:
        assert second is not first
        assert ctx.current_turn() is second
        assert first.ended
        assert not second.ended
    assert second.ended


def test_entered_nested() -> None:
    """A scope object entered within itself is left one entry at a time."""
    scope = ctx.session(session_id="s1")
    with scope as outer:
        with scope as inner:
            assert ctx.current_turn() is inner
        assert ctx.current_turn() is outer
        assert not outer.ended
    assert dict(ctx.current()) == {}


@EACH_SCOPE
def test_opened_many_times_closes_as_often(make: Any) -> None:
    """Each close ends the newest entry that is open."""
    scope = make()
    with ctx.session(user_id="u1") as outer:
        for _ in range(3):
            scope.open()
        for _ in range(3):
            assert ctx.current_turn() is not outer or "session_id" in ctx.current()
            scope.close()
        assert ctx.current_turn() is outer
        assert dict(ctx.current()) == {"user_id": "u1"}


def test_close_from_elsewhere_ends_the_newest_entry() -> None:
    """A close from another thread ends the entry that was made last."""
    scope = ctx.session(session_id="s1")
    first, second = scope.open(), scope.open()

    def close() -> None:
        thread = threading.Thread(target=scope.close)
        thread.start()
        thread.join()

    close()
    after_one = (ctx.current_turn() is first, second.ended, first.ended)
    close()

    assert after_one == (True, True, False)
    assert first.ended
    assert dict(ctx.current()) == {}


@EACH_SCOPE
def test_entered_by_many_threads_at_once(make: Any) -> None:
    """Threads that are inside one scope object together each leave their own entry."""
    scope, together, wrong = make(), threading.Barrier(8), []

    def use() -> None:
        for _ in range(25):
            together.wait()
            with scope:
                together.wait()
                if ctx.SESSION_ID.get(None) not in ("s1", None):
                    wrong.append("inside")
                together.wait()
            if ctx.current():
                wrong.append("left")

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_many_threads_that_enter_one_session_have_turns_of_their_own() -> None:
    """The first entry uses the session object and each further one a copy, also when they race."""
    together, turns = threading.Barrier(8), []

    def use(scope: Any) -> None:
        together.wait()
        with scope as turn:
            turns.append(turn)
            together.wait()

    for _ in range(20):
        scope = ctx.session(session_id="s1")
        threads = [threading.Thread(target=use, args=(scope,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(turn) for turn in turns}) == 8
        assert all(turn.ended for turn in turns)
        turns.clear()


@pytest.mark.asyncio
async def test_entered_by_many_tasks_at_once() -> None:
    """Tasks that are inside one session object together each have a turn of their own."""
    scope, all_inside = ctx.session(session_id="s1"), asyncio.Barrier(5)

    async def use(number: int) -> object:
        async with scope:
            ctx.amend(user_id=f"u{number}")
            await all_inside.wait()
            return ctx.USER_ID.get()

    assert await asyncio.gather(*map(use, range(5))) == [f"u{number}" for number in range(5)]


def test_entering_again_starts_from_what_was_given() -> None:
    """What was amended in an entry is not there at the next."""
    scope = ctx.session(session_id="s1")
    with scope:
        ctx.amend(session_id="s2", user_id="u1")
    with scope:
        assert dict(ctx.current()) == {"session_id": "s1"}


def test_entering_again_while_amended_starts_from_what_was_given() -> None:
    """The same holds for an entry made while the amended one is open, and for a decorator."""
    scope = ctx.session(session_id="s1")
    with scope:
        ctx.amend(session_id="s2", user_id="u1")
        with scope:
            assert dict(ctx.current()) == {"session_id": "s1"}
        assert scope(lambda: dict(ctx.current()))() == {"session_id": "s1"}
        assert ctx.SESSION_ID.get() == "s2"


def test_bind_entered_again_starts_from_what_was_given() -> None:
    """A bind that was amended binds what it was given at its next entry."""
    scope = ctx.bind(session_id="child")
    with ctx.session(session_id="s1"):
        with scope:
            ctx.amend(session_id="child-2")
        with scope:
            assert dict(ctx.current()) == {"session_id": "child"}


def test_bind_inherits_from_where_it_is_entered() -> None:
    """A bind object that is kept inherits from each place that it is entered in."""
    scope = ctx.bind(user_id="u1")
    seen = []
    for session_id in ("a", "b"):
        with ctx.session(session_id=session_id), scope:
            seen.append(dict(ctx.current()))

    assert seen == [{"session_id": "a", "user_id": "u1"}, {"session_id": "b", "user_id": "u1"}]


def test_taking_session_takes_at_each_entry() -> None:
    """What is taken over is taken where the scope is entered, each time anew."""
    scope = ctx.session(session_id="job", take=(ctx.USER_ID,))
    seen = []
    for user_id in ("u1", "u2"):
        with ctx.session(user_id=user_id), scope:
            seen.append(ctx.USER_ID.get())

    assert seen == ["u1", "u2"]


def test_session_entered_and_used_as_a_decorator() -> None:
    """One session object serves as a scope and as a decorator at once."""
    scope = ctx.session(session_id="s1")

    @scope
    def read() -> Any:
        return ctx.current_turn()

    with scope as turn:
        inner = read()
        assert inner is not turn
        assert inner.ended
        assert not turn.ended


def opened_bind() -> Any:
    shared = ctx.bind(session_id="s1")
    shared.open()
    return shared


@pytest.mark.parametrize(
    ("make", "between"),
    [
        (lambda: ctx.session(session_id="s1"), (scope, "_put")),
        (opened_bind, (doors.Door, "__init__")),
    ],
    ids=["session", "bind"],
)
def test_entered_by_two_threads_in_the_same_moment(
    monkeypatch: pytest.MonkeyPatch, make: Any, between: tuple[Any, str]
) -> None:
    """Of two threads that enter one scope object in the middle of each other's entering, each leaves its own entry."""
    shared, seen = make(), []
    entered, leaves = threading.Event(), threading.Event()
    step = getattr(*between)

    def other() -> None:
        with shared:
            entered.set()
            leaves.wait(30)
        seen.append(ctx.SESSION_ID.get(None))

    thread = threading.Thread(target=Context().run, args=(other,), daemon=True)

    def meanwhile(*args: Any) -> Any:
        monkeypatch.setattr(*between, step)
        thread.start()
        assert entered.wait(30)
        return step(*args)

    monkeypatch.setattr(*between, meanwhile)
    with shared:
        leaves.set()
        thread.join()
        seen.append(ctx.SESSION_ID.get(None))
    shared.close()

    assert seen == [None, "s1"]
