"""`amend`: a fact of the scope in effect, for all who serve it and for nobody else."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from contextvars import copy_context
from typing import Any

import pytest

import ctxruntime as ctx

OWN = [ctx.Key(f"amend_own{number}", str) for number in range(6)]
"""More than there are spare slots."""
KINDS = pytest.mark.parametrize(
    "key", [ctx.USER_ID, OWN[0], OWN[5]], ids=["built-in key", "own key", "key without a slot"]
)


@KINDS
def test_amend_adds_to_the_turn(key: ctx.Key[str]) -> None:
    """A key that no scope binds is added to the turn."""
    with ctx.session(session_id="s1") as turn:
        ctx.amend({key: "v"})
        assert key.get() == "v"
        assert turn.get(key) == "v"


@KINDS
def test_amend_changes_the_nearest_scope_that_binds(key: ctx.Key[str]) -> None:
    """A key is changed where it is bound nearest: not in the turn around."""
    with ctx.session({key: "turn"}) as turn:
        with ctx.bind({key: "bind"}), ctx.bind(frontend="cli"):
            ctx.amend({key: "amended"})
            assert key.get() == "amended"
        assert key.get() == "turn"
        assert turn.get(key) == "turn"


@KINDS
def test_amend_reaches_through_binds_of_other_keys(key: ctx.Key[str]) -> None:
    """What the turn binds is changed there, and seen in every bind on the way and after."""
    with ctx.session({key: "before"}):
        with ctx.bind(frontend="cli"), ctx.bind(session_id="child"):
            ctx.amend({key: "after"})
            assert key.get() == "after"
        assert key.get() == "after"


@KINDS
def test_amend_to_none_unbinds(key: ctx.Key[str]) -> None:
    """None unbinds the key."""
    with ctx.session({key: "v"}):
        ctx.amend({key: None})
        assert not key.is_bound()


@KINDS
def test_bind_of_none_keeps_an_amend_inside(key: ctx.Key[str]) -> None:
    """`bind(k=None)` binds k: what is amended inside stays in that scope."""
    with ctx.session(session_id="s1"):
        with ctx.bind({key: None}):
            ctx.amend({key: "inner"})
            assert key.get() == "inner"
        assert not key.is_bound()


@KINDS
def test_amend_outside_any_scope_raises(key: ctx.Key[str]) -> None:
    """Where nothing could hold the fact, amending is an error that names the key."""
    with pytest.raises(ctx.NoTurnError, match=f"'{key.name}' cannot be amended here"):
        ctx.amend({key: "v"})
    assert dict(ctx.current()) == {}


def test_amend_in_a_bind_outside_a_turn() -> None:
    """A bind outside any turn takes amends of what it binds, and of nothing else."""
    with ctx.bind(user_id="u1"):
        ctx.amend(user_id="u2")
        with pytest.raises(ctx.NoTurnError):
            ctx.amend(frontend="cli")
        assert dict(ctx.current()) == {"user_id": "u2"}


def test_amend_is_all_or_nothing_without_a_turn() -> None:
    """If one of the keys has no scope, none is changed."""
    with ctx.bind(user_id="u1"):
        with pytest.raises(ctx.NoTurnError):
            ctx.amend(user_id="u2", frontend="cli")
        assert ctx.USER_ID.get() == "u1"


def test_amend_is_all_or_nothing_with_a_bad_value() -> None:
    """If one of the values is bad, none is changed."""
    with ctx.session(user_id="u1"):
        with pytest.raises(ctx.InvalidValueError):
            ctx.amend(user_id="u2", frontend="a\nb")
        assert dict(ctx.current()) == {"user_id": "u1"}


def test_rotation_remembers_the_previous_id() -> None:
    """Amending a known session id to another makes the old one the previous."""
    with ctx.session(session_id="s1"):
        ctx.amend(session_id="s2")
        ctx.amend(session_id="s3")
        assert dict(ctx.current()) == {"session_id": "s3", "previous_session_id": "s2"}


@pytest.mark.parametrize("first", [None, ""])
def test_first_id_is_no_rotation(first: str | None) -> None:
    """An id that was not known, or empty, has no successor: nothing was before."""
    with ctx.session(session_id=first):
        ctx.amend(session_id="s1")
        assert not ctx.PREVIOUS_SESSION_ID.is_bound()


def test_amend_to_the_same_id_is_no_rotation() -> None:
    """Telling the same id again changes nothing."""
    with ctx.session(session_id="s1"):
        ctx.amend(session_id="s1")
        assert dict(ctx.current()) == {"session_id": "s1"}


def test_id_that_is_no_longer_known_is_no_rotation() -> None:
    """Unbinding the id leaves nothing to follow the old one."""
    with ctx.session(session_id="s1"):
        ctx.amend(session_id=None)
        assert dict(ctx.current()) == {}


@pytest.mark.parametrize("names", [("session_id", "previous_session_id"), ("previous_session_id", "session_id")])
def test_given_previous_id_wins_over_the_rotation(names: tuple[str, str]) -> None:
    """A previous id that is amended along with the id is taken as given, in whatever order."""
    given = {"session_id": "s2", "previous_session_id": "s0"}
    with ctx.session(session_id="s1"):
        ctx.amend(**{name: given[name] for name in names})
        assert ctx.PREVIOUS_SESSION_ID.get() == "s0"


def test_rotation_stays_in_the_scope_of_the_id() -> None:
    """A sub-agent's rotation is its own: the parent keeps its id and its previous one."""
    with ctx.session(session_id="s1", previous_session_id="s0"):
        with ctx.bind(session_id="child-1"):
            ctx.amend(session_id="child-2")
            assert ctx.PREVIOUS_SESSION_ID.get() == "child-1"
        assert dict(ctx.current()) == {"session_id": "s1", "previous_session_id": "s0"}


def test_parents_rotation_is_not_seen_by_the_sub_agent() -> None:
    """A turn's rotation changes neither the id nor the previous id of a sub-agent in it."""
    with ctx.session(session_id="s1") as turn, ctx.bind(session_id="child"):
        turn.amend(session_id="s2")
        assert dict(ctx.current()) == {"session_id": "child"}
        assert turn.get(ctx.PREVIOUS_SESSION_ID) == "s1"


def test_turn_amend_changes_the_turn_itself() -> None:
    """`turn.amend` goes to the turn, whatever is bound nearer."""
    with ctx.session(user_id="u1") as turn, ctx.bind(user_id="u2"):
        turn.amend(user_id="u3")
        assert ctx.USER_ID.get() == "u2"
        assert turn.get(ctx.USER_ID) == "u3"


@pytest.mark.asyncio
async def test_amend_in_a_task_reaches_the_layer_that_awaits_it() -> None:
    """What a copied task finds out is seen by the outer layer of the same turn."""

    async def worker() -> None:
        ctx.amend({OWN[5]: "found", ctx.SESSION_ID: "s1"})

    with ctx.session(gateway_session_key="k1"), ctx.bind(frontend="cli"):
        await asyncio.create_task(worker())
        assert (ctx.SESSION_ID.get(), OWN[5].get()) == ("s1", "found")


@pytest.mark.asyncio
async def test_amend_reaches_siblings_and_no_other_turn() -> None:
    """All who serve the turn see an amend; a turn beside it does not."""
    amended = asyncio.Event()

    async def sibling() -> object:
        await amended.wait()
        return ctx.SESSION_ID.get(None)

    async def neighbour() -> object:
        with ctx.session(gateway_session_key="k1"):
            return await sibling()

    with ctx.session(gateway_session_key="k1"):
        tasks = [asyncio.create_task(sibling()), asyncio.create_task(neighbour())]
        await asyncio.sleep(0)
        ctx.amend(session_id="s1")
        amended.set()
        assert await asyncio.gather(*tasks) == ["s1", None]


def test_amend_reaches_threads_that_took_over() -> None:
    """A thread that runs in a copy of the context sees what is amended after it began."""
    running, amended, seen = threading.Event(), threading.Event(), []

    def job() -> None:
        running.set()
        amended.wait()
        seen.append(ctx.SESSION_ID.get(None))

    with ctx.session(gateway_session_key="k1"):
        thread = threading.Thread(target=copy_context().run, args=(job,))
        thread.start()
        running.wait()
        ctx.amend(session_id="s1")
        amended.set()
        thread.join()

    assert seen == ["s1"]


def test_late_amend_on_an_ended_turn_is_seen_by_its_holders() -> None:
    """An ended turn can be amended, and those who still hold it see it."""
    with ctx.session(session_id="s1") as turn, ctx.bind(frontend="cli"):
        holder = copy_context()

    turn.amend(user_id="u1")
    holder.run(ctx.amend, {OWN[5]: "late"})

    assert holder.run(ctx.USER_ID.get) == "u1"
    assert turn.get(OWN[5]) == "late"


def test_two_threads_amending_both_take_effect() -> None:
    """Amends at the same time, of different keys, are all seen."""
    together = threading.Barrier(6)

    def amending(key: ctx.Key[str]) -> None:
        together.wait()
        for number in range(200):
            ctx.amend({key: str(number)})

    with ctx.session(session_id="s1"), ctx.bind(frontend="cli"):
        threads = [threading.Thread(target=copy_context().run, args=(amending, key)) for key in OWN]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [key.get() for key in OWN] == ["199"] * 6


def test_binds_made_while_another_thread_amends_miss_nothing() -> None:
    """A scope that is derived during an amend sees it: before or after, never not at all."""
    together, stop = threading.Barrier(2), threading.Event()

    def deriving() -> None:
        together.wait()
        while not stop.is_set():
            with ctx.bind(frontend="cli"):
                last.append(ctx.current_turn().get(OWN[5]) == OWN[5].get())  # type: ignore[union-attr]

    last: list[bool] = []
    with ctx.session({OWN[5]: "0"}):
        thread = threading.Thread(target=copy_context().run, args=(deriving,))
        thread.start()
        together.wait()
        for number in range(300):
            ctx.amend({OWN[5]: str(number)})
        with ctx.bind(frontend="cli"):
            assert OWN[5].get() == "299"
        stop.set()
        thread.join()


def test_amend_of_nothing_changes_nothing() -> None:
    """An amend without keys is harmless, also outside any turn."""
    ctx.amend()
    assert dict(ctx.current()) == {}


def test_amend_with_unset_unbinds() -> None:
    """UNSET means what None means."""
    with ctx.session(user_id="u1"):
        ctx.amend(user_id=ctx.UNSET)
        assert not ctx.USER_ID.is_bound()


def test_amend_refuses_a_function() -> None:
    """There is no call to compute a value from."""
    value: Any = lambda: "s1"  # noqa: E731
    with ctx.session(user_id="u1"), pytest.raises(ctx.InvalidValueError, match="'session_id'"):
        ctx.amend(session_id=value)


@pytest.mark.parametrize("moment", range(40))
def test_what_is_in_effect_can_be_read_while_it_is_amended(moment: int) -> None:
    """Whenever another thread unbinds a key meanwhile, `current()` has it or has it not, and never fails."""
    events = itertools.count()

    def amend_once(*event: object) -> None:
        if next(events) == moment:
            thread = threading.Thread(target=turn.amend, kwargs={"user_id": None})
            thread.start()
            thread.join()

    with ctx.session(session_id="s1", user_id="u1") as turn:
        sys.setprofile(amend_once)
        try:
            found = dict(ctx.current())
        finally:
            sys.setprofile(None)

    assert found in ({"session_id": "s1"}, {"session_id": "s1", "user_id": "u1"})
