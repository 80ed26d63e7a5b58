"""Frontends that are a process each: one answer and out, a worker of a board, a turn's compute host."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

# The compute host, and the board's hooks.
pytestmark = [pytest.mark.hermes, pytest.mark.since("0.19.0")]

RunHost = Callable[[str, str], Any]
OF_THE_AGENT = {"pre_llm_call", "pre_api_request", "pre_tool_call", "post_tool_call", "post_llm_call", "on_session_end"}
FRONTENDS = {"one-shot": "cli", "worker": "cli", "compute host": "tui"}
"""Which frontend each of these serves."""


@pytest.fixture
def run(run_host: RunHost) -> dict[str, Any]:
    """What was found of all of them: what was told, the events, and the process that started each."""
    runs = [run_host(site, "plugin") for site in ("processes", "compute_host")]
    return {
        "told": runs[0]["told"] | runs[1]["told"],
        "events": runs[0]["events"] | runs[1]["events"],
        "process": {step: run["process"] for run in runs for step in run["told"]},
        "logged": [text for run in runs for text in (*run["log"], *run["logged"])],
    }


def of_the_agent(run: Any, step: str) -> list[dict[str, Any]]:
    """The events of the agent's turn in a step."""
    return [event for event in run["events"][step] if event["event"] in OF_THE_AGENT]


def events(run: Any, step: str, name: str) -> list[dict[str, Any]]:
    """The events of one name in a step."""
    return [event for event in run["events"][step] if event["event"] == name]


@pytest.mark.parametrize("step", FRONTENDS)
def test_turn_in_a_process_of_its_own_has_its_session(run: Any, step: str) -> None:
    """All events of the agent are of one process, which is not the one that started it, and of one session."""
    found = of_the_agent(run, step)
    (process,) = {event["process"] for event in found}
    (session_id,) = {event["ids"]["session_id"] for event in found}

    assert {event["event"] for event in found} == OF_THE_AGENT
    assert process != run["process"][step]
    assert {event["ambient"]["session_id"] for event in found} == {session_id}
    assert {event["ambient"]["frontend"] for event in found} == {FRONTENDS[step]}


@pytest.mark.parametrize("step", FRONTENDS)
def test_turn_in_a_process_of_its_own_has_no_chat(run: Any, step: str) -> None:
    """None of these serves a chat: no key is passed, and none is in effect."""
    for event in of_the_agent(run, step):
        assert "gateway_session_key" not in event["names"]
        assert "gateway_session_key" not in event["ambient"]


@pytest.mark.parametrize("step", FRONTENDS)
def test_turn_in_a_process_of_its_own_is_in_one_conversation(run: Any, step: str) -> None:
    """The process has the store of Hermes's home, and each of these sessions a conversation of its own."""
    (conversation,) = {event["ambient"]["conversation_id"] for event in of_the_agent(run, step)}
    others = {
        event["ambient"]["conversation_id"]
        for other in FRONTENDS
        if other != step
        for event in of_the_agent(run, other)
    }

    assert conversation not in others


def test_one_shot_prints_its_answer_and_nothing_of_ours(run: Any) -> None:
    """`hermes -z` writes what the model said to standard output, and that is all."""
    assert run["told"]["one-shot"] == "Done.\n"


def test_task_is_claimed_in_no_session_and_done_in_the_workers(run: Any) -> None:
    """The dispatcher, which is nobody's session, passes no id; the worker, whose tool does it, its own."""
    (claimed,) = events(run, "worker", "kanban_task_claimed")
    (done,) = events(run, "worker", "kanban_task_completed")
    (session_id,) = {event["ids"]["session_id"] for event in of_the_agent(run, "worker")}

    assert run["told"]["worker"]["status"] == "done"
    assert claimed["process"] == run["process"]["worker"]
    assert claimed["ids"] == {"task_id": run["told"]["worker"]["task"]}
    assert claimed["ambient"] == {}
    assert done["process"] != run["process"]["worker"]
    assert done["ids"] == {"task_id": run["told"]["worker"]["task"], "session_id": session_id}


def test_compute_host_is_in_the_session_of_the_window(run: Any) -> None:
    """The id in the other process is that which a command in the UI's own gets."""
    told = run["told"]["compute host"]
    (session_id,) = {event["ids"]["session_id"] for event in of_the_agent(run, "compute host")}

    assert told["isolated"] == {"status": "streaming", "turn_isolation": True}
    assert {event["isolated"] for event in of_the_agent(run, "compute host")} == {"1"}
    assert told["session_key"] == [session_id, session_id]
    assert [json.loads(answer)[1] for answer in told["told"]] == [session_id, session_id]


def test_compute_host_finds_what_was_kept_in_the_window(run: Any) -> None:
    """The two processes share the file of conversations: the turn finds what a command kept in the UI's process."""
    told = run["told"]["compute host"]

    assert [json.loads(answer)[0] for answer in told["told"]] == ["word", "word"]
    assert {event["kept"] for event in of_the_agent(run, "compute host")} == {"word"}
    assert {event["kept"] for event in of_the_agent(run, "one-shot")} == {None}


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing, in any of the processes."""
    assert run["logged"] == []
