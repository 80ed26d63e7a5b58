"""What the documentation shows is what happens."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ctxruntime

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
WITHOUT_CLIENT: tuple[str, ...] = ()
try:
    import psycopg  # noqa: F401
except ImportError:  # its binary package, which `dev` has, comes to a new CPython late
    WITHOUT_CLIENT = ("ctxruntime.conversation.stores.postgres",)
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(ctxruntime.__path__, "ctxruntime.")
    if not module.name.startswith(("ctxruntime.demo", "ctxruntime.__main__", *WITHOUT_CLIENT))
)


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_hold(module: str) -> None:
    """Each example in a docstring gives what it shows."""
    assert doctest.testmod(importlib.import_module(module)).failed == 0


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_readme_programs_print_what_the_readme_shows(program: str, output: str, tmp_path: Path) -> None:
    """Each program in the README prints the text that stands below it."""
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")

    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)

    assert re.sub(r"\(\S+:\d+\)", "(FILE:LINE)", done.stdout) == output


def test_readme_links_lead_somewhere() -> None:
    """Each relative link in the README leads to a file of the repository."""
    links = re.findall(r"\]\(([\w./-]+)\)", README)

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_readme_has_its_programs() -> None:
    """The README's programs are found, and so are run."""
    assert len(PROGRAMS) == 6
