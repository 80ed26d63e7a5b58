"""What a log line shows of what is in effect: a field per key, under the key's own name.

Backends read the names of a preset, people write `%(session_id)s`; this is for people.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, Final, final

from ctxruntime.keys import KEYS, Key, require_key
from ctxruntime.layers import UNSET, current
from ctxruntime.telemetry.presets import Preset
from ctxruntime.telemetry.recorded import Recorded

if TYPE_CHECKING:
    from ctxruntime.telemetry.values import Attribute

__all__ = ["PLACEHOLDER", "Fields"]

PLACEHOLDER: Final = "-"
"""What a field shows for a key that is not bound, and for one that is redacted by dropping it."""


@final
class Fields:
    """The fields of some keys; by default of every key that telemetry shows, those defined later included."""

    __slots__ = ("_recorded",)

    def __init__(self, keys: Iterable[Key[Any]] | None) -> None:
        chosen = None if keys is None else frozenset(require_key(key) for key in keys)

        def names_now() -> Preset:
            shown = {key.name: bool(key.attributes) if chosen is None else key in chosen for key in KEYS.values()}
            return Preset("log fields", {name: (name,) if shows else () for name, shows in shown.items()})

        self._recorded: Final = Recorded(names_now)

    def known(self) -> dict[str, Attribute]:
        """Return the fields of what is bound here."""
        return self._recorded.of(current())

    def stamp(self, record: MutableMapping[str, Any], placeholder: str) -> list[str]:
        """Put every field into a record that does not have it; return the names of those put there."""
        known, put = self.known(), list[str]()
        for name, shown in self._recorded.preset.names.items():
            if shown and record.get(name, UNSET) is UNSET:  # a stamped record may deny `in`: see `record_factory`
                record[name] = known.get(name, placeholder)
                put.append(name)
        return put
