"""One span around one body: begun with it, current in each of its steps, ended with it."""

from __future__ import annotations

import os
from contextvars import Token
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import NoOpTracer, ProxyTracerProvider

from ctxruntime.guarding import guard
from ctxruntime.keys import REVISIONS
from ctxruntime.layers import NOTHING, UNSET, current
from ctxruntime.telemetry.building import Build, compile_build
from ctxruntime.telemetry.open_spans import LAYER
from ctxruntime.telemetry.presets import PRESETS
from ctxruntime.telemetry.tracing_content import Output, show_error, show_input
from ctxruntime.telemetry.tracing_secrets import forget, redacted_keys, seen_in
from ctxruntime.telemetry.views import conversation_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from ctxruntime.telemetry.tracing_options import TraceOptions
    from ctxruntime.telemetry.tracing_secrets import Seen

__all__ = ["OpenSpan", "Tracing", "provider_holder"]

SCOPE: Final = "ctxruntime"
"""The instrumentation scope of the spans."""
ONLY_HERE: Final = 2
"""What `sys.getrefcount` says of what one attribute has: itself counts too."""
NAMED_IN_ENVIRONMENT: Final = "OTEL_PYTHON_TRACER_PROVIDER"

_asking: Final = guard("traced: the tracer provider is asked for")
_starting: Final = guard("traced: a span starts")
_stepping: Final = guard("traced: a span is made current")
_recording: Final = guard("traced: an exception is recorded")
_ending: Final = guard("traced: a span ends")


@final
class Tracing:
    """How one handler is traced."""

    __slots__ = ("fn", "kind", "name", "options")

    def __init__(self, fn: Any, kind: int, name: str, options: TraceOptions) -> None:
        self.fn: Any = fn
        self.kind: int = kind
        self.name: str = name
        self.options: TraceOptions = options


# The global provider


@final
class _Asked:
    """Stands in for `opentelemetry.trace` where one look at its variable does not tell."""

    @property
    def _TRACER_PROVIDER(self) -> object:
        with _asking:
            provider = trace.get_tracer_provider()
            return None if isinstance(provider, ProxyTracerProvider) else provider
        return None


def provider_holder() -> object:
    """Return what has the global provider as `_TRACER_PROVIDER`, which is None while there is none.

    `get_tracer_provider()` looks into the environment at each call that finds none: three times what injecting
    costs. A provider that the environment names is loaded by asking for it, and not before a call.
    """
    told = hasattr(trace, "_TRACER_PROVIDER") and NAMED_IN_ENVIRONMENT not in os.environ
    return trace if told else _Asked()


_known: tuple[object, Tracer | None] = (None, None)


def _tracer() -> Tracer | None:
    """Return the tracer of the global provider as it is now; None for one that makes no spans."""
    global _known
    provider, known = trace.get_tracer_provider(), _known
    if known[0] is not provider:
        from ctxruntime import __version__

        tracer = provider.get_tracer(SCOPE, __version__)
        known = _known = (provider, None if isinstance(tracer, NoOpTracer) else tracer)
    return known[1]


# The span of one call


@final
class OpenSpan:
    """The span of one call; each method but `begin` can be called whether there is one or not."""

    __slots__ = ("_arguments", "_begun", "_context", "_output", "_seen", "_span", "_tracing", "waits")

    def __init__(self, tracing: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        options = tracing.options
        self._tracing = tracing
        self._arguments = (args, kwargs) if options.record_input else None
        self._output = Output() if options.record_output else None
        self._begun = False
        self._seen: Seen | None = None
        self._span: Span | None = None
        self._context: Context | None = None
        """What OpenTelemetry has as current in the body: the span, or what the body itself put above it."""
        self.waits: Coroutine[Any, Any, Any] | None = None
        """The body, while it is a coroutine that was made and not begun."""

    def _begin(self) -> None:
        self._begun = True
        with _starting:
            tracer = _tracer()
            if tracer is None:
                return
            self._span = span = tracer.start_span(self._tracing.name)
            self._context = trace.set_span_in_context(span)
            if not span.is_recording():
                return
            _mirror(span)
            if redacted_keys():
                self._seen, self._context = seen_in(self._context)
            if self._arguments is not None:
                show_input(span, self._seen, self._tracing.fn, self._tracing.options.hidden, self._arguments)
        self._arguments = None

    def enter(self) -> Token[Context] | None:
        """Make it current for one step, begun if this is the first; what is returned goes to `leave`."""
        if not self._begun:
            self._begin()
        context = self._context
        if context is not None:
            with _stepping:
                return contexts.attach(context)
        return None

    def leave(self, token: Token[Context] | None) -> None:
        """Give back what was current before the step, and remember what the body has left current."""
        if token is not None:
            with _stepping:
                self._context = contexts.get_current()
                contexts.detach(token)

    def failed(self, error: BaseException) -> None:
        """Record what leaves the body, if it is an error: a close, a cancellation, an iterator's end are none."""
        if self._span is None or not isinstance(error, Exception):
            return
        if isinstance(error, (StopIteration, StopAsyncIteration)):
            return
        with _recording:
            if self._span.is_recording():
                show_error(self._span, self._seen, error)

    def gave(self, value: object, *, yielded: bool = False) -> None:
        """Take note of what is returned or yielded, if that was asked for."""
        if self._output is not None and self._span is not None:
            with _ending:
                self._output.add(value, yielded=yielded)

    def end(self) -> None:
        """End it, if it was begun and has not ended."""
        span, self._span = self._span, None
        if span is not None:
            if self._output is not None:
                with _ending:
                    self._output.show(span, self._seen)
            with _ending:
                span.end()
            if self._seen is not None:
                with _ending:
                    forget(self._seen)

    def waited(self) -> Any:
        """Return the body that waits, which begins now."""
        body, self.waits = self.waits, None
        return body

    def __del__(self) -> None:
        self.end()  # a body that is dropped before its first step runs no `finally`
        # To complain of one that never began is its driver's, which may have been closed in good order. One that
        # somebody else has too may begin yet.
        if self.waits is not None and getrefcount(self.waits) <= ONLY_HERE:
            self.waits.close()


_builds: Final[dict[int, Build]] = {}


def _mirror(span: Span) -> None:
    """Give a span the keys in effect, unless a processor of ours has done so."""
    layer = current()
    if layer is NOTHING or hasattr(span, LAYER):
        return
    build = _builds.get(len(REVISIONS))
    if build is None:
        _builds.clear()
        build = _builds[len(REVISIONS)] = compile_build(PRESETS["otel"])
    shown = build(layer, layer.session_id, layer.previous_session_id, UNSET, conversation_of(layer))
    given: Mapping[str, object] = getattr(span, "attributes", None) or {}
    for name, value in shown.items():
        if name not in given:
            span.set_attribute(name, value)
