"""What we touch in Hermes, and how its facts are read; nothing here changes anything.

Read from hermes-agent 0.19.0. The names of ``POINTS`` are in 0.13.0 to 0.19.0. Nothing of Hermes is imported
before it is needed: Hermes may be importing us.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module, metadata
from typing import Any, Final, NamedTuple, Protocol

__all__ = [
    "CLI",
    "COMMAND_LOOKUP",
    "COMMAND_RESULT",
    "GATEWAY",
    "PLUGIN",
    "TUI",
    "Cli",
    "Event",
    "Gateway",
    "PatchPoint",
    "cli_session_id",
    "gateway_key",
    "gateway_session_id",
    "plugin_settings",
    "tui_session_id",
    "version",
]

PLUGIN: Final = "ctxruntime"  # our entry point's name, by which Hermes's configuration knows us


class PatchPoint(NamedTuple):
    """An attribute of the host that we replace; its text is what reports show."""

    module: str
    attribute: str

    def __str__(self) -> str:
        return f"{self.module}.{self.attribute}"


# Looked up in the module at each of the four sites, as each call is made.
COMMAND_LOOKUP: Final = PatchPoint("hermes_cli.plugins", "get_plugin_command_handler")
COMMAND_RESULT: Final = PatchPoint("hermes_cli.plugins", "resolve_plugin_command_result")

CLI: Final = PatchPoint("cli", "HermesCLI.process_command")
# Adapters are wired to the bound method when the gateway has discovered plugins.
GATEWAY: Final = PatchPoint("gateway.run", "GatewayRunner._handle_message")
# Both command.dispatch and slash.exec, inline and in the pool: `dispatch` looks it up per request.
TUI: Final = PatchPoint("tui_gateway.server", "handle_request")


class Cli(Protocol):
    """``cli.HermesCLI``: its id exists before any agent, and follows /new, /resume, /branch, /compress."""

    session_id: object


class Event(Protocol):
    """``gateway.platforms.base.MessageEvent``."""

    source: object


class Gateway(Protocol):
    """``gateway.run.GatewayRunner``."""

    session_store: Any  # SessionStore, whose members differ between versions
    _running_agents: Mapping[str, object]

    def _session_key_for_source(self, source: object, /) -> object: ...


def cli_session_id(cli: Cli) -> object:
    """Return the id of the session that the command line is in."""
    return cli.session_id


def gateway_key(gateway: Gateway, event: Event) -> object:
    """Return the key of the event's chat, as the runner knows it; the adapter's own ignores profiles."""
    return gateway._session_key_for_source(event.source)  # pyright: ignore[reportPrivateUsage] # no public one


def gateway_session_id(gateway: Gateway, event: Event) -> object:
    """Return the id of the chat's session as of now, without making one.

    A running agent knows best, as a compression in its turn reaches the store only when the turn ends. The
    next message may still give the chat another id (an automatic reset).
    """
    key = str(gateway_key(gateway, event))
    # Where the agent is not built yet, a sentinel without an id is in its place.
    running = gateway._running_agents.get(key)  # pyright: ignore[reportPrivateUsage] # no public one
    if session_id := getattr(running, "session_id", None):
        return session_id
    store = gateway.session_store
    peek = getattr(store, "peek_session_id", None)  # since 0.18.2
    if peek is not None:
        return peek(key)
    return getattr(store._entries.get(key), "session_id", None)


def tui_session_id(request: Any) -> object:  # Any: what a client sent
    """Return the id of the session that a request names by the UI's short id for it, or None."""
    ui_id = _entry(_entry(request, "params"), "session_id")
    if not isinstance(ui_id, str):
        return None
    session = sys.modules[TUI.module]._sessions.get(ui_id)
    if session is None:
        return None
    # Without an agent (not built yet, or in a process of its own) the session's key is its id.
    return getattr(session.get("agent"), "session_id", None) or session.get("session_key")


def plugin_settings() -> Mapping[str, object]:
    """Return ``plugins.entries.ctxruntime`` of Hermes's configuration: where a plugin's options are."""
    config = import_module("hermes_cli.config").load_config()
    settings: Mapping[str, object] | None = _entry(_entry(_entry(config, "plugins"), "entries"), PLUGIN)
    return settings or {}


def _entry(mapping: Any, name: str) -> Any:  # Any: what somebody wrote, who may have written no mapping
    return mapping.get(name) if hasattr(mapping, "get") else None


def version() -> str | None:
    """Return the version of the hermes-agent that is installed, or None."""
    try:
        return metadata.version("hermes-agent")
    except metadata.PackageNotFoundError:
        return None
