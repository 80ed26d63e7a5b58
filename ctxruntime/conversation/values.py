"""What a state can hold: what comes back from JSON as it was."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

from ctxruntime.conversation.errors import StoreCorruptError
from ctxruntime.errors import InvalidValueError

__all__ = ["Json", "body_of", "items_of"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What a value can be, nested at most `MAX_DEPTH` deep."""

MAX_DEPTH: Final = 64
MAX_BITS: Final = 14_284
"""The most bits of an int: as many as are never more than the 4,300 digits that Python reads, here and elsewhere."""

_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Two lone surrogates that JSON would join into one character."""


def body_of(items: Mapping[str, Any]) -> str:
    """Return the JSON of a state: ASCII, so that its length is its size in bytes.

    Raises:
        InvalidValueError: a name or a value would not come back equal. The message shows the name, and no value.
    """
    for name, value in items.items():
        reason = _reason_of_name(name) or _reason(value)
        if reason is not None:
            raise InvalidValueError(
                name if type(name) is str else type(name).__name__,
                reason,
                "give what JSON can hold: text, numbers, True, False, None, lists, and dicts with names that are text",
            )
    return json.dumps(items, separators=(",", ":"), allow_nan=False)


def items_of(body: str, *, state: str, conversation: str) -> dict[str, Any]:
    """Return what a state of a conversation holds.

    Raises:
        StoreCorruptError: this is no state. The message names it, and shows nothing of it.
    """
    problem: Exception | None = None
    items: object = None
    try:
        items = json.loads(body)
    except (ValueError, RecursionError) as error:
        problem = error
    if problem is not None or type(items) is not dict:
        raise StoreCorruptError(
            "the store of conversations",
            f"holds a state {state!r} of conversation {conversation} that is none",
            "forget the conversation, or restore a backup",
        ) from problem
    return cast("dict[str, Any]", items)


def _reason(value: object, depth: int = 1) -> str | None:
    """Say why a value would not come back equal; None if it would."""
    kind = type(value)
    if value is None or kind is bool:
        return None
    if kind is str:
        return _reason_of_text(cast("str", value))
    if kind is int:
        return "holds no number of more than 4,300 digits" if cast("int", value).bit_length() > MAX_BITS else None
    if kind is float:
        return None if math.isfinite(cast("float", value)) else "holds no NaN and no infinity"
    if kind not in (list, dict):
        return f"cannot hold {kind.__name__}"
    if depth > MAX_DEPTH:
        return f"is nested more than {MAX_DEPTH} deep, or in itself"
    if kind is list:
        return _first_reason(cast("list[object]", value), depth)
    named = cast("dict[object, object]", value)
    return next(filter(None, map(_reason_of_name, named)), None) or _first_reason(named.values(), depth)


def _first_reason(values: Iterable[object], depth: int) -> str | None:
    return next((reason for value in values if (reason := _reason(value, depth + 1)) is not None), None)


def _reason_of_name(name: object) -> str | None:
    return _reason_of_text(name) if type(name) is str else "has a name that is no text"


def _reason_of_text(text: str) -> str | None:
    return None if text.isascii() or _PAIR.search(text) is None else "holds no surrogates that are no text"
