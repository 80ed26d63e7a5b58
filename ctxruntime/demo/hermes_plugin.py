"""The demo's handlers as a plugin of Hermes: its commands are `/demo-legacy`, `/demo-named` and so on."""

from __future__ import annotations

from typing import Final, Protocol

from ctxruntime.demo.plugins import Handler, Notes, handlers
from ctxruntime.demo.script import COMMANDS

NAME: Final = "ctxruntime-demo"

LEFT_OUT: Final = frozenset({"generator", "async-generator", "builtin"})
"""Hermes takes no answer in pieces, and what is written in C leaves no trace to look at."""

PLAYED: Final = tuple(command for command in COMMANDS if command not in LEFT_OUT)

NOTES: Final = Notes()


class PluginContext(Protocol):
    """What Hermes gives a plugin to register itself with."""

    def register_command(self, name: str, handler: Handler, description: str) -> None:
        """Make a handler answer a command."""


def register(ctx: PluginContext, /) -> None:
    """Register every handler; Hermes calls it."""
    for command, handler in handlers(NOTES).items():
        if command in PLAYED:
            ctx.register_command(hermes_name(command), handler, f"a handler of kind {command}")


def hermes_name(command: str) -> str:
    """Return the name of a command in Hermes, where it meets those of others."""
    return f"demo-{command}"
