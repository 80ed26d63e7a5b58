"""What a log line shows of what is in effect: a field per key, under the key's own name.

Backends read the names of a preset, people write `%(session_id)s`; this is for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from ctxruntime.keys import KEYS, REVISIONS, Key, require_key
from ctxruntime.layers import UNSET, current
from ctxruntime.telemetry.building import Build, compile_build
from ctxruntime.telemetry.presets import Preset

if TYPE_CHECKING:
    from ctxruntime.telemetry.values import Attribute

__all__ = ["PLACEHOLDER", "Fields"]

PLACEHOLDER: Final = "-"
"""What a field shows for a key that is not bound, and for one that is redacted by dropping it."""

Compiled: TypeAlias = tuple[int, Build, dict[str, str]]
"""The revision of the keys it is for, what builds the fields of what is bound, and every field without a value."""


@final
class Fields:
    """The fields of some keys; by default of every key that telemetry shows, those defined later included."""

    __slots__ = ("_chosen", "_compiled", "_placeholder")

    def __init__(self, keys: Iterable[Key[Any]] | None, placeholder: str = PLACEHOLDER) -> None:
        self._chosen: Final = None if keys is None else frozenset(require_key(key) for key in keys)
        self._placeholder: Final = placeholder
        self._compiled = self._compile()

    def known(self) -> dict[str, Attribute]:
        """Return the fields of what is bound here."""
        layer = current()
        return self._current()[1](layer, layer.session_id, layer.previous_session_id, UNSET, UNSET)

    def stamp(self, record: dict[str, Any]) -> Mapping[str, object]:
        """Put every field into a record that does not have it; return what was put there."""
        fields: dict[str, Attribute] = {**self._current()[2], **self.known()}
        # By the views: a record that is stamped already denies `in` (see `record_factory`).
        if not fields.keys().isdisjoint(record.keys()):
            fields = {name: fields[name] for name in fields.keys() - record.keys()}
        record.update(fields)
        return fields

    def _current(self) -> Compiled:
        compiled = self._compiled
        if compiled[0] != len(REVISIONS):
            compiled = self._compiled = self._compile()
        return compiled

    def _compile(self) -> Compiled:
        count, keys = len(REVISIONS), tuple(KEYS.values())
        shown = [key.name for key in keys if (key.attributes if self._chosen is None else key in self._chosen)]
        names = {key.name: (key.name,) if key.name in shown else () for key in keys}
        return count, compile_build(Preset("log fields", names)), dict.fromkeys(shown, self._placeholder)
