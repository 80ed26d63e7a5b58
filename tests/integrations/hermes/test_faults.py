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


class TestAgents:
    """A turn of an agent, and a compression behind it."""

    WORDS = ("facts", "enter", "store", "bridge", "learn", "adapt", "view", "rotate", "no-folder")

    PLACES = (
        "hermes agent: enter the session",
        "hermes hook: enter the session",
        "hermes: adapt a hook",
        "hermes: learn of a session",
        "hermes: open the store of conversations",
        "hermes: the callbacks of an event",
        "hermes: the session of a turn",
    )

    @pytest.fixture
    def run(self, run_host: Callable[[str, str], Any], load: str) -> Any:
        return run_host("broken", load)

    @pytest.mark.parametrize("word", ["sound", *WORDS])
    def test_the_host_does_the_same_whatever_fails_of_ours(
        self, run: Any, run_host: Callable[[str, str], Any], word: str
    ) -> None:
        """The answer, what is stored, and the rotation are those of the host alone."""
        alone = run_host("broken", "alone")["outcomes"]["sound"]

        assert alone[2:] == [True, True]
        assert run["outcomes"][word] == alone

    @pytest.mark.parametrize("word", ["sound", *WORDS])
    def test_every_event_fires_once_whatever_fails_of_ours(
        self, run: Any, run_host: Callable[[str, str], Any], word: str
    ) -> None:
        """Each callback is called as often, and in the order, of the host alone."""

        def fired(of: Any, phase: str) -> list[tuple[str, str]]:
            return [(e["event"], e["style"]) for e in of["events"] if e["phase"] == phase]

        assert fired(run, word) == fired(run_host("broken", "alone"), "sound")

    def test_each_fault_is_logged_once(self, run: Any, has: Callable[[str], bool]) -> None:
        """Each place where something broke has left one record, whatever broke there and how often."""
        ours = [
            entry["message"].partition(": the call goes on")[0]
            for entry in run["log"]
            if entry["error"] == "RuntimeError"
        ]

        middleware = ["hermes middleware: enter the session"] if has("0.17.0") else []
        assert sorted(ours) == sorted([*self.PLACES, *middleware])
        assert any("/no/such/folder" in entry["text"] for entry in run["log"])
