"""Frontends that are a process each: one answer and out, and a worker of a board."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keeper
from acting import discover, prepare, wait_for
from world import World


def drive(world: World) -> dict[str, Any]:
    """Each of them, started as its user or the host starts it."""
    prepare(world)
    file = world.home.parent / "written"
    keeper.publish(world.home.parent / "site", world.home / "config.yaml", file)
    record = keeper.Record(file)
    told: dict[str, Any] = {"one-shot": one_shot()}
    events = {"one-shot": record.since_then()}
    discover()
    told["worker"] = worker(record)
    events["worker"] = record.since_then()
    return {"told": told, "events": events, "process": os.getpid(), "logged": keeper.logged(file)}


def one_shot() -> str:
    """One prompt, whose answer is all that is printed."""
    command = keeper.host("-z", "[one] go")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def worker(record: keeper.Record) -> dict[str, Any]:
    """A task of a board, which the host's own dispatcher starts a worker for."""
    from hermes_cli import kanban_db

    os.environ["HERMES_BIN"] = str(Path(sys.executable).with_name("hermes"))
    with kanban_db.connect_closing() as db:
        task = kanban_db.create_task(db, title="work", assignee="default")
        kanban_db.dispatch_once(db)
    wait_for(lambda: record.so_far()[-1:] and record.so_far()[-1]["event"] == "on_session_finalize")
    with kanban_db.connect_closing() as db:
        return {"task": task, "status": kanban_db.get_task(db, task).status}
