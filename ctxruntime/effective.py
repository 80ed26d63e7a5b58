"""What `current()` returns: what is in effect, for programs to read and for people to print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

from ctxruntime.keys import KEYS

__all__ = ["Effective"]


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
