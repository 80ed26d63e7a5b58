"""`ctxruntime demo`: play the script, print the table, and say in the exit code whether all is right."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from ctxruntime.demo.progress import progress
from ctxruntime.demo.report import Report, Run
from ctxruntime.demo.run import play
from ctxruntime.demo.script import COMMANDS, CONVERSATIONS, right_answers
from ctxruntime.demo.wiring import NOT_INJECTED, WITH, WITHOUT


def demo(
    inject: Annotated[
        bool, typer.Option("--inject/--no-inject", help="Whether handlers are given what they accept.")
    ] = True,
) -> None:
    """Serve six conversations at once in three frontends, without ctxruntime and with it.

    Prints what each plugin handler received, beside what was right. The exit code is 0 if all is right with
    ctxruntime, 1 if not, 2 if it could not be tried.
    """
    report = of_own_host(inject=inject)
    Console().print(report)
    raise typer.Exit(0 if report.is_right(report.runs[-1]) else 1)


def of_own_host(*, inject: bool) -> Report:
    """Play the script in the demo's own host."""
    wirings = {"without": WITHOUT, adopted(inject=inject): WITH if inject else NOT_INJECTED}
    with progress() as begin:
        outcomes = {heading: play(wiring, begin(heading, len(COMMANDS))) for heading, wiring in wirings.items()}
    return Report(
        title="Each handler in six conversations: cli c1, c2; gateway g1, g2; tui t1, t2",
        conversations=CONVERSATIONS,
        commands=COMMANDS,
        right=right_answers(),
        runs=[Run(heading, outcome.answers, outcome.notes) for heading, outcome in outcomes.items()],
    )


def adopted(*, inject: bool) -> str:
    """Return the heading of the second run."""
    return "with ctxruntime" if inject else "not injecting"
