"""The command `ctxruntime run`. It needs the base install only, and of the standard library no more than it must."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from ctxruntime.errors import CtxRuntimeError
from ctxruntime.running.executing import execute
from ctxruntime.running.finding import Command, Module, NoProgramError, Program, find

__all__ = ["HELP", "SUMMARY", "run"]

SUMMARY: Final = "Run a program as it is, with its session keys carried and mirrored."
HELP: Final = f"""\
Usage: ctxruntime run [--spans FILE] [--preset NAME] [-m] PROGRAM [ARGS]...

  {SUMMARY}

  PROGRAM is a script, with -m a module, or the name of an installed command,
  as in `ctxruntime run hermes gateway`. It runs in this process, as `python`
  would run it, and the exit code is its own; 2 if it could not be tried.

  Hops carry keys as after `ctxruntime.install()`. With the extra `otel` every
  tracer and logger provider of the program mirrors them, as after `add_to()`.
  The integration of a host that is installed is there from the first event on.

Options:
  -m             PROGRAM is a module.
  --spans FILE   Append every span to FILE when it ends, as OTLP JSON lines,
                 also if the program sets no tracer provider.
  --preset NAME  The attribute names that your backend reads: otel (default),
                 langfuse, phoenix, logfire, traceloop, mlflow, datadog or
                 langsmith. The variable CTXRUNTIME_PRESET is the same.
  --help         Show this message and exit.

  OTEL_LOG_LEVEL=info shows on stderr what was bound, CTXRUNTIME_DISABLED=1
  runs the program bare. Processes that the program spawns run without this.
"""


class UsageError(CtxRuntimeError, ValueError):
    """Tell that the command was given what it does not take, or without what it needs."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason}: see ctxruntime run --help"


@dataclass
class Wanted:
    """What the command line asks for."""

    program: str = ""
    args: Sequence[str] = ()
    is_module: bool = False
    spans: str | None = None
    preset: str | None = None


def run(args: Sequence[str]) -> NoReturn:
    """Run a program, and leave with its exit code, or with 2 and one line if it cannot be tried."""
    if args and args[0] in ("--help", "-h"):
        print(HELP, end="")
        raise SystemExit(0)
    try:
        wanted = _parsed(args)
        program = Module(wanted.program) if wanted.is_module else find(wanted.program)
        _set_up(wanted, program)
        execute(program, wanted.args)
    except (UsageError, NoProgramError) as error:
        _refuse(error)


def _parsed(args: Sequence[str]) -> Wanted:
    """Read the options before the program; what is behind it is the program's, whatever it looks like."""
    wanted = Wanted()
    rest = list(args)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        name, given, value = rest.pop(0).partition("=")
        if name == "--":
            break
        if name == "-m":
            wanted.is_module = True
            break
        if name not in ("--spans", "--preset"):
            raise UsageError(f"there is no option {name!r}")
        if not given:
            value = rest.pop(0) if rest else ""
        if not value:
            raise UsageError(f"{name} needs a value")
        setattr(wanted, name.removeprefix("--"), value)
    if not rest:
        raise UsageError("a module is missing behind -m" if wanted.is_module else "a program is missing")
    wanted.program, *wanted.args = rest
    return wanted


def _set_up(wanted: Wanted, program: Program) -> None:
    """Put in place what is asked for."""
    from logging import INFO

    from ctxruntime.telemetry.automatic import PRESET_VARIABLE, Automatic, Options
    from ctxruntime.telemetry.errors import MissingExtraError, UnknownPresetError

    preset = wanted.preset or os.environ.get(PRESET_VARIABLE, "").strip() or "otel"
    try:
        automatic = Automatic(Options({"preset": preset}))
        if wanted.spans is not None and automatic.enabled:
            from ctxruntime.telemetry.spans_file import write_spans

            write_spans(wanted.spans, _name(program))
        elif wanted.spans is not None:
            print(f"ctxruntime: {wanted.spans} is not written: {automatic}", file=sys.stderr)
    except UnknownPresetError as error:
        _refuse(f"{'--preset' if wanted.preset else PRESET_VARIABLE}: {error}")
    except MissingExtraError as error:
        _refuse(f"--spans: {error}")
    except OSError as error:
        _refuse(
            f"--spans: {wanted.spans} cannot be written ({error.strerror}): "
            f"name a file in a folder that is there, and that you may write to"
        )
    automatic.log(INFO)
    if automatic.enabled:
        from ctxruntime.running.hosts import arm

        arm()


def _name(program: Program) -> str:
    """Return what the program is called where nothing else says it."""
    if isinstance(program, Module):
        return program.name
    path = os.path.basename(os.path.abspath(program.path))
    return path if isinstance(program, Command) else path.removesuffix(".py")


def _refuse(reason: object) -> NoReturn:
    print(f"ctxruntime: {reason}", file=sys.stderr)
    raise SystemExit(2) from None
