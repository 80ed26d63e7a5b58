"""A model's server that does what the last message says: reads the file, has it read, tells what the tool returned."""

from __future__ import annotations

import http.server
import json
import threading
from pathlib import Path
from typing import Any

READ = "read the file"
DELEGATE = "have a sub-agent do it"
FILE_TEXT = "the text of the file"


class RefusedError(Exception):
    """Raised by an answer, for a request that the server says no to."""


class ScriptedModel:
    """Listens on loopback, for the chat completions that Hermes's agents ask for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.reads = 0
        self.results: list[tuple[str, str]] = []
        """What agents were asked, and what their tools returned."""
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the message that a request is answered with."""
        messages = asked["messages"]
        said = [text(message) for message in messages if message["role"] == "user"] or [""]
        if messages[-1]["role"] == "tool":
            self.results.append((said[-1], text(messages[-1])))
            return {"role": "assistant", "content": f"The tool said: {text(messages[-1])[:200]}"}
        # Requests without tools are the host's own, for a title or a summary of what was said.
        if asked.get("tools") and READ in said[-1]:
            # A new one each time: the host refuses to read the same again and again.
            self.reads += 1
            file = self.directory / f"{self.reads}.txt"
            file.write_text(FILE_TEXT)
            return call(f"call-{len(messages)}", "read_file", path=str(file))
        if asked.get("tools") and DELEGATE in said[-1]:
            return call(f"call-{len(messages)}", "delegate_task", goal=said[-1].replace(DELEGATE, READ))
        return {"role": "assistant", "content": "Noted."}

    def usage(self, message: dict[str, Any]) -> dict[str, int]:
        """Return what an answer is said to have taken, in tokens."""
        return USAGE

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                found = {"id": "stand-in", "object": "model", "context_length": 200000}
                self.send("application/json", json.dumps({"object": "list", "data": [found]}))

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not self.path.endswith("/chat/completions"):
                    self.send_error(404)
                    return
                try:
                    message = model.answer(asked)
                except RefusedError as refused:
                    self.send("application/json", json.dumps({"error": {"message": str(refused)}}), status=400)
                    return
                usage = model.usage(message)
                if asked.get("stream"):
                    self.send("text/event-stream", streamed(message, usage))
                else:
                    self.send("application/json", json.dumps(whole(message, usage)))

            def send(self, kind: str, body: str, status: int = 200) -> None:
                data = body.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Stay quiet."""

        return Handler


def text(message: dict[str, Any]) -> str:
    """The words of a message, whose content may be in parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def call(id: str, tool: str, **arguments: str) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}


def whole(message: dict[str, Any], usage: dict[str, int]) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": finish(message)}
    return {**BASE, "object": "chat.completion", "choices": [choice], "usage": usage}


def streamed(message: dict[str, Any], usage: dict[str, int]) -> str:
    calls = [{"index": i, **call} for i, call in enumerate(message.get("tool_calls", []))]
    delta = message | ({"tool_calls": calls} if calls else {})
    choices: list[list[dict[str, Any]]] = [
        [{"index": 0, "delta": delta, "finish_reason": None}],
        [{"index": 0, "delta": {}, "finish_reason": finish(message)}],
        [],
    ]
    chunks = [{**BASE, "object": "chat.completion.chunk", "choices": choice} for choice in choices]
    chunks[-1]["usage"] = usage
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def finish(message: dict[str, Any]) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


BASE = {"id": "completion", "created": 1, "model": "stand-in"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
