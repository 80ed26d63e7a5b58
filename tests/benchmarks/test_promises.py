"""What adopting ctxruntime costs in time, as ratios inside one run: each promise of each table."""

from __future__ import annotations

import pytest
from measuring import Promise, Table
from tables import ALL, TABLES
from workers import measured

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

TRIES = 4
HEAD_ROOM = 1.1
"""A shared machine: a promise counts as broken when it is missed by a tenth in every one of the tries."""


@pytest.mark.parametrize(
    ("table", "promise"),
    [
        pytest.param(table, promise, id=f"{table.name}: {promise}")
        for table in TABLES.values()
        for promise in table.promises
    ],
)
def test_a_promise_is_kept(table: Table, promise: Promise) -> None:
    """A way of ours costs at most the promised multiple of the way that it is compared with."""
    ways = [table.way(promise.way), table.way(promise.base)]
    assert not [name for way in ways for name in way.missing()], "install the extra `bench`"

    most = promise.out_of_reach or promise.most
    ratios = []
    for _ in range(TRIES):
        seconds = measured(table, ways, times=1)
        ratios.append(seconds[promise.way] / seconds[promise.base])
        if ratios[-1] <= most:
            break

    print(f"{promise.way}: {min(ratios):.3f} of {most:.3f}")
    assert min(ratios) <= most * HEAD_ROOM


def test_each_table_has_a_name_of_its_own() -> None:
    """No table takes the place of another."""
    assert len(TABLES) == len(ALL)
