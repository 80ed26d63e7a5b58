"""Spans of real turns: each way in which the host runs tools, tools that are blocked or raise, each frontend."""

from __future__ import annotations

import contextlib
import io
import queue
import threading
from collections.abc import Callable
from typing import Any

import hook_recorder
from acting import KEY, agent, discover, happened, prepare, titling, wait_for
from actors import Actor, AtTheCommandLine, AtTheTui, Gateway, InAChat, Tui
from opentelemetry import trace
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from world import World

PHASES = {"one": "one", "three": "three", "mixed": "mixed", "nested": "code", "delegation": "delegate"}
SECRET = "what nobody is to know"


class Recorded(SpanProcessor):
    """Keeps every span, begun and ended, with the phase and the thread that it began in."""

    def __init__(self) -> None:
        self.begun: dict[int, tuple[str, str]] = {}
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.begun[span.context.span_id] = (hook_recorder.phase, threading.current_thread().name)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    def open(self) -> int:
        return len(self.begun) - len(self.ended)

    def told(self) -> list[dict[str, Any]]:
        return [self._of(span) for span in self.ended]

    def _of(self, span: Any) -> dict[str, Any]:
        phase, thread = self.begun[span.context.span_id]
        return {
            "phase": phase,
            "thread": thread,
            "began": span.start_time,
            "name": span.name,
            "kind": span.kind.name,
            "trace": span.context.trace_id,
            "id": span.context.span_id,
            "parent": span.parent and span.parent.span_id,
            "status": span.status.status_code.name,
            "attributes": dict(span.attributes),
            "scope": span.instrumentation_scope.name,
            "text": span.to_json(),
        }


def record_spans(world: World) -> Recorded:
    """Have the SDK's provider as the global one, and the instrumentation of httpx that a user adds."""
    recorded = Recorded()
    provider = TracerProvider()
    if world.load != "alone":
        from ctxruntime.telemetry import SessionSpanProcessor

        provider.add_span_processor(SessionSpanProcessor(group_by="conversation"))
    provider.add_span_processor(recorded)
    trace.set_tracer_provider(provider)
    HTTPXClientInstrumentor().instrument()
    return recorded


def drive(world: World) -> dict[str, Any]:
    """Each way to run tools, and each frontend."""
    recorded = record_spans(world)
    rotating = {"enabled": True, "in_place": False, "protect_first_n": 0, "protect_last_n": 3}
    model = prepare(world, compression=rotating)
    discover()
    if world.load == "alone":
        run(model, "three", "three")
        return {"spans": recorded.told()}
    ids: dict[str, Any] = {phase: run(model, phase, mark) for phase, mark in PHASES.items()}
    wait_for(lambda: happened("delegation", "subagent_stop"))
    ids["raising"] = with_raising_tool(lambda: run(model, "raising", "one"))
    for mark in ("one", "three", "mixed"):
        phase = f"blocked {mark}"
        ids[phase] = with_blocked_tools(lambda phase=phase, mark=mark: run(model, phase, mark))
    no_news()
    ids |= frontends(world)
    wait_for(lambda: not titling() and recorded.open() == 0)
    return {"ids": ids, "spans": recorded.told(), "open": recorded.open(), "texts": [f.name for f in model.files]}


def run(model: Any, phase: str, mark: str) -> str:
    """A turn of an agent by itself."""
    hook_recorder.phase = phase
    one = agent(model, gateway_session_key=KEY, user_id="u", chat_id="chat")
    one.run_conversation(f"[{mark}] {SECRET}")
    return str(one.session_id)


def with_raising_tool(act: Callable[[], str]) -> str:
    from tools.registry import registry

    def raising(*_: object, **__: object) -> str:
        raise ValueError(SECRET)

    entry = registry._tools["read_file"]
    handler, entry.handler = entry.handler, raising
    try:
        return act()
    finally:
        entry.handler = handler


def with_blocked_tools(act: Callable[[], str]) -> str:
    from hermes_cli.plugins import get_plugin_manager

    callbacks = get_plugin_manager()._hooks["pre_tool_call"]
    callbacks.append(lambda **_: {"action": "block", "message": SECRET})
    try:
        return act()
    finally:
        callbacks.pop()


def no_news() -> None:
    """Take away what a frontend would make a turn of its own of: that a sub-agent in the background is done."""
    from tools.process_registry import process_registry

    with contextlib.suppress(queue.Empty):
        while True:
            process_registry.completion_queue.get_nowait()


def frontends(world: World) -> dict[str, Any]:
    """Two turns in each frontend, and between them a compression that gives the session another id."""
    import tui_gateway.server  # noqa: F401 - it puts another standard output in place

    screen = io.StringIO()
    ids: dict[str, Any] = {}
    with contextlib.redirect_stdout(screen):
        people: dict[str, Actor] = {
            "cli": AtTheCommandLine(screen),
            "gateway": InAChat(Gateway(world), "a"),
            "tui": AtTheTui(Tui()),
        }
        for name, actor in people.items():
            for step in ("first", "cached", "rotated"):
                hook_recorder.phase = f"{name} compressing"
                if step == "rotated":
                    actor.compress()
                hook_recorder.phase = f"{name} {step}"
                actor.turn("[three] go")
                ids[hook_recorder.phase] = actor.session_id()
            hook_recorder.phase = "between"
    return ids
