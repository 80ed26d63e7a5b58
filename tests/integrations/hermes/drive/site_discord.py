"""A chat gateway with Hermes's own Discord adapter and the real discord.py, against a Discord on loopback."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import recorder
from blocking import prepare
from scripted_model import READ
from world import World

sys.path.append(str(Path(__file__).parents[1] / "discord"))

import loopback_discord as fake
from loopback_guild import ANN, BEN, CHANNELS, THREAD

RIGHT, OTHER = CHANNELS


def drive(world: World) -> dict[str, Any]:
    """A chat gateway through Hermes's own Discord adapter."""
    os.environ.update(
        DISCORD_ALLOWED_USERS="*",
        DISCORD_FREE_RESPONSE_CHANNELS="*",
        DISCORD_AUTO_THREAD="false",
        DISCORD_COMMAND_SYNC_POLICY="bulk",
        HERMES_DISCORD_TEXT_BATCH_DELAY_SECONDS="0.05",
    )
    prepare(world, compression={"enabled": False})
    return asyncio.run(Story(world).tell())


class Story:
    """What people write in the guild, and what comes back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.discord = fake.Discord()
        self.answers: dict[str, Any] = {}
        self.ids: dict[str, dict[str, str]] = {}

    async def tell(self) -> dict[str, Any]:
        await self.discord.start()
        await self._start_the_gateway()
        await self.commands_before_any_agent()
        await self.a_tool_blocked_in_one_channel()
        await self.native_commands()
        await self.a_thread()
        await self.reconnects()
        await self.a_new_session()
        registered = {command["name"]: command["options"] for command in self.discord.commands}
        return {
            "answers": self.answers,
            "ids": self.ids,
            "callbacks": {phase: self.discord.callbacks[token] for phase, token in self.tokens.items()},
            "registered": {name: registered.get(name) for name in ("block", "blocked")},
            "arrivals": self.arrivals,
            "paths": self.discord.paths,
            "not_faked": self.discord.not_faked,
        }

    async def _start_the_gateway(self) -> None:
        from gateway.config import GatewayConfig, Platform, PlatformConfig
        from gateway.run import GatewayRunner

        platform = PlatformConfig(enabled=True, token="none")
        sessions = self.world.home / "sessions"
        self.runner = GatewayRunner(GatewayConfig(platforms={Platform.DISCORD: platform}, sessions_dir=sessions))
        assert await self.runner.start()
        self.adapter = self.runner.adapters[Platform.DISCORD]
        self.arrivals = [await self.discord.arrivals.get()]
        self.tokens: dict[str, str] = {}
        await self.discord.until(lambda: bool(self.discord.commands))

    async def commands_before_any_agent(self) -> None:
        await self.say("first of all", RIGHT, "/rec-named Hello")
        await self.pick("first of all, native", OTHER, "rec-named")
        await self.say("first of all, another person", RIGHT, "/rec-named Hello", author=BEN)

    async def a_tool_blocked_in_one_channel(self) -> None:
        await self.say("block", RIGHT, "/block read_file")
        await asyncio.gather(
            self.say("turn where it is blocked", RIGHT, READ),
            self.say("turn in the other channel", OTHER, READ),
        )
        await self.say("after the turn", RIGHT, "/rec-named Hello")
        await self.say("after the turn, other channel", OTHER, "/rec-named Hello")

    async def native_commands(self) -> None:
        await self.pick("native", RIGHT, "rec-named")
        await self.pick("native list", RIGHT, "blocked")
        await self.pick("native block", OTHER, "block", "read_file")
        await self.pick("native unblock", RIGHT, "unblock", "read_file")
        await self.say("turn where it is blocked natively", OTHER, READ)
        await self.say("turn where it is unblocked natively", RIGHT, READ)

    async def a_thread(self) -> None:
        await self.say("thread, first of all", THREAD, "/rec-named Hello")
        await self.say("thread block", THREAD, "/block read_file")
        await self.say("thread turn", THREAD, READ)
        await self.say("turn in the thread's channel", RIGHT, READ)
        await self.pick("thread, native", THREAD, "rec-named")

    async def reconnects(self) -> None:
        await self.discord.ask_to_reconnect()
        await self.arrived()
        await self.say("reconnected", OTHER, "/rec-named Hello")
        recorder.phase = "while it was away"
        before = self.replies_in(OTHER)
        await self.discord.drop()
        await self.discord.say(OTHER, "/rec-named Hello")
        await self.arrived()
        await self.discord.again(2)
        await self.settle("while it was away", OTHER, before)
        self.discord.refuse_resumes = True
        await self.discord.drop()
        await self.arrived(2)
        await self.say("resume refused", OTHER, "/rec-named Hello")
        await self.say("turn after it all", OTHER, READ)

    async def a_new_session(self) -> None:
        await self.pick("native new", OTHER, "new")
        await self.say("after new", OTHER, "/rec-named Hello")
        await self.say("turn after new", OTHER, READ)

    async def say(self, phase: str, channel: int, text: str, author: int = ANN) -> None:
        """Write a message, and wait until the bot is done with it."""
        recorder.phase = phase
        before = self.replies_in(channel)
        await self.discord.say(channel, text, author)
        await self.settle(phase, channel, before)

    async def pick(self, phase: str, channel: int, command: str, args: str | None = None) -> None:
        """Pick a command from the menu, and wait until the bot is done with it."""
        recorder.phase = phase
        before = self.replies_in(channel)
        token = self.tokens[phase] = await self.discord.pick(channel, command, args)
        await self.discord.until(lambda: len(self.discord.callbacks[token]) == 2)
        await self.settle(phase, channel, before)

    async def arrived(self, count: int = 1) -> None:
        for _ in range(count):
            self.arrivals.append(await asyncio.wait_for(self.discord.arrivals.get(), 60))

    def replies_in(self, channel: int) -> int:
        return sum(where == channel for where, _ in self.discord.replies)

    async def settle(self, phase: str, channel: int, before: int) -> None:
        await self.discord.until(lambda: self.replies_in(channel) > before)
        async with asyncio.timeout(60):
            # The host has no event for it.
            while self.adapter._active_sessions or self.adapter._background_tasks:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        self.answers[phase] = [text for where, text in self.discord.replies if where == channel][before:]
        self.ids[phase] = {key: entry.session_id for key, entry in self.runner.session_store._entries.items()}
