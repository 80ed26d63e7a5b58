"""Hermes's own Discord adapter with the real discord.py, connected to a Discord on loopback."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.hermes

RunHost = Callable[[str, str], Any]
CHANNEL, OTHER, BENS = (f"agent:main:discord:group:{where}" for where in ("4001:2001", "4002:2001", "4001:2002"))
THREAD = "agent:main:discord:thread:5001:5001"
IT_RAN = "the text of the file"
IT_WAS_BLOCKED = 'The tool said: {"error": "read_file is blocked in this chat."}'


@pytest.fixture
def run(run_host: RunHost) -> Any:
    if importlib.util.find_spec("discord") is None:
        pytest.skip("discord.py is not installed here")
    return run_host("discord", "plugin")


def last(run: Any, phase: str) -> str:
    """The last that the bot wrote in a phase: before it are notices, and what it says of its tools."""
    return str(run["answers"][phase][-1])


def test_adapter_connects_and_asks_for_nothing_but_what_is_there(run: Any) -> None:
    """The bot identified once, and all that it asked of Discord is on loopback; the drive lets nothing else out."""
    assert run["arrivals"][0] == "identify"
    assert run["not_faked"] == []


def test_plugin_commands_are_in_discords_own_menu(run: Any) -> None:
    """Hermes registers them as slash commands, with an argument where the plugin says that there is one."""
    (argument,) = run["registered"]["block"]

    assert (argument["name"], argument["type"]) == ("args", 3)
    assert run["registered"]["blocked"] == []


@pytest.mark.parametrize(
    ("phase", "key"),
    [
        ("first of all", CHANNEL),
        ("first of all, native", OTHER),
        ("first of all, another person", BENS),
        ("thread, first of all", THREAD),
    ],
)
def test_command_before_any_agent_has_the_key_and_no_id(run: Any, phase: str, key: str) -> None:
    """A chat without a session is known by its key: a channel's per person, a thread's for all, typed or picked."""
    assert key not in run["ids"][phase]
    assert run.call(phase, "named")["keys"] == {"session_id": "default", "gateway_session_key": key}


@pytest.mark.parametrize(
    ("phase", "key"),
    [
        ("after the turn", CHANNEL),
        ("after the turn, other channel", OTHER),
        ("native", CHANNEL),
        ("thread, native", THREAD),
        ("reconnected", OTHER),
        ("while it was away", OTHER),
        ("resume refused", OTHER),
        ("after new", OTHER),
    ],
)
def test_command_after_the_turn_has_the_id_too(run: Any, phase: str, key: str) -> None:
    """From the chat's first turn on a command knows the session that the host's own store has for the key."""
    expected = {"session_id": run["ids"][phase][key], "gateway_session_key": key}

    call = run.call(phase, "named")

    assert call["keys"] == expected
    assert call["ambient"].items() >= {**expected, "frontend": "gateway", "user_id": "2001"}.items()


def test_tool_blocked_by_a_command_without_a_session_is_blocked_in_the_turn(run: Any) -> None:
    """What was said when there was only a key holds for the agent that has an id; the bridge leads there."""
    assert CHANNEL not in run["ids"]["block"]
    assert last(run, "turn where it is blocked") == IT_WAS_BLOCKED


def test_second_channel_is_unaffected(run: Any) -> None:
    """The tool runs in the other channel, in a turn at the same time."""
    assert IT_RAN in last(run, "turn in the other channel")


def test_native_command_is_answered_and_the_answer_tidied_up(run: Any) -> None:
    """Discord gets its callback in time; what the command says is a message, as for a typed one."""
    assert run["callbacks"]["native list"] == ["answer 5", "delete"]
    assert run["answers"]["native list"] == [f"Blocked in {CHANNEL}: read_file."]


def test_native_commands_block_and_unblock_in_their_channel(run: Any) -> None:
    """A command that was picked is in the same conversation as one that was typed."""
    assert run["answers"]["native block"] == ["read_file is blocked in this chat."]
    assert run["answers"]["native unblock"] == ["read_file may run again in this chat."]
    assert last(run, "turn where it is blocked natively") == IT_WAS_BLOCKED
    assert IT_RAN in last(run, "turn where it is unblocked natively")


def test_thread_is_a_chat_of_its_own(run: Any) -> None:
    """What is blocked in a thread is not blocked in the channel that it is in."""
    assert last(run, "thread turn") == IT_WAS_BLOCKED
    assert IT_RAN in last(run, "turn in the thread's channel")


def test_reconnects_are_the_real_ones(run: Any) -> None:
    """Discord asked for one, the connection was lost, and was lost again with the session refused."""
    assert run["arrivals"] == ["identify", "resume", "resume", "resume refused", "identify"]


def test_command_given_while_the_bot_was_away_runs_once(run: Any) -> None:
    """Discord sends it when the session resumes, and once more; it has its keys, and one answer."""
    assert len(run.calls("while it was away")) == 1
    assert run["answers"]["while it was away"] == ["ok named"]


def test_block_survives_reconnects(run: Any) -> None:
    """A connection is no part of a conversation."""
    assert last(run, "turn after it all") == IT_WAS_BLOCKED


def test_block_is_gone_after_a_native_new(run: Any) -> None:
    """`/new` from the menu: the same key, another session, nothing blocked."""
    assert run["ids"]["native new"][OTHER] != run["ids"]["turn after it all"][OTHER]
    assert IT_RAN in last(run, "turn after new")


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert run["log"] == []
