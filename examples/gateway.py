"""A chat gateway on asyncio: chats served at once, plugins that name what they need, state of each session.

Prints:
    dm:7 <- your list: milk
    dm:9 <- your list: a surprise party
    dm:7 <- rain, in dm:7
    dm:9 <- sun, in dm:9
    dm:7 <- your list: milk, bread
    dm:9 <- hello
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import ctxruntime as ctx

# Plugins, by authors who import nothing.

lists: dict[str, list[str]] = {}


def todo(args: str, session_id: str) -> str:
    """Keep a list of each session: without a session there is an error, and no list that all share."""
    lists.setdefault(session_id, []).append(args)
    return f"your list: {', '.join(lists[session_id])}"


async def weather(args: str, *, gateway_session_key: str | None = None) -> str:
    """Look something up, while others are served."""
    await asyncio.sleep(0)
    return f"{args}, in {gateway_session_key}"


def echo(args: str) -> str:
    """Take what handlers have always taken."""
    return args


# The host: handlers are adapted when they are registered, and events are let in through a session.

PLUGINS: dict[str, Callable[..., object]] = {"todo": todo, "weather": weather, "echo": echo}
HANDLERS = {command: ctx.adapt(handler) for command, handler in PLUGINS.items()}
sessions: dict[str, str] = {}


@dataclass(frozen=True)
class Event:
    """A message, and the chat that it came from."""

    chat: str
    text: str


@ctx.session(frontend="gateway", gateway_session_key=lambda event: event.chat)
async def on_message(event: Event) -> None:
    """Answer a message: the chat's key is known at the door, its session a moment later."""
    ctx.amend(session_id=sessions.setdefault(event.chat, f"session-{len(sessions)}"))
    command, _, args = event.text.partition(" ")
    answer = await ctx.acall(HANDLERS[command], args)
    print(f"{event.chat} <- {answer}")


async def main() -> None:
    """Serve both chats at the same time, a message each per round."""
    for texts in (
        ("todo milk", "todo a surprise party"),
        ("weather rain", "weather sun"),
        ("todo bread", "echo hello"),
    ):
        await asyncio.gather(*map(on_message, map(Event, ("dm:7", "dm:9"), texts)))


if __name__ == "__main__":
    asyncio.run(main())
