"""Zero code: the entry point that `opentelemetry-instrument` and the SDK's configuration file call.

    opentelemetry-instrument python app.py

    instrumentation/development:        # in the file that OTEL_CONFIG_FILE names
      python:
        ctxruntime:
          preset: langfuse

opentelemetry-instrumentation is no dependency of ours: whoever loads this entry point has it.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from importlib import import_module
from logging import INFO, WARNING
from typing import Any, ClassVar, Final, final

from ctxruntime.telemetry.automatic import Automatic, Options

__all__ = ["CtxRuntimeInstrumentor"]

_OF_LOADERS: Final = ("meter_provider", "skip_dep_check", "raise_exception_on_conflict")
"""What loaders give to every instrumentor, and has no meaning here."""


@final
class CtxRuntimeInstrumentor:
    """The instrumentor named `ctxruntime`: hops, and keys on the spans and log records of every provider.

    There is one per process. To `isinstance` it is a `BaseInstrumentor` where that is installed.
    `OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=ctxruntime` keeps it from being loaded; with `CTXRUNTIME_DISABLED=1` it
    does nothing. `CTXRUNTIME_PRESET` names the preset where the options do not.
    """

    _instance: ClassVar[CtxRuntimeInstrumentor | None] = None
    _automatic: Automatic | None

    def __new__(cls) -> CtxRuntimeInstrumentor:
        """Return the one of this process."""
        if cls._instance is None:
            cls._instance = object.__new__(cls)
            cls._instance._automatic = None
        return cls._instance

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Whether it is in place."""
        return self._automatic is not None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: it works with whatever the program has."""
        return ()

    def instrument(
        self, *, tracer_provider: object = None, logger_provider: object = None, **options: Any
    ) -> None:  # Any: loaders of different versions give more
        """Put it in place, and log one line that says what there is; again changes nothing.

        The line is a warning if something is missing that could be there, opentelemetry-sdk for one.

        Args:
            tracer_provider: the only provider to mirror on; without it, the global one and those made later.
            logger_provider: the same for log records.
            options: `preset`, `pin` and `group_by` as `SessionSpanProcessor` has them, `deny` and `subprocesses`
                as `install` has them.

        Raises:
            UnknownOptionError: there is no such option.
            UnknownPresetError: there is no such preset.
            TypeError, ValueError: an option has a value that it cannot have.
        """
        if self._automatic is None:  # a configuration file comes first, and then the loader, without options
            chosen = Options({name: value for name, value in options.items() if name not in _OF_LOADERS})
            self._automatic = Automatic(chosen, tracer_provider, logger_provider)
            self._automatic.log(INFO if self._automatic.complete else WARNING)

    def uninstrument(self, **options: object) -> None:
        """Take back what was put in place, but for what the program has done itself; again is harmless."""
        if self._automatic is not None:
            self._automatic.undo()
            self._automatic = None


with suppress(ImportError):
    import_module("opentelemetry.instrumentation.instrumentor").BaseInstrumentor.register(CtxRuntimeInstrumentor)
