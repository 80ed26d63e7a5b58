"""Make the spans that Hermes does not: `invoke_agent` around an agent's turn, `execute_tool` around each tool.

Where OpenTelemetry's SDK is not loaded a call costs one look-up, and its API is not even imported. The spans go to
the global provider, and are current while the turn or the tool runs, so that those of its requests are inside.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from ctxruntime.guarding import guard

from . import _host
from ._doors import Entry

__all__ = ["agent_tool", "agent_turn", "registry_tool", "runtime_tool", "title", "tool_ended"]

SDK: Final = "opentelemetry.sdk.trace"

_loading: Final = guard("hermes spans: load")


def agent_turn(original: Entry) -> Entry:
    """Put a span around ``run_conversation``."""
    return _around(original, "turn_begins")


def runtime_tool(original: Entry) -> Entry:
    """Put a span around ``invoke_tool``, which runs the tools that are called at once."""
    return _around(original, "tool_begins", _of_runtime)


def registry_tool(original: Entry) -> Entry:
    """Put a span around ``handle_function_call``, by which the tools of the registry and of programs go."""
    return _around(original, "tool_begins", _of_registry)


def agent_tool(original: Entry) -> Entry:
    """Put a span around ``_run_agent_tool_execution_middleware``: the agent's own tools, one after the other."""
    return _around(original, "tool_begins", _of_agent)


def tool_ended(original: Entry) -> Entry:
    """Learn from ``_emit_post_tool_call_hook`` of tools that were not run, or not to their end."""

    def _emit_post_tool_call_hook(*args: object, **kwargs: Any) -> object:
        spans = _spans()
        if spans is not None:
            spans.tool_ended(kwargs.get("function_name"), kwargs.get("tool_call_id"), kwargs)
        return original(*args, **kwargs)

    return _emit_post_tool_call_hook


def title(original: Entry) -> Entry:
    """Put the thread of ``maybe_auto_title`` into the trace of the session's turn of an agent, which has just ended."""
    return _around(original, "turn_goes_on", _of_title)


def _around(original: Entry, begin: str, read: Callable[..., tuple[object, ...]] | None = None) -> Entry:
    def call(*args: Any, **kwargs: object) -> object:
        spans = _spans()
        if spans is None:
            return original(*args, **kwargs)
        held = getattr(spans, begin)(*(_agent(args, kwargs) if read is None else read(args, kwargs)))
        if held is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            held.failed(error)
            raise
        held.returned(result)
        return result

    return call


def _spans() -> Any:
    """Return what makes spans; None where nobody has loaded the SDK."""
    if SDK not in sys.modules:
        return None
    with _loading:
        return import_module("._spanning", __package__)
    return None


def _agent(args: tuple[Any, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
    # A method has it by place, the function that it calls by either.
    return (args[0] if args else kwargs.get("agent"),)


def _of_runtime(args: tuple[Any, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
    return _host.argument(args, kwargs, 1, "function_name"), _host.argument(args, kwargs, 4, "tool_call_id")


def _of_registry(args: tuple[Any, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
    return _host.argument(args, kwargs, 0, "function_name"), _host.argument(args, kwargs, 3, "tool_call_id")


def _of_agent(_: tuple[Any, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
    return kwargs.get("function_name"), kwargs.get("tool_call_id")


def _of_title(args: tuple[Any, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
    return (_host.argument(args, kwargs, 1, "session_id"),)
