"""The command line itself."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

WITHOUT = """
import sys
sys.modules[{missing!r}] = None  # importing it fails, as if it were not there

from ctxruntime.cli import main
main({args!r})
"""


def python(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("args", [[], ["demo"], ["--help"]], ids=["bare", "demo", "help"])
@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_one_line_says_which(missing: str, args: list[str]) -> None:
    """Whoever installed no extra is told which one to install, with exit code 2 and no traceback."""
    run = python("-c", WITHOUT.format(missing=missing, args=args))

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "ctxruntime: this needs the extra 'cli': pip install 'ctxruntime[cli]'\n"


def test_a_fault_of_ours_is_not_taken_for_a_missing_extra() -> None:
    """Only a module of the extra is answered with how to install the extra."""
    run = python("-c", WITHOUT.format(missing="ctxruntime.demo.script", args=["demo"]))

    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("ModuleNotFoundError: ")


def test_importing_the_command_line_needs_no_extra() -> None:
    """A command of the base install can be run where neither typer nor rich is."""
    program = "import sys, ctxruntime.cli; print(sorted({'typer', 'rich', 'wrapt'} & set(sys.modules)))"

    assert python("-c", program).stdout == "[]\n"


def test_script_and_module_are_the_same_program() -> None:
    """`ctxruntime` is `python -m ctxruntime`, and its help names the commands."""
    (script,) = metadata.entry_points(group="console_scripts", name="ctxruntime")
    run = python("-m", "ctxruntime", "--help")

    assert (script.value, run.returncode) == ("ctxruntime.cli:main", 0)
    assert "Usage: ctxruntime [OPTIONS] COMMAND [ARGS]..." in run.stdout
    assert "demo" in run.stdout


def test_an_unknown_command_is_named() -> None:
    """A slip of the pen gives exit code 2, and says which word it was."""
    run = python("-m", "ctxruntime", "dmeo")

    assert run.returncode == 2
    assert "No such command 'dmeo'" in run.stderr
