"""A Hermes plugin for whichever process the host runs in: it keeps a word for each conversation, and writes into a
file what it gets. Of ctxruntime it uses what any plugin does.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLUGIN = "keeper"
FILE = "KEEPER_FILE"
LOGGED = "logged"
IDS = ("session_id", "gateway_session_key", "parent_session_id", "task_id")

_START = """\
import socket

connect = socket.socket.connect


def local_only(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
        raise OSError("only loopback is let out here")
    connect(self, address)


socket.socket.connect = local_only
"""


class Log(logging.Handler):
    """Writes what ctxruntime logs, too: in whichever process."""

    def emit(self, record: logging.LogRecord) -> None:
        write(LOGGED, {}, text=logging.Formatter().format(record))


def write(event: str, given: Mapping[str, Any], **more: Any) -> None:
    """Append what was received, and what is in effect, as a line of its own."""
    line = {
        "process": os.getpid(),
        "event": event,
        "names": sorted(given),
        "ids": {key: given[key] for key in IDS if key in given},
        "ambient": ambient(),
        "kept": kept(),
        "isolated": os.environ.get("HERMES_COMPUTE_HOST_CHILD"),
        **more,
    }
    with Path(os.environ[FILE]).open("a") as file:
        file.write(json.dumps(line) + "\n")


def ambient() -> dict[str, Any]:
    import ctxruntime

    return dict(ctxruntime.current())


def kept() -> str | None:
    from ctxruntime.conversation import ConversationState, NoConversationError

    try:
        return ConversationState(PLUGIN).get("word", None)
    except NoConversationError:
        return None


def keep(raw_args: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
    """/keep [WORD]: keep it, if one is given; and say what is kept, and for whom."""
    from ctxruntime.conversation import ConversationState

    if raw_args.strip():
        ConversationState(PLUGIN).set("word", raw_args.strip())
    return json.dumps([kept(), session_id, gateway_session_key])


def register(ctx: Any) -> None:
    from hermes_cli.plugins import VALID_HOOKS

    logging.getLogger("ctxruntime").addHandler(Log())
    ctx.register_command("keep", keep)
    for hook in sorted(VALID_HOOKS):
        ctx.register_hook(hook, lambda hook=hook, **given: write(hook, given))


def publish(site: Path, configuration: Path, file: Path) -> None:
    """Let every process of the host that is started from here discover the plugin, and stay on loopback."""
    metadata = site / "keeper-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: keeper\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[hermes_agent.plugins]\n{PLUGIN} = keeper\n")
    (site / "sitecustomize.py").write_text(_START)
    settings = json.loads(configuration.read_text())
    settings["plugins"]["enabled"].append(PLUGIN)
    configuration.write_text(json.dumps(settings))
    file.touch()
    os.environ[FILE] = str(file)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(site), str(Path(__file__).parent), os.getenv("PYTHONPATH")))
    )


def written(file: Path) -> list[dict[str, Any]]:
    """All that was written, by any process, in its order."""
    return [json.loads(line) for line in file.read_text().splitlines()]


class Record:
    """What the processes write, from one step to the next."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.start = 0

    def so_far(self) -> list[dict[str, Any]]:
        return written(self.file)[self.start :]

    def since_then(self) -> list[dict[str, Any]]:
        found = self.so_far()
        self.start += len(found)
        return found


def logged(file: Path) -> list[str]:
    """All that ctxruntime logged, in any process."""
    return [line["text"] for line in written(file) if line["event"] == LOGGED]


def host(*arguments: str) -> list[str]:
    """The command that starts the host with arguments of its own."""
    return [sys.executable, "-m", "hermes_cli.main", *arguments]
