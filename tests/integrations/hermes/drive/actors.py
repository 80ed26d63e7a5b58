"""People at the three frontends, who all do the same: give a command, have a turn, compress, begin anew."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, Protocol

from site_gateway import Chats
from world import World


class Actor(Protocol):
    """Somebody in one chat."""

    def command(self, text: str) -> str: ...

    def turn(self, text: str) -> str: ...

    def compress(self) -> str: ...

    def new(self) -> str: ...

    def session_id(self) -> str: ...


class AtTheCommandLine:
    """What is shown there goes to `screen`, which is standard output by then."""

    def __init__(self, screen: io.StringIO) -> None:
        import cli

        self.line = cli.HermesCLI(model="stand-in", toolsets=["file", "delegation"])
        self.screen = screen

    def command(self, text: str) -> str:
        start = self.screen.tell()
        self.line.process_command(text)
        return self.screen.getvalue()[start:].strip()

    def turn(self, text: str) -> str:
        return str(self.line.chat(text))

    def compress(self) -> str:
        return self.command("/compress")

    def new(self) -> str:
        return self.command("/new")

    def session_id(self) -> str:
        return str(self.line.session_id)


class Gateway:
    """A chat gateway on a loop of its own."""

    def __init__(self, world: World) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.chats = Chats(world, ())
        self.chats.runner, self.chats.adapter = self.wait(self._made())
        self.sent: dict[str, list[str]] = {}
        self.chats.adapter.send = self._send

    async def _made(self) -> tuple[Any, Any]:
        return self.chats._gateway()

    async def _send(self, chat_id: str, content: str, **_: object) -> Any:
        from gateway.platforms.base import SendResult

        self.sent.setdefault(chat_id, []).append(content)
        return SendResult(success=True, message_id="1")

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


class InAChat:
    """One chat of the gateway."""

    def __init__(self, gateway: Gateway, chat: str) -> None:
        self.gateway = gateway
        self.chat = chat

    def command(self, text: str) -> str:
        return self.gateway.wait(self._say(text))

    turn = command

    def compress(self) -> str:
        return self.command("/compress")

    def new(self) -> str:
        return self.command("/new")

    def session_id(self) -> str:
        return str(self.gateway.chats.known(self.chat)["session_id"])

    async def _say(self, text: str) -> str:
        from gateway.platforms.base import MessageEvent, MessageType

        chats, sent = self.gateway.chats, self.gateway.sent.setdefault(self.chat, [])
        sent.clear()
        kind = MessageType.COMMAND if text.startswith("/") else MessageType.TEXT
        source = chats.source(self.chat)
        await chats.adapter.handle_message(MessageEvent(text=text, message_type=kind, source=source, message_id=text))
        async with asyncio.timeout(60):
            # The host has no event for it.
            while chats.key(self.chat) in chats.adapter._active_sessions or not sent:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return "\n".join(sent)


class Tui:
    """The terminal UI's server, whose frames go nowhere."""

    def __init__(self) -> None:
        import tui_gateway.server as host

        self.host = host
        self.frames: list[Any] = []
        self.sink = SimpleNamespace(write=lambda frame: self.frames.append(frame) or True, close=lambda: None)

    def request(self, method: str, **params: Any) -> Any:
        rid = f"{threading.get_ident()} {time.monotonic()} {method}"
        answer = self.host.dispatch({"jsonrpc": "2.0", "id": rid, "method": method, "params": params}, self.sink)
        answer = answer or self.frame(lambda frame: frame.get("id") == rid)
        assert "result" in answer, answer
        return answer["result"]

    def frame(self, wanted: Any, start: int = 0) -> Any:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for frame in self.frames[start:]:
                if wanted(frame):
                    return frame
            time.sleep(0.01)
        raise TimeoutError(self.frames[start:])


class AtTheTui:
    """One window of the terminal UI."""

    def __init__(self, tui: Tui) -> None:
        self.tui = tui
        self.ui_id = tui.request("session.create", cols=80)["session_id"]

    def command(self, text: str) -> str:
        return str(self.tui.request("slash.exec", command=text, session_id=self.ui_id)["output"])

    def turn(self, text: str) -> str:
        start = len(self.tui.frames)
        self.tui.request("prompt.submit", session_id=self.ui_id, text=text)
        params = {"type": "message.complete", "session_id": self.ui_id}
        found = self.tui.frame(lambda frame: params.items() <= (frame.get("params") or {}).items(), start)
        # The next prompt is queued, and not answered, before the session says that it is idle.
        deadline = time.monotonic() + 60
        while self.tui.host._sessions[self.ui_id].get("running") and time.monotonic() < deadline:
            time.sleep(0.01)
        return str(found["params"]["payload"]["text"])

    def compress(self) -> str:
        return str(self.tui.request("session.compress", session_id=self.ui_id)["summary"])

    def new(self) -> str:
        """What the UI's client does for /new."""
        self.tui.request("session.close", session_id=self.ui_id)
        self.ui_id = self.tui.request("session.create", cols=80)["session_id"]
        return "new"

    def session_id(self) -> str:
        session = self.tui.host._sessions[self.ui_id]
        return str(getattr(session.get("agent"), "session_id", None) or session["session_key"])
