"""A window of the terminal UI whose turn runs in a process of its own, the host's compute host."""

from __future__ import annotations

import os
from typing import Any

import keeper
from acting import discover, prepare, wait_for
from actors import Tui
from world import World


def drive(world: World) -> dict[str, Any]:
    """A command in the UI's process, a turn in the other, and a command again."""
    prepare(world, dashboard={"turn_isolation": True})
    file = world.home.parent / "written"
    keeper.publish(world.home.parent / "site", world.home / "config.yaml", file)
    discover()
    told = {"compute host": compute_host()}
    events = {"compute host": keeper.written(file)}
    return {"told": told, "events": events, "process": os.getpid(), "logged": keeper.logged(file)}


def compute_host() -> dict[str, Any]:
    """A window whose turn runs in a process of its own; what is kept before in the UI's is asked for there."""
    tui = Tui()
    ui_id = tui.request("session.create", cols=80)["session_id"]
    told = [tui.request("slash.exec", command="/keep word", session_id=ui_id)["output"]]
    session = tui.host._sessions[ui_id]
    key = session["session_key"]
    isolated = tui.request("prompt.submit", session_id=ui_id, text="[one] go")
    params = {"type": "message.complete", "session_id": ui_id}
    tui.frame(lambda frame: params.items() <= (frame.get("params") or {}).items())
    wait_for(lambda: not session.get("running"))
    told.append(tui.request("slash.exec", command="/keep", session_id=ui_id)["output"])
    tui.host._get_compute_host_supervisor().shutdown()
    return {"ui_id": ui_id, "session_key": [key, session["session_key"]], "isolated": isolated, "told": told}
