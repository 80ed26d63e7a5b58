"""Chats of a gateway with agents: their turns, and everything that gives a chat another session."""

from __future__ import annotations

import asyncio
import contextvars
import re
from typing import Any

import hook_recorder
from acting import discover, happened, prepare
from site_gateway import Chats
from world import World

STATE = "drive"


def drive(world: World) -> dict[str, Any]:
    """Turns, /background, /new, an automatic reset, /compress, /branch, /resume, eviction, expiry, a restart."""
    prepare(world, compression={"enabled": False, "in_place": False})
    discover()
    if world.load != "alone":
        hook_recorder.ambient = everything
    return asyncio.run(Acting(world, ()).tell())


def everything() -> dict[str, Any]:
    import ctxruntime

    return dict(ctxruntime.current())


def normalised(answer: str) -> str:
    """Take out of an answer what differs from run to run: ids, numbers, and the tip that the host draws."""
    return re.sub(r"\b(bg_)?\d+(_[0-9a-f]+)*\b|✦ Tip.*", "#", answer, flags=re.DOTALL)


class Acting(Chats):
    """Chats in which things happen."""

    async def tell(self) -> dict[str, Any]:
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}
        self.evicted: list[dict[str, Any]] = []
        self.runner, self.adapter = self._gateway()
        await self.turn("first", "[one] go")
        self.remember("block", "read_file")
        await self.turn("cached", "[three] go")
        await self.background("background", "chat")
        await self.background("background-first", "unused")
        await self.turn("neighbour", "[one] go", chat="neighbour")
        await self.evict()
        await self.turn("compressed", "/compress")
        await self.turn("after-compression", "[one] go")
        await self.turn("branched", "/branch aside")
        await self.turn("after-branch", "[one] go")
        self.runner.session_store.suspend_session(self.key())
        await self.turn("reset-inside", "[one] go")
        await self.turn("new", "/new")
        await self.turn("after-new", "[one] go")
        first = self.before["cached"]["session_id"]
        self.runner.session_store.switch_session(self.key(), first)
        self.runner._evict_cached_agent(self.key())  # as /resume does: before 0.19 it would go on in its own session
        await self.turn("resumed", "[one] go")
        await self.unwatched()
        await self.turn("after-unwatched", "[one] go")
        await self.expire()
        await self.restart()
        await self.turn("restarted", "[one] go")
        return {
            "before": self.before,
            "after": self.after,
            "events": hook_recorder.EVENTS,
            "evicted": self.evicted,
            "answers": [f"{phase}: {normalised(answer)}" for phase, told in self.shown.items() for answer in told],
            "state": self.states,
        }

    states: dict[str, Any] = {}  # noqa: RUF012 - there is one drive in a process

    async def turn(self, phase: str, text: str, chat: str = "chat") -> None:
        """Send a message, and wait until everything that it starts has ended."""
        hook_recorder.phase = phase
        self.before[phase] = self.known(chat)
        await self.say(phase, text, chat=chat)
        self.after[phase] = self.known(chat)
        self.states[phase] = self.recall(phase, chat)

    async def background(self, phase: str, chat: str) -> None:
        """Send a background job, whose agent works when the chat's turn has ended."""
        await self.turn(phase, "/background [one] go", chat=chat)
        async with asyncio.timeout(60):
            # The host has no event for it.
            while self.runner._background_tasks or not happened(phase, "on_session_end"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await self.idle()
        self.shown[f"{phase} /background"] = list(self.adapter.sent)

    async def evict(self) -> None:
        """Have the agent of one chat torn down inside another chat's turn."""
        if not hasattr(self.runner, "_commit_then_release_soft"):
            return  # before 0.18.2 an agent is put away, and not torn down
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        agent = self.runner._agent_cache[self.key()][0]
        release = agent.release_clients

        def recorded() -> None:
            self.evicted.append(hook_recorder.ambient() or {})
            release()
            loop.call_soon_threadsafe(done.set)

        agent.release_clients = recorded

        def watch(name: str, given: Any) -> None:
            if name == "pre_gateway_dispatch" and hook_recorder.phase == "evicting":
                hook_recorder.watchers.clear()
                self.runner._evict_cached_agent(self.key())

        hook_recorder.watchers.append(watch)
        await self.turn("evicting", "[one] go", chat="neighbour")
        await asyncio.wait_for(done.wait(), 30)

    async def expire(self) -> None:
        """Fire what the watcher of idle sessions does, from a task that no message has started."""
        from hermes_cli.plugins import invoke_hook

        hook_recorder.phase = "expired"
        self.before["expired"] = self.known("neighbour")
        invoke = contextvars.Context().run
        session_id = self.before["expired"]["session_id"]
        invoke(invoke_hook, "on_session_finalize", session_id=session_id, platform="discord", reason="session_expired")

    async def unwatched(self) -> None:
        """Compress while ctxruntime is not there."""
        if self.world.load != "alone":
            self.world.ours.uninstall()
        hook_recorder.phase = "unwatched"
        await self.say("unwatched", "/compress")
        if self.world.load != "alone":
            self.world.ours.install()

    async def restart(self) -> None:
        """Start another gateway in the same home, as if this one had ended."""
        if self.world.load != "alone":
            self.world.ours.uninstall()
            self.world.ours.install()
        self.runner, self.adapter = self._gateway()
        self.runner.session_store._ensure_loaded()

    def remember(self, name: str, value: str) -> None:
        """Keep something for the chat's conversation, as a plugin would."""
        if self.world.load != "alone":
            self._in_conversation(lambda state: state.set(name, value))

    def recall(self, phase: str, chat: str) -> Any:
        """What is kept for the chat's conversation, and which that is."""
        if self.world.load == "alone":
            return None
        return self._in_conversation(lambda state: state.get("block", None), chat)

    def _in_conversation(self, act: Any, chat: str = "chat") -> Any:
        import ctxruntime
        from ctxruntime.conversation import ConversationState

        known = self.known(chat)
        with ctxruntime.session(gateway_session_key=known["gateway_session_key"], session_id=known["session_id"]):
            return act(ConversationState(STATE))
