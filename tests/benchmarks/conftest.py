from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from timeit import Timer
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from measuring import ROUNDS, race, runs_of_a_slice

TRIES = 4
HEAD_ROOM = 1.1
"""A shared machine: a promise counts as broken when it is missed by a tenth in every one of the tries."""


@pytest.fixture
def keeps() -> Callable[..., None]:
    """Assert that one statement costs at most so many times another, in this process."""

    def check(promise: float, case: str, base: str, names: dict[str, Any]) -> None:
        timers = {"case": Timer(case, globals=names), "base": Timer(base, globals=names)}
        number = {name: runs_of_a_slice(timer) for name, timer in timers.items()}
        best = float("inf")
        for _ in range(TRIES):
            least = race(list(timers), lambda name: timers[name].timeit(number[name]) / number[name], ROUNDS)
            best = min(best, least["case"] / least["base"])
            if best <= promise:
                break
        print(f"{case}: {best:.2f} of {promise}")
        assert best <= promise * HEAD_ROOM, f"{case} costs {best:.2f} times {base}; promised: {promise}"

    return check
