"""A gateway that serves several profiles in one process, each with a home, a bot and a namespace of keys of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

# A profile's bot is set up by one function of the gateway's, and its handler is in the profile's home.
pytestmark = [pytest.mark.hermes, pytest.mark.since("0.19.0")]

RunHost = Callable[[str, str], Any]
KEYS = {"coder": "agent:coder:discord:group:coder:u", "default": "agent:main:discord:group:default:u"}
"""The key of the chat with each profile's bot."""


@pytest.fixture
def run(run_host: RunHost, load: str) -> Any:
    return run_host("profiles", load)


def events(run: Any, phase: str) -> list[dict[str, Any]]:
    """The events of a phase that a callback which takes anything got, in their order."""
    return [e for e in run["events"] if e["phase"] == phase and e["style"] == "anything"]


@pytest.mark.parametrize("profile", KEYS)
def test_command_has_the_key_of_its_profile(run: Any, profile: str) -> None:
    """The key is the one that the gateway has for that profile's chat, which the adapter's own is not."""
    kept, session_id, key = json.loads(run["told"][f"{profile}: kept"])

    assert (session_id, key) == tuple(run["after"][f"{profile}: turn"].values())
    assert key == KEYS[profile]
    assert kept == f"of {profile}"


@pytest.mark.parametrize("profile", KEYS)
def test_turn_has_the_session_and_key_of_its_profile(run: Any, profile: str) -> None:
    """Every event of the agent, which works in the profile's home, has the ids of the profile's chat."""
    after = run["after"][f"{profile}: turn"]
    found = events(run, f"{profile}: turn")

    assert {event["event"] for event in found} >= {"pre_gateway_dispatch", "pre_tool_call", "on_session_end"}
    assert {event["ids"]["gateway_session_key"] for event in found} == {KEYS[profile]}
    assert {event["ids"]["session_id"] for event in found if event["event"] != "pre_gateway_dispatch"} == {
        after["session_id"]
    }


def test_profiles_are_conversations_apart(run: Any) -> None:
    """What is kept in one profile's chat is not found in another's."""
    sessions = {run["after"][f"{profile}: turn"]["session_id"] for profile in KEYS}

    assert len(sessions) == 2
    assert {json.loads(run["told"][f"{profile}: kept"])[0] for profile in KEYS} == {"of coder", "of default"}


def test_conversations_of_all_profiles_are_in_the_home_of_the_process(run: Any) -> None:
    """The one file that there is lies where the process has its home, and not where the first message had its own."""
    assert run["stores"] == ["ctxruntime.db"]


@pytest.mark.parametrize("profile", KEYS)
def test_restarted_gateway_finds_them_whichever_profile_comes_first(run: Any, profile: str) -> None:
    """Another profile is the first to be written to after the restart, and nothing is lost for that."""
    assert json.loads(run["told"][f"{profile}: restarted"]) == [
        f"of {profile}",
        *run["after"][f"{profile}: turn"].values(),
    ]


def test_events_fire_as_often_as_in_the_host_alone(run: Any, run_host: RunHost) -> None:
    """In no profile is an event fired twice, or lost."""

    def fired(of: Any) -> list[tuple[str, str, str]]:
        return sorted((e["phase"], e["event"], e["style"]) for e in of["events"])

    assert fired(run) == fired(run_host("profiles", "alone"))


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert run["log"] == []
