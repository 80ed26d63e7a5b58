"""What surrounds the host in its process: a home, a plugin to discover, a model's server, and no way out."""

from __future__ import annotations

import contextlib
import http.server
import importlib
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

INTEGRATION = "ctxruntime_integrations.hermes"
RAW_ARGS = "Hello  World"


class ModelServer(http.server.BaseHTTPRequestHandler):
    """Answers whatever the host asks a model's server at start; no command needs a model."""

    def do_GET(self) -> None:
        body = json.dumps({"object": "list", "data": [{"id": "stand-in", "object": "model"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


class LogList(logging.Handler):
    """Keeps what ctxruntime logs, as plain data."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.entries.append(
            {
                "message": record.getMessage(),
                "error": type(error).__name__ if error else None,
                "text": logging.Formatter().format(record),
            }
        )


class World:
    """A home of the host's own, a plugin that it discovers, and no way out but loopback."""

    def __init__(self, directory: Path, load: str) -> None:
        self.load = load
        self.home = directory / "hermes-home"
        self.refused: list[str] = []
        self.log = LogList()
        logging.getLogger("ctxruntime").addHandler(self.log)
        self._refuse_the_network()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ModelServer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.model_url = f"http://127.0.0.1:{server.server_port}/v1"
        self._set_environment(directory)
        self.configure()
        self._publish_the_plugin(directory / "site")

    def _set_environment(self, directory: Path) -> None:
        for name in list(os.environ):
            if name.startswith(("HERMES_", "OPENAI_")) or name.lower().endswith("_proxy"):
                del os.environ[name]
        os.environ.update(
            HERMES_HOME=str(self.home),
            HOME=str(directory),
            OPENAI_API_KEY="none",
            OPENAI_BASE_URL=self.model_url,
            GATEWAY_ALLOW_ALL_USERS="true",
            HERMES_DISABLE_LAZY_INSTALLS="1",
            TERM="dumb",
            NO_COLOR="1",
        )
        self.home.mkdir(parents=True)
        os.chdir(self.home)

    def configure(self, **options: str) -> None:
        """Write the host's configuration, with options of ours in our plugin's section."""
        enabled = ["recorder", "ctxruntime"] if self.load == "plugin" else ["recorder"]
        configuration = {
            "model": {"default": "stand-in", "provider": "custom", "base_url": self.model_url},
            "plugins": {"enabled": enabled, "entries": {"ctxruntime": options}},
            "memory": {"memory_enabled": False, "user_profile_enabled": False},
            "approvals": {"mode": "off", "destructive_slash_confirm": False},
            "quick_commands": {"shortcut": {"type": "alias", "target": "/rec-named"}},
        }
        # JSON is YAML.
        (self.home / "config.yaml").write_text(json.dumps(configuration))

    def _publish_the_plugin(self, site: Path) -> None:
        metadata = site / "recorder-1.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: recorder\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text("[hermes_agent.plugins]\nrecorder = recorder\n")
        sys.path.append(str(site))

    def _refuse_the_network(self) -> None:
        connect = socket.socket.connect

        def local_only(self_: socket.socket, address: Any) -> None:
            if self_.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
                self.refused.append(str(address))
                raise OSError("only loopback is let out here")
            connect(self_, address)

        socket.socket.connect = local_only

    @property
    def ours(self) -> Any:
        """The integration; only where it is loaded."""
        return importlib.import_module(INTEGRATION)


def discover(*, force: bool = False) -> None:
    """Let the host load its plugins, as each of its frontends does when it starts."""
    from hermes_cli.plugins import discover_plugins

    discover_plugins(force=force)


def read_ambient() -> dict[str, Any]:
    """What is in effect; of the conversation only whether there is one, as its id is random."""
    import ctxruntime

    keys = dict(ctxruntime.current())
    return {name: bool(value) if name == "conversation_id" else value for name, value in keys.items()}


@contextlib.contextmanager
def a_neighbour(world: World) -> Iterator[None]:
    """Inside another session, as when an event is let in by another event's task."""
    if world.load == "alone":
        yield
        return
    import ctxruntime

    with ctxruntime.session(
        session_id="neighbour",
        gateway_session_key="neighbour",
        user_id="neighbour",
        previous_session_id="neighbour",
    ):
        yield
