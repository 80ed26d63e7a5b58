"""Threads that Hermes keeps for the process are known by name, and the hops of a plugin command carry."""

from __future__ import annotations

import ast
import importlib.util
import threading
from pathlib import Path

import pytest
from ctxruntime_integrations import hermes
from ctxruntime_integrations.hermes._threads import DENIED

import ctxruntime
from ctxruntime.hops.install import installed

pytestmark = pytest.mark.hermes

# Plugins that come with Hermes have one source, whichever name they are imported under.
SOURCES = sorted({name.replace("hermes_plugins.", "plugins.") for name in DENIED})

SINCE = {
    "gateway.memory_monitor._monitor_loop": "0.15.2",
    "gateway.run.GatewayRunner._commit_then_release_soft": "0.18.2",
    "hermes_cli.mcp_startup.start_background_mcp_discovery.<locals>._discover": "0.16.0",
    "hermes_cli.nous_auth_keepalive._keepalive_loop": "0.18.2",
    "tools.discord_tool._detect_capabilities_nonblocking.<locals>._bg_detect": "0.18.2",
    "tools.env_probe._probe_worker": "0.19.0",
    "tui_gateway.server._notification_poller_loop": "0.15.2",
    "tui_gateway.server._start_idle_reaper.<locals>._loop": "0.17.0",
}
"""The first of the versions looked at that has it; the others are in all of them."""


def defined_in(path: Path) -> set[str]:
    """Return the qualified names of all that a module defines, read and not run."""
    names: set[str] = set()

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(f"{prefix}{child.name}")
                inside = "." if isinstance(child, ast.ClassDef) else ".<locals>."
                walk(child, f"{prefix}{child.name}{inside}")
            else:
                walk(child, prefix)

    walk(ast.parse(path.read_text(encoding="utf-8")), "")
    return names


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.since(SINCE.get(name, "0.13.0"))) for name in SOURCES]
)
def test_each_denied_thread_is_one_that_the_host_has(name: str) -> None:
    """Every name on Hermes's deny list is the qualified name of a function of this Hermes."""
    spec = importlib.util.find_spec("hermes_cli")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent.parent
    parts = name.split(".")
    for at in range(len(parts) - 1, 0, -1):
        stem = root.joinpath(*parts[:at])
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                assert ".".join(parts[at:]) in defined_in(path)
                return
    pytest.fail(f"{name}: there is no such module")


def test_the_integration_carries_over_every_hop() -> None:
    """Arming the integration installs the hops, and disarming takes them out, unless the program had installed them."""
    hermes.install()
    assert installed() is not None
    hermes.uninstall()
    assert installed() is None


def target(name: str) -> object:
    """Make a function with a qualified name of the list, which is all that the list goes by."""

    def run(seen: list[object]) -> None:
        seen.append(dict(ctxruntime.current()))

    parts = name.split(".")
    at = next((i for i, part in enumerate(parts) if part[:1].isupper()), len(parts) - (3 if "<locals>" in name else 1))
    run.__module__, run.__qualname__, run.__name__ = ".".join(parts[:at]), ".".join(parts[at:]), parts[-1]
    return run


@pytest.mark.parametrize("name", sorted({*DENIED, "somebody.elses.thread"}))
def test_a_denied_thread_is_born_empty(name: str) -> None:
    """A thread with a target of that name has nothing of the turn that starts it; any other has its session."""
    seen: list[object] = []
    hermes.install()
    try:
        with ctxruntime.session(session_id="s1"):
            thread = threading.Thread(target=target(name), args=(seen,))  # type: ignore[arg-type]  # it is callable
            thread.start()
        thread.join()
    finally:
        hermes.uninstall()

    assert seen == [{} if name in DENIED else {"session_id": "s1"}]
