"""What ctxruntime takes beside time: memory for each turn, and a start."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tables.shared import FIVE

import ctxruntime as ctx

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

TENANT = ctx.Key("bench_tenant", str)


@pytest.mark.parametrize(
    ("limit", "more"), [pytest.param(265, {}, id="built-in keys"), pytest.param(330, {TENANT: "t"}, id="one own")]
)
def test_a_live_turn_is_small(limit: int, more: dict[Any, object]) -> None:
    """Each of 100,000 live turns takes at most 265 bytes with the five keys, with one of one's own besides 330."""
    count = 100_000
    turns = [ctx.session(more, **FIVE) for _ in range(count)]
    for turn in turns[:100]:
        turn.open()
        turn.close()
    turns.clear()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]

    for _ in range(count):
        turns.append(ctx.session(more, **FIVE))
        turns[-1].open()
    taken = tracemalloc.get_traced_memory()[0] - before - sys.getsizeof(turns)
    tracemalloc.stop()
    for turn in reversed(turns):
        turn.close()

    assert taken / count <= limit


IMPORT = """
import asyncio, gc, time
gc.disable()  # on some versions a collection of what asyncio made falls due just now
start = time.perf_counter()
import {name}
print(time.perf_counter() - start)
"""
STARTS = 25
EMPTY_MODULES = 10


def test_importing_costs_two_milliseconds_beside_asyncio(tmp_path: Path) -> None:
    """With asyncio imported, importing costs at most 2 ms; on a slow machine, what 12 empty modules cost there."""
    empty = tmp_path / "empty"
    empty.mkdir()
    names = [f"m{number}" for number in range(1, EMPTY_MODULES)]
    (empty / "__init__.py").write_text("".join(f"import empty.{name}\n" for name in names))
    for name in names:
        (empty / f"{name}.py").write_text("from __future__ import annotations\n")
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled"), "PYTHONPATH": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def start(name: str) -> float:
        command = [sys.executable, "-c", IMPORT.format(name=name)]
        return float(subprocess.run(command, capture_output=True, check=True, text=True, env=environment).stdout)

    starts = [(start("empty"), start("ctxruntime")) for _ in range(STARTS)]
    module = min(first for first, _ in starts) / EMPTY_MODULES
    least = min(second for _, second in starts)
    print(f"import ctxruntime: {least * 1000:.2f} ms; {least / module:.1f} times an empty module")

    assert least <= max(0.002, 12 * module)
