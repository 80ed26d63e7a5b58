"""What each hook and each kind of middleware receives, from each of the host's ways of running tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.hermes

RunHost = Callable[[str, str], Any]
KEY, BOTH = {"gateway_session_key"}, {"gateway_session_key", "session_id"}
TOOLS = {
    "pre_tool_call": KEY,
    "post_tool_call": KEY,
    "transform_tool_result": KEY,
    "tool_request": KEY,
    "tool_execution": KEY,
}
TURN = {
    "on_session_start": KEY,
    "pre_llm_call": KEY,
    "pre_api_request": KEY,
    "llm_request": KEY,
    "llm_execution": KEY,
    "post_api_request": KEY,
    "post_llm_call": KEY,
    "transform_llm_output": KEY,
    "on_session_end": KEY,
}
ADDED: dict[str, dict[str, set[str]]] = {
    "one": TOOLS | TURN,
    "three": TOOLS | TURN,
    "mixed": TOOLS | TURN,
    "nested": TOOLS | TURN,
    "delegation": TOOLS | TURN | {"subagent_start": BOTH, "subagent_stop": BOTH},
    "outside": TOOLS,
}
"""Which names each event gets beyond the host's, by what the agent did: one tool, three at once, two of which one is
the agent's own, a tool in a program, a sub-agent with a tool, and a tool called outside any turn."""
SINCE = dict.fromkeys(("tool_request", "tool_execution", "llm_request", "llm_execution"), "0.17.0")
SINCE["subagent_start"] = "0.16.0"
"""The first of the versions looked at that fires an event; the others are in all of them."""


@pytest.fixture
def alone(run_host: RunHost) -> Any:
    return run_host("agents", "alone")


@pytest.fixture
def run(run_host: RunHost, load: str) -> Any:
    return run_host("agents", load)


def events(run: Any, phase: str, style: str = "anything", event: str | None = None) -> list[dict[str, Any]]:
    """The events of a phase that callbacks of a style got, in their order."""
    return [e for e in run["events"] if e["phase"] == phase and e["style"] == style and event in (None, e["event"])]


def received(run: Any, phase: str) -> dict[str, set[str]]:
    """All names that a callback which takes anything got, by event."""
    names: dict[str, set[str]] = {}
    for event in events(run, phase):
        names.setdefault(event["event"], set()).update(event["names"])
    return names


@pytest.mark.parametrize("phase", ADDED)
def test_each_event_has_the_names_of_the_table_beyond_the_hosts(
    run: Any, alone: Any, has: Callable[[str], bool], phase: str
) -> None:
    """Every hook and every middleware kind that fires gets the ids that it lacked, and nothing else."""
    before, now = received(alone, phase), received(run, phase)

    fired = {event: names for event, names in ADDED[phase].items() if has(SINCE.get(event, "0"))}
    assert {event: now[event] - before[event] for event in now} == fired
    assert all(before[event] <= now[event] for event in before)


@pytest.mark.parametrize("phase", ADDED)
@pytest.mark.parametrize("style", ["anything", "named"])
def test_every_event_has_the_agents_ids(run: Any, phase: str, style: str) -> None:
    """The key is the chat's, also inside a sub-agent, whose id is its own; start and stop have the parent's."""
    for event in events(run, phase, style):
        ids = event["ids"]
        assert ids["gateway_session_key"] == run["key"], event
        if phase != "delegation":
            assert ids["session_id"] == run["ids"][phase], event
        elif event["event"].startswith("subagent") and style == "anything":
            assert ids["session_id"] == ids["parent_session_id"] == run["ids"][phase], event
        else:
            assert ids["session_id"], event


def test_events_inside_a_subagent_have_its_own_id(run: Any) -> None:
    """The tool that the sub-agent used, and its requests, are of the session that it was given."""
    tools = events(run, "delegation", event="pre_tool_call")
    by_tool = {event["tool"]: event["ids"]["session_id"] for event in tools}

    assert by_tool["delegate_task"] == run["ids"]["delegation"]
    assert by_tool["read_file"] != run["ids"]["delegation"]


def test_nested_tools_have_the_session_that_the_host_passes_empty(run: Any, alone: Any) -> None:
    """The tool that a program calls has the id of the session that runs the program."""
    tool = "read_file"
    before = [e["ids"]["session_id"] for e in events(alone, "nested", event="pre_tool_call") if e["tool"] == tool]
    now = [e["ids"]["session_id"] for e in events(run, "nested", event="pre_tool_call") if e["tool"] == tool]

    assert before == [""]
    assert now == [run["ids"]["nested"]]


@pytest.mark.parametrize("phase", ADDED)
def test_strict_callback_keeps_working(run: Any, alone: Any, phase: str) -> None:
    """A callback that would fail if it got one name more is called as often, and with the session."""
    strict = events(run, phase, "strict")

    assert len(strict) == len(events(alone, phase, "strict")) > 0
    assert all(event["ids"]["session_id"] for event in strict)


@pytest.mark.parametrize("phase", ADDED)
def test_parameters_that_only_look_like_keys_keep_their_defaults(run: Any, phase: str) -> None:
    """A plugin's own `frontend` is the plugin's, whatever the session knows."""
    assert events(run, phase, "named")
    assert events(run, phase, "broken") == []


@pytest.mark.parametrize("phase", ADDED)
def test_every_event_fires_as_often_and_in_the_order_of_the_host_alone(run: Any, alone: Any, phase: str) -> None:
    """Nothing fires twice; what three tools do at once has no order, the agent's own thread has."""

    def fired(of: Any) -> list[tuple[str, str]]:
        found = [(e["event"], e["style"]) for e in of["events"] if e["phase"] == phase]
        return sorted(found) if phase in ("three", "delegation") else found

    assert fired(run) == fired(alone)


@pytest.mark.parametrize("phase", ADDED)
def test_ambient_keys_are_those_that_the_callback_gets(run: Any, phase: str) -> None:
    """What a callback reads is what it is given, in whichever thread it runs."""
    for event in events(run, phase):
        assert event["ambient"]["gateway_session_key"] == event["ids"]["gateway_session_key"]
        assert event["ambient"]["session_id"] == event["ids"]["session_id"]


@pytest.mark.parametrize("phase", sorted({*ADDED} - {"outside"}))
def test_a_turn_is_one_turn(run: Any, phase: str) -> None:
    """All events of an agent's turn, its tools and its sub-agents are of one turn, which has not ended."""
    turns = {tuple(event["turn"]) for event in events(run, phase)}

    assert len({turn for turn, _ in turns}) == 1
    # A sub-agent works on in the background when its parent has answered.
    assert {ended for _, ended in turns} - ({True} if phase == "delegation" else set()) == {False}


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert run["log"] == []
