"""What goes wrong: a host that is half imported, one that lacks a function, and faults of ours."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import recorder
from world import INTEGRATION, RAW_ARGS, World, discover, read_ambient


class ImportedByTheHost:
    """Makes the import of ``trigger``, which a module of the host does, import the integration first."""

    def __init__(self, trigger: str) -> None:
        self.trigger = trigger
        self.initializing: list[str] = []

    def find_spec(self, name: str, *_: object) -> None:
        if name == self.trigger:
            sys.meta_path.remove(self)
            self.initializing = [m for m in ("cli",) if sys.modules[m].__spec__._initializing]
            importlib.import_module(INTEGRATION)


def drive(world: World) -> dict[str, Any]:
    """Import the host in the hardest way, then break one thing of ours after the other."""
    import tui_gateway.server as server

    handle_request = server.handle_request
    del server.handle_request
    # The last but one of cli's imports, before any of its classes.
    finder = ImportedByTheHost("hermes_cli.callbacks")
    sys.meta_path.insert(0, finder)
    import cli as host

    server.handle_request = handle_request
    discover()
    status = world.ours.status()
    faults = Faults(host.HermesCLI(model="stand-in"))
    return {
        "half_imported": finder.initializing,
        "status": status,
        "session_id": faults.line.session_id,
        "shown": faults.shown(),
        "counts": counts(),
        "left": read_ambient(),
    }


def counts() -> dict[str, int]:
    from ctxruntime.guarding import fault_counts

    return fault_counts()


def fail(*_: object, **__: object) -> Any:
    raise RuntimeError("a fault of ours")


class Faults:
    """A command line in which parts of ours fail."""

    def __init__(self, line: Any) -> None:
        self.line = line
        self.screen = io.StringIO()

    def shown(self) -> dict[str, str]:
        from ctxruntime_integrations.hermes import _host_facts, commands, entrypoints

        unclosable = lambda *_: SimpleNamespace(__enter__=lambda: None, __exit__=fail)  # noqa: E731 - one word each
        recorder.ambient = read_ambient
        return {
            "sound": self.say("sound"),
            "read": self.say("read", _host_facts, "cli_session_id", fail),
            "enter": self.say("enter", entrypoints, "session", fail),
            "leave": self.say("leave", entrypoints, "session", unclosable),
            "adapt": self.say("adapt", commands, "adapt", fail),
            "carry": self.say("carry", commands, "carry", fail),
            "interrupted": self.say("interrupted"),
        }

    def say(self, phase: str, module: Any = None, name: str = "", broken: Callable[..., Any] = fail) -> str:
        recorder.phase = phase
        sound = getattr(module, name, None)
        if module is not None:
            setattr(module, name, broken)
        start = self.screen.tell()
        try:
            with contextlib.redirect_stdout(self.screen):
                for style in ("named", "legacy", "coroutine", "raising"):
                    self.line.process_command(f"/rec-{style} {RAW_ARGS}")
        except KeyboardInterrupt as interrupt:
            return f"interrupted: {interrupt}"
        finally:
            if module is not None:
                setattr(module, name, sound)
        return self.screen.getvalue()[start:].strip()
