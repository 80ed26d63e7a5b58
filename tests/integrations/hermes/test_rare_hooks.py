"""Hooks that seldom fire, hooks that are a shell's commands, and that no hook of the host's is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

# The table is of all hooks that this version knows.
pytestmark = [pytest.mark.hermes, pytest.mark.since("0.19.0")]

RunHost = Callable[[str, str], Any]
KEY, BOTH = {"gateway_session_key"}, {"gateway_session_key", "session_id"}
RARE: Final[dict[str, tuple[str, set[str]]]] = {
    "api_request_error": ("refused", KEY),
    "pre_verify": ("edit", KEY),
    "transform_terminal_output": ("terminal", BOTH),
}
"""In which phase each fires, and which names it gets beyond the host's."""
BOARD: Final = {"kanban_task_claimed": 2, "kanban_task_completed": 1, "kanban_task_blocked": 1}
"""How often each fires on a board that is nobody's session."""
FIRED_BY: Final[dict[str, tuple[str, str]]] = {
    "api_request_error": ("rare_hooks", "refused"),
    "kanban_task_blocked": ("rare_hooks", "board"),
    "kanban_task_claimed": ("rare_hooks", "board"),
    "kanban_task_completed": ("rare_hooks", "board"),
    "on_session_end": ("agents", "one"),
    "on_session_finalize": ("frontends", "cli-new"),
    "on_session_reset": ("frontends", "cli-new"),
    "on_session_start": ("agents", "one"),
    "post_api_request": ("agents", "one"),
    "post_approval_response": ("frontends", "approval"),
    "post_llm_call": ("agents", "one"),
    "post_tool_call": ("agents", "one"),
    "pre_api_request": ("agents", "one"),
    "pre_approval_request": ("frontends", "approval"),
    "pre_gateway_dispatch": ("chats", "first"),
    "pre_llm_call": ("agents", "one"),
    "pre_tool_call": ("agents", "one"),
    "pre_verify": ("rare_hooks", "edit"),
    "subagent_start": ("agents", "delegation"),
    "subagent_stop": ("agents", "delegation"),
    "transform_llm_output": ("agents", "one"),
    "transform_terminal_output": ("rare_hooks", "terminal"),
    "transform_tool_result": ("agents", "one"),
}
"""The site and the phase that fire each hook that the host knows."""
MIDDLEWARE: Final = ["llm_execution", "llm_request", "tool_execution", "tool_request"]


@pytest.fixture
def alone(run_host: RunHost) -> Any:
    return run_host("rare_hooks", "alone")


@pytest.fixture
def run(run_host: RunHost, load: str) -> Any:
    return run_host("rare_hooks", load)


def events(run: Any, phase: str, event: str, style: str = "anything") -> list[dict[str, Any]]:
    """The events of this name in a phase that callbacks of a style got."""
    return [e for e in run["events"] if (e["phase"], e["event"], e["style"]) == (phase, event, style)]


def heard(run: Any, phase: str, event: str) -> list[dict[str, Any]]:
    """What the shell's commands read of this event in a phase."""
    return [told for told in run["told"][phase] if told["hook_event_name"] == event]


def test_table_has_each_hook_that_the_host_knows(run: Any) -> None:
    """A hook that a new version of the host brings is not overlooked, nor is a kind of middleware."""
    assert sorted(FIRED_BY) == run["valid_hooks"]
    assert run["valid_middleware"] == MIDDLEWARE


@pytest.mark.parametrize("hook", FIRED_BY)
def test_each_hook_is_fired_by_the_site_of_the_table(run_host: RunHost, hook: str) -> None:
    """No hook is only claimed to be driven."""
    site, phase = FIRED_BY[hook]

    assert events(run_host(site, "plugin"), phase, hook)


@pytest.mark.parametrize("kind", MIDDLEWARE)
def test_each_kind_of_middleware_is_fired(run_host: RunHost, kind: str) -> None:
    """Each of them is called in a turn with one tool."""
    assert events(run_host("agents", "plugin"), "one", kind)


@pytest.mark.parametrize("hook", RARE)
def test_rare_hook_has_the_names_of_the_table_beyond_the_hosts(run: Any, alone: Any, hook: str) -> None:
    """A refused request, an edit that is to be verified and a terminal's output have the ids that they lacked."""
    phase, added = RARE[hook]
    (now,), (before,) = events(run, phase, hook), events(alone, phase, hook)

    assert {*now["names"]} - {*before["names"]} == added
    assert {*now["names"]} >= {*before["names"]}


@pytest.mark.parametrize("style", ["anything", "named"])
@pytest.mark.parametrize("hook", RARE)
def test_rare_hook_has_the_agents_session_and_its_turn(run: Any, hook: str, style: str) -> None:
    """What a callback gets is what is in effect: the session of the turn, which goes on."""
    phase, _ = RARE[hook]
    (event,) = events(run, phase, hook, style)
    ids = {"session_id": run["ids"][phase], "gateway_session_key": run["key"]}

    assert event["ids"] == ids
    assert ids.items() <= event["ambient"].items()
    assert event["turn"] is not None
    assert event["turn"][1] is False


@pytest.mark.parametrize("hook", BOARD)
def test_task_of_a_board_is_of_no_session(run: Any, alone: Any, hook: str) -> None:
    """What a dispatcher does outside any session has no id, and a callback that asks for one keeps its default."""
    fired = events(run, "board", hook)
    named = events(run, "board", hook, "named")

    assert len(fired) == len(named) == BOARD[hook]
    assert [one["names"] for one in fired] == [one["names"] for one in events(alone, "board", hook)]
    assert [one["ambient"] for one in fired] == [{}] * BOARD[hook]
    assert {one["ids"]["session_id"] for one in named} == {"default"}


def test_every_hook_can_be_a_shells_command(run: Any) -> None:
    """The commands are registered past the plugins' way of doing so, one for each hook."""
    assert run["shell_hooks"] == run["valid_hooks"]


@pytest.mark.parametrize("phase", ["refused", "edit", "terminal"])
def test_shells_commands_read_both_ids(run: Any, phase: str) -> None:
    """In the JSON that a real command reads, the session is where the host has it, and the key among the further
    names."""
    told = run["told"][phase]
    fired = {event["event"] for event in run["events"] if event["phase"] == phase} - {*MIDDLEWARE}

    assert {one["hook_event_name"] for one in told} == fired
    assert {one["session_id"] for one in told} == {run["ids"][phase]}
    assert {one["extra"]["gateway_session_key"] for one in told} == {run["key"]}


def test_shells_command_of_a_terminals_output_lacked_its_session(run: Any, alone: Any) -> None:
    """The host alone leaves the session of that hook empty."""
    hook = "transform_terminal_output"

    assert [one["session_id"] for one in heard(alone, "terminal", hook)] == [""]
    assert [one["session_id"] for one in heard(run, "terminal", hook)] == [run["ids"]["terminal"]]


@pytest.mark.parametrize("phase", ["refused", "edit", "terminal", "board"])
def test_shells_commands_run_as_often_as_in_the_host_alone(run: Any, alone: Any, phase: str) -> None:
    """No command runs twice, or not at all, and none reads a name more than the two ids."""

    def read(of: Any) -> list[tuple[str, list[str]]]:
        return sorted((one["hook_event_name"], sorted({*one["extra"]} - KEY)) for one in of["told"][phase])

    assert read(run) == read(alone)


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert run["log"] == []
