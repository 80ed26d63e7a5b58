"""What a key's value looks like as an attribute."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Final, TypeAlias, cast

__all__ = ["Attribute", "attribute_of"]

Attribute: TypeAlias = "str | bool | int | float | tuple[str | bool | int | float, ...]"

_INT64: Final = 1 << 63


def attribute_of(value: object) -> Attribute | None:
    """Return the attribute that a value is shown as; None for what is not shown: empty text, bytes and tuples.

    OpenTelemetry takes text, booleans, 64-bit integers, floats, and sequences of one of these. An enum's member is
    shown as its value, a time in ISO 8601, bytes as hexadecimal digits, a UUID and an integer that is too large
    as text; a tuple of several types as texts.
    """
    if type(value) is not tuple:
        shown = _plain(value)
        return None if shown == "" else shown
    items = tuple(_plain(item) for item in _flat(cast("object", value)))
    if len({type(item) for item in items}) > 1:
        return tuple(str(item) for item in items)
    return items or None


def _flat(value: object) -> list[object]:
    """Return the items of a tuple, and of tuples in it: an attribute has one level."""
    if type(value) is not tuple:
        return [value]
    return [item for inner in cast("tuple[object, ...]", value) for item in _flat(inner)]


def _plain(value: object) -> str | bool | int | float:
    if isinstance(value, Enum):
        value = value.value if isinstance(value.value, (str, int, float)) else value.name
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_INT64 <= value < _INT64 else str(int(value))
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, datetime) else str(value)
