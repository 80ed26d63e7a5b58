"""Histories that grow too long inside a turn, which the host then compresses by itself, at each frontend."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import keeper
from acting import discover, prepare, wait_for
from actors import Actor, AtTheCommandLine, AtTheTui, Gateway, InAChat, Tui
from scripted_model import USAGE, text
from stored import rows
from world import World

COMPRESSION = {"enabled": True, "threshold": 0.2, "protect_first_n": 0, "protect_last_n": 3}
FULL = "as much as it takes"
LONG = "lorem ipsum " * 8000
"""Some 24 thousand tokens: of three the host begins to compress, with a model that takes in 80 thousand."""
FULL_USAGE = USAGE | {"prompt_tokens": 79000, "total_tokens": 79005}
SAYINGS = {
    "long": f"one {LONG}",
    "longer": f"two {LONG}",
    "too long": f"[one] three {LONG}",
    "afterwards": "[one] go",
    "grown by a tool": f"[one] four {FULL}",
    "at last": "[one] go",
}
"""What is said at each step; the first compression comes before the model is asked, the second between a tool and the
next request, as the model says by then how much it had to take in."""


def drive(world: World) -> dict[str, Any]:
    """Two conversations at each frontend: one keeps its session id when it is compressed, one gets another."""
    # No review of what was said after many turns: it is a turn of its own, in a thread that nobody waits for.
    model = prepare(world, skills={"creation_nudge_interval": 0})
    model.usage = lambda message: FULL_USAGE if message.get("tool_calls") and is_full(model.asked[-1]) else USAGE
    file = world.home.parent / "written"
    keeper.publish(world.home.parent / "site", world.home / "config.yaml", file)
    discover()
    import tui_gateway.server  # noqa: F401 - it puts another standard output in place

    screen = io.StringIO()  # one: prompt_toolkit keeps the first that it sees
    found: dict[str, Any] = {}
    with contextlib.redirect_stdout(screen):
        gateway, tui = Gateway(world), Tui()
        for in_place in (True, False):
            configure(world.home / "config.yaml", in_place=in_place)
            how = "in place" if in_place else "rotating"
            actors: dict[str, Actor] = {
                "cli": AtTheCommandLine(screen),
                "gateway": InAChat(gateway, how),
                "tui": AtTheTui(tui),
            }
            for name, actor in actors.items():
                found[f"{name}, {how}"] = tell(actor, f"{name}, {how}", file)
    compacted = [row["session_id"] for row in rows(world.home)["messages"] if row["compacted"]]
    return {
        "found": found,
        "compacted": compacted,
        "keys": {how: gateway.chats.key(how) for how in ("in place", "rotating")},
        "logged": keeper.logged(file),
    }


def is_full(asked: dict[str, Any]) -> bool:
    """Tell whether the last that was said is what fills the model up."""
    said = [text(message) for message in asked["messages"] if message["role"] == "user"]
    return FULL in said[-1]


def configure(file: Path, *, in_place: bool) -> None:
    """Say how histories are compressed; agents made from now on read it."""
    settings = json.loads(file.read_text())
    settings["model"] |= {"context_length": 80000}
    file.write_text(json.dumps(settings | {"compression": COMPRESSION | {"in_place": in_place}}))


def tell(actor: Actor, word: str, file: Path) -> dict[str, Any]:
    """Keep a word, talk until the history is too long, and go on."""
    first = actor.command(f"/keep {word}")
    start = len(keeper.written(file))
    events: dict[str, Any] = {}
    ids = {}
    for step, saying in SAYINGS.items():
        actor.turn(saying)
        wait_for(lambda start=start: "on_session_end" in {event["event"] for event in keeper.written(file)[start:]})
        ids[step] = actor.session_id()
        events[step] = keeper.written(file)[start:]
        start += len(events[step])
    return {"told": [first, actor.command("/keep")], "ids": ids, "events": events}
