"""The `traceparent` and `tracestate` of the span that is current, by OpenTelemetry's own propagator."""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["TRACE_NAMES", "trace_entries"]

TRACE_NAMES: Final = ("traceparent", "tracestate")


def trace_entries() -> dict[str, str]:
    """Return what says which span is current, by header name; empty if none is."""
    if "opentelemetry.trace" not in sys.modules:
        return {}  # who has not imported it has no span, and need not pay for the import
    from opentelemetry.trace import get_current_span

    if not get_current_span().get_span_context().is_valid:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    entries: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(entries)
    return entries
