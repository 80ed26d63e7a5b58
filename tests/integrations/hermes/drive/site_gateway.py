"""A chat gateway: an adapter's messages, through ``GatewayRunner._handle_message``."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import recorder
from world import RAW_ARGS, World, a_neighbour, discover


def drive(world: World) -> dict[str, Any]:
    """A chat gateway: an adapter's message through GatewayRunner._handle_message."""
    from hermes_cli import plugins

    before = vars(plugins)["get_plugin_command_handler"], vars(plugins)["resolve_plugin_command_result"]
    import gateway.run

    originals = (*before, vars(gateway.run.GatewayRunner)["_handle_message"])
    return asyncio.run(Chats(world, originals).drive())


class Chats:
    """Chats of several users with one gateway."""

    def __init__(self, world: World, originals: tuple[object, ...]) -> None:
        self.world = world
        self.originals = originals
        self.expect: dict[str, Any] = {}
        self.shown: dict[str, Any] = {}

    async def drive(self) -> dict[str, Any]:
        discover()
        self.runner, self.adapter = self._gateway()
        every_style = [f"/rec-{style} {RAW_ARGS}" for style in recorder.HANDLERS]
        with a_neighbour(self.world):
            await self.say("no-session", *every_style)
        await self.say("underscore", f"/rec_named {RAW_ARGS}")
        await self.say("other-chat", f"/rec-named {RAW_ARGS}", chat="other")
        await self.say("bad-chat", f"/rec-named {RAW_ARGS}", chat="not\nclean")
        self.runner.session_store.get_or_create_session(self.source())
        with a_neighbour(self.world):
            await self.say("session", *every_style)
        await self.at_once()
        self.runner.session_store.reset_session(self.key())
        await self.say("after-reset", f"/rec-named {RAW_ARGS}")
        self.runner._running_agents[self.key("busy")] = SimpleNamespace(session_id="the running agent's")
        await self.say("running-agent", "anything", chat="busy")
        self.expect["running-agent"]["session_id"] = "the running agent's"
        found = await self.options_and_undo() if self.world.load != "alone" else {}
        return {"facts": self.facts("chat"), "expect": self.expect, "shown": self.shown, **found}

    async def options_and_undo(self) -> dict[str, Any]:
        """What only ctxruntime has: the option, the reload, and taking it out again."""
        ours, found = self.world.ours, {}
        self.world.configure(session_id_fallback="gateway_key")
        await self.say("fallback-in-config", f"/rec-named {RAW_ARGS}", chat="new")
        await self.say("fallback-with-session", f"/rec-named {RAW_ARGS}")
        ours.install(session_id_fallback="off")
        await self.say("fallback-off-in-code", f"/rec-named {RAW_ARGS}", chat="new")
        self.world.configure(session_id_fallback="gateway-key")
        ours.uninstall()
        ours.install()
        await self.say("fallback-misspelt", f"/rec-named {RAW_ARGS}", chat="new")
        self.world.configure()
        ours.install(session_id_fallback="gateway_key")
        await self.say("fallback-in-code", f"/rec-named {RAW_ARGS}", chat="new")
        ours.uninstall()
        ours.install()

        discover(force=True)
        await self.say("reloaded", f"/rec-named {RAW_ARGS}", f"/rec-legacy {RAW_ARGS}")
        found["status"], found["imported"] = ours.status(), sorted(sys.modules)
        found["registry_is_the_plugins"] = self.registry_is_the_plugins()
        ours.uninstall()
        found["status_off"] = ours.status()
        found["original_again"] = [now is was for now, was in zip(self.attributes(), self.originals, strict=True)]
        await self.say("uninstalled", f"/rec-named {RAW_ARGS}")
        ours.install()
        await self.say("installed-again", f"/rec-named {RAW_ARGS}")
        return found

    def attributes(self) -> tuple[object, ...]:
        import gateway.run
        from hermes_cli import plugins

        return (
            vars(plugins)["get_plugin_command_handler"],
            vars(plugins)["resolve_plugin_command_result"],
            vars(gateway.run.GatewayRunner)["_handle_message"],
        )

    def registry_is_the_plugins(self) -> bool:
        from hermes_cli.plugins import get_plugin_commands

        commands = get_plugin_commands()
        return all(commands[f"rec-{style}"]["handler"] is fn for style, fn in recorder.HANDLERS.items())

    def _gateway(self) -> tuple[Any, Any]:
        from gateway.config import GatewayConfig, Platform, PlatformConfig
        from gateway.platforms.base import BasePlatformAdapter, SendResult
        from gateway.run import GatewayRunner

        class Adapter(BasePlatformAdapter):
            """The platform's transport, which is all that is not Hermes here."""

            sent: list[str]

            async def connect(self, *, is_reconnect: bool = False) -> bool:
                return True

            async def disconnect(self) -> None: ...

            async def send(self, chat_id: str, content: str, **_: object) -> Any:
                self.sent.append(content)
                return SendResult(success=True, message_id="1")

            async def send_typing(self, chat_id: str, metadata: object = None) -> None: ...

            async def get_chat_info(self, chat_id: str) -> dict[str, str]:
                return {"name": chat_id, "type": "group"}

        platform = PlatformConfig(enabled=True, token="none")
        runner = GatewayRunner(
            GatewayConfig(platforms={Platform.DISCORD: platform}, sessions_dir=self.world.home / "sessions")
        )
        adapter = Adapter(platform, Platform.DISCORD)
        adapter.sent = []
        # What GatewayRunner.start() does for each of its adapters.
        runner.adapters[Platform.DISCORD] = adapter
        adapter.set_message_handler(runner._handle_message)
        adapter.set_session_store(runner.session_store)
        runner._running = True
        runner._gateway_loop = asyncio.get_running_loop()
        return runner, adapter

    def source(self, chat: str = "chat") -> Any:
        from gateway.config import Platform
        from gateway.session import SessionSource

        return SessionSource(platform=Platform.DISCORD, chat_id=chat, chat_type="group", user_id="u")

    def key(self, chat: str = "chat") -> str:
        return self.runner._session_key_for_source(self.source(chat))

    @staticmethod
    def facts(chat: str) -> dict[str, str]:
        """What a message of a chat says beyond its session, by our keys."""
        return {"frontend": "gateway", "user_id": "u", "hermes_platform": "discord", "hermes_chat_id": chat}

    def known(self, chat: str) -> dict[str, Any]:
        """What the host itself knows of a chat."""
        entry = self.runner.session_store._entries.get(self.key(chat))
        return {"session_id": entry and entry.session_id, "gateway_session_key": self.key(chat)}

    def event(self, text: str, chat: str) -> Any:
        from gateway.platforms.base import MessageEvent, MessageType

        return MessageEvent(text=text, message_type=MessageType.COMMAND, source=self.source(chat), message_id=text)

    async def say(self, phase: str, *texts: str, chat: str = "chat") -> None:
        recorder.phase = phase
        self.expect[phase] = self.known(chat)
        for text in texts:
            self.adapter.sent.clear()
            await self.adapter.handle_message(self.event(text, chat))
            await self.idle()
            self.shown[f"{phase} {text.split()[0]}"] = list(self.adapter.sent)

    async def at_once(self) -> None:
        """Four chats at the same time; the text says which chat it is of."""
        recorder.phase = "at-once"
        self.expect["at-once"] = {chat: self.known(chat) for chat in ("a", "b", "c", "d")}
        events = [self.event(f"/rec-coroutine {chat}", chat) for chat in self.expect["at-once"] for _ in "12"]
        for event in events:
            await self.adapter.handle_message(event)
        await self.idle()

    async def idle(self) -> None:
        async with asyncio.timeout(60):
            # The host has no event for it.
            while self.adapter._active_sessions or self.adapter._background_tasks:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
