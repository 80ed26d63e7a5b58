"""OpenTelemetry's log signal over its versions: the one place that knows what differs from one to the next.

- 1.20 to 1.34: processors have `emit(LogData)`; the SDK has a LogRecord of its own, which names no event: it is
  the attribute `event.name`;
- 1.35 to 1.38: processors have `on_emit(LogData)`; the SDK's LogRecord has an `event_name`;
- from 1.39: processors have `on_emit(ReadWriteLogRecord)`, and the API's LogRecord is the only one.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from time import time_ns
from typing import TYPE_CHECKING, Any

from opentelemetry import _logs as api
from opentelemetry.trace import get_current_span

if TYPE_CHECKING:
    from ctxruntime.telemetry.values import Attribute

__all__ = ["emit_event", "processors_of", "put_first", "take_out"]


def emit_event(logger: api.Logger, name: str, attributes: Mapping[str, Attribute]) -> None:
    """Emit an event through a logger of whichever version, at this time and in the span that is current."""
    of_sdk = hasattr(logger, "resource")
    record_class = _record_class(of_sdk)
    details: dict[str, Any] = {  # severity and time are given, as old exporters take no record without
        "timestamp": time_ns(),
        "severity_number": api.SeverityNumber.INFO,
        "severity_text": "INFO",
        "attributes": {**attributes},
    }
    if _has_events(record_class):
        details["event_name"] = name
    else:
        span = get_current_span().get_span_context()
        details |= {"trace_id": span.trace_id, "span_id": span.span_id, "trace_flags": span.trace_flags, "body": name}
        details["attributes"]["event.name"] = name
    if of_sdk and record_class is not api.LogRecord:
        details["resource"] = getattr(logger, "resource", None)
    logger.emit(record_class(**details))


def put_first(provider: Any, processor: Any) -> None:
    """Add a processor to a logger provider of the SDK, in front of those that are there.

    What exports a record keeps it as it was then, and the SDK can only append. Should it have changed inside, the
    processor is appended.
    """
    provider.add_log_record_processor(processor)
    group = getattr(provider, "_multi_log_record_processor", None)
    lock = getattr(group, "_lock", None)
    if group is not None and lock is not None and processor in processors_of(provider):
        with lock:
            group._log_record_processors = (processor, *(it for it in processors_of(provider) if it is not processor))


def take_out(provider: Any, processor: Any) -> None:
    """Take a processor out of a logger provider of the SDK.

    Should it have changed inside, the processor stays there and does nothing.
    """
    group = getattr(provider, "_multi_log_record_processor", None)
    lock = getattr(group, "_lock", None)
    if group is not None and lock is not None and processor in processors_of(provider):
        with lock:
            group._log_record_processors = tuple(it for it in processors_of(provider) if it is not processor)
    else:
        processor.on_emit = processor.emit = _do_nothing


def _do_nothing(log_record: object) -> None:
    """Stand in for `on_emit`."""


def processors_of(provider: Any) -> tuple[Any, ...]:
    """Return the processors of a logger provider; none, should the SDK have changed inside."""
    group = getattr(provider, "_multi_log_record_processor", None)
    return tuple(getattr(group, "_log_record_processors", ()))


@cache
def _record_class(of_sdk: bool) -> Any:
    """Return the class of the records that a logger takes: the SDK's own, where it has one."""
    return getattr(import_module("opentelemetry.sdk._logs"), "LogRecord", api.LogRecord) if of_sdk else api.LogRecord


@cache
def _has_events(record_class: Any) -> bool:
    return "event_name" in inspect.signature(record_class).parameters
