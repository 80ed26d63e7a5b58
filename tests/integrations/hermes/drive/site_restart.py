"""The host is killed in the middle of three conversations, and started anew: two processes with one home."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import keeper
from acting import prepare
from world import World

PART = Path(__file__).with_name("restart_part.py")


def drive(world: World) -> dict[str, Any]:
    """Each part in a process of the host's own; what is on disk in between is read here, where there is no host."""
    prepare(world, compression={"enabled": True, "in_place": False, "protect_first_n": 0, "protect_last_n": 3})
    file = world.home.parent / "written"
    keeper.publish(world.home.parent / "site", world.home / "config.yaml", file)
    before = part("before", world)
    start = len(keeper.written(file))
    between = between_them(world, before["ids"])
    after = part("after", world, **before["ids"])
    return {
        "before": before,
        "between": between,
        "after": after,
        "events": keeper.written(file)[start:],
        "logged": keeper.logged(file),
    }


def part(name: str, world: World, **ids: Any) -> Any:
    """Have a part told in a process of its own, which ends with a kill."""
    out = world.home.parent / f"{name}.json"
    done = subprocess.run(
        [sys.executable, str(PART), name, str(out), json.dumps(ids)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert out.exists(), done.stderr[-3000:]
    return {"ended": done.returncode, **json.loads(out.read_text())}


def between_them(world: World, ids: dict[str, Any]) -> dict[str, Any]:
    """What ctxruntime's file says of the chat, by its key and by each id that it had."""
    from ctxruntime.conversation import Bridge

    bridge = Bridge(f"sqlite:{world.home / 'ctxruntime.db'}")
    by_key = bridge.find(gateway_session_key=ids["key"])
    by_id = [bridge.find(session_id=one) for one in ids["gateway"]]
    bridge.store.close()
    assert by_key is not None
    return {
        "session_id": by_key.session_ids[-1],
        "conversation": by_key.id,
        "keys": [one.gateway_key if one else None for one in by_id],
        "conversations": [one.id if one else None for one in by_id],
    }
