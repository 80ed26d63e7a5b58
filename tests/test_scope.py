"""Entering: `session`, `bind`, `cleared`, and what each of them leaves alone."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

import pytest

import ctxruntime as ctx

TENANT = ctx.Key("scope_tenant", str)
OWN = [ctx.Key(f"scope_own{number}", str) for number in range(6)]
"""More than there are spare slots."""


def test_session_binds_what_it_is_given() -> None:
    """Inside a session, what was given is in effect, and nothing else is."""
    with ctx.session(session_id="s1", user_id="u1"):
        assert dict(ctx.current()) == {"session_id": "s1", "user_id": "u1"}


def test_what_is_in_effect_reads_and_prints_as_a_mapping() -> None:
    """`current()` compares and prints as the dict of what is bound, read-only, and nothing if nothing is."""
    assert (ctx.current(), repr(ctx.current()), len(ctx.current())) == ({}, "{}", 0)

    with ctx.session({TENANT: "t1"}, session_id="s1"):
        found = ctx.current()

    assert found == {"session_id": "s1", "scope_tenant": "t1"}
    assert repr(found) == "{'session_id': 's1', 'scope_tenant': 't1'}"
    with pytest.raises(TypeError):
        found["session_id"] = "s2"  # type: ignore[index]


def test_session_takes_keys_by_object() -> None:
    """Keys are given by object or by name."""
    with ctx.session({TENANT: "t1"}, session_id="s1"):
        assert dict(ctx.current()) == {"session_id": "s1", "scope_tenant": "t1"}


def test_session_starts_clean() -> None:
    """Entering a session replaces all keys: nothing of a neighbour is inherited."""
    with ctx.session(dict.fromkeys(OWN, "outer"), session_id="s1", user_id="u1", frontend="cli"):
        with ctx.session(gateway_session_key="k2"):
            assert dict(ctx.current()) == {"gateway_session_key": "k2"}

        assert ctx.SESSION_ID.get() == "s1"


@pytest.mark.asyncio
async def test_session_starts_clean_in_a_task_of_another_turn() -> None:
    """A turn entered in a task that another turn spawned has nothing of that turn."""

    async def serve() -> dict[str, object]:
        with ctx.session(session_id="b"):
            return dict(ctx.current())

    with ctx.session(session_id="a", user_id="alice"):
        assert await asyncio.create_task(serve()) == {"session_id": "b"}


def test_session_is_a_turn_of_its_own() -> None:
    """Each session is a turn, and the turn in effect is the nearest."""
    with ctx.session(session_id="s1") as outer:
        with ctx.session(session_id="s1") as inner:
            assert ctx.current_turn() is inner
        assert ctx.current_turn() is outer
    assert inner is not outer


def test_bind_inherits_and_shadows() -> None:
    """A bind changes what it names and leaves the rest."""
    with ctx.session(session_id="s1", user_id="u1"):
        with ctx.bind(user_id="u2"):
            assert dict(ctx.current()) == {"session_id": "s1", "user_id": "u2"}

        assert ctx.USER_ID.get() == "u1"


def test_bind_stays_in_the_turn() -> None:
    """A bind is a scope of the turn it is entered in."""
    with ctx.session(session_id="s1") as turn, ctx.bind(session_id="child"):
        assert ctx.current_turn() is turn
        assert turn.get(ctx.SESSION_ID) == "s1"


def test_bind_outside_a_turn_is_a_scope() -> None:
    """Outside any turn a bind is in effect, and no turn is."""
    with ctx.bind(session_id="s1"):
        assert ctx.SESSION_ID.get() == "s1"
        assert ctx.current_turn() is None


@pytest.mark.parametrize("enter", [ctx.session, ctx.bind])
def test_binding_a_session_id_unbinds_the_previous_one(enter: Any) -> None:
    """Another session has no previous id, unless one is given."""
    with ctx.session(session_id="s1", previous_session_id="s0"):
        with enter(session_id="s2"):
            assert ctx.PREVIOUS_SESSION_ID.get(None) is None
        with enter(session_id="s2", previous_session_id="s1"):
            assert ctx.PREVIOUS_SESSION_ID.get() == "s1"
        assert ctx.PREVIOUS_SESSION_ID.get() == "s0"


def test_bind_of_another_key_keeps_the_previous_id() -> None:
    """Only a `session_id` that is bound unbinds the previous one."""
    with ctx.session(session_id="s1", previous_session_id="s0"), ctx.bind(user_id="u1"):
        assert ctx.PREVIOUS_SESSION_ID.get() == "s0"


def test_cleared_puts_nothing_in_effect() -> None:
    """Under `cleared` no key is bound and there is no turn; on leaving the turn is back."""
    with ctx.session(dict.fromkeys(OWN, "v"), session_id="s1") as turn:
        with ctx.cleared():
            assert dict(ctx.current()) == {}
            assert ctx.current_turn() is None
        assert ctx.current_turn() is turn
        assert OWN[5].get() == "v"


def test_bind_works_under_cleared() -> None:
    """A bind under `cleared` inherits nothing of the turn around it."""
    with ctx.session(session_id="s1", user_id="u1"), ctx.cleared(), ctx.bind(session_id="s2"):
        assert dict(ctx.current()) == {"session_id": "s2"}


def test_amend_under_cleared_raises() -> None:
    """Under `cleared` there is no turn to amend, although one is around."""
    with ctx.session(session_id="s1") as turn:
        with ctx.cleared(), pytest.raises(ctx.NoTurnError):
            ctx.amend(session_id="s2")
        assert turn.get(ctx.SESSION_ID) == "s1"


@pytest.mark.parametrize("outer", ["living", "ended"])
def test_take_takes_keys_over(outer: str) -> None:
    """Named keys are taken over from the turn in effect, ended or not; all others are not."""
    turn = ctx.session({OWN[5]: "far"}, gateway_session_key="k1", user_id="u1", session_id="s1")
    with turn:
        snapshot = ctx.capture()
        if outer == "ended":
            turn.close()
        with snapshot, ctx.session(session_id="job", take=(ctx.GATEWAY_SESSION_KEY, OWN[5])):
            assert dict(ctx.current()) == {
                "session_id": "job",
                "gateway_session_key": "k1",
                "scope_own5": "far",
            }


def test_given_value_wins_over_take() -> None:
    """What is given is not taken over."""
    with ctx.session(user_id="u1"), ctx.session(user_id="u2", take=[ctx.USER_ID]):
        assert ctx.USER_ID.get() == "u2"


def test_take_reads_what_is_in_effect() -> None:
    """What is taken over is what is in effect there, a nested bind included."""
    with ctx.session(user_id="u1"), ctx.bind(user_id="u2"), ctx.session(take=[ctx.USER_ID]):
        assert ctx.USER_ID.get() == "u2"


def test_take_outside_any_turn_takes_nothing() -> None:
    """Where nothing is in effect, nothing is taken over, and nothing is wrong."""
    with ctx.session(session_id="job", take=(ctx.USER_ID,)):
        assert dict(ctx.current()) == {"session_id": "job"}


def test_take_wants_keys() -> None:
    """A name in `take` is refused: it takes Key objects."""
    with pytest.raises(ctx.UnknownKeyError, match="a Key object is expected here"):
        ctx.session(session_id="job", take=("user_id",))  # type: ignore[arg-type]


def test_taken_value_is_a_copy() -> None:
    """What was taken over does not follow the turn that it came from."""
    with ctx.session(user_id="u1") as outer, ctx.session(take=[ctx.USER_ID]):
        outer.amend(user_id="u2")
        assert ctx.USER_ID.get() == "u1"


@pytest.mark.parametrize("unknown", [None, ctx.UNSET])
@pytest.mark.parametrize("enter", [ctx.session, ctx.bind])
def test_none_and_unset_mean_not_known(enter: Any, unknown: Any) -> None:
    """None and UNSET given to a scope unbind the key in it."""
    with ctx.session(user_id="u1"), enter(user_id=unknown):
        assert not ctx.USER_ID.is_bound()
        assert "user_id" not in ctx.current()


@pytest.mark.parametrize("key", [ctx.USER_ID, OWN[0], OWN[5]], ids=["built-in", "own", "far"])
def test_empty_value_is_bound(key: ctx.Key[str]) -> None:
    """The empty text is a value: bound, and read as it is."""
    with ctx.session({key: ""}):
        assert key.is_bound()
        assert key.get("default") == ""
        assert ctx.current()[key.name] == ""


def test_unbound_key_raises_and_names_the_key() -> None:
    """There is no default bucket: reading an unbound key raises, and says which."""
    with ctx.session(user_id="u1"), pytest.raises(ctx.UnboundKeyError, match="'session_id' is not bound"):
        ctx.SESSION_ID.get()


def test_current_is_read_only() -> None:
    """What `current` returns cannot be written to."""
    with ctx.session(session_id="s1"), pytest.raises(TypeError):
        ctx.current()["session_id"] = "s2"  # type: ignore[index]


def test_turn_knows_when_it_started() -> None:
    """A turn knows its start, and not to have ended before it has."""
    with ctx.session(session_id="s1") as turn:
        assert isinstance(turn.started_at, float)
        assert not turn.ended
    assert turn.ended


def test_turn_get_returns_the_turns_own_value() -> None:
    """`turn.get` reads the turn, whatever is in effect, with the defaults of `Key.get`."""
    with ctx.session(session_id="s1") as turn, ctx.session(session_id="s2"):
        assert turn.get(ctx.SESSION_ID) == "s1"
        assert turn.get(ctx.USER_ID, None) is None
        with pytest.raises(ctx.UnboundKeyError):
            turn.get(ctx.USER_ID)


def test_turn_repr_hides_redacted_values() -> None:
    """A turn's repr shows its values, but for the redacted."""
    secret = ctx.Key("scope_secret", str, redact="drop")
    with ctx.session({secret: "hunter2"}, session_id="s1") as turn:
        assert "session_id='s1'" in repr(turn)
        assert "hunter2" not in repr(turn)


@pytest.mark.asyncio
async def test_async_with_enters_alike() -> None:
    """`async with` is `with`."""
    async with ctx.session(session_id="s1") as turn, ctx.bind(user_id="u1"):
        assert dict(ctx.current()) == {"session_id": "s1", "user_id": "u1"}
        async with ctx.cleared(), ctx.session.join(session_id="s2") as joined:
            assert joined is ctx.current_turn()
    assert turn.ended


@pytest.mark.parametrize("enter", [ctx.session, ctx.session.join, ctx.bind])
def test_environment_is_unchanged(enter: Any) -> None:
    """No way of entering or amending writes to the environment."""
    before = dict(os.environ)
    with enter(session_id="s1", gateway_session_key="k1"), ctx.bind(user_id="u1"):
        ctx.amend(session_id="s2")
        assert dict(os.environ) == before
    assert dict(os.environ) == before


class Subclass(str):
    """It could carry anything."""


BAD: list[tuple[str, Any, str]] = [
    ("dict", {"secret": 1}, "takes str, not dict"),
    ("list", ["secret"], "takes str, not list"),
    ("int", 424242, "takes str, not int"),
    ("newline", "secret\nline", "control characters"),
    ("nul", "secret\0", "control characters"),
    ("10,000 characters", "secret" * 1667, "at most 1024 characters"),
    ("lone surrogate", "secret\ud800", "lone surrogates"),
    ("line separator", "secret\u2028", "line breaks"),
    ("subclass of text", Subclass("secret"), "takes str, not Subclass"),
]


def doors(value: Any) -> dict[str, Any]:
    return {
        "session": lambda: ctx.session(user_id=value),
        "session by key": lambda: ctx.session({ctx.USER_ID: value}),
        "join": lambda: ctx.session.join(session_id="s1", user_id=value),
        "bind": lambda: ctx.bind(user_id=value),
        "amend": lambda: ctx.amend(user_id=value),
    }


@pytest.mark.parametrize("door", doors(None))
@pytest.mark.parametrize(("kind", "value", "reason"), BAD, ids=[kind for kind, _, _ in BAD])
def test_bad_value_is_refused_at_every_door(door: str, kind: str, value: Any, reason: str) -> None:
    """A bad value is refused; the message names the key and never shows the value."""
    with ctx.session(session_id="s1"):
        with pytest.raises(ctx.InvalidValueError, match=f"key 'user_id' .*{reason}") as caught:
            doors(value)[door]()

        assert "secret" not in str(caught.value) + repr(caught.value)
        assert "424242" not in str(caught.value) + repr(caught.value)
        assert dict(ctx.current()) == {"session_id": "s1"}


@pytest.mark.parametrize("enter", [ctx.session, ctx.bind, ctx.session.join, ctx.amend])
def test_unknown_name_is_refused_with_a_suggestion(enter: Any) -> None:
    """A name of no key is refused, and the key that may have been meant is named."""
    with ctx.session(user_id="u1"):
        with pytest.raises(ctx.UnknownKeyError, match="did you mean 'session_id'"):
            enter(user_id="u2", sesion_id="s1")
        assert dict(ctx.current()) == {"user_id": "u1"}


def test_function_is_refused_outside_a_decorator() -> None:
    """What is computed from a call has no place where there is no call."""
    with pytest.raises(ctx.InvalidValueError, match="'session_id' takes a function in a decorator only"):
        ctx.session(session_id=lambda event: event).open()
    assert dict(ctx.current()) == {}


def test_threads_have_separate_turns() -> None:
    """Turns that are open in two threads at once do not see each other."""
    both_inside, seen = threading.Barrier(2), {}

    def serve(name: str) -> None:
        with ctx.session({OWN[5]: name}, session_id=name):
            both_inside.wait()
            seen[name] = dict(ctx.current())
            both_inside.wait()

    threads = [threading.Thread(target=serve, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == {name: {"session_id": name, "scope_own5": name} for name in "ab"}


@pytest.mark.parametrize("enter", [ctx.session, ctx.session.join, ctx.bind, ctx.amend, ctx.Turn().amend])
@pytest.mark.parametrize("key", [ctx.SESSION_ID, TENANT, OWN[-1]], ids=["built in", "own", "further"])
@pytest.mark.parametrize("first", ["a", None], ids=["value", "None"])
def test_key_that_is_given_twice_is_refused(enter: Any, key: ctx.Key[str], first: str | None) -> None:
    """A key given by object and by name at once is refused as an argument given twice is; no value is shown."""
    message = f"^key '{key.name}' is given twice: give it once, by key or by name$"
    with ctx.session(user_id="u1"):
        with pytest.raises(ctx.InvalidValueError, match=message):
            enter({key: first}, **{key.name: "b"})
        assert dict(ctx.current()) == {"user_id": "u1"}


def test_built_in_key_given_by_object_is_as_given_by_name() -> None:
    """A session takes its built-in keys by object too, with others by name."""
    with ctx.session({ctx.SESSION_ID: "s1", TENANT: "t1"}, user_id="u1") as turn:
        assert turn is ctx.current_turn()
        assert dict(ctx.current()) == {"session_id": "s1", "scope_tenant": "t1", "user_id": "u1"}


@pytest.mark.parametrize("door", [ctx.session, ctx.session.join, ctx.bind, ctx.amend])
def test_a_value_without_a_key_is_refused(door: Any) -> None:
    """What is given by position is a mapping by key: a value alone is refused, not shown, and told where it goes."""
    message = r"^values are given by name, session_id=\.\.\., or in a mapping by Key, not in str$"

    with pytest.raises(TypeError, match=message):
        door("secret-1")
