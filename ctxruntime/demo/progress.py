"""Progress, on standard error: bars where somebody looks on, a line per run where nobody does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Begin: TypeAlias = Callable[[str, int], Callable[[], None]]
"""Begin a stretch of work, of so many steps; what is returned is called at each."""


@contextmanager
def progress() -> Generator[Begin]:
    """Show how far each stretch of work has come."""
    console = Console(stderr=True)
    # FORCE_COLOR makes a pipe a terminal to rich; colours may go there, but no cursor movements.
    if console.is_interactive and sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console) as bars:
            yield partial(_begin_bar, bars)
    else:
        yield partial(_begin_line, console)


def _begin_bar(bars: Progress, what: str, steps: int) -> Callable[[], None]:
    return partial(bars.advance, bars.add_task(what, total=steps))


def _begin_line(console: Console, what: str, steps: int) -> Callable[[], None]:
    console.print(f"{what}: {steps} steps")
    return lambda: None
