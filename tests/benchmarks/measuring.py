"""What is measured, and how: the ways to do one thing, side by side in short slices.

All ways of a table are run in slices of some hundred microseconds, in shuffled order, over many rounds, and of each the
least time counts: whatever else the machine does hits all of them alike, and what is left is the work itself. What is
promised, and reported, is a ratio inside one such run.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from timeit import Timer
from typing import Any

ROUNDS = 600
SLICE = 0.4e-3
"""How many seconds of one way are timed at a stretch, or one run of it if that takes longer."""

Names = dict[str, Any]
Setting = Callable[[], AbstractContextManager[Names]]


@contextmanager
def nothing() -> Iterator[Names]:
    """Set up nothing."""
    yield {}


@dataclass(frozen=True)
class Way:
    """One way to do what a table is about.

    Args:
        name: what it is called in tables.
        statement: what is timed.
        setting: sets up what the statement needs, and yields its names.
        needs: the distributions that it needs.
        process: ways of one name share a process; what patches Python has one of its own.
    """

    name: str
    statement: str
    setting: Setting = nothing
    needs: tuple[str, ...] = ()
    process: str = ""

    def missing(self) -> tuple[str, ...]:
        """Return which of the distributions are not installed here."""
        return tuple(name for name in self.needs if version_of(name) is None)


@dataclass(frozen=True)
class Promise:
    """That one way costs at most so many times another.

    Args:
        most: how many times.
        way, base: the names of both ways.
        out_of_reach: what is guarded in its place, where even the bare steps by hand cost more than is promised.
    """

    most: float
    way: str
    base: str
    out_of_reach: float | None = None

    def __str__(self) -> str:
        return f"{self.way} <= {self.most:g} x {self.base}"


@dataclass(frozen=True)
class Table:
    """The ways to do one thing. The first of them is the limit: what is written by hand, or Python's own.

    Args:
        name: how it is asked for.
        title: what is done, for people.
        ways: the ways; `ctxruntime` is in the name of those that are ours.
        promises: what is promised of them.
        less: what is timed besides and taken off each, as the cost of what only drives them.
        setting: set up for all of them, in each process.
        sizes: of the programs that a table of sizes compares; its ways are called `STEP, SIZE`.
    """

    name: str
    title: str
    ways: tuple[Way, ...]
    promises: tuple[Promise, ...] = ()
    less: str = ""
    setting: Setting = nothing
    sizes: tuple[int, ...] = ()

    def way(self, name: str) -> Way:
        """Return a way by its name."""
        return next(way for way in self.ways if way.name == name)


@dataclass
class Bench:
    """Some ways of a table, set up in this process: times slices of them. A context manager."""

    table: Table
    ways: Sequence[Way]
    timers: dict[str, Timer] = field(default_factory=dict[str, Timer])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Bench:
        names = self._stack.enter_context(self.table.setting())
        for way in self.ways:
            own = names | self._stack.enter_context(way.setting())
            self.timers[way.name] = Timer(way.statement, globals=own)
        if self.table.less:
            self.timers[""] = Timer(self.table.less, globals=names)
        for name, timer in self.timers.items():
            timer.timeit(2)  # what is made at the first need is made now
            self.numbers[name] = runs_of_a_slice(timer)
        gc.collect()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def slice(self, name: str) -> float:
        """Return how many seconds one run of a way takes, over one slice."""
        return self.timers[name].timeit(self.numbers[name]) / self.numbers[name]


def runs_of_a_slice(timer: Timer) -> int:
    """Return how often a statement is run in a slice."""
    return max(1, round(SLICE / (min(timer.repeat(5, 3)) / 3)))


def race(names: Sequence[str], slice_of: Callable[[str], float], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the least time of each way, in seconds: slices in shuffled order, over many rounds."""
    least = dict.fromkeys(names, float("inf"))
    order = list(names)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            least[name] = min(least[name], slice_of(name))
    return least


def without(least: dict[str, float]) -> dict[str, float]:
    """Return the times without that of what only drives them."""
    less = least.get("", 0.0)
    return {name: taken - less for name, taken in least.items() if name}


def version_of(distribution: str) -> str | None:
    """Return which version is installed here; None if none is."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
