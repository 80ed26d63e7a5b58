"""Threads of Hermes that live as long as the process, or serve another chat than the one that starts them.

Hermes starts most of them lazily, inside a turn: born with that turn's session, they would show it for ever.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DENIED"]

_BUNDLED: Final = (
    "memory.hindsight.HindsightMemoryProvider._writer_loop",
    "memory.hindsight._get_loop.<locals>._run",
    "memory.honcho.session.HonchoSessionManager._async_writer_loop",
    "memory.retaindb._WriteQueue._loop",
)
"""In plugins that come with Hermes, which are imported under either of two names."""

DENIED: Final = (
    "agent.lsp.manager._BackgroundLoop._run_forever",
    "gateway.memory_monitor._monitor_loop",
    # These two tear another chat's agent down.
    "gateway.run.GatewayRunner._commit_then_release_soft",
    "gateway.run.GatewayRunner._release_evicted_agent_soft",
    "hermes_cli.mcp_startup.start_background_mcp_discovery.<locals>._discover",
    "hermes_cli.nous_auth_keepalive._keepalive_loop",
    "tools.browser_supervisor.CDPSupervisor._thread_main",
    "tools.browser_tool._browser_cleanup_thread_worker",
    "tools.computer_use.cua_backend._AsyncBridge.start.<locals>._run",
    "tools.discord_tool._detect_capabilities_nonblocking.<locals>._bg_detect",
    "tools.env_probe._probe_worker",
    "tools.environments.modal._AsyncWorker._run_loop",
    "tools.terminal_tool._cleanup_thread_worker",
    "tools.tirith_security._background_install",
    "tui_gateway.event_publisher.WsPublisherTransport._drain",
    "tui_gateway.server._SlashWorker._drain_stderr",
    "tui_gateway.server._SlashWorker._drain_stdout",
    "tui_gateway.server._notification_poller_loop",
    "tui_gateway.server._start_idle_reaper.<locals>._loop",
    *(f"{package}.{name}" for package in ("plugins", "hermes_plugins") for name in _BUNDLED),
)
"""The qualified names of their targets, as of hermes-agent 0.19.0."""
