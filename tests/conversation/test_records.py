"""A conversation as its users hold it: a value."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from ctxruntime.conversation import Bridge, Conversation


def test_conversations_are_equal_if_they_are_the_same(bridge: Bridge) -> None:
    """Two values are equal, and one in a set, if their id is; what was learnt in between does not matter."""
    early = bridge.resolve(gateway_session_key="chat")
    late = bridge.resolve(gateway_session_key="chat", session_id="s1")
    other = bridge.resolve(session_id="other")

    assert early == late
    assert {early, late, other} == {late, other}
    assert early != other
    assert early != early.id


def test_a_conversations_repr_shows_no_key() -> None:
    """Keys and session ids are not in what logs show of it."""
    talk = Bridge().resolve(gateway_session_key="chat-secret", session_id="s1-secret")

    assert repr(talk) == f"<Conversation {talk.id} of 1 keys and 1 session ids>"


@pytest.mark.parametrize("name", [*Conversation.__slots__, "gateway_key", "current", "nickname"])
def test_a_conversation_cannot_be_changed(name: str) -> None:
    """It is a value, which the bridge and others hold as well: nothing of it can be set or deleted."""
    bridge = Bridge()
    talk = bridge.resolve(gateway_session_key="chat", session_id="s1")

    with pytest.raises(AttributeError, match="a Conversation is a value"):
        setattr(talk, name, "other")
    with pytest.raises(AttributeError, match="a Conversation is a value"):
        delattr(talk, name)

    known = bridge.find(session_id="s1")
    assert known is not None
    assert (known.gateway_keys, known.session_ids) == (("chat",), ("s1",))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda talk: pickle.loads(pickle.dumps(talk))])
def test_a_conversation_can_be_copied_and_pickled(bridge: Bridge, copied: Callable[[Any], Any]) -> None:
    """What comes out, in another process too, is equal and knows as much."""
    talk = bridge.resolve(gateway_session_key="chat", session_id="child", parent_session_id="s1")

    other = copied(talk)

    assert other == talk
    assert [getattr(other, name) for name in Conversation.__slots__] == [
        getattr(talk, name) for name in Conversation.__slots__
    ]


def test_a_conversation_is_as_it_was_when_it_was_returned(bridge: Bridge) -> None:
    """What is learnt later is in values that are returned later."""
    early = bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.rotate("s1", "s2", continues=True)

    assert early.session_ids == ("s1",)
