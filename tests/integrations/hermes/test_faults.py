"""A fault of ours in the host's path costs our part of the call, and nothing of the host's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.hermes

SITES = {
    "read": "hermes cli: session_id",
    "enter": "hermes cli: enter the session",
    "leave": "hermes cli: leave the session",
    "adapt": "hermes: adapt a command handler",
    "carry": "hermes: carry a command's coroutine",
}
STYLES = ["named", "legacy", "coroutine", "raising"]


@pytest.fixture
def run(run_host: Callable[[str, str], Any]) -> Any:
    return run_host("mishaps", "site")


@pytest.mark.parametrize("fault", SITES)
def test_handlers_run_once_whatever_fails_of_ours(run: Any, fault: str) -> None:
    """Each handler is called once with its argument."""
    calls = run.calls(fault)

    assert [call["style"] for call in calls] == STYLES
    assert {tuple(call["args"]) for call in calls} == {("Hello  World",)}


@pytest.mark.parametrize("fault", SITES)
def test_host_shows_the_same_whatever_fails_of_ours(run: Any, fault: str) -> None:
    """The user sees the answers and the plugin's own error, and nothing of the fault."""
    assert run["shown"][fault] == run["shown"]["sound"]


@pytest.mark.parametrize("fault", ["read", "enter", "adapt"])
def test_handlers_keep_their_defaults_where_ours_fails(run: Any, fault: str) -> None:
    """Without the key, or without our adapter, a handler is called as by the host alone."""
    assert run.call(fault, "named")["keys"]["session_id"] == "default"


@pytest.mark.parametrize("fault", SITES)
def test_fault_is_logged_once_with_its_traceback(run: Any, fault: str) -> None:
    """One record per site, with the error; the calls that follow are counted."""
    (entry,) = run.logged(SITES[fault])

    assert entry["error"] == "RuntimeError"
    assert "a fault of ours" in entry["text"]
    assert run["counts"][SITES[fault]] == (len(STYLES) if fault != "carry" else 1)


def test_what_is_no_exception_passes_and_the_session_is_left(run: Any) -> None:
    """A KeyboardInterrupt reaches whoever handles it, and no session stays behind in the thread."""
    assert run["shown"]["interrupted"] == "interrupted: by the user"
    assert run["left"] == {}
