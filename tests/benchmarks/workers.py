"""Ways that cannot share a process, as they patch it, have one each; slices go round among them all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import ROUNDS, Bench, Table, Way, race, without

HERE = Path(__file__).parent


TIMES = 3
"""How often all is measured anew: where chance puts a process's memory decides up to a seventh of a call."""


def measured(table: Table, ways: Sequence[Way], times: int = TIMES) -> dict[str, float]:
    """Return the least seconds of these ways of a table, in fresh processes, as many as they need, so many times."""
    found = [_measured_once(table, ways, ROUNDS // times) for _ in range(times)]
    return {way.name: min(seconds[way.name] for seconds in found) for way in ways}


def _measured_once(table: Table, ways: Sequence[Way], rounds: int) -> dict[str, float]:
    workers: dict[str, Worker] = {}
    try:
        for process in dict.fromkeys(way.process for way in ways):
            workers[process] = Worker(table, [way.name for way in ways if way.process == process])
        at = {way.name: workers[way.process] for way in ways}
        if table.less:
            at[""] = next(iter(workers.values()))
        return without(race(list(at), lambda name: at[name].slice(name), rounds))
    finally:
        for worker in workers.values():
            worker.close()


class Worker:
    """A process that has some ways of a table set up, and times a slice of one whenever it is asked."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self._child = subprocess.Popen(
            [sys.executable, str(HERE), "serve", table.name, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def slice(self, name: str) -> float:
        """Return how many seconds one run of a way takes, over one slice."""
        assert self._child.stdin is not None
        print(json.dumps(name), file=self._child.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> Any:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of a table has ended with {self._child.wait(10)}: its error is above")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.stdout.close()
        try:
            self._child.wait(20)
        except subprocess.TimeoutExpired:  # threads of a peer's that do not end
            self._child.kill()
            self._child.wait(10)


def serve(table: Table, names: Sequence[str]) -> None:
    """Be a worker: read the names of ways, and answer with times, until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what is timed may print
    with Bench(table, [table.way(name) for name in names]) as bench:
        print("true", file=answers, flush=True)
        for line in sys.stdin:
            print(bench.slice(json.loads(line)), file=answers, flush=True)
