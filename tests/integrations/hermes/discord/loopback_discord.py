"""Discord, as far as Hermes's adapter and the real discord.py need it: REST, and the gateway's websocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import loopback_guild as things
from aiohttp import WSMsgType, web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
API = "/api/v10"
HELLO, DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID_SESSION, ACK = 10, 0, 1, 2, 6, 7, 9, 11


class Discord:
    """One bot's Discord, on the running loop."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []
        """The slash commands that the bot has registered."""
        self.messages: dict[str, dict[str, Any]] = {}
        self.replies: list[tuple[int, str]] = []
        """What the bot said: the channel, and the text."""
        self.callbacks: dict[str, list[str]] = {}
        """What the bot did about each interaction, by its token."""
        self.not_faked: list[str] = []
        """What the bot asked for that is not here."""
        self.arrivals: asyncio.Queue[str] = asyncio.Queue()
        """How each connection was opened: "identify", "resume", "resume refused"."""
        self.paths: list[str] = []
        self.refuse_resumes = False
        self._events: list[dict[str, Any]] = []
        self._session = 0
        self._socket: web.WebSocketResponse | None = None
        self._connection: web.Request | None = None
        self._changed = asyncio.Condition()

    async def start(self) -> None:
        """Listen, and have discord.py come here instead of to Discord."""
        import discord.gateway
        import discord.http
        import yarl

        app = web.Application()
        for method, path, handler in self._routes():
            app.router.add_route(method, f"{API}{path}", handler)
        app.router.add_get("/socket", self._gateway)
        app.router.add_get("/socket-again", self._gateway)
        app.router.add_route("*", "/{anything:.*}", self._other)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self._again = f"ws://{host}:{port}/socket-again"
        discord.http.Route.BASE = f"http://{host}:{port}{API}"
        discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(f"ws://{host}:{port}/socket")

    # ---- what people do

    async def say(self, channel: int, content: str, author: int = things.ANN) -> None:
        """Somebody writes a message."""
        message = things.message(channel, author, content)
        self.messages[message["id"]] = message
        await self._happens("MESSAGE_CREATE", message)

    async def pick(self, channel: int, name: str, args: str | None = None, author: int = things.ANN) -> str:
        """Somebody picks a slash command from the menu; return the interaction's token."""
        (command,) = [command for command in self.commands if command["name"] == name]
        interaction = things.interaction(channel, author, command, args)
        self.callbacks[interaction["token"]] = []
        await self._happens("INTERACTION_CREATE", interaction)
        return str(interaction["token"])

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of what the bot did."""
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(holds)

    # ---- what Discord does

    async def ask_to_reconnect(self) -> None:
        """Tell the bot to come again, as Discord does several times a day."""
        assert self._socket is not None
        await self._socket.send_json({"op": RECONNECT, "d": None})

    async def drop(self) -> None:
        """Lose the connection without a word; what happens until the bot is back is kept for it."""
        socket, self._socket = self._socket, None
        assert self._connection is not None
        assert self._connection.transport is not None
        assert socket is not None
        self._connection.transport.abort()

    async def again(self, count: int) -> None:
        """Send the last events once more, as a resumed session may."""
        assert self._socket is not None
        for event in self._events[-count:]:
            await self._socket.send_json(event)

    async def _happens(self, name: str, data: dict[str, Any]) -> None:
        event = {"op": DISPATCH, "t": name, "s": len(self._events) + 1, "d": data}
        self._events.append(event)
        if self._socket is not None:
            await self._socket.send_json(event)

    async def _gateway(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.paths.append(request.path)
        await socket.send_json({"op": HELLO, "d": {"heartbeat_interval": 41250}})
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                break
            said = json.loads(frame.data)
            if said["op"] == HEARTBEAT:
                await socket.send_json({"op": ACK, "d": None})
            elif said["op"] == IDENTIFY:
                await self._identified(request, socket)
            elif said["op"] == RESUME:
                await self._resumed(request, socket, said["d"])
        if self._socket is socket:
            self._socket = None
        return socket

    async def _identified(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        self._socket, self._connection = socket, request
        self._session += 1
        self._events.clear()
        unavailable = [{"id": str(things.GUILD), "unavailable": True}]
        ready = {"v": 10, "user": things.user(things.BOT), "guilds": unavailable, "session_id": str(self._session)}
        application = {"id": str(things.BOT), "flags": 0}
        await self._happens("READY", ready | {"resume_gateway_url": self._again, "application": application})
        await self._happens("GUILD_CREATE", things.guild())
        await self.arrivals.put("identify")

    async def _resumed(self, request: web.Request, socket: web.WebSocketResponse, said: dict[str, Any]) -> None:
        if self.refuse_resumes or said["session_id"] != str(self._session):
            await self.arrivals.put("resume refused")
            await socket.send_json({"op": INVALID_SESSION, "d": False})
            return
        for event in self._events[said["seq"] :]:
            await socket.send_json(event)
        self._socket, self._connection = socket, request
        await self._happens("RESUMED", {})
        await self.arrivals.put("resume")

    # ---- what the bot does

    def _routes(self) -> list[tuple[str, str, Handler]]:
        of_message = "/channels/{channel}/messages/{message}"
        original = "/webhooks/{application}/{token}/messages/@original"
        return [
            ("GET", "/users/@me", lambda _: _json(things.user(things.BOT))),
            ("GET", "/oauth2/applications/@me", lambda _: _json(things.application())),
            ("PUT", "/applications/{application}/commands", self._register),
            ("POST", "/channels/{channel}/messages", self._send),
            ("GET", "/channels/{channel}/messages", lambda _: _json([])),
            ("GET", of_message, lambda request: _json(self.messages[request.match_info["message"]])),
            ("PATCH", of_message, self._edit),
            ("POST", "/channels/{channel}/typing", _nothing),
            ("PUT", f"{of_message}/reactions/{{emoji}}/{{user}}", _nothing),
            ("DELETE", f"{of_message}/reactions/{{emoji}}/{{user}}", _nothing),
            ("POST", "/interactions/{interaction}/{token}/callback", self._answer),
            ("PATCH", original, self._tidy),
            ("DELETE", original, self._tidy),
        ]

    async def _register(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        made = {"application_id": str(things.BOT), "version": "1", "default_member_permissions": None}
        async with self._changed:
            self.commands = [command | made | {"id": things.new_id()} for command in asked]
            self._changed.notify_all()
        return await _json(self.commands)

    async def _send(self, request: web.Request) -> web.StreamResponse:
        channel, said = int(request.match_info["channel"]), await request.json()
        message = things.message(channel, things.BOT, said["content"])
        self.messages[message["id"]] = message
        async with self._changed:
            self.replies.append((channel, said["content"]))
            self._changed.notify_all()
        return await _json(message)

    async def _edit(self, request: web.Request) -> web.StreamResponse:
        message = self.messages[request.match_info["message"]]
        message["content"] = (await request.json())["content"]
        async with self._changed:
            self.replies.append((int(message["channel_id"]), message["content"]))
            self._changed.notify_all()
        return await _json(message)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        said = await request.json()
        await self._did(request, f"answer {said['type']}")
        return await _json({"interaction": {"id": request.match_info["interaction"], "type": 2}})

    async def _tidy(self, request: web.Request) -> web.StreamResponse:
        await self._did(request, request.method.lower())
        if request.method == "DELETE":
            return await _nothing(request)
        return await _json(things.message(things.CHANNELS[0], things.BOT, (await request.json())["content"]))

    async def _did(self, request: web.Request, what: str) -> None:
        async with self._changed:
            self.callbacks[request.match_info["token"]].append(what)
            self._changed.notify_all()

    async def _other(self, request: web.Request) -> web.StreamResponse:
        self.not_faked.append(f"{request.method} {request.path}")
        return await _json({"code": 0, "message": "not faked"}, status=404)


async def _json(data: object, status: int = 200) -> web.StreamResponse:
    # discord.py reads JSON only where the content type has no charset.
    return web.Response(body=json.dumps(data).encode(), status=status, headers={"Content-Type": "application/json"})


async def _nothing(_: web.Request) -> web.StreamResponse:
    return web.Response(status=204)
