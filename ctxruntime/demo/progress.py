"""Progress, on standard error: bars where somebody looks on, a line per run where nobody does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
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
    is_watched = console.is_interactive and sys.stderr.isatty()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not is_watched) as bars:

        def begin(what: str, steps: int) -> Callable[[], None]:
            if not is_watched:
                console.print(what)
            task = bars.add_task(what, total=steps)
            return lambda: bars.advance(task)

        yield begin
