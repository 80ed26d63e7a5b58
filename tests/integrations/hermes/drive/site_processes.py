"""Frontends that are a process each: one answer and out, a worker of a board, a turn's compute host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keeper
from acting import discover, prepare, wait_for
from actors import Tui
from world import World


def drive(world: World) -> dict[str, Any]:
    """Each of them, started as its user or the host starts it."""
    prepare(world, dashboard={"turn_isolation": True})
    file = world.home.parent / "written"
    keeper.publish(world.home.parent / "site", world.home / "config.yaml", file)
    record = Record(file)
    told: dict[str, Any] = {"one-shot": one_shot()}
    events = {"one-shot": record.since_then()}
    discover()
    told["worker"] = worker(record)
    events["worker"] = record.since_then()
    told["compute host"] = compute_host()
    events["compute host"] = record.since_then()
    return {"told": told, "events": events, "process": os.getpid(), "logged": keeper.logged(file)}


class Record:
    """What the processes write, from one step to the next."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.start = 0

    def so_far(self) -> list[dict[str, Any]]:
        return keeper.written(self.file)[self.start :]

    def since_then(self) -> list[dict[str, Any]]:
        found = self.so_far()
        self.start += len(found)
        return found


def one_shot() -> str:
    """One prompt, whose answer is all that is printed."""
    command = keeper.host("-z", "[one] go")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def worker(record: Record) -> dict[str, Any]:
    """A task of a board, which the host's own dispatcher starts a worker for."""
    from hermes_cli import kanban_db

    os.environ["HERMES_BIN"] = str(Path(sys.executable).with_name("hermes"))
    with kanban_db.connect_closing() as db:
        task = kanban_db.create_task(db, title="work", assignee="default")
        kanban_db.dispatch_once(db)
    wait_for(lambda: record.so_far()[-1:] and record.so_far()[-1]["event"] == "on_session_finalize")
    with kanban_db.connect_closing() as db:
        return {"task": task, "status": kanban_db.get_task(db, task).status}


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
