"""Hermes's own variables inside a plugin's command, for plugins that read `get_session_env`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.hermes

RunHost = Callable[[str, str], Any]
STYLES = ["legacy", "named", "object", "coroutine", "coroutine-object"]
UI_ID = "HERMES_UI_SESSION_ID"


def set_here(run: Any, phase: str, style: str) -> dict[str, str]:
    """Return the variables that are set in a call."""
    return {name: value for name, value in run.call(phase, style)["variables"].items() if value is not None}


@pytest.mark.parametrize("style", STYLES)
def test_command_line_sets_the_session_and_nothing_else(cli: Any, run_host: RunHost, style: str) -> None:
    """In the command line the id is set, also for an old handler; all else is as in the host alone."""
    alone = run_host("cli", "alone").call("session", style)["variables"]
    session_id = cli["expect"]["session"]["session_id"]

    assert cli.call("session", style)["variables"] == {**alone, "HERMES_SESSION_ID": session_id}


@pytest.mark.parametrize("phase", ["no-session", "session"])
@pytest.mark.parametrize("style", STYLES)
def test_gateway_sets_each_variable(gateway: Any, phase: str, style: str) -> None:
    """In a chat every one of them is set: what the message does not say is empty, and no neighbour's."""
    variables = gateway.call(phase, style)["variables"]
    known = gateway["expect"][phase]
    told = {
        "HERMES_SESSION_PLATFORM": "discord",
        "HERMES_SESSION_CHAT_ID": "chat",
        "HERMES_SESSION_USER_ID": "u",
        "HERMES_SESSION_KEY": known["gateway_session_key"],
        "HERMES_SESSION_ID": known["session_id"] or "",
    }

    assert variables == {**dict.fromkeys(variables, ""), **told}


@pytest.mark.parametrize("phase", ["dispatch", "slash"])
@pytest.mark.parametrize("style", STYLES)
def test_terminal_ui_sets_the_session_and_its_key(tui: Any, phase: str, style: str) -> None:
    """The terminal UI's are the id and the session's key, and nothing else but the UI's own id."""
    variables = set_here(tui, phase, style)
    variables.pop(UI_ID, None)

    assert variables == {
        "HERMES_SESSION_ID": tui["expect"][phase]["session_id"],
        "HERMES_SESSION_KEY": tui["session_key"],
    }


@pytest.mark.since("0.19.0")
@pytest.mark.parametrize("phase", ["dispatch", "slash"])
@pytest.mark.parametrize("style", STYLES)
def test_terminal_ui_sets_its_own_id(tui: Any, phase: str, style: str) -> None:
    """The UI's short id for the session is set too, where the host has a variable for it."""
    assert set_here(tui, phase, style)[UI_ID] == tui["ui_id"]


def test_request_without_a_session_has_them_empty(tui: Any) -> None:
    """Where no session is named, none is set, and no fallback to the process's environment is taken."""
    variables = tui.call("no-session", "named")["variables"]
    known_to_host = variables.keys() & {"HERMES_SESSION_ID", "HERMES_SESSION_KEY", UI_ID}

    assert set_here(tui, "no-session", "named") == dict.fromkeys(known_to_host, "")


@pytest.mark.parametrize("style", ["coroutine", "coroutine-object"])
def test_awaited_in_the_hosts_helper_thread_they_are_set_too(tui: Any, style: str) -> None:
    """They are set inside the coroutine, in whichever thread and context it is awaited."""
    variables = tui.call("in-loop", style)["variables"]

    assert variables["HERMES_SESSION_ID"] == tui["expect"]["in-loop"]["session_id"]


@pytest.mark.parametrize("site", ["cli", "tui"])
def test_afterwards_all_is_as_it_was(run_host: RunHost, load: str, site: str) -> None:
    """When the commands have run, each variable is what it was, and the process's environment was never written."""
    assert run_host(site, load)["restored"]
