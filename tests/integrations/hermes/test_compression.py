"""Histories that the host compresses by itself, inside a turn: in place, and under another session's id."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

# Where the compression in place is, and the thresholds that the site's texts are made for.
pytestmark = [pytest.mark.hermes, pytest.mark.since("0.19.0")]

RunHost = Callable[[str, str], Any]
FRONTENDS = ["cli", "gateway", "tui"]
COMPRESSING = ["too long", "grown by a tool"]
"""The steps in which the host compresses: before it asks the model, and between a tool and the next request."""


@pytest.fixture
def run(run_host: RunHost) -> Any:
    return run_host("compression", "plugin")


@pytest.fixture(params=["in place", "rotating"])
def how(request: pytest.FixtureRequest) -> str:
    """Whether a session goes on under its id when its history is compressed."""
    return str(request.param)


def events(run: Any, frontend: str, how: str, step: str) -> list[dict[str, Any]]:
    """The events of a step; that another window of the UI is ready is none of them."""
    return [event for event in told(run, frontend, how)["events"][step] if event["event"] != "on_session_reset"]


def told(run: Any, frontend: str, how: str) -> Any:
    """What one conversation was."""
    return run["found"][f"{frontend}, {how}"]


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_history_is_compressed_as_the_configuration_says(run: Any, frontend: str, how: str) -> None:
    """In place the id stays and the session's messages are marked; else each compression gives another id."""
    ids = list(told(run, frontend, how)["ids"].values())
    one, two, three = ids[0], ids[2], ids[4]

    assert ids == [one, one, two, two, three, three]
    assert len({one, two, three}) == (1 if how == "in place" else 3)
    assert (one in run["compacted"]) == (how == "in place")


@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("step", ["long", "longer", *COMPRESSING, "afterwards", "at last"])
def test_every_event_is_in_the_same_conversation(run: Any, frontend: str, how: str, step: str) -> None:
    """Before, in and after a turn whose history is compressed, a plugin finds what it had kept."""
    first = events(run, frontend, how, "long")[0]["ambient"]["conversation_id"]
    found = events(run, frontend, how, step)

    assert {"pre_llm_call", "post_llm_call", "on_session_end"} <= {event["event"] for event in found}
    assert {event["ambient"]["conversation_id"] for event in found} == {first}
    assert {event["kept"] for event in found} == {f"{frontend}, {how}"}


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_command_afterwards_has_the_id_and_what_was_kept(run: Any, frontend: str, how: str) -> None:
    """A command after both compressions is in the session that the host is in, and in the same conversation."""
    conversation = told(run, frontend, how)
    key = run["keys"][how] if frontend == "gateway" else None

    assert json.loads(conversation["told"][1]) == [f"{frontend}, {how}", conversation["ids"]["at last"], key]


@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("step", COMPRESSING)
def test_what_is_passed_is_what_is_in_effect(run: Any, frontend: str, how: str, step: str) -> None:
    """Over a change of the id in a turn, an event's own id and the one around it are the same, and the key stays."""
    for event in events(run, frontend, how, step):
        assert event["ids"]["session_id"] == event["ambient"]["session_id"]
        assert event["ids"].get("gateway_session_key") == (run["keys"][how] if frontend == "gateway" else None)


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_id_changes_between_a_tool_and_the_next_request(run: Any, frontend: str) -> None:
    """Up to the tool's result the turn has the old id; from the next request on the new one, after the old."""
    conversation = told(run, frontend, "rotating")
    old, new = conversation["ids"]["afterwards"], conversation["ids"]["grown by a tool"]
    found = events(run, frontend, "rotating", "grown by a tool")
    ids = [(e["event"], e["ambient"]["session_id"], e["ambient"].get("previous_session_id")) for e in found]

    assert [one for one in ids if one[0] != "pre_gateway_dispatch"] == [
        ("pre_llm_call", old, None),
        ("pre_api_request", old, None),
        ("post_api_request", old, None),
        ("pre_tool_call", old, None),
        ("post_tool_call", old, None),
        ("transform_tool_result", old, None),
        ("pre_api_request", new, old),
        ("post_api_request", new, old),
        ("transform_llm_output", new, old),
        ("post_llm_call", new, old),
        ("on_session_end", new, old),
    ]


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_compression_in_place_is_no_change_of_session(run: Any, frontend: str) -> None:
    """Where the id stays, no event of any step has a previous one."""
    for step in COMPRESSING:
        for event in events(run, frontend, "in place", step):
            assert "previous_session_id" not in event["ambient"]


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert run["log"] == run["logged"] == []
