"""Run a program as `python` would: `__main__`, `sys.argv`, `sys.path` and what is printed of its errors.

The program's `__main__` is a module of its own in the place of ours, and stays there to the end: threads and exit
functions read it, and processes that multiprocessing spawns import it again.
"""

from __future__ import annotations

import io
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NoReturn

from ctxruntime.running.finding import Command, Module, NoProgramError, Program, Script

__all__ = ["execute"]


def execute(program: Program, args: Sequence[str]) -> NoReturn:
    """Run a program, and leave with its exit code.

    Raises:
        NoProgramError: there is no such module.
        SystemExit: the program is through.
        BaseException: what is no `Exception` leaves the program as it is: `KeyboardInterrupt`.
    """
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    try:
        match program:
            case Module():
                _run_module(program.name, args)
            case Script():
                _run_script(program.path, args, main)
            case Command():
                _run_command(program, args, main)
    except NoProgramError:
        raise
    except Exception as error:  # noqa: BLE001  # the program's hook is told of it, as the interpreter would
        _report(error)
        raise SystemExit(1) from None
    raise SystemExit(0)


def _run_module(name: str, args: Sequence[str]) -> None:
    _first_on_path(os.getcwd())
    sys.argv[:] = ["-m", *args]
    _check_module(name)
    # What `python -m` itself calls: the public `run_module` would take `__main__` away when the program is through.
    run: Any = getattr(runpy, "_run_module_as_main")  # noqa: B009  # no checker knows it
    run(name)


def _check_module(name: str) -> None:
    """Say in our words what is not there; importing what is above it is what `python -m` does too."""
    if name.endswith(".py") and os.path.isfile(name):
        raise NoProgramError(name, "this is a script, no module:", "leave -m out")
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = find_spec(name)
    except ModuleNotFoundError as missing:
        if not f"{name}.".startswith(f"{missing.name}."):
            raise
        spec = None
    except (ImportError, ValueError):  # a relative name, or one of the interpreter's own
        if name.startswith(".") or name == "__main__":
            raise NoProgramError(name, "this cannot be run as a module:", "give its full name") from None
        raise
    if spec is None:
        raise NoProgramError(name, "there is no module", f"install it for {sys.executable}, or mind the spelling")


def _run_script(path: str, args: Sequence[str], main: ModuleType) -> None:
    sys.argv[:] = [path, *args]
    if os.path.isdir(path) or _is_archive(path):
        _first_on_path(os.path.abspath(path), always=True)
        run: Any = getattr(runpy, "_run_module_as_main")  # noqa: B009
        run("__main__", False)
        return
    _first_on_path(os.path.dirname(os.path.realpath(path)))
    full = os.path.abspath(path)
    vars(main).update(__file__=full, __loader__=SourceFileLoader("__main__", full), __cached__=None)
    with io.open_code(full) as file:
        source = file.read()
    exec(compile(source, full, "exec", dont_inherit=True), vars(main))


def _run_command(command: Command, args: Sequence[str], main: ModuleType) -> None:
    sys.argv[:] = [command.path, *args]
    if os.path.dirname(command.path):
        _first_on_path(os.path.dirname(os.path.realpath(command.path)))
    vars(main).update(sys=sys)  # the script that pip writes has it too
    sys.exit(command.entry_point.load()())


def _is_archive(path: str) -> bool:
    from zipfile import is_zipfile

    return is_zipfile(path)


def _first_on_path(folder: str, *, always: bool = False) -> None:
    """Put a folder where that of our own script is: first, unless `python -P` has put none there."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
    elif always:
        sys.path.insert(0, folder)


def _report(error: Exception) -> None:
    """Have an error printed by the program's hook, as the interpreter would, without our frames."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_globals is globals():
        traceback = traceback.tb_next
    error.__traceback__ = traceback
    # Exit functions and debuggers look for it there.
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    sys.excepthook(type(error), error, traceback)
