"""Agents of a chat, while one thing of ours after the other fails."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from inspect import signature
from typing import Any

import hook_recorder
from acting import KEY, agent, discover, prepare
from world import INTEGRATION, World

BROKEN = {
    "facts": ("turns", "of_agent"),
    "enter": ("turns", "session"),
    "store": ("_host_store", "origin_of"),
    "bridge": ("identity", "use"),
    "learn": ("identity", "learn"),
    "adapt": ("hooks", "adapt"),
    "view": ("hooks", "View"),
    "rotate": ("identity", "current_turn"),
}
"""What fails, by a word for it."""


def fail(*_: object, **__: object) -> Any:
    raise RuntimeError("a fault of ours")


def drive(world: World) -> dict[str, Any]:
    """The same turn, and a compression that rotates, with everything sound, and with each thing broken."""
    model = prepare(world, compression={"enabled": False, "in_place": False})
    discover()
    outcomes = {"sound": outcome(model, "sound")}
    if world.load != "alone":
        for word, (module, name) in BROKEN.items():
            world.ours.uninstall()
            world.ours.install()
            with broken(f"{INTEGRATION}.{module}", name):
                outcomes[word] = outcome(model, word)
        world.ours.uninstall()
        world.ours.install(store="sqlite:/no/such/folder/conversations.db")
        outcomes["no-folder"] = outcome(model, "no-folder")
    return {"outcomes": outcomes, "events": hook_recorder.EVENTS}


def outcome(model: Any, phase: str) -> list[Any]:
    """What the host makes of it: the answer, and what is stored."""
    from hermes_state import SessionDB

    hook_recorder.phase = phase
    db = SessionDB()
    one = agent(model, gateway_session_key=KEY, session_db=db)
    before = one.session_id
    answer = one.run_conversation("[one] go")
    stored = [message["role"] for message in db.get_messages(before)]
    words = [{"role": role, "content": "word " * 200} for role in ("user", "assistant")] * 12
    force = {"force": True} if "force" in signature(one._compress_context).parameters else {}  # since 0.15
    one._compress_context(words, "", approx_tokens=10_000, **force)
    row = db.get_session(one.session_id) or {}
    return [answer["final_response"], stored, one.session_id != before, row.get("parent_session_id") == before]


@contextlib.contextmanager
def broken(module: str, name: str) -> Iterator[None]:
    """Have a function of ours fail inside the block."""
    owner = importlib.import_module(module)
    sound = getattr(owner, name)
    setattr(owner, name, fail)
    try:
        yield
    finally:
        setattr(owner, name, sound)
