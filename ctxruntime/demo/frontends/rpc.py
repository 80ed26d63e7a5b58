"""A terminal UI's server: JSON-RPC over a socket, one connection for all sessions, each request on a thread."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ctxruntime.demo.host import Host


class RpcServer:
    """The server's end of one connection."""

    def __init__(self, host: Host, connection: socket.socket, workers: int) -> None:
        self._host = host
        self._connection = connection
        self._workers = workers
        self._writing = threading.Lock()

    def serve(self) -> None:
        """Answer requests, several at a time, until the other end is closed."""
        with ThreadPoolExecutor(self._workers) as pool, self._connection.makefile() as requests:
            for request in requests:
                pool.submit(self._on_request, json.loads(request))

    def _on_request(self, request: Mapping[str, Any]) -> None:
        params = request["params"]
        # The entry point, in the worker's thread: the one that served another session a moment ago.
        with self._host.session(session_id=params["session_id"], frontend="tui"):
            result = self._host.handle(params["line"])
        self._write({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def _write(self, response: Mapping[str, object]) -> None:
        with self._writing:
            self._connection.sendall(json.dumps(response).encode() + b"\n")
