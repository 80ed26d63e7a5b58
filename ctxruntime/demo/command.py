"""`ctxruntime demo`: play the script, print the table, and say in the exit code whether all is right."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import typer
from rich.console import Console

from ctxruntime.demo import hermes
from ctxruntime.demo.hermes_plugin import PLAYED
from ctxruntime.demo.progress import progress
from ctxruntime.demo.report import Report, Run
from ctxruntime.demo.run import play
from ctxruntime.demo.script import COMMANDS, CONVERSATIONS, right_answers
from ctxruntime.demo.wiring import NOT_INJECTED, WITH, WITHOUT


def demo(
    in_hermes: Annotated[
        bool, typer.Option("--hermes", help="Play it in the Hermes Agent that is installed here.")
    ] = False,
    inject: Annotated[
        bool, typer.Option("--inject/--no-inject", help="Whether handlers are given what they accept.")
    ] = True,
) -> None:
    """Serve six conversations at once in three frontends, without ctxruntime and with it.

    Print what each plugin handler received, beside what was right.

    The exit code is 0 if all is right with ctxruntime, 1 if not, 2 if it could not run.
    """
    if in_hermes and not hermes.is_installed():
        typer.echo(hermes.HOW_TO_INSTALL, err=True)
        raise typer.Exit(2)
    try:
        report = of_hermes(inject=inject) if in_hermes else of_own_host(inject=inject)
    except hermes.HermesError as error:
        typer.echo(f"ctxruntime: {error}", err=True)
        raise typer.Exit(2) from None
    Console().print(report)
    raise typer.Exit(0 if report.is_right(report.runs[-1]) else 1)


def of_own_host(*, inject: bool) -> Report:
    """Play the script in the demo's own host."""
    wirings = {"without": WITHOUT, adopted(inject=inject): WITH if inject else NOT_INJECTED}
    with progress() as begin:
        outcomes = {heading: play(wiring, begin(heading, len(COMMANDS))) for heading, wiring in wirings.items()}
    return Report(
        sessions="Sessions at once: cli c1, c2; gateway g1, g2 in chats k1, k2; tui t1, t2",
        conversations=CONVERSATIONS,
        commands=COMMANDS,
        right=right_answers(),
        runs=[Run(heading, outcome.answers, outcome.notes) for heading, outcome in outcomes.items()],
    )


def of_hermes(*, inject: bool) -> Report:
    """Play the script in two processes of Hermes, of which the second has ctxruntime's plugin enabled."""
    plugins = {"without": [], adopted(inject=inject): ["ctxruntime"] if inject else []}
    with progress() as begin, ThreadPoolExecutor(2) as threads:
        futures = {
            heading: threads.submit(hermes.play, enabled, begin(f"Hermes {heading}", hermes.STEPS))
            for heading, enabled in plugins.items()
        }
        played = {heading: future.result() for heading, future in futures.items()}
    conversations = played["without"].conversations
    return Report(
        sessions="Sessions in Hermes: c1, c2; g1, g2 in chats k1, k2; d1, d2; s1, s2",
        conversations=conversations,
        commands=PLAYED,
        right=right_answers(conversations, PLAYED),
        runs=[Run(heading, run.answers, run.notes) for heading, run in played.items()],
    )


def adopted(*, inject: bool) -> str:
    """Return the heading of the second run."""
    return "with ctxruntime" if inject else "not injecting"
