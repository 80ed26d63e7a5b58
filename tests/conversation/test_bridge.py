"""The rules of the bridge: which gateway key and session ids are one conversation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores import MemoryStore
from ctxruntime.conversation.stores.base import Doc

Timed = Callable[[], tuple[MemoryStore, list[float]]]


def write(bridge: Bridge, conversation: Conversation, name: str = "notes", **items: object) -> None:
    """Write a document of a conversation."""
    doc = Doc(os.urandom(8), json.dumps(items))
    assert bridge.store.put_doc(bridge.namespace, conversation.id, name, doc, None) is True


def read(bridge: Bridge, conversation: Conversation, name: str = "notes") -> object:
    """Return the items of a document; None where its conversation is gone."""
    doc = bridge.store.get_doc(bridge.namespace, conversation.id, name)
    return None if doc is None else json.loads(doc.body)


# Look-ups


def test_what_is_known_is_found(bridge: Bridge) -> None:
    """A key, or an id, that was seen before is the same conversation."""
    by_key = bridge.resolve(gateway_session_key="chat")
    by_id = bridge.resolve(session_id="s1")

    assert bridge.resolve(gateway_session_key="chat") == by_key != by_id
    assert bridge.resolve(session_id="s1") == by_id
    assert {each.id for each in bridge.conversations()} == {by_key.id, by_id.id}


def test_what_is_made_has_what_was_given(bridge: Bridge) -> None:
    """A conversation that was just made is a root without anything but its key or its id."""
    before, _, _ = bridge.store.look(bridge.namespace, [])
    chat = bridge.resolve(gateway_session_key="chat")
    other = bridge.resolve(session_id="s1")

    assert (chat.gateway_keys, chat.gateway_key, chat.session_ids, chat.current) == (("chat",), "chat", (), None)
    assert (other.gateway_keys, other.gateway_key, other.session_ids, other.current) == ((), None, ("s1",), "s1")
    assert (chat.parent, chat.root, chat.inherited_key) == (None, chat.id, None)
    assert before <= chat.created_at <= other.created_at <= before + 60


def test_a_look_up_moves_nothing(bridge: Bridge) -> None:
    """An older id, or an older key, is looked up without becoming the current one."""
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.rotate("s1", "s2", continues=True)
    bridge.resolve(gateway_session_key="phone", session_id="s2")

    for given in ({"session_id": "s1"}, {"gateway_session_key": "chat"}):
        found = bridge.resolve(**given)

        assert (found.session_ids, found.gateway_keys) == (("s1", "s2"), ("chat", "phone"))
        assert (found.current, found.gateway_key) == ("s2", "phone")


def test_finding_makes_nothing(bridge: Bridge) -> None:
    """What is not there is None to `find` and `get`, and is not there afterwards."""
    assert bridge.find(gateway_session_key="chat") is None
    assert bridge.find(session_id="s1") is None
    assert bridge.find(gateway_session_key="chat", session_id="s1") is None
    assert [*bridge.conversations()] == []


@pytest.mark.parametrize("text", ["", "none", "\0", "\ud800", "ключ", "x" * 5000], ids=ascii)
def test_any_other_text_is_no_conversation(bridge: Bridge, text: str) -> None:
    """No conversation is found by a text that is no conversation's id, whatever text that is."""
    assert bridge.get(text) is None


def test_finding_by_both_is_what_a_bind_would_return(bridge: Bridge) -> None:
    """The session's conversation; without one that of a chat which has no session yet; else none."""
    chat = bridge.resolve(gateway_session_key="chat")
    assert bridge.find(gateway_session_key="chat", session_id="s1") == chat

    bridge.resolve(gateway_session_key="chat", session_id="s1")
    other = bridge.resolve(session_id="s2")
    assert bridge.find(gateway_session_key="chat", session_id="s2") == other
    assert bridge.find(gateway_session_key="chat", session_id="s3") is None


def test_a_conversation_is_got_by_its_own_id(bridge: Bridge) -> None:
    """By its id a conversation is returned as it is now, not as it was."""
    before = bridge.resolve(gateway_session_key="chat")
    bridge.resolve(gateway_session_key="chat", session_id="s1")

    now = bridge.get(before.id)

    assert now == before
    assert now is not None
    assert (before.session_ids, now.session_ids) == ((), ("s1",))


# Binds


def test_a_chat_takes_the_first_session_that_is_bound_to_it(bridge: Bridge) -> None:
    """What was known by its gateway key alone is the same conversation once its session is known."""
    early = bridge.resolve(gateway_session_key="chat")

    bound = bridge.resolve(gateway_session_key="chat", session_id="s1")

    assert bound == early == bridge.find(session_id="s1")
    assert (bound.gateway_keys, bound.session_ids, bound.current) == (("chat",), ("s1",), "s1")


def test_a_session_takes_the_key_that_it_is_bound_to(bridge: Bridge) -> None:
    """What was known by its session id alone is the same conversation once its chat is known."""
    early = bridge.resolve(session_id="s1")

    bound = bridge.resolve(gateway_session_key="chat", session_id="s1")

    assert bound == early == bridge.find(gateway_session_key="chat")


def test_two_halves_of_one_are_one_once_they_are_bound(bridge: Bridge) -> None:
    """A chat and a session that were seen apart are one: the session's stays, and the chat's items go over to it."""
    chat = bridge.resolve(gateway_session_key="chat")
    session = bridge.resolve(session_id="s1")
    write(bridge, chat, a="chat", b="chat")
    write(bridge, chat, "cart", c="chat")
    write(bridge, session, b="session")

    bound = bridge.resolve(gateway_session_key="chat", session_id="s1")

    assert bound == session == bridge.find(gateway_session_key="chat")
    assert bridge.get(chat.id) is None
    assert read(bridge, bound) == {"a": "chat", "b": "session"}
    assert read(bridge, bound, "cart") == {"c": "chat"}
    assert read(bridge, chat) is None


def test_a_session_of_another_chat_is_no_half(bridge: Bridge) -> None:
    """A session that a chat has already is not one with another chat: that key moves, and nothing else."""
    first = bridge.resolve(gateway_session_key="chat", session_id="s1")
    phone = bridge.resolve(gateway_session_key="phone")
    write(bridge, phone, a="phone")

    bound = bridge.resolve(gateway_session_key="phone", session_id="s1")

    assert (bound, bound.gateway_keys) == (first, ("chat", "phone"))
    assert read(bridge, bound) == {}
    assert bridge.get(phone.id) is None  # nothing led to it any more


def test_a_sub_agent_is_no_half(bridge: Bridge) -> None:
    """A sub-agent's session that a chat is bound to does not take over what was kept for the chat."""
    child = bridge.resolve(session_id="child", parent_session_id="s1")
    chat = bridge.resolve(gateway_session_key="chat")
    write(bridge, chat, a="chat")

    bound = bridge.resolve(gateway_session_key="chat", session_id="child")

    assert bound == child
    assert read(bridge, bound) == {}


def test_a_session_that_nobody_explained_starts_a_conversation(bridge: Bridge) -> None:
    """A chat that is bound to another session, without a rotation, is in a fresh conversation; the old one stays."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")

    after = bridge.resolve(gateway_session_key="chat", session_id="s2")

    assert after != before
    assert bridge.find(gateway_session_key="chat") == after
    assert bridge.find(session_id="s1") == before
    assert bridge.get(before.id).gateway_keys == ()  # type: ignore[union-attr]


def test_a_bind_to_an_old_session_makes_it_the_current_one(bridge: Bridge) -> None:
    """A chat that is in an older session of its conversation again: the newest bind is last."""
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.rotate("s1", "s2", continues=True)

    bound = bridge.resolve(gateway_session_key="chat", session_id="s1")

    assert (bound.session_ids, bound.current) == (("s2", "s1"), "s1")


def test_the_newest_key_is_last(bridge: Bridge) -> None:
    """A conversation has many keys; the one bound last is its gateway key, and each leads to it."""
    first = bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.resolve(gateway_session_key="phone", session_id="s1")
    assert bridge.find(gateway_session_key="chat").gateway_key == "phone"  # type: ignore[union-attr]

    again = bridge.resolve(gateway_session_key="chat", session_id="s1")

    assert (again.gateway_keys, again.gateway_key) == (("phone", "chat"), "chat")
    assert bridge.find(gateway_session_key="phone") == first


def test_a_bind_that_changes_nothing_writes_nothing(bridge: Bridge) -> None:
    """The row stays in its version while a chat stays in its session."""
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    before = [*bridge.store.rows(bridge.namespace)]

    bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.resolve(gateway_session_key="chat")
    bridge.resolve(session_id="s1")

    assert [*bridge.store.rows(bridge.namespace)] == before


# Rotations that continue


def test_a_rotation_told_before_keeps_the_conversation(bridge: Bridge) -> None:
    """An id that was announced is the same conversation when it is seen, and the old id is still."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")
    write(bridge, before, a=1)

    told = bridge.rotate("s1", "s2", continues=True, reason="compression")
    after = bridge.resolve(gateway_session_key="chat", session_id="s2")

    assert told == after == before == bridge.find(session_id="s1")
    assert (after.session_ids, after.current) == (("s1", "s2"), "s2")
    assert read(bridge, after) == {"a": 1}


def test_a_rotation_told_late_takes_over_what_was_begun(bridge: Bridge) -> None:
    """What was seen of the new id before the rotation was explained becomes part of the old conversation."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")
    begun = bridge.resolve(gateway_session_key="chat", session_id="s2")
    write(bridge, before, a="old", b="old")
    write(bridge, begun, b="begun", c="begun")

    told = bridge.rotate("s1", "s2", continues=True)

    assert told == before
    assert bridge.find(session_id="s2") == bridge.find(gateway_session_key="chat") == before
    assert bridge.get(begun.id) is None
    assert read(bridge, told) == {"a": "old", "b": "old", "c": "begun"}


@pytest.mark.parametrize("key", [None, "chat"])
def test_a_rotation_told_twice_is_told_once(bridge: Bridge, key: str | None) -> None:
    """The second time nothing is different."""
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    once = bridge.rotate("s1", "s2", continues=True, gateway_session_key=key)

    twice = bridge.rotate("s1", "s2", continues=True, gateway_session_key=key)

    assert twice == once
    assert (twice.session_ids, twice.gateway_keys) == (once.session_ids, once.gateway_keys) == (("s1", "s2"), ("chat",))
    assert len([*bridge.conversations()]) == 1


def test_a_rotation_is_rolled_back_by_another(bridge: Bridge) -> None:
    """Back in the old id the conversation is the same, and both ids lead to it."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.rotate("s1", "s2", continues=True)

    back = bridge.rotate("s2", "s1", continues=True)

    assert back == before == bridge.find(session_id="s2")
    assert (back.session_ids, back.current) == (("s2", "s1"), "s1")


def test_a_rotation_between_ids_never_seen_makes_one_conversation(bridge: Bridge) -> None:
    """What a fresh process is told of ids that it never saw is one conversation."""
    told = bridge.rotate("s1", "s2", continues=True)

    assert told == bridge.find(session_id="s1") == bridge.find(session_id="s2")
    assert told.session_ids == ("s1", "s2")


def test_only_the_id_moves_from_a_conversation_that_has_others(bridge: Bridge) -> None:
    """A rotation to an id of another conversation takes that id; what has other ids is no beginning, and stays."""
    one = bridge.resolve(session_id="s1")
    other = bridge.rotate("x1", "x2", continues=True)

    told = bridge.rotate("s1", "x2", continues=True)

    assert (told, told.session_ids) == (one, ("s1", "x2"))
    assert bridge.find(session_id="x1") == other
    assert bridge.get(other.id).session_ids == ("x1",)  # type: ignore[union-attr]


def test_a_rotation_with_a_key_binds_that_key(bridge: Bridge) -> None:
    """The key is in the conversation of the old id from now on."""
    before = bridge.resolve(session_id="s1")

    told = bridge.rotate("s1", "s2", continues=True, gateway_session_key="chat")

    assert told == before == bridge.find(gateway_session_key="chat")
    assert (told.session_ids, told.gateway_keys) == (("s1", "s2"), ("chat",))


def test_a_rotation_from_what_is_not_known_continues_the_keys_conversation(bridge: Bridge) -> None:
    """Without the old id the conversation is the one that the key is in."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")

    told = bridge.rotate(None, "s2", continues=True, gateway_session_key="chat")

    assert (told, told.session_ids) == (before, ("s1", "s2"))


def test_a_rotation_to_what_is_not_known_changes_nothing(bridge: Bridge) -> None:
    """A conversation that goes on under an id not known yet is as it was."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")

    told = bridge.rotate("s1", None, continues=True)

    assert (told, told.session_ids) == (before, ("s1",))


# Rotations that do not continue


def test_a_new_session_is_a_fresh_conversation(bridge: Bridge) -> None:
    """After `/new` the chat is in a conversation without anything in it; the old one is there by its id."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")
    write(bridge, before, a=1)

    after = bridge.rotate("s1", "s2", continues=False)

    assert after != before
    assert (after.session_ids, after.gateway_keys, after.parent) == (("s2",), ("chat",), None)
    assert read(bridge, after) == {}
    assert (
        bridge.find(gateway_session_key="chat") == bridge.resolve(gateway_session_key="chat", session_id="s2") == after
    )
    assert read(bridge, bridge.resolve(session_id="s1")) == {"a": 1}


def test_a_new_session_may_have_no_id_yet(bridge: Bridge) -> None:
    """After a reset the chat is in a fresh conversation, which takes the first id that is bound to it."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")

    reset = bridge.rotate("s1", None, continues=False, gateway_session_key="chat")
    after = bridge.resolve(gateway_session_key="chat", session_id="s2")

    assert reset == after != before
    assert (reset.session_ids, after.session_ids) == ((), ("s2",))


def test_a_reset_told_twice_is_told_once(bridge: Bridge) -> None:
    """The chat that left the old session already, and has no id yet, stays where it is."""
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    once = bridge.rotate("s1", None, continues=False, gateway_session_key="chat")

    assert bridge.rotate("s1", None, continues=False, gateway_session_key="chat") == once


def test_a_resumed_session_is_its_own_conversation_again(bridge: Bridge) -> None:
    """After `/resume` the chat is where that session was, with all that was kept there; nothing is merged."""
    first = bridge.resolve(gateway_session_key="chat", session_id="s1")
    write(bridge, first, a=1)
    second = bridge.rotate("s1", "s2", continues=False)

    resumed = bridge.rotate("s2", "s1", continues=False)

    assert resumed == first == bridge.find(gateway_session_key="chat")
    assert read(bridge, resumed) == {"a": 1}
    assert bridge.get(second.id) == second


def test_a_resumed_older_id_is_the_current_one(bridge: Bridge) -> None:
    """An older id of a conversation that is resumed is its current one."""
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.rotate("s1", "s2", continues=True)
    bridge.rotate("s2", "s3", continues=False)

    resumed = bridge.rotate("s3", "s1", continues=False)

    assert (resumed.session_ids, resumed.gateway_keys) == (("s2", "s1"), ("chat",))


def test_a_branch_has_its_parent(bridge: Bridge) -> None:
    """After `/branch` the chat is in a conversation of its own that knows where it came from."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")

    branched = bridge.rotate("s1", "s2", continues=False, branch=True)
    twig = bridge.rotate("s2", "s3", continues=False, branch=True)

    assert (branched.parent, branched.root, branched.gateway_key) == (before.id, before.id, "chat")
    assert (twig.parent, twig.root, twig.gateway_keys) == (branched.id, before.id, ("chat",))


def test_what_is_there_already_is_no_branch(bridge: Bridge) -> None:
    """A conversation that was not made by it gets no parent from a branch."""
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.resolve(session_id="s2")

    assert bridge.rotate("s1", "s2", continues=False, branch=True).parent is None


def test_a_branch_of_what_was_never_seen_has_no_parent(bridge: Bridge) -> None:
    """Where the old id is not known, there is nothing to be the parent."""
    branched = bridge.rotate("s1", "s2", continues=False, branch=True, gateway_session_key="chat")

    assert (branched.parent, branched.root) == (None, branched.id)
    assert bridge.find(session_id="s1") is None


def test_of_several_keys_none_moves_by_itself(bridge: Bridge) -> None:
    """Nobody said which of the chats went to the new session: each follows on its next bind."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.resolve(gateway_session_key="phone", session_id="s1")

    after = bridge.rotate("s1", "s2", continues=False)

    assert after.gateway_keys == ()
    assert bridge.find(gateway_session_key="chat") == bridge.find(gateway_session_key="phone") == before
    assert bridge.resolve(gateway_session_key="phone", session_id="s2") == after
    assert bridge.find(gateway_session_key="chat") == before


def test_of_several_keys_the_named_one_moves(bridge: Bridge) -> None:
    """The key that was named goes to the new conversation, and no other."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.resolve(gateway_session_key="phone", session_id="s1")

    after = bridge.rotate("s1", "s2", continues=False, gateway_session_key="chat")

    assert after.gateway_keys == ("chat",)
    assert bridge.find(gateway_session_key="phone") == before


def test_the_only_key_moves_from_the_current_id_alone(bridge: Bridge) -> None:
    """A rotation of an id that the chat has left already moves no key."""
    before = bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.rotate("s1", "s2", continues=True)

    after = bridge.rotate("s1", "s3", continues=False)

    assert after.gateway_keys == ()
    assert bridge.find(gateway_session_key="chat") == before


def test_a_chat_that_never_had_a_session_is_not_reachable_after_it_moved(bridge: Bridge) -> None:
    """A conversation that loses its last key, and has no id, is removed with what was kept for it."""
    early = bridge.resolve(gateway_session_key="chat")
    write(bridge, early, a=1)

    after = bridge.rotate(None, "s1", continues=False, gateway_session_key="chat")

    assert after != early
    assert bridge.get(early.id) is None
    assert read(bridge, early) is None


# Sub-agents


def test_a_sub_agent_has_a_conversation_of_its_own(bridge: Bridge) -> None:
    """It has its parent's key and root, lists neither, and moves no key."""
    parent = bridge.resolve(gateway_session_key="chat", session_id="s1")

    child = bridge.resolve(session_id="c1", parent_session_id="s1")
    grandchild = bridge.resolve(session_id="g1", parent_session_id="c1")

    assert (child.parent, child.root, child.gateway_key, child.gateway_keys) == (parent.id, parent.id, "chat", ())
    assert (grandchild.parent, grandchild.root, grandchild.gateway_key) == (child.id, parent.id, "chat")
    assert bridge.find(gateway_session_key="chat") == parent


def test_a_sub_agent_with_a_key_moves_none(bridge: Bridge) -> None:
    """A key that is given with a sub-agent stays where it is; where the parent has none it is what is inherited."""
    parent = bridge.resolve(gateway_session_key="chat", session_id="s1")

    child = bridge.resolve(gateway_session_key="chat", session_id="c1", parent_session_id="s1")
    other = bridge.resolve(gateway_session_key="phone", session_id="c2", parent_session_id="s2")

    assert (child.gateway_keys, child.gateway_key) == ((), "chat")
    assert bridge.find(gateway_session_key="chat") == parent
    assert (other.gateway_keys, other.gateway_key) == ((), "phone")
    assert bridge.find(gateway_session_key="phone") is None


def test_a_parent_that_was_never_seen_is_made(bridge: Bridge) -> None:
    """The parent's id leads to a conversation once its sub-agent is known, the same when it is seen itself."""
    child = bridge.resolve(session_id="c1", parent_session_id="s1")

    parent = bridge.resolve(gateway_session_key="chat", session_id="s1")

    assert child.parent == child.root == parent.id


def test_a_parent_that_is_learnt_later_is_filled_in(bridge: Bridge) -> None:
    """A session that was seen before anybody said whose sub-agent it is has that parent from then on."""
    early = bridge.resolve(session_id="c1")
    parent = bridge.resolve(gateway_session_key="chat", session_id="s1")

    child = bridge.resolve(session_id="c1", parent_session_id="s1")

    assert (child, child.parent, child.root, child.gateway_key) == (early, parent.id, parent.id, "chat")
    assert bridge.find(session_id="c1").parent == parent.id  # type: ignore[union-attr]


def test_the_first_parent_stays(bridge: Bridge) -> None:
    """A sub-agent is not handed to another parent."""
    child = bridge.resolve(session_id="c1", parent_session_id="s1")

    assert bridge.resolve(session_id="c1", parent_session_id="s2").parent == child.parent


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


def test_a_session_is_no_sub_agent_of_its_own(bridge: Bridge) -> None:
    """A session, or another id of the same conversation, is not its own parent."""
    bridge.rotate("s1", "s2", continues=True)

    for parent in ("s1", "s2"):
        found = bridge.resolve(session_id="s2", parent_session_id=parent)
        assert (found.parent, found.root) == (None, found.id)


def test_a_sub_agent_outlives_its_parent(bridge: Bridge) -> None:
    """A parent that is forgotten leaves its sub-agents, and its id in them, which leads to nothing."""
    parent = bridge.resolve(session_id="s1")
    child = bridge.resolve(session_id="c1", parent_session_id="s1")

    bridge.forget(parent)

    assert bridge.resolve(session_id="c1") == child
    assert bridge.resolve(session_id="c1").parent == parent.id
    assert bridge.get(parent.id) is None


# Forgetting


@pytest.mark.parametrize("by", ["conversation", "session_id", "gateway_session_key"])
def test_what_is_forgotten_is_gone(bridge: Bridge, by: str) -> None:
    """The conversation, all of its ids and keys, and what is kept for it are deleted; what comes next is fresh."""
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    talk = bridge.rotate("s1", "s2", continues=True)
    other = bridge.resolve(session_id="other")
    write(bridge, talk, a=1)
    named = {"conversation": talk, "session_id": "s1", "gateway_session_key": "chat"}

    assert bridge.forget(**{by: named[by]}) is True  # type: ignore[arg-type]

    assert [*bridge.conversations()] == [other]
    assert [bridge.find(session_id=id) for id in ("s1", "s2")] == [None, None]
    assert bridge.find(gateway_session_key="chat") is None
    assert bridge.get(talk.id) is None
    assert read(bridge, talk) is None
    fresh = bridge.resolve(gateway_session_key="chat", session_id="s1")
    assert fresh != talk
    assert read(bridge, fresh) == {}
    assert bridge.forget(talk) is False


def test_forgetting_what_is_not_there_is_false(bridge: Bridge) -> None:
    """Nothing is made by it, either."""
    assert bridge.forget(session_id="s1") is False
    assert bridge.forget(gateway_session_key="chat") is False
    assert [*bridge.conversations()] == []
