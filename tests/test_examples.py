"""The examples: each prints what its docstring says it prints."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime.conversation import Bridge, MemoryStore, StoreUnavailableError, use

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


class Store:
    """Memory that is out of reach while it is `down`."""

    def __init__(self) -> None:
        self.memory = MemoryStore()
        self.down = False

    def __getattr__(self, name: str) -> Any:
        if self.down and name != "blocks":
            raise StoreUnavailableError("the store", "is down", "try again")
        return getattr(self.memory, name)


def test_a_sub_agent_of_which_nobody_can_tell_what_is_blocked_has_everything_blocked() -> None:
    """The plugin for Hermes lets a sub-agent run no tool if its store failed when that was started."""
    spec = importlib.util.spec_from_file_location("hermes_plugin", EXAMPLES[0].parent / "hermes_plugin/__init__.py")
    assert spec is not None
    assert spec.loader is not None
    plugin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plugin)
    store = Store()

    plugin.before_a_sub_agent(child_session_id="of no chat")
    with use(Bridge(store)), ctx.session(session_id="parent"):
        store.down = True
        plugin.before_a_sub_agent(child_session_id="child")
        store.down = False
        with ctx.bind(session_id="child"):
            answer = plugin.before_a_tool("terminal", session_id="child")

    assert answer == {"action": "block", "message": "terminal is blocked in this chat."}
    assert plugin.before_a_tool("terminal", session_id="parent") is None
