"""Which session and which conversation a chat's events are of, whatever gives the chat another session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.hermes

RunHost = Callable[[str, str], Any]


@pytest.fixture
def chats(run_host: RunHost, load: str) -> Any:
    return run_host("chats", load)


def events(run: Any, phase: str, name: str | None = None) -> list[dict[str, Any]]:
    """The events of a phase that a callback which takes anything got, in their order."""
    return [e for e in run["events"] if e["phase"] == phase and e["style"] == "anything" and name in (None, e["event"])]


def event(run: Any, phase: str, name: str) -> dict[str, Any]:
    """The one event of this name in a phase."""
    (found,) = events(run, phase, name)
    return found


def conversation(run: Any, phase: str, name: str = "pre_llm_call") -> str:
    """The conversation that a phase was in."""
    found: str = event(run, phase, name)["ambient"]["conversation_id"]
    return found


TURNS = ["first", "cached", "neighbour", "after-compression", "after-branch", "after-new", "resumed"]
TURNS += ["after-unwatched", "restarted"]


@pytest.mark.parametrize("phase", TURNS)
def test_all_events_of_a_turn_have_the_chats_key_and_session(chats: Any, phase: str) -> None:
    """From the door on the key, and the id that the chat has when the turn has ended, once there is one."""
    known = chats["after"][phase]

    for one in events(chats, phase):
        if one["event"] != "pre_gateway_dispatch":
            assert one["ids"]["session_id"] == known["session_id"], one
        assert one["ids"]["gateway_session_key"] == known["gateway_session_key"], one
        assert one["ambient"]["user_id"] == "u"


def test_first_message_has_no_session_at_the_door(chats: Any) -> None:
    """Before a chat's first session there is no id, neither ambient nor passed; afterwards there is one."""
    door = event(chats, "first", "pre_gateway_dispatch")

    assert "session_id" not in door["names"]
    assert "session_id" not in door["ambient"]
    assert conversation(chats, "first") == conversation(chats, "cached")


@pytest.mark.parametrize("phase", ["background", "background-first"])
def test_background_job_has_an_id_of_its_own_and_the_chats_key_and_user(chats: Any, phase: str) -> None:
    """Its agent, which knows no chat and works when the chat's turn has ended, serves the chat that started it."""
    known = chats["before"][phase]
    job = event(chats, phase, "pre_llm_call")

    assert job["ids"]["session_id"] != known["session_id"]
    assert job["ids"]["session_id"].startswith("bg_")
    assert job["ids"]["gateway_session_key"] == known["gateway_session_key"]
    assert job["ambient"]["user_id"] == "u"
    assert job["ambient"]["frontend"] == "gateway"


def test_background_job_moves_no_chat(chats: Any) -> None:
    """The chat's next message is in the session and the conversation that it was in before."""
    assert chats["state"]["background"] == "read_file"
    assert conversation(chats, "background") != conversation(chats, "cached")
    assert conversation(chats, "after-compression") == conversation(chats, "cached")


@pytest.mark.since("0.18.2")  # before, a chat's /compress does not rotate
def test_conversation_goes_on_over_a_compression_that_rotates(chats: Any) -> None:
    """`/compress`, which gives the chat another id, keeps the conversation and its state."""
    assert chats["before"]["compressed"]["session_id"] != chats["after"]["compressed"]["session_id"]
    assert conversation(chats, "after-compression") == conversation(chats, "first")
    assert chats["state"]["after-compression"] == "read_file"


@pytest.mark.parametrize("phase", ["after-branch", "reset-inside", "after-new"])
def test_another_conversation_begins(chats: Any, phase: str) -> None:
    """A branch, an automatic reset and `/new` begin a conversation, which has nothing of the one before."""
    others = [conversation(chats, other) for other in ("first", "after-branch", "reset-inside", "after-new")]

    assert others.count(conversation(chats, phase)) == 1
    assert chats["state"][phase] is None


def test_resumed_session_is_in_its_conversation_again(chats: Any) -> None:
    """`/resume` brings back the conversation of the session, and what was kept for it."""
    assert conversation(chats, "resumed") == conversation(chats, "first")
    assert chats["state"]["resumed"] == "read_file"


@pytest.mark.since("0.18.2")  # before, a chat's /compress does not rotate
def test_rotation_that_nobody_watched_keeps_the_conversation(chats: Any) -> None:
    """A compression while ctxruntime was not there is known to Hermes's own store, and so to the next turn."""
    assert chats["after"]["resumed"]["session_id"] != chats["after"]["after-unwatched"]["session_id"]
    assert conversation(chats, "after-unwatched") == conversation(chats, "first")
    assert chats["state"]["after-unwatched"] == "read_file"


def test_restart_keeps_conversations_and_their_state(chats: Any) -> None:
    """A gateway that starts anew in the same home finds the chat in its conversation."""
    assert conversation(chats, "restarted") == conversation(chats, "first")
    assert chats["state"]["restarted"] == "read_file"


def test_automatic_reset_inside_a_message_reaches_its_turn(chats: Any) -> None:
    """The door knows the session that is about to be replaced; the agent's events have the new one."""
    before, after = (chats[when]["reset-inside"]["session_id"] for when in ("before", "after"))
    door, agent = (event(chats, "reset-inside", name) for name in ("pre_gateway_dispatch", "pre_llm_call"))

    assert before != after
    assert door["ids"]["session_id"] == before
    assert agent["ids"]["session_id"] == agent["ambient"]["session_id"] == after
    assert agent["ambient"]["previous_session_id"] == before


@pytest.mark.parametrize(("name", "when"), [("on_session_finalize", "before"), ("on_session_reset", "after")])
def test_boundary_of_new_is_of_the_session_that_it_names(chats: Any, name: str, when: str) -> None:
    """Finalize is of the old session, reset of the new one; both of the chat, and each in its conversation."""
    boundary = event(chats, "new", name)
    other = "reset-inside" if when == "before" else "after-new"

    assert boundary["ids"]["session_id"] == boundary["ambient"]["session_id"] == chats[when]["new"]["session_id"]
    assert boundary["ids"]["gateway_session_key"] == chats["before"]["new"]["gateway_session_key"]
    assert boundary["ambient"]["user_id"] == "u"
    assert boundary["ambient"]["conversation_id"] == conversation(chats, other)


def test_expiry_outside_any_turn_has_the_sessions_chat(chats: Any) -> None:
    """What the watcher of idle sessions fires has the key that Hermes's store knows, and nobody's user."""
    expired = event(chats, "expired", "on_session_finalize")
    known = chats["before"]["expired"]

    assert expired["ids"]["gateway_session_key"] == known["gateway_session_key"]
    assert expired["ambient"]["session_id"] == known["session_id"]
    assert "user_id" not in expired["ambient"]
    assert expired["ambient"]["conversation_id"] == conversation(chats, "neighbour")


@pytest.mark.since("0.18.2")
def test_eviction_is_of_the_chat_whose_agent_it_tears_down(chats: Any) -> None:
    """The thread that another chat's turn starts for it has nothing of that turn."""
    (ambient,) = chats["evicted"]

    assert ambient["gateway_session_key"] == chats["before"]["cached"]["gateway_session_key"]
    assert ambient["session_id"] == chats["before"]["cached"]["session_id"]
    assert ambient["hermes_chat_id"] == "chat"


def test_events_fire_as_often_as_in_the_host_alone(chats: Any, run_host: RunHost) -> None:
    """Over all that happens to a chat, no event is fired twice, and none is lost."""

    def fired(run: Any) -> list[tuple[str, str, str]]:
        return sorted((e["phase"], e["event"], e["style"]) for e in run["events"])

    assert fired(chats) == fired(run_host("chats", "alone"))


def test_answers_are_those_of_the_host_alone(chats: Any, run_host: RunHost) -> None:
    """What people read in their chats is the same, but for the ids and figures in it."""

    def told(run: Any) -> list[str]:
        return sorted(run["answers"])

    assert told(chats) == told(run_host("chats", "alone"))


def test_nothing_of_ours_is_logged(chats: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert chats["log"] == []
