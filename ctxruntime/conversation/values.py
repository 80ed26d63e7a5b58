"""What a state can hold: what comes back from JSON as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from ctxruntime.errors import InvalidValueError

__all__ = ["Json", "body_of", "items_of"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What a value can be, nested at most `MAX_DEPTH` deep."""

MAX_DEPTH: Final = 64


def body_of(items: Mapping[str, Any]) -> str:
    """Return the JSON of a state: ASCII, so that its length is its size in bytes.

    Raises:
        InvalidValueError: a name or a value would not come back equal. The message shows the name, and no value.
    """
    for name, value in items.items():
        reason = "has a name that is no text" if type(name) is not str else _reason(value)
        if reason is not None:
            raise InvalidValueError(
                name if type(name) is str else type(name).__name__,
                reason,
                "give what JSON can hold: text, numbers, True, False, None, lists, and dicts with names that are text",
            )
    try:
        return json.dumps(items, separators=(",", ":"), allow_nan=False)
    except ValueError as error:  # an int of more digits than Python prints
        raise InvalidValueError("a number", "has too many digits", "give str(...) of it, in hexadecimal") from error


def items_of(body: str) -> dict[str, Any]:
    """Return what a state holds."""
    return cast("dict[str, Any]", json.loads(body))


def _reason(value: object, depth: int = 1) -> str | None:
    """Say why a value would not come back equal; None if it would."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return None
    if kind is float:
        return None if math.isfinite(cast("float", value)) else "holds no NaN and no infinity"
    if kind not in (list, dict):
        return f"cannot hold {kind.__name__}"
    if depth == MAX_DEPTH:
        return f"is nested more than {MAX_DEPTH} deep, or in itself"
    if kind is dict:
        named = cast("dict[object, object]", value)
        if any(type(name) is not str for name in named):
            return "holds a dict with names that are no text"
        return _first_reason(named.values(), depth)
    return _first_reason(cast("list[object]", value), depth)


def _first_reason(values: Any, depth: int) -> str | None:
    return next((reason for value in values if (reason := _reason(value, depth + 1)) is not None), None)
