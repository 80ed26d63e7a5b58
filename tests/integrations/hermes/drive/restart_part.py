"""A part of ``site_restart``: what one process of the host does in it.

python restart_part.py before|after OUT IDS
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from actors import AtTheCommandLine, AtTheTui, Gateway, InAChat, Tui
from world import discover


class AgainAtTheCommandLine(AtTheCommandLine):
    """Somebody who resumes a session."""

    def __init__(self, screen: io.StringIO, session_id: str) -> None:
        import cli

        self.line = cli.HermesCLI(model="stand-in", toolsets=["file", "delegation"], resume=session_id)
        self.screen = screen


class AgainAtTheTui(AtTheTui):
    """Somebody who opens a window on a session that there is."""

    def __init__(self, tui: Tui, session_id: str) -> None:
        self.tui = tui
        self.ui_id = tui.request("session.resume", session_id=session_id, cols=80)["session_id"]


def before(screen: io.StringIO, _: dict[str, Any]) -> dict[str, Any]:
    """A word is kept in each conversation; the chat's goes on under another id before the process is killed."""
    gateway = a_gateway()
    actors = {"cli": AtTheCommandLine(screen), "gateway": InAChat(gateway, "a"), "tui": AtTheTui(Tui())}
    told: dict[str, list[str]] = {}
    for name, actor in actors.items():
        told[name] = [actor.command(f"/keep of {name}"), actor.turn("hello"), actor.turn("[three] go")]
    chat = actors["gateway"]
    first = chat.session_id()
    chat.compress()
    told["gateway"].append(chat.turn("[one] go"))
    ids = {name: actor.session_id() for name, actor in actors.items()}
    key = gateway.chats.key("a")
    return {"told": told, "ids": ids | {"gateway": [first, ids["gateway"]], "key": key}, "process": os.getpid()}


def after(screen: io.StringIO, ids: dict[str, Any]) -> dict[str, Any]:
    """Each conversation goes on where it was; others begin beside them."""
    from hermes_cli.plugins import invoke_hook

    gateway, tui = a_gateway(), Tui()
    # What the watcher of idle sessions does, before anybody has written.
    invoke_hook("on_session_finalize", session_id=ids["gateway"][0], platform="discord", reason="session_expired")
    again = {
        "cli": AgainAtTheCommandLine(screen, ids["cli"]),
        "gateway": InAChat(gateway, "a"),
        "tui": AgainAtTheTui(tui, ids["tui"]),
    }
    told = {name: [actor.command("/keep"), actor.turn("[one] go")] for name, actor in again.items()}
    others = {"cli": AtTheCommandLine(screen), "gateway": InAChat(gateway, "b"), "tui": AtTheTui(tui)}
    other = {name: actor.command("/keep") for name, actor in others.items()}
    found = {name: actor.session_id() for name, actor in again.items()}
    return {"told": told, "other": other, "ids": found, "process": os.getpid()}


def a_gateway() -> Gateway:
    """A gateway in the home that the environment says, which has read what the one before knew."""
    world: Any = SimpleNamespace(home=Path(os.environ["HERMES_HOME"]), load="plugin")
    gateway = Gateway(world)
    gateway.chats.runner.session_store._ensure_loaded()
    return gateway


def main(part: str, out: Path, ids: dict[str, Any]) -> None:
    discover()
    import tui_gateway.server  # noqa: F401 - it puts another standard output in place

    screen = io.StringIO()  # one: prompt_toolkit keeps the first that it sees
    with contextlib.redirect_stdout(screen):
        told = {"before": before, "after": after}[part](screen, ids)
    out.write_text(json.dumps(told))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
