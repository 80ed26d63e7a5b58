"""Agents of a chat, by themselves: each executor of the host's, a nested tool, and a sub-agent."""

from __future__ import annotations

import threading
from typing import Any

import hook_recorder
from acting import KEY, agent, discover, happened, prepare, wait_for
from world import World

PHASES = {"one": "one", "three": "three", "mixed": "mixed", "nested": "code", "delegation": "delegate"}


def drive(world: World) -> dict[str, Any]:
    """A turn of an agent for each way in which the host runs tools."""
    model = prepare(world)
    discover()
    ids: dict[str, str] = {}
    for phase, mark in PHASES.items():
        hook_recorder.phase = phase
        one = agent(model, gateway_session_key=KEY, user_id="u", chat_id="chat")
        ids[phase] = one.session_id
        one.run_conversation(f"[{mark}] go")
        if phase == "delegation":
            wait_for(lambda: happened("delegation", "subagent_stop"))
    hook_recorder.phase = "outside"
    one = agent(model, gateway_session_key=KEY)
    ids["outside"] = one.session_id
    call = threading.Thread(target=lambda: one._invoke_tool("read_file", {"path": str(model.files[0])}, "task", "call"))
    call.start()
    call.join(30)
    return {"ids": ids, "key": KEY, "events": hook_recorder.EVENTS}
