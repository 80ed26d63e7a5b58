"""Adding the processor to a tracer provider, whoever made it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from opentelemetry.trace import get_tracer_provider

from ctxruntime.hops.patching import Patch, guard
from ctxruntime.layers import amending
from ctxruntime.telemetry.errors import NoProviderError
from ctxruntime.telemetry.presets import Preset, preset_named
from ctxruntime.telemetry.sdk import TracerProvider
from ctxruntime.telemetry.spans import SessionSpanProcessor

__all__ = ["add_to", "follow_providers"]

_added: Final[WeakKeyDictionary[TracerProvider, list[SessionSpanProcessor]]] = WeakKeyDictionary()
_following: Final = guard("telemetry: a tracer provider is made")


def add_to(
    provider: object = None,
    *,
    preset: str | Preset = "otel",
    pin: Literal["trace", "span"] = "trace",
    group_by: Literal["session", "conversation"] = "session",
) -> SessionSpanProcessor:
    """Mirror keys on every span of a provider from now on; return the processor that does.

    The provider may be the SDK's, a subclass (Phoenix's, whose own `add_span_processor` would throw its exporter
    away) or one that wraps it (Logfire's); without one it is the global one. Call it before exporters are added
    that look at a span when it starts. Adding the same again returns the processor that is there.

    Raises:
        NoProviderError: that is no provider of the SDK, or none has been set yet (see `follow_providers`).
        UnknownPresetError: there is no such preset.
    """
    made = _sdk_provider(get_tracer_provider() if provider is None else provider)
    options = (preset_named(preset), pin, group_by)
    with amending():
        there = _added.setdefault(made, [])
        for processor in there:
            if (processor.preset, processor.pin, processor.group_by) == options:
                return processor
        processor = SessionSpanProcessor(*options)
        there.append(processor)
        TracerProvider.add_span_processor(made, processor)
    return processor


def _sdk_provider(provider: object) -> TracerProvider:
    for candidate in (provider, getattr(provider, "provider", None)):
        if isinstance(candidate, TracerProvider):
            return candidate
    raise NoProviderError(type(provider).__name__)


def follow_providers(
    *,
    preset: str | Preset = "otel",
    pin: Literal["trace", "span"] = "trace",
    group_by: Literal["session", "conversation"] = "session",
) -> Callable[[], None]:
    """Mirror keys on the spans of every provider of the SDK that is made from now on; return what ends that.

    For programs that set their provider up after this can be called, or more than once. It patches
    `TracerProvider.__init__`; what the providers made meanwhile do stays. The undo can be called twice.

    Raises:
        UnknownPresetError: there is no such preset.
    """
    chosen = preset_named(preset)
    SessionSpanProcessor(chosen, pin, group_by).shutdown()  # a wrong option is the caller's error, not the host's

    def make(original: Callable[..., None]) -> Callable[..., None]:
        @wraps(original)
        def init(self: TracerProvider, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            with _following:
                add_to(self, preset=chosen, pin=pin, group_by=group_by)

        return init

    return Patch(TracerProvider, "__init__", make).apply().undo
