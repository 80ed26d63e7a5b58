"""The parts of opentelemetry-sdk that spans are mirrored with, or an error that names the extra."""

from __future__ import annotations

from ctxruntime.telemetry.errors import MissingExtraError

try:
    from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith("opentelemetry.sdk"):
        raise
    raise MissingExtraError("otel", "opentelemetry-sdk") from _error

__all__ = ["Span", "SpanProcessor", "TracerProvider"]
