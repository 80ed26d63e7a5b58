"""What somebody else wrote where our states and records are: it is named as damage, whoever comes upon it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ctxruntime.conversation import Bridge, Conversation, ConversationState, StoreCorruptError
from ctxruntime.conversation.stores import MemoryStore
from ctxruntime.conversation.stores.base import FOREVER, Change, Doc, Row

NONE_OF_OURS = ["not JSON", "[]", "7", "[" * 100_000]


@pytest.fixture
def bridge() -> Bridge:
    """Return a bridge over a store of its own."""
    return Bridge(MemoryStore())


def damage(bridge: Bridge, conversation: Conversation, body: str) -> None:
    """Write a body of somebody else's where the state `notes` is."""
    before = bridge.store.get_doc(bridge.namespace, conversation.id, "notes")
    assert before is not None
    written = Doc(b"theirs!!", body)
    assert bridge.store.put_doc(bridge.namespace, conversation.id, "notes", written, before.version)


@pytest.mark.parametrize("body", NONE_OF_OURS, ids=lambda body: body[:8])
@pytest.mark.parametrize(
    "call",
    [lambda state: state.get("a"), lambda state: state.set("a", 1), lambda state: state.clear()],
    ids=["get", "set", "clear"],
)
def test_a_state_that_is_none_is_named(bridge: Bridge, body: str, call: Callable[[Any], object]) -> None:
    """Reading and writing a state that is none tells which one of which conversation it is, and changes nothing."""
    there = bridge.resolve(session_id="s1")
    damage(bridge, there, body)

    with pytest.raises(StoreCorruptError, match=f"state 'notes' of conversation {there.id} that is none: forget"):
        call(ConversationState("notes", bridge=bridge).at(there))

    assert bridge.store.docs(bridge.namespace, there.id)["notes"].body == body


@pytest.mark.parametrize("body", NONE_OF_OURS, ids=lambda body: body[:8])
@pytest.mark.parametrize("damaged", ["s1", "s2"])
def test_two_do_not_become_one_over_a_state_that_is_none(bridge: Bridge, body: str, damaged: str) -> None:
    """Where two conversations become one, a damaged state of either is named, and nothing is lost by trying."""
    notes = ConversationState("notes", bridge=bridge)
    both = {id: bridge.resolve(session_id=id) for id in ("s1", "s2")}
    for conversation in both.values():
        notes.at(conversation).set("a", 1)
    damage(bridge, both[damaged], body)

    with pytest.raises(StoreCorruptError, match=f"state 'notes' of conversation {both[damaged].id} that is none"):
        bridge.rotate("s1", "s2", continues=True)

    assert {id: bridge.find(session_id=id) for id in both} == both


def test_a_record_that_is_nested_without_end_is_named(bridge: Bridge) -> None:
    """A record that no parser can read is damage like any other."""
    record = '{"keys":' + "[" * 100_000
    change = Change({}, {}, {}, {"c": Row(b"theirs!!", FOREVER, record)}, [], {("i", "s1"): "c"}, [], {})
    assert bridge.store.commit(bridge.namespace, change)

    with pytest.raises(StoreCorruptError, match="a record of conversation c that is none"):
        bridge.resolve(session_id="s1")
