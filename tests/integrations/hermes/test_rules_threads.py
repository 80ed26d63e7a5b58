"""Which of the host's threads go on for longer than the turn that starts them."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from ctxruntime_integrations.hermes._threads import DENIED

pytestmark = [pytest.mark.hermes, pytest.mark.since("0.19.0")]

ROOTS = ("agent", "gateway", "tools", "tui_gateway", "cron", "acp_adapter", "plugins", "hermes_cli", "cli.py")

SERVING = {
    "agent.conversation_compression._CompressionLockLeaseRefresher._run",
    "agent.display.KawaiiSpinner._animate",
    "plugins.platforms.feishu.adapter.FeishuAdapter._drain_pending_inbound_events",
    "tools.code_execution_tool.execute_code.<locals>._drain",
    "tools.code_execution_tool.execute_code.<locals>._drain_head_tail",
    "tools.delegate_tool._run_single_child.<locals>._heartbeat_loop",
    "tools.environments.base.BaseEnvironment._wait_for_process.<locals>._drain",
    "tools.process_registry.ProcessRegistry._env_poller_loop",
    "tools.process_registry.ProcessRegistry._pty_reader_loop",
    "tools.process_registry.ProcessRegistry._reader_loop",
    "tools.terminal_tool._prompt_for_sudo_password.<locals>.read_password_thread",
}
"""They loop for as long as something of the turn that started them goes on: its work, or a process it left running."""

OF_THE_PROCESS = {
    "cli.HermesCLI._pet_anim_loop",
    "cli.HermesCLI._voice_start_recording.<locals>._refresh_level",
    "cli.HermesCLI.run.<locals>.process_loop",
    "cli.HermesCLI.run.<locals>.spinner_loop",
    "gateway.run._run_planned_stop_watcher",
    "gateway.run._start_gateway_housekeeping",
    "gateway.shutdown_watchdog.arm_shutdown_watchdog.<locals>._watchdog",
    "hermes_cli.main._run_install_with_heartbeat.<locals>._heartbeat",
    "hermes_cli.web_server._codex_full_login_worker",
    "tools.mcp_stdio_watchdog._watchdog_loop",
    "tui_gateway.compute_host.ComputeHost._heartbeat_loop",
    "tui_gateway.compute_host.ComputeHost._parent_guard_loop",
    "tui_gateway.slash_worker._start_parent_death_watchdog.<locals>._loop",
}
"""They are started by a program as it begins or ends, or by its user interface, and never inside a turn."""

WITHOUT_A_LOOP = {
    "gateway.run.GatewayRunner._commit_then_release_soft",
    "gateway.run.GatewayRunner._release_evicted_agent_soft",
    "hermes_cli.mcp_startup.start_background_mcp_discovery.<locals>._discover",
    "tools.browser_supervisor.CDPSupervisor._thread_main",
    "tools.discord_tool._detect_capabilities_nonblocking.<locals>._bg_detect",
    "tools.env_probe._probe_worker",
    "tools.tirith_security._background_install",
    "tui_gateway.server._SlashWorker._drain_stderr",
    "tui_gateway.server._SlashWorker._drain_stdout",
}
"""What they do is for the process or for another chat, without a loop of their own in the host's text."""


class Threads(ast.NodeVisitor):
    """Collects the functions of a module, and those that a `Thread` is made with."""

    def __init__(self) -> None:
        self.defined: dict[str, ast.AST] = {}
        self.targets: list[tuple[list[str], ast.expr]] = []
        self._scopes = [""]  # where a bare name is looked up
        self._class = ""

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        prefix = self._class or self._scopes[-1]
        self.defined[prefix + node.name] = node
        outer, self._class = self._class, ""
        self._scopes.append(f"{prefix}{node.name}.<locals>.")
        self.generic_visit(node)
        self._scopes.pop()
        self._class = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer, self._class = self._class, f"{self._class or self._scopes[-1]}{node.name}."
        self.generic_visit(node)
        self._class = outer

    def visit_Call(self, node: ast.Call) -> None:
        if (ast.unparse(node.func)).endswith("Thread"):
            self.targets += [(list(self._scopes), kw.value) for kw in node.keywords if kw.arg == "target"]
        self.generic_visit(node)

    def looping(self) -> Iterator[str]:
        """The names of those that go round."""
        for scopes, target in self.targets:
            for name in self._names(scopes, target):
                if name in self.defined:
                    if any(map(_goes_round, ast.walk(self.defined[name]))):
                        yield name
                    break

    def _names(self, scopes: list[str], target: ast.expr) -> list[str]:
        if isinstance(target, ast.Name):
            return [scope + target.id for scope in reversed(scopes)]
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) in ("self", "cls"):
            # The innermost class around it: a method's scope is named after that.
            return [f"{scope.split('.')[0]}.{target.attr}" for scope in reversed(scopes) if scope]
        return []


def _goes_round(node: ast.AST) -> bool:
    return isinstance(node, ast.While) or (isinstance(node, ast.Attribute) and node.attr == "run_forever")


def looping_threads() -> set[str]:
    """The host's functions that loop in a thread, as its source has them."""
    spec = importlib.util.find_spec("hermes_cli")
    assert spec is not None
    assert spec.origin is not None
    site = Path(spec.origin).parent.parent
    found: set[str] = set()
    for root in ROOTS:
        path = site / root
        for file in [path] if path.is_file() else path.rglob("*.py"):
            text, threads = file.read_text(encoding="utf-8"), Threads()
            if "Thread(" in text:
                threads.visit(ast.parse(text))
            module = ".".join(file.relative_to(site).with_suffix("").parts).removesuffix(".__init__")
            found.update(f"{module}.{name}" for name in threads.looping())
    return found


def test_every_thread_that_loops_is_denied_or_serves_its_turn() -> None:
    """A thread that goes round for ever, started in a turn, would show that turn's session for ever."""
    found = looping_threads()

    assert len(found) > 30
    assert found - {*DENIED} == SERVING | OF_THE_PROCESS


@pytest.mark.parametrize("name", sorted(WITHOUT_A_LOOP))
def test_thread_that_works_for_others_is_denied(name: str) -> None:
    """It is started in whichever turn comes first, or needs the room."""
    assert name in DENIED
