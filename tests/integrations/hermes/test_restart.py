"""The host is killed in the middle of three conversations and started anew: two real processes with one home."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

# Rotation by /compress in every frontend, and session.resume as the UI does it now.
pytestmark = [pytest.mark.hermes, pytest.mark.since("0.19.0")]

RunHost = Callable[[str, str], Any]
FRONTENDS = ["cli", "gateway", "tui"]
KEY = "agent:main:discord:group:a:u"


@pytest.fixture
def run(run_host: RunHost) -> Any:
    return run_host("restart", "plugin")


def kept(answer: str) -> tuple[str | None, str | None, str | None]:
    """What /keep said: the word, the session's id and the chat's key."""
    word, session_id, key = json.loads(answer)
    return word, session_id, key


def ids_of(run: Any, frontend: str) -> Any:
    """The session that a frontend's conversation was in when the first process was killed."""
    ids = run["before"]["ids"][frontend]
    return ids[-1] if frontend == "gateway" else ids


def test_these_are_two_processes_that_were_killed(run: Any) -> None:
    """Neither had time to close anything."""
    assert run["before"]["process"] != run["after"]["process"]
    assert [run[part]["ended"] for part in ("before", "after")] == [-9, -9]
    assert {event["process"] for event in run["events"]} == {run["after"]["process"]}


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_what_a_command_kept_is_there_in_the_second_process(run: Any, frontend: str) -> None:
    """The first command after the restart finds it, and has the session that the conversation was in."""
    word, session_id, _ = kept(run["after"]["told"][frontend][0])

    assert word == f"of {frontend}"
    assert session_id == ids_of(run, frontend) == run["after"]["ids"][frontend]


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_hooks_of_the_next_turn_find_it_too(run: Any, frontend: str) -> None:
    """Each event of the turn after the restart is in the conversation from before."""
    found = [
        e
        for e in run["events"]
        if e["event"] in ("pre_llm_call", "pre_tool_call", "post_tool_call")
        and e["ids"]["session_id"] == ids_of(run, frontend)
    ]

    assert {event["event"] for event in found} == {"pre_llm_call", "pre_tool_call", "post_tool_call"}
    assert {event["kept"] for event in found} == {f"of {frontend}"}


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_others_find_nothing(run: Any, frontend: str) -> None:
    """A new session, chat or window of the second process is another conversation."""
    assert kept(run["after"]["other"][frontend])[0] is None


def test_chats_key_leads_to_its_session_between_the_processes(run: Any) -> None:
    """The file says which session the chat was in, by its key, and the chat of each session that it had, by its id."""
    first, last = run["before"]["ids"]["gateway"]
    between = run["between"]

    assert first != last
    assert between["session_id"] == last
    assert between["keys"] == [KEY, KEY]
    assert between["conversations"] == [between["conversation"]] * 2


def test_chats_key_leads_to_its_session_in_the_second_process(run: Any) -> None:
    """The chat's first message has both, and its conversation's id is the one that the file has."""
    door = next(event for event in run["events"] if event["event"] == "pre_gateway_dispatch")

    assert kept(run["after"]["told"]["gateway"][0]) == ("of gateway", run["before"]["ids"]["gateway"][-1], KEY)
    assert door["ids"] == {"session_id": run["before"]["ids"]["gateway"][-1], "gateway_session_key": KEY}
    assert door["ambient"]["conversation_id"] == run["between"]["conversation"]


def test_first_event_of_a_process_is_in_its_conversation_though_nobody_wrote(run: Any) -> None:
    """An idle session that expires before the first message has its chat's key, and what was kept for it."""
    first = run["events"][0]

    assert first["event"] == "on_session_finalize"
    assert first["ids"] == {"session_id": run["before"]["ids"]["gateway"][0], "gateway_session_key": KEY}
    assert first["ambient"]["conversation_id"] == run["between"]["conversation"]
    assert first["kept"] == "of gateway"


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing, in any of the processes."""
    assert run["log"] == run["logged"] == []
