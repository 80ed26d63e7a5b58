"""What an observer sees: the session's keys on every span, in the backend that people already use.

    from ctxruntime.telemetry import add_to
    add_to(provider, preset="langfuse")     # every span of this provider carries the keys in effect

*Mirroring* shows keys as attributes; a *preset* is the attribute names that one backend reads. There are no
metrics, on purpose: a session id as a label would make a new time series of every session.

What needs opentelemetry-sdk (the extra `otel`) says so when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxruntime.telemetry.adding import add_to, follow_providers
    from ctxruntime.telemetry.errors import MissingExtraError, NoProviderError, UnknownPresetError
    from ctxruntime.telemetry.events import emit_session_events
    from ctxruntime.telemetry.log_records import NoLoggerProviderError, SessionLogRecordProcessor, add_logs_to
    from ctxruntime.telemetry.logs import (
        SessionFilter,
        install_record_factory,
        loguru_patcher,
        structlog_processor,
    )
    from ctxruntime.telemetry.presets import PRESETS, Preset
    from ctxruntime.telemetry.redaction import set_hash_key
    from ctxruntime.telemetry.spans import SessionSpanProcessor

__all__ = [
    "PRESETS",
    "MissingExtraError",
    "NoLoggerProviderError",
    "NoProviderError",
    "Preset",
    "SessionFilter",
    "SessionLogRecordProcessor",
    "SessionSpanProcessor",
    "UnknownPresetError",
    "add_logs_to",
    "add_to",
    "emit_session_events",
    "follow_providers",
    "install_record_factory",
    "loguru_patcher",
    "set_hash_key",
    "structlog_processor",
]

_LATER = {
    "adding": ("add_to", "follow_providers"),
    "errors": ("MissingExtraError", "NoProviderError", "UnknownPresetError"),
    "events": ("emit_session_events",),
    "log_records": ("NoLoggerProviderError", "SessionLogRecordProcessor", "add_logs_to"),
    "logs": ("SessionFilter", "install_record_factory", "loguru_patcher", "structlog_processor"),
    "presets": ("PRESETS", "Preset"),
    "redaction": ("set_hash_key",),
    "spans": ("SessionSpanProcessor",),
}


def __getattr__(name: str) -> object:
    """Load upon first use, so that what needs only the API works without the SDK."""
    for module, names in _LATER.items():
        if name in names:
            from importlib import import_module

            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
