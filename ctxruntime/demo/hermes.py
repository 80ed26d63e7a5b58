"""Play the script in the Hermes Agent that is installed here: a process of its own, with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ctxruntime.demo import hermes_plugin, hermes_sites
from ctxruntime.demo.script import Call, Conversation

DISTRIBUTION: Final = "hermes-agent"

STEPS: Final = 8 * len(hermes_plugin.PLAYED)
"""How many answers there are in one run: at four sites, in two conversations each."""

HOW_TO_INSTALL: Final = (
    f"ctxruntime: {DISTRIBUTION} is not installed in this environment; "
    f"next to ctxruntime, in a virtual environment for both: pip install {DISTRIBUTION}==0.19.0"
)


DEADLINE: Final = 120.0
"""Seconds that one run may take."""


class HermesError(RuntimeError):
    """Hermes's process ended early; its last words are the message."""


@dataclass(slots=True)
class Played:
    """What a run in Hermes left behind, with short names in place of its long ids."""

    conversations: list[Conversation] = field(default_factory=list[Conversation])
    answers: dict[Call, str] = field(default_factory=dict[Call, str])
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


def is_installed() -> bool:
    """Whether there is a Hermes in this environment."""
    try:
        metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return False
    return True


def play(plugins: Sequence[str], step: Callable[[], None]) -> Played:
    """Play the script in a Hermes that has these plugins enabled; `step` is called at each answer.

    Raises:
        HermesError: the process did not get to the end of the script.
    """
    played = Played()
    with TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        for fact in with_short_names(_told(Path(directory), [hermes_plugin.NAME, *plugins])):
            if "conversation" in fact:
                played.conversations.append(Conversation(**fact["conversation"]))
            elif "notes" in fact:
                played.notes = fact["notes"]
            else:
                step()
                if fact["answer"] is not None:
                    played.answers[fact["session_id"], fact["command"]] = fact["answer"]
    return played


def with_short_names(told: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Replace the ids that Hermes makes by short ones, in all that is told after they appear."""
    short: dict[str, str] = {}
    for line in told:
        fact = json.loads(line)
        if "conversation" in fact:
            frontend, session_id, key = (
                fact["conversation"][name] for name in ("frontend", "session_id", "gateway_session_key")
            )
            number = 1 + sum(name.startswith(frontend[0]) for name in short.values())
            short[session_id] = f"{frontend[0]}{number}"
            if key is not None:
                short[key] = f"k{number}"
        for long, name in short.items():
            line = line.replace(long, name)
        yield json.loads(line)


def _told(directory: Path, plugins: Sequence[str]) -> Iterator[str]:
    """Start the process, and yield what it tells, line by line."""
    log = directory / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-m", hermes_sites.__name__],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
            cwd=directory,
            env=_environment(directory, plugins),
        ) as process,
    ):
        deadline = threading.Timer(DEADLINE, process.kill)
        deadline.start()
        try:
            yield from process.stdout or ()
        finally:
            deadline.cancel()
    if process.returncode != 0:
        words = log.read_text(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise HermesError(f"Hermes ended before the script did: {words[-1]}")


def _environment(directory: Path, plugins: Sequence[str]) -> dict[str, str]:
    """Make a home for Hermes in which it finds our plugin, and return the environment that leads there."""
    home = directory / "home"
    home.mkdir()
    configuration = {
        # Nobody listens there, and no command needs a model.
        "model": {"default": "none", "provider": "custom", "base_url": "http://127.0.0.1:9/v1"},
        "plugins": {"enabled": [*plugins]},
        "memory": {"memory_enabled": False, "user_profile_enabled": False},
    }
    (home / "config.yaml").write_text(json.dumps(configuration))  # JSON is YAML
    installed = directory / "site" / "ctxruntime_demo-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: ctxruntime-demo\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(
        f"[hermes_agent.plugins]\n{hermes_plugin.NAME} = {hermes_plugin.__name__}\n"
    )
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HERMES_", "OPENAI_")) and not name.lower().endswith("_proxy")
    }
    return {
        **inherited,
        "HERMES_HOME": str(home),
        "HOME": str(directory),
        "HERMES_DISABLE_LAZY_INSTALLS": "1",
        "GATEWAY_ALLOW_ALL_USERS": "true",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(installed.parent), os.environ.get("PYTHONPATH")])),
    }
