"""What `current()` returns: what is in effect, for programs to read and for people to print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

from ctxruntime.keys import KEYS
from ctxruntime.layers import UNSET, current

__all__ = ["Effective", "effective"]


@final
class Effective(Mapping[str, object]):
    """The bound keys of one moment, by name. Printed, it shows no redacted value."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values: dict[str, Any] = values

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {KEYS[name].shown(value)}' for name, value in self._values.items())}}}"


def effective() -> Effective:
    """Return what is in effect here; each key is looked up once, as an amend may change it meanwhile."""
    layer = current()
    values: dict[str, Any] = {}
    for key in tuple(KEYS.values()):
        value = key.of(layer)
        if value is UNSET:
            value = key.linked()
        if value is not UNSET:
            values[key.name] = value
    return Effective(values)
