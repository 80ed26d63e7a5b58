"""The attribute names that each backend reads, and the limits that it keeps to.

A key that a preset does not name is shown under its own `attributes`; one that has none is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ctxruntime.telemetry.errors import UnknownPresetError
from ctxruntime.telemetry.warned import warn

if TYPE_CHECKING:
    from ctxruntime.keys import Key

__all__ = ["OWN_SESSION_ID", "PRESETS", "Preset", "preset_named"]

SESSION: Final = "session.id"
PREVIOUS: Final = "session.previous_id"
CONVERSATION: Final = "gen_ai.conversation.id"
USER: Final = "user.id"
GATEWAY: Final = "gateway.session_key"
OWN_SESSION_ID: Final = "ctxruntime.session.id"
"""Where a sub-agent's own session id goes: the trace is its turn's."""

_warned: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class Preset:
    """The attribute names that one backend reads, by key name, and its limits.

    >>> mine = Preset("mine", {"session_id": ("session.id", "my.session")})
    >>> mine.names["session_id"]
    ('session.id', 'my.session')
    """

    name: str
    names: Mapping[str, tuple[str, ...]]
    max_characters: int | None = None
    """The most characters that a limited key may have; a value beyond is not shown, as the backend would drop it."""
    ascii_only: bool = False
    """Whether a limited key must be of US-ASCII alone."""
    limited: tuple[str, ...] = ()
    """The names of the keys that the limits hold for."""

    def names_of(self, key: Key[Any]) -> tuple[str, ...]:
        """Return the attributes that a key is shown as."""
        return self.names.get(key.name, key.attributes)

    def takes(self, key: str, value: object) -> bool:
        """Tell whether the backend would keep a value; if not, warn once for the key, and not show the value."""
        text = value if isinstance(value, str) else str(value)
        too_long = self.max_characters is not None and len(text) > self.max_characters
        if not too_long and not (self.ascii_only and not text.isascii()):
            return True
        if (self.name, key) not in _warned:
            _warned.add((self.name, key))
            reason = f"is longer than {self.max_characters} characters" if too_long else "is not plain ASCII"
            warn("a value of key %r %s, which %s drops: it is left out (logged once)", key, reason, self.name)
        return False


def _names(session: tuple[str, ...] = (), user: tuple[str, ...] = (), gateway: tuple[str, ...] = ()) -> Any:
    """Return what every backend gets, and what this one reads besides."""
    return MappingProxyType(
        {
            "session_id": (SESSION, CONVERSATION, *session),
            "previous_session_id": (PREVIOUS,),
            "user_id": (USER, *user),
            "gateway_session_key": (GATEWAY, *gateway),
        }
    )


_TRACELOOP = "traceloop.association.properties."
_LANGSMITH = "langsmith.metadata."  # its trace.session_id is the project's id

_ALL: Final = (
    Preset("otel", _names()),
    Preset("langfuse", _names(), max_characters=200, ascii_only=True, limited=("session_id", "user_id")),
    Preset("phoenix", _names()),
    # It groups by the conversation id. Its scrubbing blanks whatever has "session" in its name, unless the program
    # says otherwise with `logfire.configure(scrubbing=...)`.
    Preset("logfire", _names()),
    Preset(
        "traceloop",
        _names((f"{_TRACELOOP}session_id",), (f"{_TRACELOOP}user_id",), (f"{_TRACELOOP}gateway_session_key",)),
    ),
    Preset("mlflow", _names(("mlflow.trace.session",), ("mlflow.trace.user",))),
    Preset("datadog", _names()),
    Preset(
        "langsmith",
        _names(
            (f"{_LANGSMITH}session_id", f"{_LANGSMITH}thread_id"),
            (f"{_LANGSMITH}user_id",),
            (f"{_LANGSMITH}gateway_session_key",),
        ),
    ),
)

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType({preset.name: preset for preset in _ALL})
"""The presets by name."""


def preset_named(preset: str | Preset) -> Preset:
    """Return the preset of this name, or the one that is given.

    Raises:
        UnknownPresetError: none has the name.
    """
    if isinstance(preset, Preset):
        return preset
    if preset not in PRESETS:
        raise UnknownPresetError(preset, tuple(PRESETS))
    return PRESETS[preset]
