"""`Key(link=Link(...))`: a context variable of the host's, kept in step with a key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime import layers
from ctxruntime.keys import Link

VAR: ContextVar[str] = ContextVar("links_var", default="")
CHAT: ctx.Key[str]


@pytest.fixture(autouse=True, scope="module")
def linked_key() -> Iterator[None]:
    """Linked during this module only: a process without links takes another way."""
    global CHAT
    CHAT = ctx.Key("links_chat", str, link=Link(VAR, unset=""))
    yield
    layers.LINKED.remove(CHAT)


@pytest.fixture(autouse=True)
def variable_is_back() -> Iterator[None]:
    yield
    assert VAR.get() == ""


def test_entering_writes_the_variable() -> None:
    """Entering writes the key's value into the variable, and leaving gives it back."""
    with ctx.session({CHAT: "c1"}):
        assert VAR.get() == "c1"
    assert VAR.get() == ""


def test_entering_without_the_key_writes_unset() -> None:
    """In a turn that does not know the key, the variable holds what the host reads as none."""
    token = VAR.set("host's")
    with ctx.session(session_id="s1"):
        assert VAR.get() == ""
        assert not CHAT.is_bound()
    assert VAR.get() == "host's"
    VAR.reset(token)


def test_variable_is_read_outside_any_turn() -> None:
    """Outside any turn, what the host put into the variable is the key's value."""
    token = VAR.set("host's")
    assert CHAT.get() == "host's"
    assert CHAT.is_bound()
    assert dict(ctx.current()) == {"links_chat": "host's"}
    VAR.reset(token)


def test_variable_that_is_unset_is_unbound() -> None:
    """A variable that equals `unset` binds nothing."""
    assert not CHAT.is_bound()
    with pytest.raises(ctx.UnboundKeyError):
        CHAT.get()


def test_variable_without_value_is_unbound() -> None:
    """A variable that was never set, and has no default, binds nothing."""
    key = ctx.Key("links_bare", str, link=Link(ContextVar("links_bare"), unset=""))
    try:
        assert key.get("default") == "default"
    finally:
        layers.LINKED.remove(key)


def test_turn_decides_over_the_variable() -> None:
    """In a turn the layer decides, whatever the host writes into the variable."""
    with ctx.session({CHAT: "c1"}):
        token = VAR.set("host's")
        assert CHAT.get() == "c1"
        VAR.reset(token)


def test_turn_that_does_not_know_decides_too() -> None:
    """A turn in which the key is not known does not fall back to the variable."""
    with ctx.session(session_id="s1"):
        token = VAR.set("host's")
        assert CHAT.get(None) is None
        VAR.reset(token)


def test_bind_writes_and_restores() -> None:
    """A bind of the key writes the variable, and gives back the turn's value."""
    with ctx.session({CHAT: "c1"}):
        with ctx.bind({CHAT: "c2"}):
            assert VAR.get() == "c2"
        assert VAR.get() == "c1"


def test_bind_of_none_writes_unset() -> None:
    """A bind of None writes `unset`."""
    with ctx.session({CHAT: "c1"}), ctx.bind({CHAT: None}):
        assert VAR.get() == ""


def test_bind_of_another_key_leaves_the_variable() -> None:
    """A bind of another key does not touch the variable."""
    token = VAR.set("host's")
    with ctx.bind(session_id="s1"):
        assert VAR.get() == "host's"
        assert CHAT.get() == "host's"
    VAR.reset(token)


def test_cleared_writes_unset() -> None:
    """Under `cleared` the variable holds `unset`."""
    with ctx.session({CHAT: "c1"}):
        with ctx.cleared():
            assert VAR.get() == ""
            assert not CHAT.is_bound()
        assert VAR.get() == "c1"


def test_amend_writes_the_variable() -> None:
    """An amend of the key is seen in the variable, and leaving gives back what was there before."""
    with ctx.session(session_id="s1"):
        ctx.amend({CHAT: "late"})
        assert VAR.get() == "late"
        ctx.amend({CHAT: None})
        assert VAR.get() == ""
    assert VAR.get() == ""


def test_amend_of_an_outer_scope_does_not_write_over_a_bind() -> None:
    """The variable shows what is in effect here, not what was amended elsewhere in the turn."""
    with ctx.session({CHAT: "c1"}) as turn, ctx.bind({CHAT: "c2"}):
        turn.amend({CHAT: "c3"})
        assert VAR.get() == "c2"


def test_amend_in_a_bind_is_undone_on_leaving_it() -> None:
    """After a bind is left, the variable holds the turn's value again."""
    with ctx.session({CHAT: "c1"}):
        with ctx.bind({CHAT: "c2"}):
            ctx.amend({CHAT: "c3"})
            assert VAR.get() == "c3"
        assert VAR.get() == "c1"


def test_snapshot_writes_and_restores() -> None:
    """`with snapshot` writes the captured value into the variable."""
    with ctx.session({CHAT: "c1"}):
        snapshot = ctx.capture()
    with ctx.session({CHAT: "c2"}):
        with snapshot:
            assert VAR.get() == "c1"
        assert VAR.get() == "c2"


def test_carried_function_writes_and_restores() -> None:
    """A carried function sees the captured value in the variable."""
    with ctx.session({CHAT: "c1"}):
        job = ctx.carry(lambda: VAR.get())
    assert job() == "c1"
    assert VAR.get() == ""


def test_generator_writes_at_each_step() -> None:
    """A decorated generator has its value in the variable during its steps only."""

    @ctx.session({CHAT: "inner"})
    def body() -> Iterator[str]:
        yield VAR.get()
        yield VAR.get()

    with ctx.session({CHAT: "outer"}):
        generator = body()
        seen = [next(generator), VAR.get(), next(generator), VAR.get()]
        generator.close()  # type: ignore[attr-defined]

    assert seen == ["inner", "outer", "inner", "outer"]


def test_bind_kept_by_a_generator_writes_at_each_step() -> None:
    """What a generator's body has bound is in the variable at its next step too."""

    @ctx.session({CHAT: "inner"})
    def body() -> Iterator[str]:
        with ctx.bind({CHAT: "nested"}):
            yield VAR.get()
            yield VAR.get()
        yield VAR.get()

    with ctx.session({CHAT: "outer"}):
        seen = []
        for value in body():
            seen += [value, VAR.get()]

    assert seen == ["nested", "outer", "nested", "outer", "inner", "outer"]


@pytest.mark.asyncio
async def test_coroutine_and_task_see_the_variable() -> None:
    """A decorated coroutine function, and a task it makes, see the value."""

    async def read() -> str:
        return VAR.get()

    @ctx.session({CHAT: "c1"})
    async def serve() -> list[str]:
        return [VAR.get(), await asyncio.create_task(read())]

    assert await serve() == ["c1", "c1"]
    assert VAR.get() == ""


def test_close_from_elsewhere_restores_at_the_next_read() -> None:
    """A close from another thread gives the variable back when the entering context reads a key."""
    scope = ctx.session({CHAT: "c1"})
    scope.open()
    thread = threading.Thread(target=scope.close)
    thread.start()
    thread.join()

    assert CHAT.get(None) is None
    assert VAR.get() == ""


def test_close_in_a_context_that_took_over_keeps_the_variable_there() -> None:
    """A context that took the turn over keeps the value in the variable, too."""
    scope = ctx.session({CHAT: "c1"})
    scope.open()
    holder = copy_context()
    scope.close()

    assert holder.run(VAR.get) == "c1"
    assert holder.run(CHAT.get) == "c1"


def test_out_of_order_leaving_restores_all() -> None:
    """Whichever scope is left first, the variable ends as it began."""
    outer, inner = ctx.session({CHAT: "outer"}), ctx.session({CHAT: "inner"})
    outer.open()
    inner.open()
    outer.close()
    between = VAR.get()
    inner.close()

    assert between == "inner"
    assert CHAT.get(None) is None
    assert VAR.get() == ""


def test_links_to_another_variable_are_another_key() -> None:
    """A key that is linked elsewhere is not defined alike."""
    with pytest.raises(ctx.DuplicateKeyError, match="another link"):
        ctx.Key("links_chat", str, link=Link(ContextVar[Any]("links_other"), unset=""))
    assert ctx.Key("links_chat", str, link=Link(VAR, unset="")) is CHAT


def test_amend_inside_a_snapshot_stays_in_the_variable() -> None:
    """After a snapshot of the turn is left, the variable holds what was amended inside, as the turn does."""
    with ctx.session({CHAT: "c1"}):
        with ctx.capture():
            ctx.amend({CHAT: "c2"})
            assert VAR.get() == "c2"
        assert (VAR.get(), CHAT.get()) == ("c2", "c2")


def test_amend_of_the_turn_inside_a_bind_shows_on_leaving_it() -> None:
    """After a bind is left, the variable holds the turn's value, also if it was amended meanwhile."""
    with ctx.session({CHAT: "c1"}) as turn:
        with ctx.bind({CHAT: "inner"}):
            turn.amend({CHAT: "c2"})
            turn.amend({CHAT: None})
            turn.amend({CHAT: "c3"})
            assert VAR.get() == "inner"
        assert (VAR.get(), CHAT.get()) == ("c3", "c3")


def test_amend_inside_a_carried_generator_stays_in_the_variable() -> None:
    """Between the steps of a carried generator the variable holds what its body amended in the turn."""

    def body() -> Iterator[str]:
        ctx.amend({CHAT: "c2"})
        yield VAR.get()

    with ctx.session({CHAT: "c1"}):
        assert next(ctx.carry(body)()) == "c2"
        assert (VAR.get(), CHAT.get()) == ("c2", "c2")


def test_amend_inside_a_snapshot_elsewhere_is_undone_there() -> None:
    """Where the turn is not in effect around the snapshot, the variable is the host's again on leaving."""
    with ctx.session({CHAT: "c1"}):
        snapshot = ctx.capture()
    with ctx.session({CHAT: "other"}):
        with snapshot:
            ctx.amend({CHAT: "c2"})
        assert VAR.get() == "other"
    with snapshot:
        ctx.amend({CHAT: "c3"})
    assert VAR.get() == ""


def test_join_writes_what_it_adds() -> None:
    """A joined door writes what it adds to the turn, and leaves it there for the turn's other doors."""
    with ctx.session(session_id="s1"):
        with ctx.session.join({CHAT: "c1"}, session_id="s1"):
            assert (VAR.get(), CHAT.get()) == ("c1", "c1")
        assert (VAR.get(), CHAT.get()) == ("c1", "c1")


def test_join_that_adds_nothing_leaves_the_variable() -> None:
    """A joined door does not write over what the host put into the variable."""
    with ctx.session(session_id="s1"):
        token = VAR.set("host's")
        with ctx.session.join(session_id="s1"):
            assert VAR.get() == "host's"
        assert VAR.get() == "host's"
        VAR.reset(token)


def test_turn_amended_from_outside_leaves_the_variable() -> None:
    """Amending a turn that is not in effect here does not touch the variable here."""
    with ctx.session({CHAT: "c1"}) as turn:
        pass
    token = VAR.set("host's")
    turn.amend({CHAT: "c2"})
    assert VAR.get() == "host's"
    VAR.reset(token)
    with ctx.session({CHAT: "other"}):
        turn.amend({CHAT: "c3"})
        assert VAR.get() == "other"


def test_decorated_body_that_closes_its_turn_gives_the_variable_back() -> None:
    """A generator's body that ends its own turn has the variable as its consumer has it from then on."""

    @ctx.session({CHAT: "inner"})
    def body() -> Iterator[str]:
        yield VAR.get()
        turn = ctx.current_turn()
        assert turn is not None
        turn.close()
        yield VAR.get()
        yield VAR.get()

    with ctx.session({CHAT: "outer"}):
        assert list(body()) == ["inner", "outer", "outer"]
        assert VAR.get() == "outer"
