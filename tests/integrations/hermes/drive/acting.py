"""A world in which agents act: a model that has them use tools, and a plugin that records every event."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import hook_recorder
from acting_model import ActingModel
from world import World, discover, read_ambient

KEY = "agent:main:discord:group:chat:u"


def prepare(world: World, **settings: Any) -> ActingModel:
    """Give the host the model, the plugin and further settings; before it is imported."""
    folder = world.home.parent / "files"
    folder.mkdir()
    model = ActingModel(folder)
    world.model_url = os.environ["OPENAI_BASE_URL"] = model.url
    world.configure()
    file = world.home / "config.yaml"
    hook_recorder.publish(world.home.parent / "site", file)
    configuration = json.loads(file.read_text())
    configuration["model"] |= {"api_key": "none", "context_length": 200000}
    configuration["compression"] = {"enabled": False}
    configuration["terminal"] = {"backend": "local", "cwd": str(folder)}
    file.write_text(json.dumps(configuration | settings))
    os.chdir(folder)
    if world.load != "alone":
        hook_recorder.ambient = read_ambient
        hook_recorder.turn = the_turn
    return model


def the_turn() -> list[Any] | None:
    """The turn in effect: which one, and whether it has ended."""
    import ctxruntime

    turn = ctxruntime.current_turn()
    return None if turn is None else [id(turn), turn.ended]


def agent(model: ActingModel, **known: Any) -> Any:
    """An agent as the host's frontends make them."""
    from run_agent import AIAgent

    known.setdefault("platform", "discord")
    return AIAgent(
        base_url=model.url,
        api_key="none",
        provider="custom",
        model="stand-in",
        quiet_mode=True,
        skip_memory=True,
        skip_context_files=True,
        enabled_toolsets=["file", "todo", "delegation", "code_execution", "terminal"],
        **known,
    )


def wait_for(done: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for what the host has no event for."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("the host did not do it")
        time.sleep(0.01)


def happened(phase: str, event: str) -> bool:
    return any(one["phase"] == phase and one["event"] == event for one in tuple(hook_recorder.EVENTS))


def titling() -> bool:
    """Tell whether a thread of the host's asks for a title: it begins when a turn is over, and nobody waits for it."""
    return any(thread.name == "auto-title" for thread in threading.enumerate())


__all__ = ["KEY", "agent", "discover", "happened", "prepare", "titling", "wait_for"]
