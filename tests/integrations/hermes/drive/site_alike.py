"""A conversation at each frontend, and all that it leaves behind: counters, messages, rows, requests to the model."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hook_recorder
from acting import discover, prepare, titling, wait_for
from actors import Actor, AtTheCommandLine, AtTheTui, Gateway, InAChat, Tui
from stored import routes, rows
from world import RAW_ARGS, World

COMPRESSION: dict[str, Any] = {"enabled": True, "protect_first_n": 0, "protect_last_n": 3}


def drive(world: World) -> dict[str, Any]:
    """The same words at the command line, in a chat and in a window of the UI, one after the other."""
    model = prepare(world, compression=COMPRESSION, skills={"creation_nudge_interval": 0})
    discover()
    import tui_gateway.server  # noqa: F401 - it puts another standard output in place

    screen = io.StringIO()  # one: prompt_toolkit keeps the first that it sees
    with contextlib.redirect_stdout(screen):
        gateway = Gateway(world)
        talks = {
            "cli": Talk("cli", AtTheCommandLine(screen), world.home),
            "gateway": Talk("gateway", InAChat(gateway, "a"), world.home),
            "tui": Talk("tui", AtTheTui(Tui()), world.home),
        }
        for talk in talks.values():
            talk.tell()
    return {
        "told": {name: talk.told for name, talk in talks.items()},
        "counted": {name: talk.counted for name, talk in talks.items()},
        "ids": {name: talk.ids for name, talk in talks.items()},
        "rows": rows(world.home),
        "routes": routes(world.home),
        "asked": [[message_of(one) for one in asked["messages"]] for asked in model.asked if asked.get("tools")],
        "asked_without_tools": sum(not asked.get("tools") for asked in model.asked),
        "events": [[e["phase"], e["event"]] for e in hook_recorder.EVENTS if e["style"] == "anything"],
        "directory": str(world.home.parent),
    }


def message_of(message: dict[str, Any]) -> list[Any]:
    """What the model saw of a message."""
    return [message["role"], message.get("content"), message.get("tool_calls"), message.get("tool_call_id")]


class Talk:
    """One conversation, and what was answered and counted at each step."""

    def __init__(self, name: str, actor: Actor, home: Path) -> None:
        self.name = name
        self.actor = actor
        self.home = home
        self.told: dict[str, str] = {}
        self.counted: dict[str, Any] = {}
        self.ids: dict[str, str] = {}

    def tell(self) -> None:
        say = self.actor
        compressing(self.home, in_place=True)
        self.step("command", lambda: say.command(f"/rec-named {RAW_ARGS}"))
        self.step("words", lambda: say.turn("hello"))
        self.step("one tool", lambda: say.turn("[one] go"))
        self.step("three tools", lambda: say.turn("[three] go"))
        self.step("compressed in place", say.compress)
        self.step("after compression", lambda: say.turn("[one] again"))
        compressing(self.home, in_place=False)
        self.step("new", say.new)
        self.step("one tool in the new one", lambda: say.turn("[one] go"))
        self.step("three tools in the new one", lambda: say.turn("[three] go"))
        self.step("compressed again", say.compress)
        self.step("after the second compression", lambda: say.turn("[one] again"))
        self.step("last command", lambda: say.command(f"/rec-coroutine {RAW_ARGS}"))

    def step(self, step: str, act: Callable[[], str]) -> None:
        hook_recorder.phase = f"{self.name}: {step}"
        self.told[step] = act()
        wait_for(lambda: not titling())
        self.counted[step] = counters(self.actor)
        self.ids[step] = self.actor.session_id()


def compressing(home: Path, *, in_place: bool) -> None:
    """Say whether a session keeps its id when its history is compressed; agents made from now on read it."""
    file = home / "config.yaml"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"compression": COMPRESSION | {"in_place": in_place}}))


def counters(actor: Any) -> dict[str, Any]:
    """What the agent that serves somebody has counted so far; nothing where there is none."""
    agent = agent_of(actor)
    names = ("_user_turn_count", "session_api_calls", "_turns_since_memory", "session_total_tokens")
    return {name: getattr(agent, name) for name in names if hasattr(agent, name)}


def agent_of(actor: Any) -> Any:
    if isinstance(actor, AtTheCommandLine):
        return actor.line.agent
    if isinstance(actor, AtTheTui):
        return actor.tui.host._sessions[actor.ui_id].get("agent")
    chats = actor.gateway.chats
    return (chats.runner._agent_cache.get(chats.key(actor.chat)) or [None])[0]
