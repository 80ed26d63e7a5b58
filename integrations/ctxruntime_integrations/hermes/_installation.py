"""Put our functions into the host, and take them out again."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias, final

from ctxruntime.guarding import guard
from ctxruntime.hops import install as carrying
from ctxruntime.hops.patching import Patch
from ctxruntime.hops.watching import Watch

from . import _host, commands, entrypoints, hooks, spans, turns
from ._threads import DENIED
from .identity import IDENTITY

__all__ = ["INSTALLATION", "POINTS", "PointState"]

PointState: TypeAlias = Literal["ok", "absent", "pending", "off"]

POINTS: Final[Mapping[_host.PatchPoint, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    _host.COMMAND_LOOKUP: commands.adapting_lookup,
    _host.COMMAND_RESULT: commands.carrying_result,
    _host.CLI: entrypoints.cli_entry,
    _host.CLI_CHAT: entrypoints.cli_chat_entry,
    _host.GATEWAY: entrypoints.gateway_entry,
    _host.GATEWAY_AGENT: entrypoints.gateway_agent_entry,
    _host.TUI: entrypoints.tui_entry,
    _host.AGENT: lambda original: turns.agent_turn(spans.agent_turn(original)),
    _host.TURN: lambda original: turns.agent_turn(spans.agent_turn(original)),
    _host.TOOL: lambda original: turns.tool_call(spans.runtime_tool(original)),
    _host.TOOL_OF_AGENT: lambda original: turns.tool_call(spans.runtime_tool(original)),
    _host.REGISTRY_TOOL: spans.registry_tool,
    _host.REGISTRY_TOOL_OF_AGENT: spans.registry_tool,
    _host.AGENT_TOOL: spans.agent_tool,
    _host.TOOL_ENDED: spans.tool_ended,
    _host.TITLE: lambda original: turns.title(spans.title(original)),
    _host.HOOKS: hooks.hook_event,
    _host.REQUEST_MIDDLEWARE: hooks.middleware_event,
    _host.EXECUTION_MIDDLEWARE: hooks.adapting_callbacks,
    _host.EVICTION: turns.eviction,
    _host.EVICTION_AND_COMMIT: turns.eviction,
    _host.COMPRESSION: turns.compressing,
    _host.COMPRESSION_OF_AGENT: turns.compressing,
    _host.SESSION_FOUND: turns.finding,
    _host.SESSION_RESET: turns.moving,
    _host.SESSION_SWITCH: turns.moving,
}
"""What makes each replacement; the order is that of reports."""


@final
class Installation:
    """Our patches of the host in this process; there is one."""

    def __init__(self) -> None:
        self._watch: Watch | None = None
        self._hops: carrying.Installation | None = None
        self._patches: dict[_host.PatchPoint, Patch] = {}

    @property
    def active(self) -> bool:
        """Whether the host is patched, or will be as it is imported."""
        return self._watch is not None

    def start(self) -> None:
        """Patch what is imported, and the rest as it comes; can be called twice."""
        if self._watch is None:
            others = carrying.installed()
            with guard("hermes: carry over every hop"):
                installation = carrying.install(deny=DENIED)
                self._hops = installation if others is None else None
            self._watch = Watch({point.module for point in POINTS}, self._patch)
            self._watch.start()
        else:
            self._watch.settle()

    def stop(self) -> None:
        """Undo every patch; can be called twice."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        if self._hops is not None:
            self._hops.uninstall()
        for patch in self._patches.values():
            patch.undo()
        IDENTITY.stop()
        hooks.forget()

    def status(self) -> dict[str, PointState]:
        """Say of each patch point whether ours is there, and if not, why."""
        pending = frozenset[str]() if self._watch is None else self._watch.pending
        return {str(point): self._state(point, pending) for point in POINTS}

    def _state(self, point: _host.PatchPoint, pending: frozenset[str]) -> PointState:
        if self._watch is None:
            return "off"
        if point.module in pending:
            return "pending"
        patch = self._patches.get(point)
        return "ok" if patch is not None and patch.active else "absent"

    def _patch(self, module: ModuleType) -> None:
        for point, make in POINTS.items():
            if point.module == module.__name__:
                with guard(f"hermes: patch {point}"):
                    self._patch_one(module, point, make)

    def _patch_one(
        self,
        module: ModuleType,
        point: _host.PatchPoint,
        make: Callable[[Callable[..., Any]], Callable[..., Any]],
    ) -> None:
        path, _, name = point.attribute.rpartition(".")
        owner = operator.attrgetter(path)(module) if path else module
        if not hasattr(owner, name) and not _host.is_expected(point):
            return
        patch = self._patches.get(point)
        if patch is None or patch.owner is not owner:
            patch = self._patches[point] = Patch(owner, name, make)
        patch.apply()


INSTALLATION: Final = Installation()
