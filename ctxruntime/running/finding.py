"""Which program is meant: a module, a script, or a command that a package has installed."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

from ctxruntime.errors import CtxRuntimeError

__all__ = ["Command", "Module", "NoProgramError", "Program", "Script", "find"]


class NoProgramError(CtxRuntimeError, LookupError):
    """Tell that there is no such program, or that it cannot be run in this process."""

    def __init__(self, program: str, reason: str, advice: str) -> None:
        super().__init__(program, reason, advice)
        self.program = program
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.reason} {self.program!r}: {self.advice}"


@dataclass(frozen=True)
class Module:
    """What `python -m` runs."""

    name: str


@dataclass(frozen=True)
class Script:
    """What `python PATH` runs: a file, or a folder or archive with a `__main__.py`."""

    path: str


@dataclass(frozen=True)
class Command:
    """A console script of an installed package, by what it calls."""

    path: str
    """Where its script is, or its name: what the program has as `sys.argv[0]`."""
    entry_point: metadata.EntryPoint


Program: TypeAlias = Module | Script | Command


def find(name: str) -> Program:
    """Return the program that is meant by what is no module: a file first, then an installed command.

    Raises:
        NoProgramError: there is none, or it is no Python program of this environment.
    """
    if os.path.isfile(name):
        if not os.access(name, os.R_OK):
            raise NoProgramError(name, "no permission to read", "give yourself the permission")
        return Script(name)
    if os.path.basename(name) == name:
        for entry_point in metadata.entry_points(group="console_scripts", name=name):
            return Command(_where(name), entry_point)
    if os.path.isdir(name):
        if os.path.isfile(os.path.join(name, "__main__.py")):
            return Script(name)
        raise NoProgramError(name, "there is no __main__.py in", "name a file in it, or run the package with -m")
    on_path = shutil.which(name) if os.path.basename(name) == name else None
    if on_path is None:
        raise NoProgramError(
            name, "there is no script or command", "give the path of a script, the name of a command, or -m MODULE"
        )
    _check_interpreter(on_path)
    return Script(on_path)


def _where(name: str) -> str:
    beside = os.path.join(sysconfig.get_path("scripts"), name)
    return beside if os.path.isfile(beside) else shutil.which(name) or name


def _check_interpreter(path: str) -> None:
    with open(path, "rb") as file:
        first = file.readline(1000).decode(errors="replace")
    if not first.startswith("#!") or "python" not in first:
        raise NoProgramError(path, "this is no Python script:", "only Python programs can be run in this process")
    interpreter = first[2:].split()[0]
    folder = os.path.dirname(interpreter)
    if os.path.basename(interpreter) != "env" and not Path(folder).samefile(os.path.dirname(sys.executable)):
        raise NoProgramError(
            path,
            "another Python runs",
            f"install ctxruntime for {interpreter}, and use the command `ctxruntime` of that one",
        )
