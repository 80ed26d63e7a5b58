"""Every form of entering and amending, and where the conversation is bound."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest

import ctxruntime as ctx
from ctxruntime.conversation import (
    CONVERSATION_ID,
    Bridge,
    ConversationState,
    current,
    use,
)
from ctxruntime.layers import Layer
from ctxruntime.subscriptions import subscribe

notes = ConversationState("notes")


def here() -> str:
    found = current()
    assert found is not None
    assert CONVERSATION_ID.get() == found.id
    return found.id


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
def test_every_form_is_in_its_conversation_with_a_store_that_blocks(
    faults: dict[str, int], form: Any, slow: Any
) -> None:
    """The same holds where entering may have to wait for the store."""
    bridge = Bridge(slow(0))
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
