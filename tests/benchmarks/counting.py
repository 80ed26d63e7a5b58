"""Instructions, where time is too noisy for a guard: what a way runs, counted by callgrind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from measuring import Bench, Table, Way

HERE = Path(__file__).parent
FEW, MANY = 50, 300
"""How often a statement is run in either of two processes; what starting one costs is in both."""


def counted(table: Table, ways: Sequence[Way]) -> dict[str, float]:
    """Return how many instructions one run of each way takes, without those of what only drives them."""
    less = _difference(table, "") if table.less else 0.0
    return {way.name: _difference(table, way.name) - less for way in ways}


def _difference(table: Table, way: str) -> float:
    return (_instructions(table, way, MANY) - _instructions(table, way, FEW)) / (MANY - FEW)


def _instructions(table: Table, way: str, number: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    ran = subprocess.run(
        [*command, str(HERE), "repeat", table.name, way, str(number)],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    found = re.search(r"Collected : (\d+)", ran.stderr)
    assert found, ran.stderr
    assert ran.returncode == 0, ran.stderr
    return int(found[1])


def repeat(table: Table, way: str, number: int) -> None:
    """Be a process that is counted: run one way so many times; what only drives it, where it has no name."""
    with Bench(table, [table.way(way)] if way else []) as bench:
        bench.timers[way].timeit(number)
