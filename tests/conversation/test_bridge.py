"""The rules of the bridge: which gateway key and session ids are one conversation."""

from __future__ import annotations

from ctxruntime.conversation.bridge import Bridge


def test_a_chat_takes_the_first_session_that_is_bound_to_it(bridge: Bridge) -> None:
    """What was known by its gateway key alone is the same conversation once its session is known."""
    early = bridge.resolve(gateway_session_key="chat")

    bound = bridge.resolve(gateway_session_key="chat", session_id="s1")

    assert bound == early == bridge.find(session_id="s1")
    assert (bound.gateway_keys, bound.session_ids, bound.current) == (("chat",), ("s1",), "s1")


def test_a_session_that_nobody_explained_starts_a_conversation(bridge: Bridge) -> None:
    """A chat that is bound to another session, without a rotation, is in a fresh conversation; the old one stays."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")

    after = bridge.resolve(gateway_session_key="chat", session_id="s2")

    assert after != before
    assert bridge.find(gateway_session_key="chat") == after
    assert bridge.find(session_id="s1") == before


def test_a_rotation_told_late_takes_over_what_was_begun(bridge: Bridge) -> None:
    """What was seen of the new id before the rotation was explained becomes part of the old conversation."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")
    begun = bridge.resolve(gateway_session_key="chat", session_id="s2")

    told = bridge.rotate("s1", "s2", continues=True)

    assert told == before
    assert bridge.find(session_id="s2") == bridge.find(gateway_session_key="chat") == before
    assert bridge.get(begun.id) is None


def test_a_conversation_is_no_ancestor_of_its_own(bridge: Bridge) -> None:
    """A parent learnt late is not taken if it is a descendant, however many generations down."""
    eldest = bridge.resolve(session_id="c")
    bridge.resolve(session_id="d", parent_session_id="c")
    bridge.resolve(session_id="c", parent_session_id="b")
    bridge.resolve(session_id="b", parent_session_id="d")

    ancestors = [bridge.resolve(session_id="d")]
    while ancestors[-1].parent is not None:
        above = bridge.get(ancestors[-1].parent)
        assert above is not None
        assert above not in ancestors
        ancestors.append(above)

    assert ancestors[1:] == [eldest, bridge.resolve(session_id="b")]
