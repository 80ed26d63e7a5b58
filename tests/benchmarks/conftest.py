from __future__ import annotations

import random
from collections.abc import Callable
from timeit import Timer
from typing import Any

import pytest

ROUNDS = 60
SLICE = 1000
TRIES = 4
HEAD_ROOM = 1.1
"""A shared machine: a promise counts as broken when it is missed by a tenth in every one of the tries."""


def race(cases: dict[str, str], names: dict[str, Any], number: int = SLICE) -> dict[str, float]:
    """Return the least time of each statement: short slices, in shuffled order, over many rounds of one process."""
    timers = {case: Timer(statement, globals=names) for case, statement in cases.items()}
    least = dict.fromkeys(cases, float("inf"))
    order = list(cases)
    for _ in range(ROUNDS):
        random.shuffle(order)
        for case in order:
            least[case] = min(least[case], timers[case].timeit(number))
    return least


@pytest.fixture
def keeps(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Assert that one statement costs at most so many times another; said with the figure if it does not."""

    def check(
        promise: float, case: str, base: str, names: dict[str, Any], less: str | None = None, number: int = SLICE
    ) -> None:
        best = float("inf")
        for _ in range(TRIES):
            least = race({"case": case, "base": base, "less": less or "pass"}, names, number)
            taken = least["less"] if less else 0
            best = min(best, (least["case"] - taken) / (least["base"] - taken))
            if best <= promise:
                break
        print(f"{case}: {best:.2f} of {promise}")
        record_property("ratio", round(best, 3))
        assert best <= promise * HEAD_ROOM, f"{case} costs {best:.2f} times {base}; promised: {promise}"

    return check
