"""Adding the processor to a tracer provider, whoever made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal
from weakref import WeakKeyDictionary

from opentelemetry.trace import get_tracer_provider

from ctxruntime.layers import amending
from ctxruntime.telemetry.errors import NoProviderError
from ctxruntime.telemetry.following import call_with_each
from ctxruntime.telemetry.presets import Preset, preset_named
from ctxruntime.telemetry.sdk import TracerProvider
from ctxruntime.telemetry.sdk_spans import processors_of, take_out
from ctxruntime.telemetry.spans import SessionSpanProcessor

__all__ = ["add_by_default", "add_to", "follow_providers", "take_defaults_out"]

_added: Final[WeakKeyDictionary[TracerProvider, list[SessionSpanProcessor]]] = WeakKeyDictionary()
_defaults: Final[WeakKeyDictionary[TracerProvider, SessionSpanProcessor]] = WeakKeyDictionary()
"""What was added without the program's knowing; it makes way for what the program itself adds."""


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
                _defaults.pop(made, None)
                return processor
        processor = SessionSpanProcessor(*options)
        _take_default_out(made)
        there.append(processor)
        TracerProvider.add_span_processor(made, processor)
    return processor


def add_by_default(
    provider: object, preset: Preset, pin: Literal["trace", "span"], group_by: Literal["session", "conversation"]
) -> SessionSpanProcessor:
    """Mirror keys on every span of a provider, unless the program does so itself; return the processor that does.

    Nothing is added where a processor of ours is; if the program adds one later, that takes the place of this.

    Raises:
        NoProviderError: that is no provider of the SDK.
    """
    made = _sdk_provider(provider)
    with amending():
        for there in processors_of(made):
            if isinstance(there, SessionSpanProcessor):
                return there
        _defaults[made] = processor = add_to(made, preset=preset, pin=pin, group_by=group_by)
    return processor


def take_defaults_out() -> None:
    """Undo what `add_by_default` has done, where the program has not taken it over."""
    with amending():
        for made in tuple(_defaults):
            _take_default_out(made)


def _take_default_out(made: TracerProvider) -> None:
    processor = _defaults.pop(made, None)
    if processor is not None:
        _added[made].remove(processor)
        take_out(made, processor)


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

    return call_with_each(TracerProvider, lambda made: add_to(made, preset=chosen, pin=pin, group_by=group_by))
