"""The terminal UI's server: ``command.dispatch`` and ``slash.exec``, through ``handle_request``."""

from __future__ import annotations

import asyncio
import os
import time
from types import SimpleNamespace
from typing import Any

import recorder
from world import RAW_ARGS, World, a_neighbour, discover


def drive(world: World) -> dict[str, Any]:
    """The terminal UI's server: command.dispatch and slash.exec."""
    discover()
    import tui_gateway.server as host

    expect: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    frames: list[Any] = []
    sink = SimpleNamespace(write=lambda frame: frames.append(frame) or True, close=lambda: None)

    def request(method: str, **params: Any) -> Any:
        rid = f"{len(frames)} {method}"
        answer = host.dispatch({"jsonrpc": "2.0", "id": rid, "method": method, "params": params}, sink)
        deadline = time.monotonic() + 60
        while answer is None and time.monotonic() < deadline:
            time.sleep(0.005)
            answer = next((frame for frame in tuple(frames) if frame.get("id") == rid), None)
        return answer.get("result") or answer.get("error")

    ui_id = request("session.create", cols=80)["session_id"]
    session = host._sessions[ui_id]

    def commands(phase: str, *styles: str, slash: bool = False, **params: Any) -> None:
        recorder.phase = phase
        known = None
        if "session_id" in params:
            known = getattr(session.get("agent"), "session_id", None) or session["session_key"]
        expect[phase] = {"session_id": known, "gateway_session_key": None}
        for style in styles:
            if slash:
                answer = request("slash.exec", command=f"/rec-{style} {RAW_ARGS}", **params)
            else:
                answer = request("command.dispatch", name=f"rec-{style}", arg=RAW_ARGS, **params)
            shown[f"{phase} /rec-{style}"] = answer

    # Before 0.19 this builds the session's agent first, and that writes the process's environment.
    request("slash.exec", command="/rec-legacy", session_id=ui_id)
    outside = [recorder.variables(), dict(os.environ)]
    with a_neighbour(world):
        commands("dispatch", *recorder.HANDLERS, session_id=ui_id)
        commands("slash", *recorder.HANDLERS, slash=True, session_id=ui_id)
        commands("no-session", "named", "required", "var-keyword")

    restored = outside == [recorder.variables(), dict(os.environ)]
    recorder.phase = "in-loop"
    expect["in-loop"] = expect["dispatch"]

    async def in_a_loop() -> None:
        for style in ("coroutine", "coroutine-object", "raising-coroutine"):
            params = {"name": f"rec-{style}", "arg": RAW_ARGS, "session_id": ui_id}
            answer = host.handle_request({"id": 1, "method": "command.dispatch", "params": params})
            shown[f"in-loop /rec-{style}"] = answer.get("result") or answer.get("error")

    asyncio.run(in_a_loop())
    agent, session["agent"] = session.get("agent"), SimpleNamespace(session_id="rotated_in_the_turn")
    commands("agent-rotated", "named", session_id=ui_id)
    session["agent"] = agent
    unknown = host.handle_request({"id": 1, "method": "no.such.method"})
    return {
        "facts": {"frontend": "tui"},
        "expect": expect,
        "shown": shown,
        "ui_id": ui_id,
        "session_key": session["session_key"],
        "restored": restored,
        "unknown": unknown,
        "not_a_request": host.handle_request(["not", "a", "request"]),
    }
