"""Hooks that seldom fire, and hooks that are commands of a shell: a refused request, an edit, a terminal, a board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hook_recorder
from acting import KEY, agent, discover, prepare
from world import World

PHASES = {"refused": "refused", "edit": "write", "terminal": "shell"}


def drive(world: World) -> dict[str, Any]:
    """A turn of an agent of a chat for each; then a board's task, which nobody's turn moves."""
    heard = world.home.parent / "heard"
    heard.mkdir()
    model = prepare(world, agent={"verify_on_stop": False}, hooks=shell_hooks(heard))
    discover()
    from agent.shell_hooks import register_from_config
    from hermes_cli.config import load_config
    from hermes_cli.plugins import VALID_HOOKS, VALID_MIDDLEWARE

    # What each frontend does when it has discovered the plugins.
    registered = register_from_config(load_config(), accept_hooks=True)
    ids: dict[str, str] = {}
    told: dict[str, list[dict[str, Any]]] = {}
    for phase, mark in PHASES.items():
        hook_recorder.phase = phase
        one = agent(model, gateway_session_key=KEY, user_id="u", chat_id="chat")
        ids[phase] = one.session_id
        one.run_conversation(f"[{mark}] go")
        told[phase] = collect(heard)
    hook_recorder.phase = "board"
    board()
    told["board"] = collect(heard)
    return {
        "ids": ids,
        "key": KEY,
        "events": hook_recorder.EVENTS,
        "told": told,
        "shell_hooks": sorted(hook.event for hook in registered),
        "valid_hooks": sorted(VALID_HOOKS),
        "valid_middleware": sorted(VALID_MIDDLEWARE),
    }


def shell_hooks(heard: Path) -> dict[str, list[dict[str, str]]]:
    """A command for each hook that writes what it reads into a file of its own."""
    from hermes_cli.plugins import VALID_HOOKS

    return {hook: [{"command": f"sh -c 'cat > \"$(mktemp {heard}/{hook}.XXXXXX)\"'"}] for hook in sorted(VALID_HOOKS)}


def collect(heard: Path) -> list[dict[str, Any]]:
    """Take out what the commands read since the last time."""
    found: list[dict[str, Any]] = []
    for file in sorted(heard.iterdir()):
        found.append(json.loads(file.read_text()))
        file.unlink()
    return found


def board() -> None:
    """A dispatcher claims two tasks of the board; one is done with, and one is blocked."""
    from hermes_cli import kanban_db

    with kanban_db.connect_closing() as db:
        tasks = [kanban_db.create_task(db, title=title, assignee="default") for title in ("done", "blocked")]
        for task in tasks:
            kanban_db.claim_task(db, task)
        kanban_db.complete_task(db, tasks[0], summary="done")
        kanban_db.block_task(db, tasks[1], reason="no idea")
