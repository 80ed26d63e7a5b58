"""The host: a registry of handlers that others wrote, and the place where they are called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager

from ctxruntime.demo.plugins import Answer, Handler
from ctxruntime.demo.wiring import Wiring


class Host:
    """What the frontends share.

    Args:
        handlers: what plugins registered, by command.
        wiring: `ctx.session` and `ctx.adapt`, or what is there without them.
        meet: for the demo alone. It is called in each turn before the handler is, and returns when every
            conversation has a turn open: what keeps one session for all cannot be right then.
    """

    def __init__(self, handlers: Mapping[str, Handler], wiring: Wiring, meet: Callable[[], object]) -> None:
        self.session: Callable[..., AbstractContextManager[object]] = wiring.session
        # Once per handler, as it is registered; from here on it is called as it always was.
        self._commands = {command: wiring.adapt(handler) for command, handler in handlers.items()}
        self._meet = meet

    def handle(self, line: str) -> str:
        """Answer one line; for frontends on threads."""
        self._meet()
        try:
            answer = self._call(line)
            return answer if isinstance(answer, str) else asyncio.run(_settled(answer))
        except Exception as error:  # noqa: BLE001  # a plugin's fault is an answer, and no end of the host
            return _fault(line, error)

    async def ahandle(self, line: str) -> str:
        """Answer one line; for frontends on asyncio."""
        await asyncio.to_thread(self._meet)
        try:
            return await _settled(self._call(line))
        except Exception as error:  # noqa: BLE001  # as above
            return _fault(line, error)

    def _call(self, line: str) -> Answer:
        command, _, raw_args = line.removeprefix("/").partition(" ")
        return self._commands[command](raw_args)


async def _settled(answer: Answer) -> str:
    """Wait for the whole of an answer."""
    if isinstance(answer, Awaitable):
        return await answer
    if isinstance(answer, AsyncIterator):
        return "".join([piece async for piece in answer])
    return "".join(answer)


def _fault(line: str, error: Exception) -> str:
    _, _, raw_args = line.partition(" ")
    return f"{raw_args} -> plugin error: {type(error).__name__}"
