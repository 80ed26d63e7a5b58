"""Which session is in effect where a frontend of the host lets an event in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.hermes

RunHost = Callable[[str, str], Any]


def named(run: Any, phase: str) -> dict[str, Any]:
    """What the handler that names both keys got, with None for what it did not get."""
    keys = run.call(phase, "named")["keys"]
    return {name: None if value == "default" else value for name, value in keys.items()}


class TestCli:
    def test_command_after_new_gets_the_new_session(self, cli: Any) -> None:
        """/new gives the command line another id, which the next command gets."""
        assert cli["rotated"]
        assert named(cli, "after-new") == cli["expect"]["after-new"]
        assert named(cli, "after-new") != cli["expect"]["session"]

    def test_alias_of_a_command_gets_the_session(self, cli: Any) -> None:
        """A quick command that stands for a plugin's, which the host enters a second time, gets the same."""
        assert named(cli, "alias") == cli["expect"]["alias"]

    def test_id_that_no_key_takes_is_dropped(self, cli: Any) -> None:
        """With a line break in its id the session is unknown, and the rest of the turn is there."""
        first, second = cli.calls("bad-id", "named")

        assert first["keys"] == second["keys"] == {"session_id": "default", "gateway_session_key": "default"}
        assert first["ambient"] == {"frontend": "cli"}

    def test_dropped_value_is_logged_once_and_not_shown(self, cli: Any) -> None:
        """The log names the key and the frontend, not the value, however often it happens."""
        (entry,) = cli.logged("hermes cli: session_id")

        assert entry["error"] == "InvalidValueError"
        assert "not\nclean" not in entry["text"]
        assert "clean" not in entry["message"]


class TestGateway:
    @pytest.mark.parametrize("phase", ["no-session", "underscore", "other-chat"])
    def test_chat_without_a_session_gets_its_key_and_no_id(self, gateway: Any, phase: str) -> None:
        """Before the chat's first turn only the key exists, and it is not passed as the id."""
        expected = gateway["expect"][phase]

        assert expected["session_id"] is None
        assert named(gateway, phase) == expected

    def test_required_id_without_a_session_is_the_handlers_error(self, gateway: Any, run_host: RunHost) -> None:
        """A handler that cannot do without an id is not called, which the host shows as it always did."""
        alone = run_host("gateway", "alone")

        assert gateway.calls("no-session", "required") == []
        assert gateway["shown"]["no-session /rec-required"] == alone["shown"]["no-session /rec-required"]

    def test_var_keyword_handler_without_a_session_gets_the_key_only(self, gateway: Any) -> None:
        """An unknown id is absent from `**kwargs`, not None or empty."""
        key = gateway["expect"]["no-session"]["gateway_session_key"]

        assert gateway.call("no-session", "var-keyword")["keys"] == {"gateway_session_key": key}

    def test_chat_gets_its_new_session_after_a_reset(self, gateway: Any) -> None:
        """The id is the one that the host's store has when the command comes."""
        assert named(gateway, "after-reset") == gateway["expect"]["after-reset"]
        assert gateway["expect"]["after-reset"]["session_id"] != gateway["expect"]["session"]["session_id"]

    def test_running_agent_knows_the_session_best(self, gateway: Any) -> None:
        """An agent that rotated in its turn has an id that the store does not have yet."""
        ambient = gateway.call("running-agent", "hook")["ambient"]

        chat = {**gateway["facts"], "hermes_chat_id": "busy"}
        assert ambient == {**chat, **gateway["expect"]["running-agent"], "conversation_id": True}

    def test_chat_key_that_no_key_takes_is_dropped(self, gateway: Any) -> None:
        """With a line break in the chat's name its key is unknown, its sender is not, and the command runs."""
        facts = {name: value for name, value in gateway["facts"].items() if name != "hermes_chat_id"}

        assert named(gateway, "bad-chat") == {"session_id": None, "gateway_session_key": None}
        assert gateway.call("bad-chat", "named")["ambient"] == facts
        (entry,) = gateway.logged("hermes gateway: gateway_session_key")
        assert "not\nclean" not in entry["text"]

    @pytest.mark.parametrize("phase", ["no-session", "session"])
    def test_nothing_is_inherited_from_a_neighbour(self, gateway: Any, phase: str) -> None:
        """A message whose task was started inside another session has nothing of that session."""
        for call in gateway.calls(phase):
            assert "neighbour" not in call["ambient"].values()
            assert "previous_session_id" not in call["ambient"]

    def test_chats_at_the_same_time_get_their_own_keys(self, gateway: Any) -> None:
        """Commands of four chats in flight at once: each gets its chat's key."""
        calls = gateway.calls("at-once")

        assert len(calls) == 8
        for call in calls:
            (chat,) = call["args"]
            assert call["keys"]["gateway_session_key"] == gateway["expect"]["at-once"][chat]["gateway_session_key"]


class TestTui:
    def test_session_id_is_the_durable_one(self, tui: Any) -> None:
        """The UI's own short id names the session in the request; it is not the session's id."""
        assert named(tui, "dispatch") == tui["expect"]["dispatch"]
        assert tui["ui_id"] != tui["expect"]["dispatch"]["session_id"]

    def test_agents_own_id_comes_first(self, tui: Any) -> None:
        """An agent that rotated has an id that its session's record does not have yet."""
        assert named(tui, "agent-rotated")["session_id"] == "rotated_in_the_turn"

    def test_request_without_a_session_has_no_keys(self, tui: Any) -> None:
        """command.dispatch is legal outside any session: defaults stay, and no neighbour's keys are there."""
        assert named(tui, "no-session") == {"session_id": None, "gateway_session_key": None}
        assert tui.call("no-session", "var-keyword")["keys"] == {}
        assert tui.call("no-session", "named")["ambient"] == {"frontend": "tui"}

    @pytest.mark.parametrize("name", ["unknown", "not_a_request"])
    def test_request_that_is_none_gets_the_hosts_answer(self, tui: Any, run_host: RunHost, name: str) -> None:
        """An unknown method, or something that is no request at all, is the host's to answer."""
        assert tui[name] == run_host("tui", "alone")[name]
        assert tui["log"] == []
