"""How the facts of a session are read from Hermes's own objects; nothing here changes anything.

Read from hermes-agent 0.19.0. To Hermes "" is unknown, and so is it to whoever calls these.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, Protocol

from . import _host

__all__ = [
    "Agent",
    "Cli",
    "Event",
    "Gateway",
    "Source",
    "agent_key",
    "cli_session_id",
    "gateway_key",
    "gateway_session_id",
    "is_subagent",
    "parent_of",
    "source_variables",
    "text",
    "tui_session",
    "tui_session_id",
]


class Cli(Protocol):
    """``cli.HermesCLI``: its id exists before any agent, and follows /new, /resume, /branch, /compress."""

    session_id: object


class Source(Protocol):
    """``gateway.session.SessionSource``: where a message came from, as its platform said."""

    platform: object
    chat_id: object
    thread_id: object
    user_id: object


class Event(Protocol):
    """``gateway.platforms.base.MessageEvent``."""

    source: Source


class Gateway(Protocol):
    """``gateway.run.GatewayRunner``."""

    session_store: Any  # SessionStore, whose members differ between versions
    _running_agents: Mapping[str, object]

    def _session_key_for_source(self, source: Source, /) -> object: ...


class Agent(Protocol):
    """``run_agent.AIAgent``: what it knows of the chat is in private attributes, which not every version has."""

    session_id: object


def text(value: object) -> object:
    """Return an id as text, which some platforms give as a number, and an enum's member as its value."""
    value = getattr(value, "value", value)
    return str(value) if type(value) is int else value


def cli_session_id(cli: Cli) -> object:
    """Return the id of the session that the command line is in."""
    return cli.session_id


def gateway_key(gateway: Gateway, source: Source) -> object:
    """Return the key of a message's chat, as the runner knows it; the adapter's own ignores profiles."""
    return gateway._session_key_for_source(source)  # pyright: ignore[reportPrivateUsage] # no public one


def gateway_session_id(gateway: Gateway, source: Source) -> object:
    """Return the id of the chat's session as of now, without making one.

    A running agent knows best, as a compression in its turn reaches the store only when the turn ends. The
    next message may still give the chat another id (an automatic reset).
    """
    key = str(gateway_key(gateway, source))
    # Where the agent is not built yet, a sentinel without an id is in its place.
    running = gateway._running_agents.get(key)  # pyright: ignore[reportPrivateUsage] # no public one
    if session_id := getattr(running, "session_id", None):
        return session_id
    store = gateway.session_store
    peek = getattr(store, "peek_session_id", None)  # since 0.18.2
    if peek is not None:
        return peek(key)
    return getattr(store._entries.get(key), "session_id", None)


_OF_SOURCE: Final = ("platform", "chat_id", "chat_name", "thread_id", "user_id", "user_name", "message_id", "profile")


def source_variables(source: Source) -> dict[str, str]:
    """Return what Hermes's own variables of a turn say of a message's source."""
    values = ((name, text(getattr(source, name, None))) for name in _OF_SOURCE)
    return {f"HERMES_SESSION_{name.upper()}": value if isinstance(value, str) else "" for name, value in values}


def tui_session(request: Any) -> tuple[str, Mapping[str, Any]] | None:  # Any: what a client sent, and the host's
    """Return the UI's short id of the session that a request names, and the host's record of it."""
    params: Any = request.get("params") if hasattr(request, "get") else None
    ui_id: object = params.get("session_id") if hasattr(params, "get") else None
    if not isinstance(ui_id, str):
        return None
    session = sys.modules[_host.TUI.module]._sessions.get(ui_id)
    return None if session is None else (ui_id, session)


def tui_session_id(request: Any) -> object:  # Any: what a client sent
    """Return the id of the session that a request names, or None."""
    found = tui_session(request)
    if found is None:
        return None
    # Without an agent (not built yet, or in a process of its own) the session's key is its id.
    return getattr(found[1].get("agent"), "session_id", None) or found[1].get("session_key")


def agent_key(agent: Agent) -> object:
    """Return the gateway key that an agent was made with, or None."""
    return getattr(agent, "_gateway_session_key", None)


def is_subagent(agent: Agent) -> bool:
    """Tell whether another agent has made this one to do a part of its work."""
    return getattr(agent, "_delegate_depth", 0) > 0


def parent_of(agent: Agent) -> str | None:
    """Return the session in which a sub-agent was made, if that is known."""
    parent = getattr(agent, "_parent_session_id", None)
    return parent if isinstance(parent, str) and parent else None
