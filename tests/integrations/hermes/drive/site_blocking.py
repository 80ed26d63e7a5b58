"""The example plugin in five chats of the three frontends, which all live in one process and act at once."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from actors import Actor, AtTheCommandLine, AtTheTui, Gateway, InAChat, Tui
from blocking import prepare
from scripted_model import DELEGATE, READ, ScriptedModel
from world import World, discover

BLOCKING, OTHERS = ("cli", "gateway", "tui"), ("other gateway", "other tui")
LIST = "/blocked"


def drive(world: World) -> dict[str, Any]:
    """Compressed histories keep their session ids, as the host has it by default."""
    return story(world, in_place=True)


def story(world: World, *, in_place: bool) -> dict[str, Any]:
    """Block a tool in some chats, and see where it runs."""
    compression = {"enabled": True, "in_place": in_place, "protect_first_n": 0, "protect_last_n": 3}
    model = prepare(world, compression=compression)
    discover()
    import tui_gateway.server  # noqa: F401 - it puts another standard output in place

    screen = io.StringIO()  # one: prompt_toolkit keeps the first that it sees
    with contextlib.redirect_stdout(screen):
        return Story(screen, world, model).tell()


class Story:
    """What each of them does, and what is answered."""

    def __init__(self, screen: io.StringIO, world: World, model: ScriptedModel) -> None:
        self.model = model
        gateway, tui = Gateway(world), Tui()
        self.actors: dict[str, Actor] = {
            "cli": AtTheCommandLine(screen),
            "gateway": InAChat(gateway, "a"),
            "tui": AtTheTui(tui),
            "other gateway": InAChat(gateway, "b"),
            "other tui": AtTheTui(tui),
        }
        self.told: dict[str, dict[str, str]] = {}
        self.ids: dict[str, dict[str, str]] = {}

    def tell(self) -> dict[str, Any]:
        everybody = (*BLOCKING, *OTHERS)
        self.at_once("block", BLOCKING, lambda actor: actor.command("/block read_file"))
        self.at_once("list", everybody, lambda actor: actor.command(LIST))
        self.at_once("turn", everybody, lambda actor: actor.turn(READ))
        self.at_once("unblock", ("cli",), lambda actor: actor.command("/unblock read_file"))
        self.at_once("turn, unblocked in one", everybody, lambda actor: actor.turn(READ))
        self.at_once("block again", ("cli",), lambda actor: actor.command("/block read_file"))
        self.delegate("sub-agent", everybody)
        self.at_once("more to compress", BLOCKING, lambda actor: actor.turn(f"{READ} again"))
        self.at_once("compress", BLOCKING, lambda actor: actor.compress())
        self.at_once("list, compressed", everybody, lambda actor: actor.command(LIST))
        self.at_once("turn, compressed", everybody, lambda actor: actor.turn(READ))
        self.at_once("new", BLOCKING, lambda actor: actor.new())
        self.at_once("list, new", BLOCKING, lambda actor: actor.command(LIST))
        self.at_once("turn, new", BLOCKING, lambda actor: actor.turn(READ))
        return {"told": self.told, "ids": self.ids}

    def delegate(self, step: str, who: tuple[str, ...]) -> None:
        """Have some of them have a sub-agent use the tool, at the same time; it may be done after the turn."""
        with ThreadPoolExecutor(len(who)) as threads:
            list(threads.map(lambda name: self.actors[name].turn(f"{DELEGATE} for: {name}"), who))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            children = {asked.partition(" for: ")[2]: told for asked, told in self.model.results if READ in asked}
            if set(who) <= set(children):
                break
            time.sleep(0.05)
        self.told[step] = {name: children[name] for name in who}

    def at_once(self, step: str, who: tuple[str, ...], do: Callable[[Actor], str]) -> None:
        """Have some of them do something at the same time."""
        with ThreadPoolExecutor(len(who)) as threads:
            told = threads.map(lambda name: do(self.actors[name]), who)
            self.told[step] = dict(zip(who, told, strict=True))
        self.ids[step] = {name: actor.session_id() for name, actor in self.actors.items()}
