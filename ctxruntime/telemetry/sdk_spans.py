"""The span processors of a tracer provider, which the SDK can only add to."""

from __future__ import annotations

from typing import Any

__all__ = ["processors_of", "take_out"]


def processors_of(provider: Any) -> tuple[Any, ...]:
    """Return the processors of a tracer provider; none, should the SDK have changed inside."""
    return tuple(getattr(getattr(provider, "_active_span_processor", None), "_span_processors", ()))


def take_out(provider: Any, processor: Any) -> None:
    """Take a processor out of a tracer provider and shut it down.

    Should the SDK have changed inside, the processor stays there and does nothing.
    """
    group = getattr(provider, "_active_span_processor", None)
    lock = getattr(group, "_lock", None)
    if group is not None and lock is not None and processor in processors_of(provider):
        with lock:
            group._span_processors = tuple(it for it in group._span_processors if it is not processor)
    else:
        processor.on_start = _do_nothing
    processor.shutdown()


def _do_nothing(span: object, parent_context: object = None) -> None:
    """Stand in for `on_start`."""
