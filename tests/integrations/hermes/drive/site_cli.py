"""The command line: ``HermesCLI.process_command``."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

import recorder
from world import RAW_ARGS, World, a_neighbour, discover


def drive(world: World) -> dict[str, Any]:
    """The command line: HermesCLI.process_command."""
    discover()
    import cli as host

    line = host.HermesCLI(model="stand-in")
    expect: dict[str, Any] = {}
    shown: dict[str, Any] = {}

    screen = io.StringIO()  # one: prompt_toolkit keeps the first that it sees

    def commands(phase: str, *lines: str) -> None:
        recorder.phase = phase
        expect[phase] = {"session_id": line.session_id, "gateway_session_key": None}
        for text in lines:
            start = screen.tell()
            with contextlib.redirect_stdout(screen):
                line.process_command(text)
            shown[f"{phase} {text.split()[0]}"] = screen.getvalue()[start:].strip()

    outside = [recorder.variables(), dict(os.environ)]
    with a_neighbour(world):
        commands("session", *(f"/rec-{style} {RAW_ARGS}" for style in recorder.HANDLERS))
    restored = outside == [recorder.variables(), dict(os.environ)]
    commands("no-arguments", "/rec-named", "/rec-id-as-argument")
    commands("alias", f"/shortcut {RAW_ARGS}")
    before = line.session_id
    line.process_command("/new")
    commands("after-new", "/rec-named")
    right = line.session_id
    line.session_id = "not\nclean"
    commands("bad-id", "/rec-named", "/rec-named")
    line.session_id = right
    return {
        "facts": {"frontend": "cli"},
        "restored": restored,
        "expect": expect,
        "shown": shown,
        "rotated": before != right,
    }
