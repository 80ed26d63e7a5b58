"""What the doors do where a store is slow, and where ours fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from ctxruntime_integrations.hermes import entrypoints

import ctxruntime
from ctxruntime.conversation import Bridge, MemoryStore, use

pytestmark = [pytest.mark.hermes, pytest.mark.usefixtures("disarmed")]


class Server(MemoryStore):
    """Stands for one to wait for: it notes who does."""

    blocks: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.waited: set[threading.Thread] = set()

    def look(self, namespace: str, refs: Sequence[Any], ids: Sequence[str] = ()) -> Any:
        self.waited.add(threading.current_thread())
        return super().look(namespace, refs, ids)


def gateway() -> Any:
    """What is read of the host's: a chat whose session has not been seen in this process."""
    store = SimpleNamespace(peek_session_id=lambda key: "s1")
    return SimpleNamespace(session_store=store, _running_agents={}, _session_key_for_source=lambda source: "k")


def test_loop_of_the_gateway_does_not_wait_for_a_server() -> None:
    """Neither at a message's door nor at its agent's, where an automatic reset gives the chat another session."""
    seen: list[dict[str, object]] = []
    store = Server()
    source = SimpleNamespace(platform="telegram", chat_id="c", user_id="u")

    async def _run_agent(*_: object, **__: object) -> None:
        seen.append(dict(ctxruntime.current()))

    async def _handle_message(runner: Any, event: Any) -> None:
        seen.append(dict(ctxruntime.current()))
        await entrypoints.gateway_agent_entry(_run_agent)(runner, "hello", "", [], event.source, "s2", "k")

    with use(Bridge(store)):
        asyncio.run(entrypoints.gateway_entry(_handle_message)(gateway(), SimpleNamespace(source=source)))

    assert [(at["session_id"], at["gateway_session_key"]) for at in seen] == [("s1", "k"), ("s2", "k")]
    assert all("conversation_id" in at for at in seen)
    assert store.waited
    assert threading.current_thread() not in store.waited


def test_message_that_cannot_be_entered_has_no_session_and_none_of_a_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever door fails, its call goes on with nothing in effect, and what was there before is there after it."""

    def fail(*_: object, **__: object) -> Any:
        raise RuntimeError("a fault of ours")

    def call(*_: object, **__: object) -> None:
        seen.append(dict(ctxruntime.current()))

    async def message(*_: object, **__: object) -> None:
        call()

    seen: list[dict[str, object]] = []
    monkeypatch.setattr(entrypoints, "session", fail)
    with ctxruntime.session(session_id="neighbour"):
        entrypoints.cli_entry(call)(SimpleNamespace(session_id="s1"), "/where")
        entrypoints.tui_entry(call)({"params": {}})
        asyncio.run(entrypoints.gateway_entry(message)(gateway(), SimpleNamespace(source=None)))
        call()

    assert seen == [{}, {}, {}, {"session_id": "neighbour"}]
