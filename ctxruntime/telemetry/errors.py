"""What telemetry raises of its own."""

from __future__ import annotations

from ctxruntime.errors import CtxRuntimeError


class MissingExtraError(CtxRuntimeError, ImportError):
    """Tell that something was used which an extra of ctxruntime brings, and the extra is not installed."""

    def __init__(self, extra: str, needs: str) -> None:
        super().__init__(extra, needs)
        self.extra = extra
        self.needs = needs

    def __str__(self) -> str:
        return f"this needs {self.needs}, which is not installed: pip install 'ctxruntime[{self.extra}]'"


class UnknownPresetError(CtxRuntimeError, ValueError):
    """Tell that a preset was asked for by a name that none has."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return f"no preset is called {self.name!r}: choose one of {', '.join(self.known)}, or give a Preset"


class UnknownOptionError(CtxRuntimeError, TypeError):
    """Tell that an option was given to zero-code telemetry by a name that none has."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return f"ctxruntime has no option {self.name!r}: choose from {', '.join(self.known)}"


class NoProviderError(CtxRuntimeError, RuntimeError):
    """Tell that there is no tracer provider of an SDK to add to."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self.provider = provider

    def __str__(self) -> str:
        return f"{self.provider} takes no span processor: set up the SDK first, or call follow_providers() before it is"
