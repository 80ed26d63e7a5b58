"""Turns of agents in every frontend but the chats: command line, terminal UI, API server, ACP, cron; approvals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.hermes

RunHost = Callable[[str, str], Any]
FRONTENDS = {
    "cli": "cli",
    "tui-returned": "tui",
    "tui-working": "tui",
    "api": "api_server",
    "acp": "acp",
    "cron": "cron",
    "approval": "gateway",
}
"""The frontend of each phase."""
OF_THE_AGENT = ("pre_llm_call", "pre_api_request", "pre_tool_call", "post_tool_call", "post_llm_call", "on_session_end")


@pytest.fixture
def run(run_host: RunHost, load: str) -> Any:
    return run_host("frontends", load)


def events(run: Any, phase: str, *names: str) -> list[dict[str, Any]]:
    """The events of a phase that a callback which takes anything got, in their order."""
    found = [e for e in run["events"] if e["phase"] == phase and e["style"] == "anything"]
    return [e for e in found if not names or e["event"] in names]


@pytest.mark.parametrize("phase", FRONTENDS)
def test_a_turn_has_its_session_and_frontend(run: Any, phase: str) -> None:
    """Every event of an agent's turn has the agent's session, around it and passed, and the frontend it serves."""
    found = events(run, phase, *OF_THE_AGENT)
    (session_id,) = {event["ids"]["session_id"] for event in found}

    assert {event["event"] for event in found} == {*OF_THE_AGENT}
    assert session_id == run["ids"][phase] or (phase == "cron" and session_id.startswith("cron_job_"))
    assert {event["ambient"]["session_id"] for event in found} == {session_id}
    assert {event["ambient"]["frontend"] for event in found} == {FRONTENDS[phase]}


@pytest.mark.parametrize("phase", FRONTENDS)
def test_an_agents_work_is_one_turn(run: Any, phase: str) -> None:
    """One turn, which has not ended: also where the request that started it has returned before, or does meanwhile."""
    turns = {tuple(event["turn"]) for event in events(run, phase, *OF_THE_AGENT)}

    assert len(turns) == 1
    assert {ended for _, ended in turns} == {False}


@pytest.mark.parametrize("phase", ["cli", "tui-returned", "tui-working", "acp", "cron"])
def test_a_frontend_without_chats_has_no_key(run: Any, phase: str) -> None:
    """Nothing is passed for a key that there is none of; cron, which a neighbour's turn started, has not that one's."""
    for event in events(run, phase):
        assert "gateway_session_key" not in event["names"]
        assert "gateway_session_key" not in event["ambient"]
        assert "user_id" not in event["ambient"]


def test_api_server_has_the_key_that_its_client_names(run: Any) -> None:
    """What a client sends for its chat is the key, also in the pool's thread in which the agent works."""
    assert {event["ids"]["gateway_session_key"] for event in events(run, "api")} == {"client's key"}


@pytest.mark.parametrize("name", ["pre_approval_request", "post_approval_response"])
def test_approvals_have_both_ids(run: Any, run_host: RunHost, name: str) -> None:
    """A hook of an approval, to which the host passes no session, has those of the agent that asks."""
    (event,) = events(run, "approval", name)
    (alone,) = events(run_host("frontends", "alone"), "approval", name)

    assert {*event["names"]} - {*alone["names"]} == {"session_id", "gateway_session_key"}
    assert event["ids"]["session_id"] == run["ids"]["approval"]
    assert event["ids"]["gateway_session_key"] == run["key"]


def test_boundaries_of_new_in_the_command_line_are_of_the_sessions_they_name(run: Any) -> None:
    """Finalize is of the old session, reset of the new one, and both are the command line's."""
    found = events(run, "cli-new", "on_session_finalize", "on_session_reset")

    assert [event["ids"]["session_id"] for event in found] == run["ids"]["cli-new"]
    assert [event["ambient"]["session_id"] for event in found] == run["ids"]["cli-new"]
    assert {event["ambient"]["frontend"] for event in found} == {"cli"}


def test_events_fire_as_often_as_in_the_host_alone(run: Any, run_host: RunHost) -> None:
    """In no frontend is an event fired twice, or lost."""

    def fired(of: Any) -> list[tuple[str, str, str]]:
        return sorted((e["phase"], e["event"], e["style"]) for e in of["events"])

    assert fired(run) == fired(run_host("frontends", "alone"))


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert run["log"] == []
