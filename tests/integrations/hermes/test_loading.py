"""How the integration gets into the host and out of it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.hermes

RunHost = Callable[[str, str], Any]
CLI = "cli.HermesCLI.process_command"
GATEWAY = "gateway.run.GatewayRunner._handle_message"
TUI = "tui_gateway.server.handle_request"
LOOKUP = "hermes_cli.plugins.get_plugin_command_handler"
RESULT = "hermes_cli.plugins.resolve_plugin_command_result"
CHAT = "cli.HermesCLI.chat"
RUN_AGENT = "gateway.run.GatewayRunner._run_agent"
AGENT = "run_agent.AIAgent.run_conversation"
TURN = "agent.conversation_loop.run_conversation"
TOOL = "agent.agent_runtime_helpers.invoke_tool"
TITLE = "agent.title_generator.maybe_auto_title"
METHODS = [
    f"run_agent.{name}" for name in ("AIAgent._invoke_tool", "handle_function_call", "AIAgent._compress_context")
]
AGENT_TOOL = "agent.tool_executor._run_agent_tool_execution_middleware"
TOOLS = [f"model_tools.{name}" for name in ("handle_function_call", "_emit_post_tool_call_hook")]
HOOKS = "hermes_cli.plugins.PluginManager.invoke_hook"
REQUESTS = "hermes_cli.plugins.PluginManager.invoke_middleware"
EXECUTIONS = "hermes_cli.middleware._get_middleware_callbacks"
COMPRESSION = "agent.conversation_compression.compress_context"
STORE = [f"gateway.session.SessionStore.{name}_session" for name in ("get_or_create", "reset", "switch")]
EVICTIONS = [f"gateway.run.GatewayRunner.{name}_soft" for name in ("_release_evicted_agent", "_commit_then_release")]
POINTS = {LOOKUP, RESULT, CLI, CHAT, GATEWAY, RUN_AGENT, TUI, AGENT, TURN, TOOL, HOOKS, REQUESTS, EXECUTIONS}
POINTS |= {COMPRESSION, *STORE, *EVICTIONS, *METHODS, AGENT_TOOL, *TOOLS, TITLE}
SINCE = {TURN: "0.15.2", TOOL: "0.15.2", COMPRESSION: "0.15.2", AGENT_TOOL: "0.17.0", TOOLS[1]: "0.16.0"}
SINCE |= {REQUESTS: "0.17.0", EXECUTIONS: "0.17.0", EVICTIONS[1]: "0.18.2"}
"""The first of the versions looked at that has a point; the others are in all of them."""


@pytest.mark.parametrize("site", ["cli", "gateway", "tui"])
def test_handlers_run_as_often_and_in_the_order_of_the_host_alone(run_host: RunHost, load: str, site: str) -> None:
    """Nothing happens twice, nothing is left out, and nothing overtakes."""
    alone = run_host(site, "alone")
    run = run_host(site, load)
    phases = alone["expect"].keys()

    def order(of: Any) -> list[tuple[str, str]]:
        # The host alone cannot call the handlers that require a key.
        calls = [(r["phase"], r["style"]) for r in of["records"] if r["style"] != "required"]
        return [call for call in calls if call[0] in phases]

    assert order(run) == order(alone)


@pytest.mark.parametrize("site", ["cli", "gateway", "tui"])
def test_host_connects_to_nothing_more_than_alone(run_host: RunHost, load: str, site: str) -> None:
    """ctxruntime opens no connection."""
    assert set(run_host(site, load)["refused"]) <= set(run_host(site, "alone")["refused"])


def module_of(point: str) -> str:
    """Return a point's module: what is before the class, if there is one, and the name."""
    return ".".join(name for name in point.split(".")[:-1] if name.islower())


@pytest.fixture
def lacking(has: Callable[[str], bool]) -> set[str]:
    """The points that this host does not have."""
    return {point for point in POINTS if not has(SINCE.get(point, "0"))}


def test_status_names_each_patch_point(gateway: Any, lacking: set[str]) -> None:
    """What is imported is patched, what is not imported is pending, and neither is what the host does not have."""
    imported = {point for point in POINTS if module_of(point) in gateway["imported"]}
    status = {point: state for point, state in gateway["status"].items() if point in POINTS}

    assert {LOOKUP, HOOKS, GATEWAY, *STORE} <= imported
    assert imported.isdisjoint({CLI, TUI, AGENT})
    assert {status.pop(point) for point in lacking} <= {"absent", "pending"}
    assert status == {point: "ok" if point in imported else "pending" for point in POINTS - lacking}


def test_nothing_of_ours_is_logged_in_a_good_run(tui: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert tui["log"] == []


def test_forced_reload_of_the_plugins_is_survived(gateway: Any) -> None:
    """The host clears its registries and calls every plugin again: keys arrive as before, once."""
    assert gateway.call("reloaded", "named")["keys"] == gateway["expect"]["reloaded"]
    assert gateway.call("reloaded", "legacy")["keys"] == {}


def test_hosts_registry_holds_the_plugins_own_handlers(gateway: Any) -> None:
    """Handlers are adapted as they are looked up; what plugins registered is not replaced."""
    assert gateway["registry_is_the_plugins"]


def test_uninstall_puts_the_very_objects_back(run_host: RunHost) -> None:
    """The host's functions are the objects that they were before it loaded us."""
    run = run_host("gateway", "plugin")

    assert run["original_again"] == [True, True, True]
    assert set(run["status_off"].values()) == {"off"}


def test_references_that_the_host_kept_pass_calls_on_when_uninstalled(gateway: Any) -> None:
    """The adapter still holds the message handler that it was wired to, and nothing of ours is in effect."""
    call = gateway.call("uninstalled", "named")

    assert call["keys"] == {"session_id": "default", "gateway_session_key": "default"}
    assert call["ambient"] == {}


def test_installing_again_works_without_wiring_the_host_again(gateway: Any) -> None:
    """What the host kept is ours again."""
    assert gateway.call("installed-again", "named")["keys"] == gateway["expect"]["installed-again"]


class TestHardImports:
    """The host imported us in the middle of a module of its own, and lacks one function."""

    @pytest.fixture
    def run(self, run_host: RunHost) -> Any:
        return run_host("mishaps", "site")

    def test_half_imported_module_is_patched_when_it_is_whole(self, run: Any) -> None:
        """A module whose classes did not exist yet is patched before anybody can use them."""
        assert run["half_imported"] == ["cli"]
        assert run["status"][CLI] == "ok"
        assert run.call("sound", "named")["keys"]["session_id"] == run["session_id"]

    def test_missing_function_is_reported_and_costs_no_other(self, run: Any, lacking: set[str]) -> None:
        """A patch point that this host does not have is absent, logged once, and the rest is there."""
        assert run["status"][TUI] == "absent"
        assert {point for point, state in run["status"].items() if state == "absent"} - lacking == {TUI}
        assert run["status"][CHAT] == run["status"][HOOKS] == "ok"
        (entry,) = run.logged(f"hermes: patch {TUI}")
        assert entry["error"] == "AttributeError"
