"""`examples/hermes_plugin` in the real host: a command line, two chats and two windows of the UI, all at once."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.hermes

RunHost = Callable[[str, str], Any]
EXAMPLE = Path(__file__).parents[3] / "examples" / "hermes_plugin"
BLOCKING, OTHERS = ["cli", "gateway", "tui"], ["other gateway", "other tui"]
IT_RAN = "the text of the file"
IT_WAS_BLOCKED = '{"error": "read_file is blocked in this chat."}'


@pytest.fixture(params=["blocking", "blocking_split"], ids=["ids stay", "ids change"])
def site(request: pytest.FixtureRequest) -> str:
    """Whether a session goes on under its id when its history is compressed."""
    return str(request.param)


@pytest.fixture
def run(run_host: RunHost, site: str) -> Any:
    return run_host(site, "plugin")


def chats(run: Any, step: str, text: str) -> list[str]:
    """The chats that were answered so."""
    return [name for name, told in run["told"][step].items() if text in told]


def listed(run: Any, step: str) -> dict[str, str]:
    """What /blocked said, without where."""
    return {name: told.rpartition(": ")[2] for name, told in run["told"][step].items()}


def test_blocked_tool_runs_nowhere_but_in_the_other_chats(run: Any) -> None:
    """`/block TOOL` in one chat blocks it there, and in no other of any frontend."""
    assert chats(run, "turn", IT_WAS_BLOCKED) == BLOCKING
    assert chats(run, "turn", IT_RAN) == OTHERS


def test_each_chat_lists_what_is_blocked_in_it(run: Any) -> None:
    """`/blocked` says it, and which chat or session it says it of."""
    assert listed(run, "list") == {**dict.fromkeys(BLOCKING, "read_file."), **dict.fromkeys(OTHERS, "nothing.")}
    ids = run["ids"]["list"]
    assert run["told"]["list"]["cli"] == f"Blocked in {ids['cli']}: read_file."
    assert run["told"]["list"]["tui"] == f"Blocked in {ids['tui']}: read_file."
    assert run["told"]["list"]["gateway"] == "Blocked in agent:main:discord:group:a:u: read_file."


def test_chat_that_had_no_session_keeps_what_was_blocked_before_its_first_turn(run: Any) -> None:
    """The gateway's chat is known by its key alone until an agent exists, and by its id from then on."""
    assert run["ids"]["block"]["gateway"] == "None"
    assert run["ids"]["turn"]["gateway"] != "None"
    assert "gateway" in chats(run, "turn", IT_WAS_BLOCKED)


def test_unblocked_tool_runs_again_in_that_chat_alone(run: Any) -> None:
    """`/unblock TOOL` at the command line leaves the chat and the window as they were."""
    assert chats(run, "turn, unblocked in one", IT_RAN) == ["cli", *OTHERS]
    assert chats(run, "turn, unblocked in one", IT_WAS_BLOCKED) == ["gateway", "tui"]


def test_sub_agent_cannot_do_what_its_chat_may_not(run: Any) -> None:
    """A sub-agent, whose session is another one, starts with what is blocked where it was started."""
    assert chats(run, "sub-agent", IT_WAS_BLOCKED) == BLOCKING
    assert chats(run, "sub-agent", IT_RAN) == OTHERS


def test_block_survives_a_compressed_history(run: Any, site: str) -> None:
    """The conversation goes on, under its session id or under a new one."""
    before, after = run["ids"]["more to compress"], run["ids"]["compress"]
    assert [name for name in before if before[name] != after[name]] == (BLOCKING if site == "blocking_split" else [])
    assert all("ompressed: " in told for told in run["told"]["compress"].values())

    assert listed(run, "list, compressed") == listed(run, "list")
    assert chats(run, "turn, compressed", IT_WAS_BLOCKED) == BLOCKING
    assert chats(run, "turn, compressed", IT_RAN) == OTHERS


def test_new_session_has_nothing_blocked(run: Any) -> None:
    """`/new` starts another conversation, also where the chat is the same."""
    assert listed(run, "list, new") == dict.fromkeys(BLOCKING, "nothing.")
    assert chats(run, "turn, new", IT_RAN) == BLOCKING


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert run["log"] == []


def test_plugin_is_short_and_asks_ctxruntime_for_two_things() -> None:
    """Each file has at most eighty lines; the plugin keeps a state, and binds a sub-agent's id."""
    module = ast.parse((EXAMPLE / "__init__.py").read_text())
    imported = {node.module: [name.name for name in node.names] for node in module.body if hasattr(node, "names")}

    assert imported == {
        "ctxruntime": ["bind"],
        "ctxruntime.conversation": ["ConversationState", "NoConversationError", "StoreError"],
    }
    assert max(len(file.read_text().splitlines()) for file in EXAMPLE.iterdir() if file.is_file()) <= 80
