"""Everything that an operator wants of a program that knows nothing of it: hops, spans and log records."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias, final

from opentelemetry import _logs, trace

from ctxruntime.guarding import guard
from ctxruntime.hops.install import SWITCH, install, installed
from ctxruntime.telemetry.errors import MissingExtraError, NoProviderError, UnknownOptionError, UnknownPresetError
from ctxruntime.telemetry.presets import Preset, preset_named

__all__ = ["PRESET_VARIABLE", "Automatic", "Options"]

Pin: TypeAlias = Literal["trace", "span"]
GroupBy: TypeAlias = Literal["session", "conversation"]

PRESET_VARIABLE: Final = "CTXRUNTIME_PRESET"
"""The environment variable that names the preset where no option does."""
LEVEL_VARIABLE: Final = "OTEL_LOG_LEVEL"
"""OpenTelemetry's variable for how much it says about itself."""

_CHOICES: Final = {"pin": ("trace", "span"), "group_by": ("session", "conversation"), "subprocesses": (False, True)}
_setting_up: Final = guard("telemetry: zero code is set up")
_taking_back: Final = guard("telemetry: zero code is taken back")
_log: Final = logging.getLogger("ctxruntime")


@final
class Options:
    """What an operator can choose; `SessionSpanProcessor` and `install` say what each means.

    Raises:
        UnknownOptionError: there is no such option.
        UnknownPresetError: there is no such preset.
        ValueError: an option is none of its choices.
    """

    __slots__ = ("deny", "group_by", "pin", "preset", "subprocesses")

    def __init__(self, options: Mapping[str, Any]) -> None:
        for name in options:
            if name not in self.__slots__:
                raise UnknownOptionError(name, self.__slots__)
        for name, choices in _CHOICES.items():
            if options.get(name, choices[0]) not in choices:
                raise ValueError(f"{name} is {' or '.join(map(repr, choices))}, not {options[name]!r}")
        self.preset: Final[Preset] = preset_named(options["preset"]) if "preset" in options else _preset_of_environ()
        self.pin: Final[Pin] = options.get("pin", "trace")
        self.group_by: Final[GroupBy] = options.get("group_by", "session")
        self.deny: Final[Any] = options.get("deny", ())  # `install` checks it
        self.subprocesses: Final[bool] = options.get("subprocesses", False)


@final
class Automatic:
    """What was put in place for the operator; `undo()` takes it back, `str()` says in one line what there is.

    Hops are installed. Keys are mirrored on the spans of the provider that is given, or else of the global one and
    of every one that the program makes from now on; on log records likewise. Where the program itself adds a
    processor of ours, that one holds. With `CTXRUNTIME_DISABLED` nothing is done.

    Raises:
        TypeError, ValueError: `deny` is not what `install` takes.
    """

    def __init__(self, options: Options, tracer_provider: object = None, logger_provider: object = None) -> None:
        self._options: Final = options
        self._undos: Final[list[Callable[[], object]]] = []
        self._told: Final[list[str]] = []
        self.complete: bool = True
        """Whether nothing is missing that could be there."""
        before = installed()
        installation = install(deny=options.deny, subprocesses=options.subprocesses)
        self.enabled: Final = installation.active
        """Whether anything is to be done."""
        if not self.enabled:
            self._told.append(f"nothing, as {SWITCH} is set")
            return
        if before is None:
            self._undos.append(installation.uninstall)
        self._try("spans", self._mirror_on_spans, tracer_provider)
        self._try("log records", self._mirror_on_logs, logger_provider)
        self._told.append(f"hops: {', '.join(installation.patched)}")

    def __str__(self) -> str:
        return "; ".join(self._told)

    def undo(self) -> None:
        """Take back what was put in place; again is harmless."""
        while self._undos:
            with _taking_back:
                self._undos.pop()()

    def log(self, level: int) -> None:
        """Log the line.

        Programs configure logging later than this: with OpenTelemetry's `OTEL_LOG_LEVEL` at `info` or `debug` the
        line comes on stderr where logging would not show it.
        """
        _log.log(level, "%s", self)
        wanted = os.environ.get(LEVEL_VARIABLE, "").strip().lower() in ("info", "debug", "trace")
        if wanted and level < logging.WARNING and not (_log.isEnabledFor(level) and _log.hasHandlers()) and sys.stderr:
            sys.stderr.write(f"ctxruntime: {self}\n")

    def _try(self, what: str, mirror: Callable[[object], str], provider: object) -> None:
        self._told.append(f"{what}: not mirrored, see the traceback")
        with _setting_up:
            try:
                self._told[-1] = f"{what}: {mirror(provider)}"
                return
            except (MissingExtraError, NoProviderError) as missing:
                self._told[-1] = f"{what}: not mirrored ({missing})"
        self.complete = False

    def _mirror_on_spans(self, given: object) -> str:
        from ctxruntime.telemetry.adding import add_by_default, take_defaults_out
        from ctxruntime.telemetry.following import call_with_each
        from ctxruntime.telemetry.sdk import TracerProvider

        def add(provider: object) -> str:
            processor = add_by_default(provider, self._options.preset, self._options.pin, self._options.group_by)
            return f"{processor!r} on {type(provider).__name__}"

        self._undos.append(take_defaults_out)
        if given is not None:
            return add(given)
        self._undos.append(call_with_each(TracerProvider, add))
        return _or_later(add, trace.get_tracer_provider())

    def _mirror_on_logs(self, given: object) -> str:
        from ctxruntime.telemetry.following import call_with_each
        from ctxruntime.telemetry.log_records import add_logs_by_default, take_log_defaults_out

        provider_class = import_module("opentelemetry.sdk._logs").LoggerProvider

        def add(provider: object) -> str:
            return f"{add_logs_by_default(provider, self._options.preset)!r} on {type(provider).__name__}"

        self._undos.append(take_log_defaults_out)
        if given is not None:
            return add(given)
        self._undos.append(call_with_each(provider_class, add))
        return _or_later(add, _logs.get_logger_provider())


def _or_later(add: Callable[[object], str], provider: object) -> str:
    try:
        return f"{add(provider)}, and on those made later"
    except NoProviderError:
        return "no provider of the SDK is set yet, those made later are followed"


def _preset_of_environ() -> Preset:
    """Return the preset that the environment names; a wrong name is no reason for a program not to start."""
    try:
        return preset_named(os.environ.get(PRESET_VARIABLE, "").strip() or "otel")
    except UnknownPresetError as error:
        _log.warning("%s: %s; it is otel now", PRESET_VARIABLE, error)
        return preset_named("otel")
