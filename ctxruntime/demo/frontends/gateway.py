"""A chat gateway on asyncio: each message is a task, and the chats' tasks take turns in one thread."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ctxruntime.demo.host import Host

Send: TypeAlias = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Message:
    """What a chat platform delivers."""

    chat: str
    text: str


class Gateway:
    """The gateway, which knows the session of each chat."""

    def __init__(self, host: Host, sessions: Mapping[str, str], send: Send) -> None:
        self._host = host
        self._sessions = sessions
        self._send = send
        self._queues: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self, messages: Iterable[Message]) -> None:
        """Serve all messages at the same time, but those of one chat one after the other."""
        async with asyncio.TaskGroup() as tasks:
            for message in messages:
                tasks.create_task(self._on_message(message))

    async def _on_message(self, message: Message) -> None:
        async with self._queues[message.chat]:
            # The entry point. A chat has its key before it has a session: None is "not known yet".
            with self._host.session(
                gateway_session_key=message.chat,
                session_id=self._sessions.get(message.chat),
                frontend="gateway",
            ):
                await self._send(message.chat, await self._host.ahandle(message.text))
