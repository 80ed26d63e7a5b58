"""What we touch in Hermes: each attribute that we replace, and where our options are.

Read from hermes-agent 0.19.0. Nothing of Hermes is imported before it is needed: Hermes may be importing us.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = [
    "AGENT",
    "AGENT_TOOL",
    "CLI",
    "CLI_CHAT",
    "COMMAND_LOOKUP",
    "COMMAND_RESULT",
    "COMPRESSION",
    "COMPRESSION_OF_AGENT",
    "EVICTION",
    "EVICTION_AND_COMMIT",
    "EXECUTION_MIDDLEWARE",
    "GATEWAY",
    "GATEWAY_AGENT",
    "HOOKS",
    "PLUGIN",
    "REGISTRY_TOOL",
    "REGISTRY_TOOL_OF_AGENT",
    "REQUEST_MIDDLEWARE",
    "SESSION_FOUND",
    "SESSION_RESET",
    "SESSION_SWITCH",
    "TITLE",
    "TOOL",
    "TOOL_ENDED",
    "TOOL_OF_AGENT",
    "TUI",
    "TURN",
    "PatchPoint",
    "argument",
    "home",
    "is_enabled",
    "is_expected",
    "plugin_settings",
    "version",
]

PLUGIN: Final = "ctxruntime"  # our entry point's name, by which Hermes's configuration knows us


class PatchPoint(NamedTuple):
    """An attribute of the host that we replace; its text is what reports show."""

    module: str
    attribute: str
    since: str = "0"  # an older Hermes may not have it, and that is no fault

    def __str__(self) -> str:
        return f"{self.module}.{self.attribute}"


# Looked up in the module at each of the four sites, as each call is made.
COMMAND_LOOKUP: Final = PatchPoint("hermes_cli.plugins", "get_plugin_command_handler")
COMMAND_RESULT: Final = PatchPoint("hermes_cli.plugins", "resolve_plugin_command_result")

CLI: Final = PatchPoint("cli", "HermesCLI.process_command")
CLI_CHAT: Final = PatchPoint("cli", "HermesCLI.chat")
# Adapters are wired to the bound method when the gateway has discovered plugins.
GATEWAY: Final = PatchPoint("gateway.run", "GatewayRunner._handle_message")
# The first place that has a chat's key and its session's id, also for its first message.
GATEWAY_AGENT: Final = PatchPoint("gateway.run", "GatewayRunner._run_agent")
# Both command.dispatch and slash.exec, inline and in the pool: `dispatch` looks it up per request.
TUI: Final = PatchPoint("tui_gateway.server", "handle_request")

# The agent's turn, whoever runs it, and its tools: the methods up to 0.14, which call the functions from 0.15 on.
AGENT: Final = PatchPoint("run_agent", "AIAgent.run_conversation")
TURN: Final = PatchPoint("agent.conversation_loop", "run_conversation", since="0.15.0")
TOOL: Final = PatchPoint("agent.agent_runtime_helpers", "invoke_tool", since="0.15.0")
TOOL_OF_AGENT: Final = PatchPoint("run_agent", "AIAgent._invoke_tool")
# Of the registry and of programs. The agent's module has a name of its own for it, which is ours if we came first,
# and has to be undone second.
REGISTRY_TOOL: Final = PatchPoint("model_tools", "handle_function_call")
REGISTRY_TOOL_OF_AGENT: Final = PatchPoint("run_agent", "handle_function_call")
# The agent's own tools, where they run one after the other.
AGENT_TOOL: Final = PatchPoint("agent.tool_executor", "_run_agent_tool_execution_middleware", since="0.17.0")
# Said of tools that were not let through, too.
TOOL_ENDED: Final = PatchPoint("model_tools", "_emit_post_tool_call_hook", since="0.16.0")
# Starts the thread that asks the model for a title: when the agent's turn has ended, and before the session's next.
TITLE: Final = PatchPoint("agent.title_generator", "maybe_auto_title")

HOOKS: Final = PatchPoint("hermes_cli.plugins", "PluginManager.invoke_hook")
REQUEST_MIDDLEWARE: Final = PatchPoint("hermes_cli.plugins", "PluginManager.invoke_middleware", since="0.17.0")
# Execution kinds do not go through the manager's method.
EXECUTION_MIDDLEWARE: Final = PatchPoint("hermes_cli.middleware", "_get_middleware_callbacks", since="0.17.0")

# Threads that tear an agent down which was kept for another chat than that which needs its place.
EVICTION: Final = PatchPoint("gateway.run", "GatewayRunner._release_evicted_agent_soft")
EVICTION_AND_COMMIT: Final = PatchPoint("gateway.run", "GatewayRunner._commit_then_release_soft", since="0.18.2")

# The method up to 0.14, which calls the function from 0.15 on: what is told twice is told once.
COMPRESSION: Final = PatchPoint("agent.conversation_compression", "compress_context", since="0.15.0")
COMPRESSION_OF_AGENT: Final = PatchPoint("run_agent", "AIAgent._compress_context")
SESSION_FOUND: Final = PatchPoint("gateway.session", "SessionStore.get_or_create_session")
SESSION_RESET: Final = PatchPoint("gateway.session", "SessionStore.reset_session")
SESSION_SWITCH: Final = PatchPoint("gateway.session", "SessionStore.switch_session")


def argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str) -> Any:  # Any: the host's
    """Return an argument of a call of the host's, given by place or by name; None if it is not given."""
    return args[place] if len(args) > place else kwargs.get(name)


def plugin_settings() -> Mapping[str, object]:
    """Return ``plugins.entries.ctxruntime`` of Hermes's configuration: where a plugin's options are."""
    settings: Mapping[str, object] | None = _entry(_entry(_plugins(), "entries"), PLUGIN)
    return settings or {}


def is_enabled() -> bool:
    """Tell whether Hermes's configuration has it load us."""
    return PLUGIN in (_entry(_plugins(), "enabled") or ())


def _plugins() -> Any:
    return _entry(import_module("hermes_cli.config").load_config(), "plugins")


def _entry(mapping: Any, name: str) -> Any:  # Any: what somebody wrote, who may have written no mapping
    return mapping.get(name) if hasattr(mapping, "get") else None


def home() -> Path:
    """Return the folder where Hermes keeps what it knows."""
    return Path(import_module("hermes_constants").get_hermes_home())


def is_expected(point: PatchPoint) -> bool:
    """Tell whether the Hermes that is installed is new enough to have an attribute."""
    return _numbers(version() or point.since) >= _numbers(point.since)


def _numbers(version: str) -> list[int]:
    """Return a version as what can be compared."""
    return [int(number) for number in re.findall(r"\d+", version)]


def version() -> str | None:
    """Return the version of the hermes-agent that is installed, or None."""
    try:
        return metadata.version("hermes-agent")
    except metadata.PackageNotFoundError:
        return None
