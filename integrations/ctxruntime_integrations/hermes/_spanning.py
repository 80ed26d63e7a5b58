"""The spans of an agent's turn and of its tools; imported where the SDK is.

Several of the host's functions serve one call, each inside the other, differing by executor and version. The first
of them makes the span; those inside find the call in OpenTelemetry's context, and make none. What a tool was given,
what it returned and what an error says is content, and is not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, cast, final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import (
    NonRecordingSpan,
    NoOpTracer,
    ProxyTracerProvider,
    Span,
    SpanContext,
    StatusCode,
    Tracer,
)

from ctxruntime.guarding import guard
from ctxruntime.layers import renew_in_child

__all__ = ["Call", "TurnSpan", "tool_begins", "tool_ended", "turn_begins", "turn_goes_on"]

SCOPE: Final = "ctxruntime_integrations.hermes"
"""The instrumentation scope of the spans."""
AGENT_NAME: Final = "hermes"
TURN: Final = contexts.create_key("ctxruntime-hermes-turn")
CALL: Final = contexts.create_key("ctxruntime-hermes-call")
NOT_RUN: Final = "blocked"
"""What the host says of a call that it did not let through."""

_beginning: Final = guard("hermes spans: begin")
_ending: Final = guard("hermes spans: end")

MOST_SESSIONS: Final = 1024
_latest: Final = dict[str, SpanContext]()
"""The latest agent's span of each session, for what goes on when it has ended; of many sessions, of the latest."""
_remembering = Lock()
renew_in_child(globals(), "_remembering")

_known: tuple[object, Tracer | None] = (None, None)


def tracer() -> Tracer | None:
    """Return the tracer of the global provider as it is now; None for one that makes no spans."""
    global _known
    provider, known = trace.get_tracer_provider(), _known
    if known[0] is not provider:
        found = None if isinstance(provider, ProxyTracerProvider) else provider.get_tracer(SCOPE)
        known = _known = (provider, None if isinstance(found, NoOpTracer) else found)
    return known[1]


class Held:
    """A span that is current until it has returned or failed; in the thread that began it."""

    __slots__ = ("_span", "_token", "ended")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._token: Any = None  # of the context's own type, which is private to it
        self.ended = False

    def enter(self, *values: tuple[str, object]) -> None:
        """Make it current, with what those inside are to find."""
        context = trace.set_span_in_context(self._span)
        for key, value in values:
            context = contexts.set_value(key, value, context)
        self._token = contexts.attach(context)

    def returned(self, result: object) -> None:
        """End it, as what it is around returned."""
        self._leave(lambda: self.error_in(result))

    def failed(self, error: BaseException) -> None:
        """End it, as what it is around raised."""
        self._leave(lambda: type(error).__qualname__)

    def error_in(self, result: Any) -> str | None:  # Any: what the host returned
        """Say which kind of error a result tells of, if it does."""
        raise NotImplementedError

    def end(self, error: str | None) -> None:
        """End it, at most once."""
        if self.ended:
            return
        self.ended = True
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(StatusCode.ERROR)
        self._span.end()

    def _leave(self, error: Any) -> None:
        with _ending:
            if self._token is not None:
                contexts.detach(self._token)
        kind = None
        with _ending:
            kind = error() if self._span.is_recording() else None
        with _ending:
            self.end(kind)


@final
class TurnSpan(Held):
    """The span of an agent's turn, and the calls of tools that were made in it."""

    __slots__ = ("_outermost", "agent", "calls")

    def __init__(self, span: Span, agent: object, *, outermost: bool) -> None:
        super().__init__(span)
        self._outermost = outermost
        self.agent: object = agent  # None when the turn has ended: threads that it started may live on
        self.calls: dict[str, Call] = {}

    def remember(self) -> None:
        """Let what goes on in the agent's session find the span, unless that would be inside it anyway."""
        session_id: object = getattr(self.agent, "session_id", None)
        if not self._outermost or not isinstance(session_id, str):
            return
        with _remembering:
            _latest.pop(session_id, None)
            _latest[session_id] = self._span.get_span_context()
            if len(_latest) > MOST_SESSIONS:
                del _latest[next(iter(_latest))]

    def end(self, error: str | None) -> None:
        """End it, at most once; the session may be under another id by now."""
        super().end(error)
        self.remember()
        self.agent = None

    def error_in(self, result: Any) -> str | None:  # Any: the tool's
        """See whether the host says that the turn failed."""
        if not isinstance(result, Mapping):
            return None
        return "_OTHER" if cast("Mapping[str, object]", result).get("failed") is True else None


@final
class Call(Held):
    """The span of a tool's call."""

    __slots__ = ("_told", "id", "name")

    def __init__(self, span: Span, name: str, id: str) -> None:
        super().__init__(span)
        self.name = name
        self.id = id
        self._told: str | None = None

    def is_of(self, name: object, id: str) -> bool:
        """Tell whether this is that call: by its id, or where it has none (a program's) by the tool's name."""
        return not self.ended and self.id == id and (id != "" or self.name == name)

    def tell(self, error: str | None) -> None:
        """Keep what the host said of its error, which knows more than its result."""
        self._told = error

    def error_in(self, result: Any) -> str | None:  # Any: the tool's
        """See whether the host told of an error, or the result is one."""
        if self._told is not None:
            return self._told
        found: object = result
        if isinstance(result, tuple) and result:  # the agent's own tools return their arguments too
            found = cast("tuple[object, ...]", result)[0]
        if isinstance(found, str) and '"error"' in found and found.lstrip().startswith("{"):
            found = _parsed(found)
        if not isinstance(found, Mapping):
            return None
        return "tool_error" if cast("Mapping[str, object]", found).get("error") else None


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None  # words of the tool's, that only look like the host's way to tell an error


def turn_begins(agent: Any) -> TurnSpan | None:  # Any: the host's
    """Begin the span of an agent's turn; None inside this very turn, and where no spans are made."""
    with _beginning:
        here = tracer()
        around = contexts.get_value(TURN)
        if here is None or (isinstance(around, TurnSpan) and around.agent is agent):
            return None
        told = (getattr(agent, name, None) for name in ("provider", "model"))
        names = ("gen_ai.provider.name", "gen_ai.request.model")
        attributes = {name: value for name, value in zip(names, told, strict=True) if isinstance(value, str) and value}
        attributes |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT_NAME}
        turn = TurnSpan(here.start_span("invoke_agent", attributes=attributes), agent, outermost=around is None)
        turn.enter((TURN, turn), (CALL, None))
        turn.remember()
        return turn
    return None


def turn_goes_on(session_id: object) -> Held | None:
    """Make the latest agent's span of a session current again, if there was one, and nothing else is current."""
    with _beginning:
        with _remembering:
            latest = _latest.get(_text(session_id))
        if latest is None or trace.get_current_span().get_span_context().is_valid:
            return None
        held = Held(NonRecordingSpan(latest))
        held.enter()
        return held
    return None


def tool_begins(name: object, id: object) -> Call | None:
    """Begin the span of a tool's call; None inside this very call, and where no spans are made."""
    with _beginning:
        around = contexts.get_value(CALL)
        if isinstance(around, Call) and around.is_of(name, _text(id)):
            return None
        call = _call(name, _text(id))
        if call is not None:
            call.enter((CALL, call))
        return call
    return None


def tool_ended(name: object, id: object, told: Mapping[str, object]) -> None:
    """Take note of how the host says that a call ended: one that was not run has a span of no length."""
    status, error = told.get("status"), told.get("error_type")
    if status is None or status == "ok":
        return
    with _ending:
        kind, around = str(error or status), contexts.get_value(CALL)
        if isinstance(around, Call) and around.is_of(name, _text(id)):
            around.tell(kind)
            return
        turn = contexts.get_value(TURN)
        made = turn.calls.get(_text(id)) if isinstance(turn, TurnSpan) and status != NOT_RUN else None
        call = made or _call(name, _text(id))  # given up while its thread works on, or never begun
        if call is not None:
            call.end(kind)


def _call(name: object, id: str) -> Call | None:
    here = tracer()
    if here is None:
        return None
    tool = _text(name) or "_OTHER"
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.type": "function"}
    if id:
        attributes["gen_ai.tool.call.id"] = id
    call = Call(here.start_span(f"execute_tool {tool}", attributes=attributes), tool, id)
    turn = contexts.get_value(TURN)
    if id and isinstance(turn, TurnSpan):
        turn.calls[id] = call
    return call


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
