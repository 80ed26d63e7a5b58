"""A Hermes plugin that records what hooks and middleware receive. It knows nothing of ctxruntime.

Of each hook and each kind of middleware there are three callbacks: one that takes anything, one that names the two
ids, and, for tools, a strict one that would fail if it got one name more than the host passes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

EVENTS: list[dict[str, Any]] = []
PLUGIN = "hook-recorder"
MIDDLEWARE = ("tool_request", "tool_execution", "llm_request", "llm_execution")
IDS = ("session_id", "parent_session_id", "old_session_id", "new_session_id", "session_key", "gateway_session_key")

phase = "none"
watchers: list[Callable[[str, Mapping[str, Any]], None]] = []


def ambient() -> dict[str, Any] | None:
    """Replaced by the driver where there is something to read."""
    return None


def turn() -> Any:
    """Replaced likewise: something that is the same in one turn only."""
    return None


def write(name: str, style: str, given: Mapping[str, Any]) -> None:
    EVENTS.append(
        {
            "phase": phase,
            "event": name,
            "style": style,
            "names": sorted(given),
            "ids": {key: given[key] for key in IDS if key in given},
            "tool": given.get("tool_name"),
            "ambient": ambient(),
            "turn": turn(),
            "thread": threading.current_thread().name,
        }
    )
    for watcher in watchers:
        watcher(name, given)


def anything(name: str) -> Callable[..., Any]:
    def callback(**given):
        write(name, "anything", given)

    return callback


def named(name: str) -> Callable[..., Any]:
    def callback(
        session_id="default", gateway_session_key="default", platform="mine", frontend="mine", user_id="mine", **_
    ):
        ids = {"session_id": session_id, "gateway_session_key": gateway_session_key}
        write(name, "named", ids | {"frontend": frontend, "user_id": user_id})
        if frontend != "mine":
            write(name, "broken", {"frontend": frontend})

    return callback


def strict(
    tool_name,
    args,
    task_id="",
    session_id="",
    tool_call_id="",
    turn_id="",
    api_request_id="",
    middleware_trace=None,
    telemetry_schema_version="",
):
    write("pre_tool_call", "strict", {"session_id": session_id, "tool_name": tool_name})


def middleware(kind: str) -> Callable[..., Any]:
    def callback(**given):
        write(kind, "anything", given)
        go_on = given.get("next_call")
        return None if go_on is None else go_on(given["request"] if "request" in given else given["args"])

    return callback


def register(ctx):
    from hermes_cli.plugins import VALID_HOOKS

    for hook in sorted(VALID_HOOKS):
        ctx.register_hook(hook, anything(hook))
        ctx.register_hook(hook, named(hook))
    ctx.register_hook("pre_tool_call", strict)
    for kind in MIDDLEWARE:
        ctx.register_middleware(kind, middleware(kind))


def publish(site: Path, configuration: Path) -> None:
    """Let the host discover the plugin, and enable it."""
    metadata = site / "hook_recorder-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: hook-recorder\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[hermes_agent.plugins]\n{PLUGIN} = hook_recorder\n")
    settings = json.loads(configuration.read_text())
    settings["plugins"]["enabled"].append(PLUGIN)
    configuration.write_text(json.dumps(settings))
