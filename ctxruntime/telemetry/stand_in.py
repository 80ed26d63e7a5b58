"""A tracer provider for as long as the program has set none, so that its spans are made at all.

It is not *set*: the program can still set its own, and what asks whether there is one is told that there is not.
From then on every span is the program's provider's, also of tracers that were had before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final, final

from opentelemetry import trace
from opentelemetry.environment_variables import OTEL_PYTHON_TRACER_PROVIDER
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.trace import ProxyTracerProvider, Span, Tracer

from ctxruntime.telemetry.sdk import TracerProvider

__all__ = ["stand_in"]


def stand_in(service: str) -> Callable[[], None]:
    """Put a provider of ours in the place of the one that the program has not set; return what ends that.

    Nothing is done where the program has set one, or the environment names one.
    """
    if OTEL_PYTHON_TRACER_PROVIDER in os.environ or getattr(trace, "_TRACER_PROVIDER", trace) is not None:
        return _do_nothing
    standing = StandIn(TracerProvider(resource=_resource(service)))
    api: Any = trace
    # Past `set_tracer_provider`, which works once, and that one time is the program's.
    api._TRACER_PROVIDER = standing

    def stop() -> None:
        if api._TRACER_PROVIDER is standing:
            api._TRACER_PROVIDER = None

    return stop


def _do_nothing() -> None:
    """Stand in for what would end it."""


def _resource(service: str) -> Resource:
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: service}))
    return resource


@final
class StandIn(ProxyTracerProvider):
    """What libraries find that ask for the global provider: to them, as before, one that is yet to be set."""

    def __init__(self, ours: TracerProvider) -> None:
        self.ours: Final = ours

    def get_tracer(self, *args: Any, **kwargs: Any) -> Tracer:
        """Return a tracer that makes the spans of whichever provider is the global one then."""
        return StandInTracer(self, args, kwargs)


def _context_manager(function: Callable[..., Generator[Span, None, None]]) -> Any:
    """Make a context manager that decorates coroutines too, as the API does from 1.22 on."""
    with suppress(ImportError, AttributeError):
        return import_module("opentelemetry.util._decorator")._agnosticcontextmanager(function)
    return contextmanager(function)


@final
class StandInTracer(Tracer):
    """A tracer of our provider, and of the program's once there is one."""

    def __init__(self, by: StandIn, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._by: Final = by
        self._described: Final = (args, kwargs)
        self._ours: Final = by.ours.get_tracer(*args, **kwargs)
        self._programs: Tracer | None = None

    def _now(self) -> Tracer:
        if self._programs is not None:
            return self._programs
        provider = trace.get_tracer_provider()
        if provider is self._by:
            return self._ours
        args, kwargs = self._described
        self._programs = provider.get_tracer(*args, **kwargs)
        return self._programs

    def start_span(self, *args: Any, **kwargs: Any) -> Span:
        """Start a span of the provider that is in charge now."""
        return self._now().start_span(*args, **kwargs)

    def _start_as_current_span(self, *args: Any, **kwargs: Any) -> Generator[Span, None, None]:
        """Start one and make it current; as a decorator, of the provider in charge at each call."""
        with self._now().start_as_current_span(*args, **kwargs) as span:
            yield span

    # Any: it is what the API makes of its own, whatever that is in this version
    start_as_current_span: Any = _context_manager(_start_as_current_span)
