"""Every log record of OpenTelemetry that is emitted while keys are bound carries them."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final, final
from weakref import WeakKeyDictionary

from opentelemetry._logs import get_logger_provider

from ctxruntime.guarding import guard
from ctxruntime.keys import KEYS
from ctxruntime.layers import amending, current
from ctxruntime.telemetry.errors import MissingExtraError, NoProviderError
from ctxruntime.telemetry.fields import PLACEHOLDER
from ctxruntime.telemetry.presets import Preset, preset_named
from ctxruntime.telemetry.recorded import Recorded
from ctxruntime.telemetry.sdk_logs import processors_of, put_first, take_out

try:
    from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith("opentelemetry.sdk"):
        raise
    raise MissingExtraError("otel", "opentelemetry-sdk") from _error

__all__ = [
    "NoLoggerProviderError",
    "SessionLogRecordProcessor",
    "add_logs_by_default",
    "add_logs_to",
    "take_log_defaults_out",
]


class NoLoggerProviderError(NoProviderError):
    """Tell that there is no logger provider of an SDK to add to."""

    def __str__(self) -> str:
        return f"{self.provider} takes no log record processor: set up the SDK's LoggerProvider first"


_emitting: Final = guard("telemetry: a log record is emitted")
_defaults: Final[WeakKeyDictionary[LoggerProvider, SessionLogRecordProcessor]] = WeakKeyDictionary()
"""What was added without the program's knowing; it makes way for what the program itself adds."""
_NO_VALUE: Final = ("", PLACEHOLDER)


@final
class SessionLogRecordProcessor(LogRecordProcessor):
    """Mirror the keys in effect on every log record of a provider; it goes before the exporters (`add_logs_to`).

    A record shows what is in effect where it is emitted: after a rotation the new session id, in a sub-agent the
    sub-agent's. (Spans of one trace show one id; a record finds them by its trace id.) What the caller gave wins;
    keys that are not bound and empty text are not shown; fields that a `SessionFilter` or record factory of ours
    could not fill are taken out.

    Args:
        preset: whose attribute names to use; see `presets`.

    Raises:
        UnknownPresetError: there is no such preset.
    """

    def __init__(self, preset: str | Preset = "otel") -> None:
        self.preset: Final[Preset] = preset_named(preset)
        self._recorded: Final = Recorded(lambda: self.preset)

    def __repr__(self) -> str:
        return f"<SessionLogRecordProcessor preset={self.preset.name}>"

    def on_emit(self, log_record: Any) -> None:  # Any: its class is another one in each range of SDKs
        """Give a record that is emitted its attributes."""
        with _emitting:
            record = log_record.log_record
            attributes: MutableMapping[str, object] | None = record.attributes
            if attributes is None:
                attributes = record.attributes = dict[str, object]()
            given = set(attributes)  # asking the SDK's mapping for each name costs an exception where it is absent
            for name in given & KEYS.keys():
                if attributes[name] in _NO_VALUE:
                    del attributes[name]
                    given.remove(name)
            for name, value in self._recorded.of(current()).items():
                if name not in given:
                    attributes[name] = value

    def emit(self, log_data: Any) -> None:
        """Do what `on_emit` does, for an SDK before 1.35."""
        self.on_emit(log_data)

    def enabled(self, **details: object) -> bool:
        """Return False: this processor alone is no reason to make a record."""
        return False

    def shutdown(self) -> None:
        """Do nothing: nothing is kept."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Return True: nothing is kept back."""
        return True


def add_logs_to(provider: object = None, *, preset: str | Preset = "otel") -> SessionLogRecordProcessor:
    """Mirror keys on every log record of a provider from now on; return the processor that does.

    It is put before the exporters that are there, as a record that was handed to one is not changed any more.
    The provider may be the SDK's or one that wraps it; without one it is the global one. Adding the same again
    returns the processor that is there.

    Raises:
        NoLoggerProviderError: that is no logger provider of the SDK, or none has been set yet.
        UnknownPresetError: there is no such preset.
    """
    chosen = preset_named(preset)
    made = _sdk_provider(get_logger_provider() if provider is None else provider)
    with amending():
        for there in _ours(made):
            if there.preset == chosen:
                if _defaults.get(made) is there:
                    del _defaults[made]
                return there
        processor = SessionLogRecordProcessor(chosen)
        _take_default_out(made)
        put_first(made, processor)
    return processor


def add_logs_by_default(provider: object, preset: Preset) -> SessionLogRecordProcessor:
    """Mirror keys on every log record of a provider, unless the program does so itself; return what does.

    Nothing is added where a processor of ours is; if the program adds one later, that takes the place of this.

    Raises:
        NoLoggerProviderError: that is no logger provider of the SDK.
    """
    made = _sdk_provider(provider)
    with amending():
        for there in _ours(made):
            return there
        _defaults[made] = processor = add_logs_to(made, preset=preset)
    return processor


def take_log_defaults_out() -> None:
    """Undo what `add_logs_by_default` has done, where the program has not taken it over."""
    with amending():
        for made in tuple(_defaults):
            _take_default_out(made)


def _take_default_out(made: LoggerProvider) -> None:
    processor = _defaults.pop(made, None)
    if processor is not None:
        take_out(made, processor)


def _ours(made: LoggerProvider) -> list[SessionLogRecordProcessor]:
    return [there for there in processors_of(made) if isinstance(there, SessionLogRecordProcessor)]


def _sdk_provider(provider: object) -> LoggerProvider:
    for candidate in (provider, getattr(provider, "provider", None)):
        if isinstance(candidate, LoggerProvider):
            return candidate
    raise NoLoggerProviderError(type(provider).__name__)
