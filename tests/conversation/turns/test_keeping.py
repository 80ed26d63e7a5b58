"""How long a turn keeps its conversation: over merges, over other bridges, and without one."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Sequence
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime.conversation import (
    CONVERSATION_ID,
    Bridge,
    ConversationGoneError,
    ConversationState,
    MemoryStore,
    NoConversationError,
    current,
    turns,
    use,
)
from ctxruntime.conversation.stores.base import Look, Ref

notes = ConversationState("notes")


def here() -> str:
    found = current()
    assert found is not None
    assert CONVERSATION_ID.get() == found.id
    return found.id


# A turn keeps its conversation


def test_a_turn_keeps_its_conversation_whatever_becomes_of_its_chat(chat: Bridge) -> None:
    """Where another turn binds the chat to another session, this one stays where it is, until its own id is amended."""
    with ctx.session(gateway_session_key="chat"):
        before = here()
        contextvars.Context().run(lambda: chat.resolve(gateway_session_key="chat", session_id="s1"))
        chat.resolve(gateway_session_key="chat", session_id="s2")
        notes["a"] = 1
        assert here() == before != chat.resolve(gateway_session_key="chat").id
        ctx.amend(user_id="u1")
        assert here() == before
        ctx.amend(session_id="s2")
        assert here() == chat.resolve(session_id="s2").id
        assert notes.items() == []


def test_a_turn_follows_where_its_conversation_became_part_of_another(chat: Bridge) -> None:
    """A merge in this process is followed at once, by the turn and by what holds it, sub-agents apart."""
    with ctx.session(gateway_session_key="chat"):
        notes["a"] = 1
        with ctx.bind(session_id="child"):
            child = here()
            kept = chat.resolve(session_id="s1")
            chat.resolve(gateway_session_key="chat", session_id="s1")
            assert here() == child
        assert here() == kept.id
        assert notes["a"] == 1


def test_a_turn_that_is_amended_while_it_follows_has_what_it_was_amended_to(chat: Bridge) -> None:
    """Between the news of a merge and the turn that is to follow it, the turn may have gone on: it is left there."""
    using = turns.in_use()
    assert using is not None
    with ctx.session(gateway_session_key="chat") as turn:
        put, pending = using._put, ["s2"]

        def putting(*args: Any, **options: Any) -> bool:
            if pending:
                thread = threading.Thread(target=turn.amend, kwargs={"session_id": pending.pop()})
                thread.start()
                thread.join(10)
            return put(*args, **options)

        chat.resolve(session_id="s1")
        using._put = putting  # type: ignore[method-assign]  # what another thread may do in this moment
        chat.resolve(gateway_session_key="chat", session_id="s1")

        assert pending == []
        assert here() == chat.resolve(session_id="s2").id


def test_a_turn_that_is_entered_in_the_moment_of_a_merge_follows_it(faults: dict[str, int], down: Any) -> None:
    """What a turn was answered may be part of another by the time that it binds it: it is in that one then."""
    store = down()
    store.error = None
    bridge = Bridge(store)
    with use(bridge):
        kept = bridge.resolve(session_id="s1")
        bridge.resolve(gateway_session_key="chat")
        look, pending = store.look, ["merge"]

        def looking(namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
            answer = look(namespace, refs, ids)
            if pending:
                pending.clear()
                bridge.resolve(gateway_session_key="chat", session_id="s1")
            return answer

        store.look = looking  # another thread comes in between the answer and its use
        with ctx.session(gateway_session_key="chat"):
            assert (CONVERSATION_ID.get(), pending) == (kept.id, [])


def test_a_merge_in_another_process_is_followed_when_the_state_is_asked(faults: dict[str, int]) -> None:
    """A turn whose conversation became part of another elsewhere finds it, by what the turn says."""
    store = MemoryStore()
    bridge, elsewhere = Bridge(store), Bridge(store)
    with use(bridge) as using, ctx.session(gateway_session_key="chat"):
        notes["a"] = 1
        kept = elsewhere.resolve(session_id="s1")
        merged, using.merged = using.merged, lambda *_: None  # type: ignore[method-assign]  # it is told nothing
        elsewhere.resolve(gateway_session_key="chat", session_id="s1")
        using.merged = merged  # type: ignore[method-assign]  # as above
        assert CONVERSATION_ID.get() != kept.id
        assert notes["a"] == 1
        assert here() == kept.id


def test_current_follows_too(faults: dict[str, int]) -> None:
    """`current()` is what the turn's conversation became part of elsewhere, and None where that is gone."""
    store = MemoryStore()
    bridge = Bridge(store)
    with use(bridge), ctx.session(gateway_session_key="chat", session_id="s1") as turn:
        kept = bridge.resolve(session_id="s1")
        CONVERSATION_ID.put(turn, "gone")
        assert current() == kept
        bridge.forget(kept)
        assert current() is None


def test_a_conversation_that_was_forgotten_is_not_revived(chat: Bridge) -> None:
    """Forgetting in a turn leaves it without: its state is refused, and nothing is made for it."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        notes["a"] = 1
        gone = here()
        assert chat.forget(session_id="s1")
        for _ in range(2):
            with pytest.raises(ConversationGoneError, match=f"conversation {gone} is gone"):
                notes["a"] = 2
            with pytest.raises(ConversationGoneError):
                notes.items()
        assert current() is None

    assert list(chat.conversations()) == []


def test_of_identities_that_are_amended_at_once_the_last_decides(faults: dict[str, int], down: Any) -> None:
    """A turn that is told another id while the store looks for the first has the conversation of the last one."""
    store = down()
    store.error = None
    bridge = Bridge(store)
    with use(bridge), ctx.session(gateway_session_key="chat") as turn:
        look, pending = store.look, ["s1"]

        def looking(namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
            if pending and ("i", pending[0]) in refs:
                pending.clear()
                thread = threading.Thread(target=turn.amend, kwargs={"session_id": "s2"})
                thread.start()
                thread.join(10)
            return look(namespace, refs, ids)

        store.look = looking  # type: ignore[method-assign]  # a store that is slow at the wrong moment
        turn.amend(session_id="s1")
        assert ctx.SESSION_ID.get() == "s2"
        assert here() == bridge.resolve(session_id="s2").id == bridge.resolve(gateway_session_key="chat").id


# Without a bridge, with many, and with one that comes late


def test_without_a_bridge_in_use_there_is_no_conversation() -> None:
    """Nothing is bound, and what needs a conversation says what to do: enter a session, with a bridge in use."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        assert current() is None
        assert not CONVERSATION_ID.is_bound()
        with pytest.raises(NoConversationError, match=r"state 'notes' needs a conversation.*enter session\("):
            notes.items()


def test_outside_any_turn_there_is_no_conversation(chat: Bridge) -> None:
    """With a bridge in use, and nothing in effect, or a turn that knows nobody, there is none either."""
    with pytest.raises(NoConversationError, match="session"):
        notes.items()
    with ctx.session(user_id="u1"), pytest.raises(NoConversationError, match="session"):
        notes["a"] = 1
    with ctx.session(session_id="", gateway_session_key=""), pytest.raises(NoConversationError, match="session"):
        notes["a"] = 1
    assert list(chat.conversations()) == []


def test_the_bridge_that_was_put_to_use_last_has_the_turns() -> None:
    """Of two bridges in use the second is consulted, and the first one again once that has ended."""
    first, second = Bridge(), Bridge()
    with use(first):
        with use(second), ctx.session(session_id="s2"):
            assert here()
        with ctx.session(session_id="s1"):
            assert here()

    assert [found.session_ids for found in first.conversations()] == [("s1",)]
    assert [found.session_ids for found in second.conversations()] == [("s2",)]


def test_a_bridge_can_be_stopped_twice_and_out_of_order() -> None:
    """What was put to use first may end first; ending again is harmless, and leaves the others as they are."""
    first, second = use(Bridge()), use(Bridge())
    first.stop()
    first.stop()
    assert turns.in_use() is second
    with ctx.session(session_id="s1"):
        assert second.bridge.find(session_id="s1") == current()
    second.stop()
    first.stop()
    assert turns.in_use() is None


def test_a_turn_that_began_before_is_asked_for_when_its_state_is(faults: dict[str, int]) -> None:
    """A turn without a conversation, entered before the bridge was in use, gets one when it is needed or amended."""
    with ctx.session(session_id="s1"), use(Bridge()) as using:
        assert current() is None
        notes["a"] = 1
        assert using.bridge.find(session_id="s1") == current()
    with ctx.session(gateway_session_key="chat"), use(Bridge()) as using:
        ctx.amend(session_id="s1")
        assert using.bridge.find(gateway_session_key="chat") == using.bridge.find(session_id="s1") == current()


def test_a_turn_keeps_its_conversation_when_the_bridge_is_stopped(chat: Bridge) -> None:
    """Until another is in use, its key is there; a bind made meanwhile does not get the turn's state."""
    with use(Bridge()) as using, ctx.session(session_id="s1"):
        before = here()
        using.stop()
        assert CONVERSATION_ID.get() == before
        assert current() is None  # the other bridge, in use again, knows nothing of it
        notes["a"] = "in the bridge in use"
        assert chat.find(session_id="s1") == current() != using.bridge.find(session_id="s1")


def test_a_sub_agent_that_began_without_a_bridge_has_not_its_parents_state(faults: dict[str, int]) -> None:
    """A bind made while no bridge was in use is asked for by itself, though it sees the turn's conversation id."""
    bridge = Bridge()
    with use(bridge) as using, ctx.session(session_id="s1"):
        notes["a"] = 1
        parent = here()
        using.stop()
        with ctx.bind(session_id="child"), use(bridge):
            assert notes.items() == []
            found = current()
            assert found is not None
            assert (found.parent, found.session_ids) == (parent, ("child",))


def test_a_conversation_can_be_bound_like_any_key(chat: Bridge) -> None:
    """A conversation id that is bound by hand, or taken over, is the one in effect."""
    kept = chat.resolve(session_id="s1")
    with ctx.session(conversation_id=kept.id):
        assert current() == kept
        with ctx.session(take=(CONVERSATION_ID,)):
            assert current() == kept
    with ctx.session(session_id="s2"), ctx.bind(conversation_id=kept.id):
        assert current() == kept
        notes["a"] = 1
    assert notes.at(kept)["a"] == 1
