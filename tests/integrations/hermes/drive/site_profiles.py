"""A gateway that serves several profiles, each with a home of its own, in one process."""

from __future__ import annotations

import asyncio
from typing import Any

import hook_recorder
import keeper
from acting import discover, prepare
from site_gateway import Chats
from world import World

PROFILES = ("coder", "default")
"""In the order of their first messages: the one with a home elsewhere comes first."""


def drive(world: World) -> dict[str, Any]:
    """A chat writes to each profile's bot: a command, a turn, and again after a restart, the other one first."""
    prepare(world)
    keeper.publish(world.home.parent / "site", world.home / "config.yaml", world.home.parent / "written")
    coder = world.home / "profiles" / "coder"
    coder.mkdir(parents=True)
    (coder / "config.yaml").write_text((world.home / "config.yaml").read_text())
    discover()
    return asyncio.run(Profiles(world, ()).tell())


class Profiles(Chats):
    """The chats of a gateway with a bot for each profile."""

    profile = "default"

    async def tell(self) -> dict[str, Any]:
        self.told: dict[str, str] = {}
        self.known_after: dict[str, Any] = {}
        self.start()
        for profile in PROFILES:
            await self.say_to(profile, "keep", f"/keep of {profile}")
            await self.say_to(profile, "turn", "[one] go")
            await self.say_to(profile, "kept", "/keep")
        if self.world.load != "alone":
            self.world.ours.uninstall()
            self.world.ours.install()
        self.start()
        self.runner.session_store._ensure_loaded()
        for profile in reversed(PROFILES):
            await self.say_to(profile, "restarted", "/keep")
        return {
            "before": self.expect,
            "after": self.known_after,
            "told": self.told,
            "events": hook_recorder.EVENTS,
            "stores": sorted(str(file.relative_to(self.world.home)) for file in self.world.home.rglob("ctxruntime.db")),
        }

    def start(self) -> None:
        """Start a gateway, and what it does for each adapter of another profile."""
        from gateway.config import Platform

        self.runner, self.adapter = self._gateway()
        self.runner.config.multiplex_profiles = True
        self.runner.session_store.config.multiplex_profiles = True
        self.adapters = {"default": self.adapter}
        other = self.adapters["coder"] = type(self.adapter)(self.adapter.config, Platform.DISCORD)
        other.sent = []
        self.runner._configure_profile_adapter(other, "coder", Platform.DISCORD)
        self.runner._profile_adapters["coder"] = {Platform.DISCORD: other}

    async def say_to(self, profile: str, step: str, text: str) -> None:
        self.profile, self.adapter = profile, self.adapters[profile]
        hook_recorder.phase = phase = f"{profile}: {step}"
        self.shown.clear()
        await self.say(phase, text, chat=profile)
        self.told[phase] = [told for answers in self.shown.values() for told in answers][-1]
        self.known_after[phase] = self.known(profile)

    def source(self, chat: str = "chat") -> Any:
        source = super().source(chat)
        source.profile = None if self.profile == "default" else self.profile
        return source
