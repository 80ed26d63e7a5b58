"""Which conversation a turn is in, by what it says of who is served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime.conversation import (
    CONVERSATION_ID,
    Bridge,
    ConversationState,
    NoConversationError,
    current,
)

notes = ConversationState("notes")


def here() -> str:
    found = current()
    assert found is not None
    assert CONVERSATION_ID.get() == found.id
    return found.id


# What is one conversation


def test_state_of_a_chat_is_kept_when_its_session_is_learned(chat: Bridge) -> None:
    """What was set while only the gateway key was known is there in the same turn once it knows its id, and after."""
    with ctx.session(gateway_session_key="chat"):
        notes["a"] = 1
        before = here()
        ctx.amend(session_id="s1")
        assert (notes["a"], here()) == (1, before)

    with ctx.session(session_id="s1"):
        assert (notes["a"], here()) == (1, before)
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        assert (notes["a"], here()) == (1, before)


def test_state_is_kept_over_a_rotation(chat: Bridge) -> None:
    """A session id that was explained as a continuation, before or after it is amended, changes no conversation."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        notes["a"] = 1
        before = here()
        chat.rotate("s1", "s2", continues=True)
        ctx.amend(session_id="s2")
        assert (notes["a"], here()) == (1, before)
        ctx.amend(session_id="s3")
        assert notes.get("a") is None
        chat.rotate("s2", "s3", continues=True)
        assert (notes["a"], here()) == (1, before)


def test_an_id_that_nobody_explained_has_a_fresh_state(chat: Bridge) -> None:
    """After `/new` the chat is in a conversation that knows nothing, and the old one is as it was."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        notes["a"] = 1
        before = here()

    with ctx.session(gateway_session_key="chat", session_id="s2"):
        assert notes.items() == []
        assert here() != before
    with ctx.session(session_id="s1"):
        assert here() == before


def test_a_sub_agent_sees_its_own_state_and_reaches_its_parents(chat: Bridge) -> None:
    """A bind of a session id in a turn is a conversation of its own, whose parent is the turn's."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        notes["a"] = "the parent's"
        parent = here()
        with ctx.bind(session_id="child"):
            child = current()
            assert child is not None
            assert child.parent == child.root == parent != child.id == here()
            assert (child.gateway_key, child.gateway_keys) == ("chat", ())
            assert notes.items() == []
            notes["a"] = "the child's"
            assert notes.at(child.parent)["a"] == "the parent's"
            with ctx.bind(session_id="grandchild"):
                grandchild = current()
                assert grandchild is not None
                assert (grandchild.parent, grandchild.root) == (child.id, parent)
        assert (notes["a"], here()) == ("the parent's", parent)

    assert chat.resolve(gateway_session_key="chat").id == parent


def test_a_sub_agent_has_a_parent_when_only_the_chat_is_known(chat: Bridge) -> None:
    """A turn that knows its gateway key alone is its sub-agents' parent too, and stays it when its id is learned."""
    with ctx.session(gateway_session_key="chat"):
        parent = here()
        with ctx.bind(session_id="child"):
            child = current()
            assert child is not None
            assert child.parent == parent
        ctx.amend(session_id="s1")
        assert here() == parent


def test_a_sub_agents_amend_is_its_own(chat: Bridge) -> None:
    """An id that changes in a sub-agent changes its conversation alone: the turn's and its chat's stay."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        parent = here()
        with ctx.bind(session_id="child"):
            child = here()
            chat.rotate("child", "child-2", continues=True)
            ctx.amend(session_id="child-2")
            assert here() == child
            ctx.amend(session_id="child-3")
            assert here() not in (parent, child)
        assert here() == parent

    found = chat.find(gateway_session_key="chat")
    assert found is not None
    assert (found.id, found.session_ids) == (parent, ("s1",))


def test_a_sub_agent_that_repeats_its_chat_moves_no_key(chat: Bridge) -> None:
    """A bind in a turn that names the turn's own gateway key beside another session is a sub-agent still."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        parent = here()
        with ctx.bind(gateway_session_key="chat", session_id="child"):
            child = current()
            assert child is not None
            assert child.parent == parent

    assert chat.resolve(gateway_session_key="chat").id == parent


def test_a_bind_of_another_chat_is_that_chats(chat: Bridge) -> None:
    """A bind of another gateway key in a turn, with a session or without, is the conversation of that chat."""
    other = chat.resolve(gateway_session_key="other")
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        with ctx.bind(gateway_session_key="other"):
            assert here() == other.id
        with ctx.bind(gateway_session_key="other", session_id="o1"):
            found = current()
            assert found is not None
            assert (found.id, found.parent, found.session_ids) == (other.id, None, ("o1",))
        with ctx.bind(gateway_session_key=None):
            assert here() == chat.resolve(session_id="s1").id


def test_an_unknown_session_has_no_conversation_until_it_is_amended(chat: Bridge) -> None:
    """A bind of None in a turn has no conversation, and never the turn's; what is amended inside is a sub-agent's."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        parent = here()
        scope = ctx.bind(session_id=None)
        for number in range(2):
            with scope:
                assert current() is None
                assert not CONVERSATION_ID.is_bound()
                with pytest.raises(NoConversationError):
                    notes.items()
                ctx.amend(session_id=f"child-{number}")
                found = current()
                assert found is not None
                assert (found.parent, found.session_ids) == (parent, (f"child-{number}",))
                ctx.amend(session_id=None)
                assert current() is None
        assert here() == parent


def test_what_binds_no_identity_is_in_the_conversation_around_it(chat: Bridge) -> None:
    """A bind of other keys, a joined door and a snapshot have the turn's conversation."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        before, snapshot = here(), ctx.capture()
        with ctx.bind(user_id="u1"):
            assert here() == before
        with ctx.session.join(gateway_session_key="chat"):
            assert here() == before
        with ctx.cleared():
            assert current() is None
            with snapshot:
                assert here() == before


# Work that takes the chat's key over


def taking(**own: Any) -> Any:
    return ctx.session(take=(ctx.GATEWAY_SESSION_KEY,), **own)


def job_by_with() -> str:
    with taking(session_id="job"):
        return here()


def job_by_open() -> str:
    scope = taking(session_id="job")
    scope.open()
    try:
        return here()
    finally:
        scope.close()


def job_by_function() -> str:
    return str(taking(session_id="job")(here)())


def job_by_computing() -> str:
    @ctx.session(session_id=lambda id: id, take=(ctx.GATEWAY_SESSION_KEY,))
    def job(id: str) -> str:
        return here()

    return job("job")


def job_by_coroutine() -> str:
    @taking(session_id="job")
    async def job() -> str:
        return here()

    return asyncio.run(job())


def job_by_amend() -> str:
    with taking():
        ctx.amend(session_id="job")
        return here()


JOBS = [job_by_with, job_by_open, job_by_function, job_by_computing, job_by_coroutine, job_by_amend]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_a_job_with_an_id_of_its_own_does_not_move_the_chat(chat: Bridge, job: Callable[[], str]) -> None:
    """Work that took the chat's key over, and has its own session, is in that session's conversation alone."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        before = here()
        assert job() != before

    assert chat.resolve(gateway_session_key="chat").id == before
    found = chat.find(session_id="job")
    assert found is not None
    assert found.gateway_keys == ()


def test_a_job_of_the_chat_is_in_the_chats_conversation(chat: Bridge) -> None:
    """Work that took the key over, and knows no session, is in the conversation of the chat."""
    with ctx.session(gateway_session_key="chat", session_id="s1"), taking():
        assert here() == chat.resolve(session_id="s1").id


def test_what_was_taken_over_late_does_not_move_the_chat_back(chat: Bridge) -> None:
    """Work that took key and id of a turn over is in that id's conversation, and the chat stays where it has moved."""
    with ctx.session(gateway_session_key="chat", session_id="s1"):
        before = here()
        chat.rotate("s1", "s2", continues=False)
        with ctx.session(take=(ctx.GATEWAY_SESSION_KEY, ctx.SESSION_ID)):
            assert here() == before

    assert chat.resolve(gateway_session_key="chat") == chat.resolve(session_id="s2") != chat.resolve(session_id="s1")


def test_a_key_that_is_amended_is_not_taken_over_any_more(chat: Bridge) -> None:
    """Work that is told its own chat after it took one over is bound to that."""
    with ctx.session(gateway_session_key="chat"), taking(session_id="job"):
        ctx.amend(gateway_session_key="jobs")
        assert here() == chat.resolve(gateway_session_key="jobs").id
