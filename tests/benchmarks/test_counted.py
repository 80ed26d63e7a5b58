"""What times are too noisy to guard closely, counted in instructions."""

from __future__ import annotations

import shutil

import pytest
from counting import counted
from measuring import Promise, Table
from tables.spans import ATTRIBUTES, BY_HAND, CAREFUL, COPIED, MIRRORED, TOGETHER, TURNS, WHOLE

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

MOST = [
    (ATTRIBUTES, Promise(1.24, MIRRORED, BY_HAND)),
    (ATTRIBUTES, Promise(0.65, MIRRORED, COPIED)),
    (TURNS, Promise(1.23, WHOLE, CAREFUL)),
    (TURNS, Promise(0.78, WHOLE, TOGETHER)),
]
"""What was counted on CPython 3.11, and three parts in a hundred."""


@pytest.mark.parametrize("table", [ATTRIBUTES, TURNS], ids=lambda table: table.name)
def test_no_more_instructions_are_run_than_were(table: Table) -> None:
    """Spans and whole turns run at most so many times the instructions of those by hand, and of those of peers."""
    assert shutil.which("valgrind"), "install Debian's package `valgrind`"

    instructions = counted(table, table.ways)

    for of, promise in MOST:
        if of is table:
            ratio = instructions[promise.way] / instructions[promise.base]
            print(f"{promise.way}: {ratio:.3f} of {promise.most:.3f}")
            assert ratio <= promise.most, f"{promise}: {ratio:.3f}"
