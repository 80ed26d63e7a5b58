"""`session.join`: a further door of the turn in effect, or a turn of its own."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import Any

import pytest

import ctxruntime as ctx

K1: dict[str, str] = {"gateway_session_key": "k1"}
S1: dict[str, str] = {"session_id": "s1"}

SAME: list[tuple[str, dict[str, str], dict[str, str], dict[str, str]]] = [
    ("equal key", K1, K1, K1),
    ("equal id", S1, S1, S1),
    ("equal key, id missing", K1, K1 | S1, K1 | S1),
    ("equal id, key missing", S1, K1 | S1, K1 | S1),
    ("equal id, key not given", K1 | S1, S1, K1 | S1),
    (
        "equal key, id differs: a rotation",
        K1 | S1,
        K1 | {"session_id": "s2"},
        K1 | {"session_id": "s2", "previous_session_id": "s1"},
    ),
    ("fact is added", K1, K1 | {"user_id": "u1"}, K1 | {"user_id": "u1"}),
    ("fact that differs keeps the turn's", K1 | {"user_id": "u1"}, K1 | {"user_id": "u2"}, K1 | {"user_id": "u1"}),
    ("empty key given is not known", K1 | S1, S1 | {"gateway_session_key": ""}, K1 | S1),
    ("empty key in the turn is not known", S1 | {"gateway_session_key": ""}, S1 | K1, S1 | K1),
]
OTHER: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("key differs", K1, {"gateway_session_key": "k2"}),
    ("id differs", S1, {"session_id": "s2"}),
    ("key differs, id equal", K1 | S1, {"gateway_session_key": "k2"} | S1),
    ("no overlap: turn has a key, id given", K1, S1),
    ("no overlap: turn has an id, key given", S1, K1),
    ("only facts equal", {"user_id": "u1"}, {"user_id": "u1"}),
    ("nothing given", K1 | S1, {}),
    ("both empty", {"session_id": ""}, {"session_id": ""}),
]


@pytest.mark.parametrize(("_name", "turn", "given", "then"), SAME, ids=[case[0] for case in SAME])
def test_join_joins(_name: str, turn: Any, given: Any, then: dict[str, str]) -> None:
    """An equal identity, with none of higher rank that differs, is the same turn."""
    with ctx.session(**turn) as outer, ctx.session.join(**given) as joined:
        assert joined is outer
        assert dict(ctx.current()) == then


@pytest.mark.parametrize(("_name", "turn", "given"), OTHER, ids=[case[0] for case in OTHER])
def test_join_enters(_name: str, turn: Any, given: dict[str, str]) -> None:
    """Without an equal identity, or where one of higher rank differs, a clean turn is entered."""
    with ctx.session(frontend="gateway", **turn) as outer, ctx.session.join(**given) as joined:
        assert joined is not outer
        assert ctx.current_turn() is joined
        assert dict(ctx.current()) == given


def test_join_outside_any_turn_enters() -> None:
    """Where no turn is in effect, joining is entering."""
    with ctx.session.join(**K1) as turn:
        assert ctx.current_turn() is turn
    assert turn.ended


def test_join_outside_a_turn_never_joins_a_bind() -> None:
    """A bind outside any turn is no turn to join."""
    with ctx.bind(session_id="s1"), ctx.session.join(session_id="s1") as turn:
        assert ctx.current_turn() is turn


def test_what_a_join_adds_is_seen_by_the_turn() -> None:
    """What is missing is added to the turn, and stays when the joined door is left."""
    with ctx.session(**K1) as turn:
        with ctx.session.join(session_id="s1", **K1):
            pass
        assert turn.get(ctx.SESSION_ID) == "s1"
        assert ctx.SESSION_ID.get() == "s1"


def test_join_never_joins_an_ended_turn() -> None:
    """A context that kept an ended turn enters a new one."""
    with ctx.session(**K1) as turn:
        context = copy_context()

    def late() -> bool:
        with ctx.session.join(**K1) as other:
            return other is turn

    assert context.run(late) is False


def test_turn_ends_with_its_last_door() -> None:
    """A turn whose own scope was left goes on while a joined door is open."""
    turn = ctx.session(**K1).open()
    door = ctx.session.join(**K1)
    door.open()

    turn.close()
    still_open = not turn.ended
    door.close()

    assert still_open
    assert turn.ended
    assert dict(ctx.current()) == {}


def test_joined_doors_are_counted() -> None:
    """Each joined door counts, and leaving one twice does not count twice."""
    turn = ctx.session(**K1).open()
    doors = [ctx.session.join(**K1) for _ in range(2)]
    for door in doors:
        door.open()

    turn.close()
    doors[0].close()
    doors[0].close()
    assert not turn.ended
    doors[1].close()

    assert turn.ended


def test_leaving_a_joined_door_keeps_the_turn() -> None:
    """The turn around a joined door is in effect again, and alive, when the door is left."""
    with ctx.session(**K1) as turn:
        with ctx.session.join(**K1):
            pass
        assert ctx.current_turn() is turn
        assert not turn.ended


def test_join_prefers_the_nearest_scope() -> None:
    """In a sub-agent, its own id identifies the turn."""
    with ctx.session(session_id="s1") as turn, ctx.bind(session_id="child"):
        with ctx.session.join(session_id="child") as joined:
            assert joined is turn
            assert ctx.SESSION_ID.get() == "child"
        with ctx.session.join(session_id="s1") as other:
            assert other is not turn


def test_join_rotates_in_the_nearest_scope() -> None:
    """In a sub-agent, an id that differs rotates the sub-agent's id, and not the turn's."""
    with ctx.session(session_id="s1", **K1) as turn, ctx.bind(session_id="child"):
        with ctx.session.join(session_id="child-2", **K1) as joined:
            assert joined is turn
            assert ctx.PREVIOUS_SESSION_ID.get() == "child"
        assert ctx.SESSION_ID.get() == "child-2"
    assert turn.get(ctx.SESSION_ID) == "s1"


@pytest.mark.parametrize("joins", [True, False], ids=["joined", "entered"])
def test_join_as_decorator(joins: bool) -> None:
    """A decorated function joins, or enters, at each call."""

    @ctx.session.join(session_id=lambda sid: sid)
    def tool(sid: str) -> Any:
        return ctx.current_turn()

    with ctx.session(session_id="s1") as turn:
        assert (tool("s1" if joins else "s2") is turn) is joins
        assert not turn.ended
    assert turn.ended


def test_join_over_a_generator_counts_until_it_is_closed() -> None:
    """A turn does not end before a generator that joined it."""

    @ctx.session.join(**K1)
    def body() -> Any:
        yield ctx.current_turn()

    with ctx.session(**K1) as turn:
        generator = body()
    alive = not turn.ended
    seen = next(generator)
    generator.close()

    assert alive
    assert seen is turn
    assert turn.ended


def test_concurrent_joins_are_all_counted() -> None:
    """Doors that join from many threads at once are each counted, in and out."""
    turn = ctx.session(**K1).open()
    together = threading.Barrier(8)

    def join_and_leave() -> None:
        together.wait()
        for _ in range(100):
            with ctx.session.join(**K1):
                pass

    threads = [threading.Thread(target=copy_context().run, args=(join_and_leave,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alive = not turn.ended
    turn.close()

    assert alive
    assert turn.ended


def test_join_refused_half_way_leaves_the_turn_as_it_was() -> None:
    """A join that is refused adds nothing, and counts for nothing."""
    with ctx.session(**K1) as turn:
        with pytest.raises(ctx.InvalidValueError):
            ctx.session.join(session_id="s1", user_id="a\nb", **K1).open()
        assert dict(ctx.current()) == K1
    assert turn.ended


def test_turn_of_a_join_is_entered_again_as_a_turn() -> None:
    """The turn that a join entered makes another turn when it is entered again, open or not; it never joins itself."""
    scope = ctx.session.join(**K1)
    with scope as turn:
        with turn as again:
            assert again is not turn
            assert ctx.current_turn() is again
            assert dict(ctx.current()) == K1
        assert again.ended
        assert not turn.ended
        assert ctx.current_turn() is turn
    assert turn.ended
    with turn as later:
        assert later is not turn


def test_join_is_left_after_its_turn_was_amended_and_closed() -> None:
    """A turn that a join entered, amended and closed, is no longer what the scope object closes next."""
    scope = ctx.session.join(**K1)
    first = scope.open()
    with ctx.session(**S1):
        second = scope.open()
        second.amend(user_id="u1")
        second.close()
        scope.close()
    assert (first.ended, second.ended) == (True, True)
    assert dict(ctx.current()) == {}
