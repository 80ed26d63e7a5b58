"""A bridge in use: what turns teach it, which conversation each has, and what a failing store does to them: nothing."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import ctxruntime as ctx
from ctxruntime import conversation, guarding
from ctxruntime.conversation import (
    CONVERSATION_ID,
    Bridge,
    Conversation,
    ConversationGoneError,
    ConversationState,
    MemoryStore,
    NoConversationError,
    StoreUnavailableError,
    current,
    outage,
    turns,
    use,
)
from ctxruntime.conversation.stores.base import Look, Ref
from ctxruntime.layers import SUBSCRIBERS, Layer
from ctxruntime.subscriptions import subscribe

notes = ConversationState("notes")


@pytest.fixture(autouse=True)
def nothing_is_left_in_use() -> Iterator[None]:
    before = SUBSCRIBERS.copy()
    yield
    assert before == SUBSCRIBERS
    assert turns.in_use() is None
    gc.collect()
    assert turns._HELD == {}


@pytest.fixture
def faults() -> Iterator[dict[str, int]]:
    """Return the faults of ours that were caught before, and have none be new at the end."""
    before = guarding.fault_counts()
    yield before
    assert guarding.fault_counts() == before


@pytest.fixture
def chat(faults: dict[str, int]) -> Iterator[Bridge]:
    """Return a bridge over memory that is in use."""
    bridge = Bridge()
    with use(bridge):
        yield bridge


class Slow:
    """A store that blocks: each look takes a while, in which `looking` is set."""

    blocks: ClassVar[bool] = True

    def __init__(self, seconds: float = 0.05) -> None:
        self.memory = MemoryStore()
        self.seconds = seconds
        self.looking = threading.Event()
        self.threads: set[int] = set()
        self.error: Exception | None = None
        self.calls = 0

    def look(self, namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
        self.calls += 1
        self.threads.add(threading.get_ident())
        self.looking.set()
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return self.memory.look(namespace, refs, ids)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)


class Down(Slow):
    """A store that does not block, and is down while it has an error."""

    blocks: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(0)
        self.error = StoreUnavailableError("the store", "did not answer", "start it")


def bridge_over(store: Any) -> Bridge:
    return Bridge(store)


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


# Every form


def learn() -> str:
    """Learn an id in the turn of a chat; return the conversation."""
    ctx.amend(session_id="s1")
    return here()


def by_with() -> str:
    with ctx.session(gateway_session_key="chat"):
        return learn()


def by_turn_amend() -> str:
    with ctx.session(gateway_session_key="chat") as turn:
        turn.amend(session_id="s1")
        return here()


def by_async_with() -> str:
    async def main() -> str:
        async with ctx.session(gateway_session_key="chat"):
            return learn()

    return asyncio.run(main())


def by_open() -> str:
    scope = ctx.session(gateway_session_key="chat")
    scope.open()
    try:
        return learn()
    finally:
        scope.close()


def by_entering_again() -> str:
    scope = ctx.session(gateway_session_key="chat")
    with scope, scope:
        return learn()


def by_function() -> str:
    return ctx.session(gateway_session_key="chat")(learn)()


def by_computing() -> str:
    @ctx.session(gateway_session_key=lambda key: key)
    def handle(key: str) -> str:
        return learn()

    return handle("chat")


def by_coroutine() -> str:
    @ctx.session(gateway_session_key="chat")
    async def handle() -> str:
        return learn()

    return asyncio.run(handle())


def by_generator() -> str:
    @ctx.session(gateway_session_key="chat")
    def steps() -> Iterator[str]:
        yield here()
        yield learn()

    first, second = steps()
    assert first == second
    return first


def by_async_generator() -> str:
    @ctx.session(gateway_session_key="chat")
    async def steps() -> AsyncIterator[str]:
        yield here()
        yield learn()

    async def main() -> str:
        first, second = [step async for step in steps()]
        assert first == second
        return first

    return asyncio.run(main())


def by_join() -> str:
    with ctx.session(gateway_session_key="chat"), ctx.session.join(gateway_session_key="chat", session_id="s1"):
        return here()


def by_joining_first() -> str:
    with ctx.session.join(gateway_session_key="chat", session_id="s1"):
        return here()


def by_async_join() -> str:
    async def main() -> str:
        joined = ctx.session.join(gateway_session_key="chat", session_id="s1")
        async with ctx.session(gateway_session_key="chat"), joined:
            return here()

    return asyncio.run(main())


def by_bind() -> str:
    with ctx.bind(gateway_session_key="chat", session_id="s1"):
        return here()


def by_bind_outside_a_turn() -> str:
    with ctx.bind(gateway_session_key="chat", session_id=None):
        return learn()


def by_bound_function() -> str:
    return ctx.bind(gateway_session_key="chat", session_id="s1")(here)()


def by_keys() -> str:
    with ctx.session({ctx.GATEWAY_SESSION_KEY: "chat", ctx.SESSION_ID: "s1"}):
        return here()


FORMS = [
    *(by_with, by_turn_amend, by_async_with, by_open, by_entering_again, by_function, by_computing, by_coroutine),
    *(by_generator, by_async_generator, by_join, by_joining_first, by_async_join, by_bind, by_bind_outside_a_turn),
    *(by_bound_function, by_keys),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_of_entering_and_amending_teaches_the_bridge(chat: Bridge, form: Callable[[], str]) -> None:
    """However a turn is entered, and learns its id, the bridge binds the chat to that session."""
    conversation = form()

    found = chat.find(gateway_session_key="chat")
    assert found is not None
    assert found == chat.find(session_id="s1")
    assert (found.id, found.gateway_keys, found.session_ids) == (conversation, ("chat",), ("s1",))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_is_in_its_conversation_with_a_store_that_blocks(faults: dict[str, int], form: Any) -> None:
    """The same holds where entering may have to wait for the store."""
    bridge = bridge_over(Slow(0))
    with use(bridge):
        conversation = form()

    found = bridge.find(gateway_session_key="chat", session_id="s1")
    assert found is not None
    assert (found.id, found.session_ids) == (conversation, ("s1",))


def test_the_conversation_is_bound_where_the_identity_is(chat: Bridge) -> None:
    """Copied tasks and threads that were started before the id was known see the conversation that it decides."""

    async def main() -> None:
        amended = asyncio.Event()

        async def waiting() -> str:
            assert not CONVERSATION_ID.is_bound()
            await amended.wait()
            return here()

        with ctx.session(user_id="u1"):
            task, context = asyncio.create_task(waiting()), contextvars.copy_context()
            await asyncio.sleep(0)
            ctx.amend(session_id="s1")
            amended.set()
            assert await task == here() == ctx.current()["conversation_id"]
            seen: list[str] = []
            thread = threading.Thread(target=lambda: context.run(lambda: seen.append(here())))
            thread.start()
            thread.join()
            assert seen == [here()]

    asyncio.run(main())


def test_another_subscriber_is_told_of_the_conversation(chat: Bridge) -> None:
    """Binding the conversation is an amend: telemetry is told it, with the scope."""

    class Recorder:
        told: ClassVar[list[tuple[str, list[str]]]] = []

        def entered(self, layer: Layer) -> None: ...

        def amended(self, layer: Layer, keys: Sequence[ctx.Key[Any]]) -> None:
            self.told.append((type(layer).__name__, [key.name for key in keys]))

    unsubscribe = subscribe(Recorder())
    with ctx.session(session_id="s1"), ctx.bind(session_id="child"):
        pass
    unsubscribe()

    assert Recorder.told == [("Turn", ["conversation_id"]), ("Bound", ["conversation_id"])]


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


def test_of_identities_that_are_amended_at_once_the_last_decides(faults: dict[str, int]) -> None:
    """A turn that is told another id while the store looks for the first has the conversation of the last one."""
    store = Down()
    store.error = None
    bridge = bridge_over(store)
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


# A store that fails


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(outage, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def turn_of_everything() -> None:
    """Enter, amend and leave in many ways; nothing of it may raise."""
    with ctx.session(gateway_session_key="chat"):
        ctx.amend(session_id="s1")
        with ctx.bind(session_id="child"):
            ctx.amend(session_id="child-2")
        with ctx.session.join(gateway_session_key="chat", session_id="s2") as turn:
            turn.amend(session_id=None)
            assert current() is None
    asyncio.run(turn_of_a_coroutine())


@ctx.session(session_id="s3")
async def turn_of_a_coroutine() -> None:
    async with ctx.session(session_id="s4"):
        assert current() is None


def test_a_store_that_fails_never_breaks_a_turn(
    faults: dict[str, int], clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Entering, amending and leaving work without a conversation, the store is asked once, and one line is logged."""
    store = Down()
    with caplog.at_level(logging.WARNING), use(bridge_over(store)):
        turn_of_everything()

    assert store.calls == 1
    (record,) = caplog.records
    assert "conversation" in record.getMessage()
    assert "did not answer" in record.getMessage()
    assert record.name == "ctxruntime"


def test_a_store_with_a_bug_never_breaks_a_turn(caplog: pytest.LogCaptureFixture) -> None:
    """A plain error out of a store is caught by the guard, which logs it once, with its site."""
    store, site = Down(), "conversation: the conversation of a turn"
    store.error = ZeroDivisionError("a bug")
    before = guarding.fault_counts().get(site, 0)
    with use(bridge_over(store)):
        turn_of_everything()

    assert guarding.fault_counts()[site] - before == store.calls > 5


def test_a_store_that_blocks_and_fails_breaks_no_turn_either(faults: dict[str, int], clock: Clock) -> None:
    """Doors that wait for their store let in when it fails."""
    store = Slow(0)
    store.error = StoreUnavailableError("the store", "did not answer", "start it")
    with use(bridge_over(store)):
        asyncio.run(turn_of_a_coroutine())
        turn_of_everything()

    assert store.calls == 1


def test_a_store_that_failed_is_left_alone_for_longer_and_longer(
    faults: dict[str, int], clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The pause is half a second, doubled to 30 with each failure; then the store is asked once, whoever comes."""
    store, began = Down(), clock.now
    asked: list[float] = []
    with caplog.at_level(logging.WARNING), use(bridge_over(store)):
        while clock.now < began + 100:
            before = store.calls
            for _ in range(3):
                with ctx.session(session_id="s1"):
                    pass
            asked += [clock.now - began] * (store.calls - before)
            clock.now += 0.25

    assert asked == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5, 91.5]
    assert len(caplog.records) == 1


def test_a_store_that_answers_again_is_asked_again(
    faults: dict[str, int], clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """After the pause turns have conversations again; the next failure is logged, and begins with a short pause."""
    store = Down()
    error, bridge = store.error, bridge_over(store)
    with caplog.at_level(logging.WARNING), use(bridge):
        for _ in range(4):
            with ctx.session(session_id="s1"):
                assert current() is None
            clock.now += 31
        store.error = None
        with ctx.session(session_id="s1"):
            assert here()
        store.error = error
        with ctx.session(session_id="s2"):
            assert not CONVERSATION_ID.is_bound()
        store.error = None
        clock.now += 0.5
        with ctx.session(session_id="s2"):
            assert here()

    assert len(caplog.records) == 2


def test_an_answer_to_anybody_ends_the_pause(faults: dict[str, int], clock: Clock) -> None:
    """Where a state is asked for while the store is left alone, and it answers, turns have conversations again."""
    store = Down()
    with use(bridge_over(store)):
        with ctx.session(session_id="s1"):
            store.error = None
            notes["a"] = 1
            assert here()
        with ctx.session(session_id="s1"):
            assert here()


def test_state_raises_the_stores_error(faults: dict[str, int], clock: Clock) -> None:
    """In a turn whose conversation is not known as the store fails, `ConversationState` raises what the store does."""
    store = Down()
    with use(bridge_over(store)), ctx.session(session_id="s1"):
        with pytest.raises(StoreUnavailableError, match="did not answer"):
            notes.items()
        assert current() is None


def enter_and_leave(session_id: str) -> None:
    with ctx.session(session_id=session_id):
        pass


def test_turns_that_come_at_once_wait_once(faults: dict[str, int], clock: Clock) -> None:
    """Failures of calls that were made at one time are one failure: the pause is not doubled for each."""
    store, together = Down(), threading.Barrier(8)
    look = store.look

    def looking(namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
        together.wait(10)
        return look(namespace, refs, ids)

    store.look = looking  # type: ignore[method-assign]  # one that fails for all at once
    with use(bridge_over(store)):
        in_threads(8, lambda number: enter_and_leave(f"s{number}"))
        assert store.calls == 8
        store.look, store.error = look, None  # type: ignore[method-assign]  # as above
        clock.now += 0.5
        with ctx.session(session_id="s1"):
            assert here()


def test_one_of_those_who_come_after_a_pause_tries_the_store(faults: dict[str, int], clock: Clock) -> None:
    """While one turn waits for a store that failed before, the others go on without it."""
    store = Down()
    with use(bridge_over(store)):
        with ctx.session(session_id="s1"):
            pass
        clock.now += 5
        look, tried = store.look, list[str]()

        def looking(namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
            if not tried:
                tried.append("once")
                clock.now += 5  # as long as a dead server takes
                with ctx.session(session_id="s2"):
                    assert not CONVERSATION_ID.is_bound()
            return look(namespace, refs, ids)

        store.look = looking  # type: ignore[method-assign]  # one that others come by while it is asked
        with ctx.session(session_id="s3"):
            pass

    assert store.calls == 2


# Event loops


async def ticking(ticks: list[int]) -> None:
    while True:
        ticks.append(threading.get_ident())
        await asyncio.sleep(0.002)


async def while_ticking(work: Callable[[], Any]) -> int:
    """Await work beside a task that ticks; return how often it did."""
    ticks: list[int] = []
    task = asyncio.create_task(ticking(ticks))
    await work()
    task.cancel()
    return len(ticks)


def test_entering_by_async_with_does_not_block_the_loop(faults: dict[str, int]) -> None:
    """While `async with session(...)` waits for a slow store, other tasks run; then the conversation is there."""
    store = Slow(0.2)
    bridge = bridge_over(store)

    async def work() -> None:
        async with ctx.session(gateway_session_key="chat", session_id="s1"):
            assert here() == bridge.get(CONVERSATION_ID.get()).id  # type: ignore[union-attr]  # it is there
            async with ctx.bind(session_id="child"):
                assert CONVERSATION_ID.is_bound()

    with use(bridge):
        store.seconds = 0.05
        assert asyncio.run(while_ticking(work)) > 10
    assert bridge.find(session_id="child") is not None


@pytest.mark.parametrize("door", ["session", "join", "bind"])
def test_a_decorated_coroutine_function_does_not_block_the_loop(faults: dict[str, int], door: str) -> None:
    """It waits for the store before its body begins, whose first line has the conversation."""
    store = Slow(0.1)
    loop_thread = threading.get_ident()
    seen: list[str] = []

    async def body() -> None:
        seen.append(CONVERSATION_ID.get())

    async def work() -> None:
        scope: Any = {"session": ctx.session, "join": ctx.session.join, "bind": ctx.bind}[door]
        await scope(gateway_session_key="chat", session_id="s1")(body)()

    async def joining() -> None:
        async with ctx.session(gateway_session_key="chat"):
            await work()

    with use(bridge_over(store)):
        assert asyncio.run(while_ticking(work if door == "bind" else joining)) > 10
    assert seen == [store.memory.look("default", [("i", "s1")])[1]["i", "s1"]]
    assert loop_thread not in store.threads


def test_sync_doors_in_a_loop_resolve_at_once(faults: dict[str, int]) -> None:
    """A plain `with` on an event loop cannot wait: it blocks, and the conversation is there."""
    store = Slow(0)

    async def main() -> None:
        with ctx.session(session_id="s1"):
            assert here()
            ctx.amend(session_id="s2")
            assert here()

    with use(bridge_over(store)):
        asyncio.run(main())


def test_under_trio_entering_is_synchronous(faults: dict[str, int]) -> None:
    """Where no loop of asyncio runs, `async with` and coroutines resolve at once."""
    trio = pytest.importorskip("trio")
    store = Slow(0)

    @ctx.session(session_id="s2")
    async def decorated() -> str:
        return here()

    async def main() -> None:
        async with ctx.session(session_id="s1"):
            first = here()
            await notes.aset("a", 1)
            assert await notes.aget("a") == 1
        assert await decorated() != first
        assert (await bridge.aresolve(session_id="s1")).id == first

    bridge = bridge_over(store)
    with use(bridge):
        trio.run(main)
    assert store.threads == {threading.get_ident()}


def test_a_turn_that_is_cancelled_while_it_waits_leaves_nothing(faults: dict[str, int]) -> None:
    """Cancelled before it was let in, the scope is left; a turn that it would have amended asks anew."""
    store = Slow(0)
    bridge = bridge_over(store)

    async def join() -> None:
        async with ctx.session.join(gateway_session_key="chat", session_id="s2"):
            pytest.fail("it was let in")

    async def main() -> None:
        async with ctx.session(gateway_session_key="chat", session_id="s1") as turn:
            before = here()
            store.seconds = 0.1
            store.looking.clear()
            task = asyncio.create_task(join())
            assert await asyncio.to_thread(store.looking.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert turn.joined == 0
            assert not CONVERSATION_ID.is_bound()
            await notes.aset("a", 1)
            assert here() != before
        assert turn.ended

    with use(bridge):
        asyncio.run(main())
    assert notes_in(bridge, "s2") == [("a", 1)]


def notes_in(bridge: Bridge, session_id: str) -> list[tuple[str, Any]]:
    found = bridge.find(session_id=session_id)
    assert found is not None
    return ConversationState("notes", bridge=bridge).at(found).items()


# Threads and memory


def in_threads(many: int, work: Callable[[int], object]) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001  # it is raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def test_many_threads_share_one_bridge(chat: Bridge) -> None:
    """Turns of eight threads, for chats that they share, are each in the one conversation of their chat."""
    seen: list[set[str]] = [set() for _ in range(10)]

    def work(number: int) -> None:
        for count in range(200):
            chat_of = (count + number) % 10
            with ctx.session(gateway_session_key=f"chat-{chat_of}"):
                ctx.amend(session_id=f"s-{chat_of}")
                seen[chat_of].add(here())
                notes.update(lambda items: items.update(n=items.get("n", 0) + 1))

    in_threads(8, work)

    assert [len(ids) for ids in seen] == [1] * 10
    total = sum(dict(notes_in(chat, f"s-{number}"))["n"] for number in range(10))
    assert total == 8 * 200


def test_turns_leave_nothing_behind(chat: Bridge) -> None:
    """A hundred thousand turns, each with a conversation, leave no entry and no cycle: nothing for the collector."""
    gc.collect()
    gc.disable()
    try:
        for number in range(100_000):
            with ctx.session(session_id=f"s{number % 100}"):
                pass
        assert turns._HELD == {}
        for number in range(100):
            with ctx.session(gateway_session_key="chat", session_id=f"s{number}"), ctx.bind(session_id="child"):
                ctx.amend(session_id=f"child-{number}")
        before = gc.collect()
    finally:
        gc.enable()

    assert (before, turns._HELD) == (0, {})


def test_the_package_lists_what_turns_offer() -> None:
    """`use` and `current` are where users look for them."""
    assert (conversation.use, conversation.current, conversation.Conversation) == (use, current, Conversation)
