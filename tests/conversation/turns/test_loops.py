"""Turns on event loops and in threads: who waits for the store, and what is left behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime import conversation
from ctxruntime.conversation import (
    CONVERSATION_ID,
    Bridge,
    Conversation,
    ConversationState,
    current,
    use,
)

notes = ConversationState("notes")


def here() -> str:
    found = current()
    assert found is not None
    assert CONVERSATION_ID.get() == found.id
    return found.id


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


def test_entering_by_async_with_does_not_block_the_loop(faults: dict[str, int], slow: Any) -> None:
    """While `async with session(...)` waits for a slow store, other tasks run; then the conversation is there."""
    store = slow(0.2)
    bridge = Bridge(store)

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
def test_a_decorated_coroutine_function_does_not_block_the_loop(faults: dict[str, int], door: str, slow: Any) -> None:
    """It waits for the store before its body begins, whose first line has the conversation."""
    store = slow(0.1)
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

    with use(Bridge(store)):
        assert asyncio.run(while_ticking(work if door == "bind" else joining)) > 10
    assert seen == [store.memory.look("default", [("i", "s1")])[1]["i", "s1"]]
    assert loop_thread not in store.threads


def test_sync_doors_in_a_loop_resolve_at_once(faults: dict[str, int], slow: Any) -> None:
    """A plain `with` on an event loop cannot wait: it blocks, and the conversation is there."""
    store = slow(0)

    async def main() -> None:
        with ctx.session(session_id="s1"):
            assert here()
            ctx.amend(session_id="s2")
            assert here()

    with use(Bridge(store)):
        asyncio.run(main())


def test_under_trio_entering_is_synchronous(faults: dict[str, int], slow: Any) -> None:
    """Where no loop of asyncio runs, `async with` and coroutines resolve at once."""
    trio = pytest.importorskip("trio")
    store = slow(0)

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

    bridge = Bridge(store)
    with use(bridge):
        trio.run(main)
    assert store.threads == {threading.get_ident()}


def test_a_turn_that_is_cancelled_while_it_waits_leaves_nothing(
    faults: dict[str, int], slow: Any, notes_in: Any
) -> None:
    """Cancelled before it was let in, the scope is left; a turn that it would have amended asks anew."""
    store = slow(0)
    bridge = Bridge(store)

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


# Threads and memory


def test_many_threads_share_one_bridge(chat: Bridge, in_threads: Any, notes_in: Any) -> None:
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


HUNDRED_THOUSAND_TURNS = """
import gc
import ctxruntime as ctx
from ctxruntime.conversation import Bridge, turns, use

with use(Bridge()):
    gc.collect()
    gc.disable()
    for number in range(100_000):
        with ctx.session(session_id=f"s{number % 100}"):
            pass
    assert turns._HELD == {}
    for number in range(100):
        with ctx.session(gateway_session_key="chat", session_id=f"s{number}"), ctx.bind(session_id="child"):
            ctx.amend(session_id=f"child-{number}")
    print(gc.collect(), len(turns._HELD))
"""


def test_turns_leave_nothing_behind() -> None:
    """A hundred thousand turns, each with a conversation, leave no entry and no cycle: nothing for the collector."""
    # In a process of its own: threads of other tests may end meanwhile, and leave theirs.
    run = subprocess.run([sys.executable, "-c", HUNDRED_THOUSAND_TURNS], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["0", "0"]


def test_the_package_lists_what_turns_offer() -> None:
    """`use` and `current` are where users look for them."""
    assert (conversation.use, conversation.current, conversation.Conversation) == (use, current, Conversation)
