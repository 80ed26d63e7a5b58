"""The examples: each prints what its docstring says it prints."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def promised(program: Path) -> str:
    """What the docstring says."""
    text = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""
    return dedent(text.partition("Prints:\n")[2]) + "\n"


def test_there_are_examples() -> None:
    """The examples are found."""
    assert [program.name for program in EXAMPLES] == ["gateway.py", "sub_agent.py", "threads.py"]


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.stem)
def test_example_prints_what_it_says(program: Path) -> None:
    """A whole program prints, line by line, what its docstring promises, and nothing else."""
    run = subprocess.run(
        [sys.executable, "-W", "error", program], capture_output=True, text=True, encoding="utf-8", timeout=60
    )

    assert (run.stdout, run.stderr, run.returncode) == (promised(program), "", 0)


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.stem)
def test_example_is_short(program: Path) -> None:
    """An example is a whole program in less than eighty lines."""
    assert len(program.read_text(encoding="utf-8").splitlines()) < 80
