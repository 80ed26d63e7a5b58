"""What it costs to know the conversation, as ratios to a bare read of one row by the store's own client in one run."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from timeit import Timer
from typing import Any

import pytest

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.stores import Store, open_store

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

TRIES = 4
HEAD_ROOM = 1.1
"""As for the other promises: see `keeps`."""
Keeps = Callable[..., None]
KEY = "agent:main:discord:dm:7"
SESSION = "20261130_0911_ab12"
OTHERS = 1_000
"""How many other conversations the store has."""

BY_KEY = "resolve(gateway_session_key=k)"
BY_BOTH = "resolve(gateway_session_key=k, session_id=s)"


def filled(store: Store) -> dict[str, Any]:
    """Return what statements are to know: the one conversation that is asked for, among others."""
    bridge = Bridge(store, "bench")
    for number in range(OTHERS):
        bridge.resolve(gateway_session_key=f"agent:main:discord:dm:other-{number}", session_id=f"other-{number}")
    known = bridge.resolve(gateway_session_key=KEY, session_id=SESSION)
    assert bridge.resolve(gateway_session_key=KEY) == bridge.resolve(gateway_session_key=KEY, session_id=SESSION)
    return {"resolve": bridge.resolve, "k": KEY, "s": SESSION, "conversation": known.id}


# Memory


@pytest.mark.parametrize(
    ("promise", "case"), [pytest.param(16, BY_KEY, id="by-key"), pytest.param(20, BY_BOTH, id="by-both")]
)
def test_in_memory_a_conversation_is_known_at_once(keeps: Keeps, promise: float, case: str) -> None:
    """A hit costs at most so many times the least an LRU cache can: a `get` and `move_to_end` (2 microseconds)."""
    lru: OrderedDict[tuple[str, str], object] = OrderedDict({(str(number), "k"): number for number in range(OTHERS)})
    lru["k", KEY] = KEY

    base = "lru.get(ref); lru.move_to_end(ref)"
    keeps(promise, case, base, filled(open_store("memory:")) | {"lru": lru, "ref": ("k", KEY)})


# SQLite


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Yield what statements are to know, with a raw connection to the same file, and one that writes to it."""
    path = tmp_path / "conversations.db"
    store = open_store(f"sqlite:{path}")
    names = filled(store)
    raw, writing = (sqlite3.connect(path, isolation_level=None) for _ in range(2))
    writing.execute("PRAGMA synchronous = OFF")
    row = "SELECT version, expires, record FROM convs WHERE ns = ? AND id = ?"
    assert raw.execute(row, ("bench", names["conversation"])).fetchone()
    yield names | {"raw": raw.execute, "row": row, "id": ("bench", names["conversation"]), "writing": writing.execute}
    raw.close()
    writing.close()
    store.close()


RAW = "raw(row, id).fetchone()"


@pytest.mark.parametrize("case", [pytest.param(BY_KEY, id="by-key"), pytest.param(BY_BOTH, id="by-both")])
def test_on_sqlite_a_conversation_costs_little_more_than_a_row(keeps: Keeps, sqlite: dict[str, Any], case: str) -> None:
    """While nothing is written, a conversation that is known costs at most 1.5 times a bare read of one row."""
    keeps(1.5, case, RAW, sqlite)


@pytest.mark.parametrize("case", [pytest.param(BY_KEY, id="by-key"), pytest.param(BY_BOTH, id="by-both")])
def test_on_sqlite_a_conversation_is_read_anew_after_a_write(sqlite: dict[str, Any], case: str) -> None:
    """Right after each write of somebody else's it costs at most 2.8 times what a bare read then costs."""
    write = "writing('UPDATE convs SET expires = expires + 1 WHERE ns = ? AND id = ?', id)"

    best = min(after(write, case, RAW, sqlite) for _ in range(TRIES))

    print(f"{case} after a write: {best:.2f} of 2.8")
    assert best <= 2.8 * HEAD_ROOM


def after(write: str, case: str, base: str, names: dict[str, Any]) -> float:
    """Return how many times a bare read one of ours costs, each alone measured and right after a write: medians."""
    wrote = compile(write, "write", "eval")
    statements = {name: Timer(statement, globals=names) for name, statement in (("case", case), ("base", base))}
    taken: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(1_000):
        for name, statement in statements.items():
            eval(wrote, names)
            taken[name].append(statement.timeit(1))
    return median(taken["case"]) / median(taken["base"])
