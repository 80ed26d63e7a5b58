"""The one text form of each kind of value that a key can hold, and back.

| kind | text |
|---|---|
| `str` | itself |
| `int`, `float` | decimal, as Python writes it: `-7`, `0.1`, `1e+16`, `inf` |
| `bool` | `true`, `false` |
| `bytes` | hexadecimal, lower case |
| `UUID` | its 36 characters |
| `datetime` | ISO 8601, as `isoformat` writes it; `fold`, which that does not know, is lost |
| `Enum` | the member's name; of a `Flag` the number |
| `tuple` | a JSON array; what JSON does not know stands in it as a string of its form above |

What comes in is read strictly: the form above, or nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum, Flag
from typing import Any, Final, cast
from uuid import UUID

from ctxruntime.keys import Key

__all__ = ["text_of", "value_of"]

_INT: Final = re.compile(r"-?[0-9]{1,310}")
_FLOAT: Final = re.compile(r"-?(?:[0-9]{1,400}(?:\.[0-9]{1,400})?(?:e[+-]?[0-9]{1,4})?|inf)|nan")
_BYTES: Final = re.compile(r"(?:[0-9a-f]{2})*")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATETIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{6})?"
    r"(?:[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{6})?)?)?"
)
_BOOLS: Final = {"true": True, "false": False}
_IN_JSON: Final = (str, int, float, bool)


def text_of(key: Key[Any], value: object) -> str:
    """Return the text form of a value that the key can hold.

    Raises:
        ValueError: it has none: an item of an untyped tuple whose type the other side could not know, or a
            combination of flags without a number.
    """
    return _text(key.check(value), key.type, key.items)


def value_of(key: Key[Any], text: str) -> object:
    """Return the value that the text stands for, checked by the key.

    Raises:
        Exception: it stands for none that the key can hold. Usually a `ValueError`; the type may be a class of
            the host's, which raises what it likes.
    """
    return key.check(_value(text, key.type, key.items))


def _text(value: Any, kind: type[Any], items: tuple[Any, ...] = ()) -> str:
    if kind is str:
        return cast("str", value)
    if kind is bool:
        return "true" if value else "false"
    if kind is bytes:
        return cast("bytes", value).hex()
    if kind is tuple:
        return json.dumps(_in_json(value, tuple, items), ensure_ascii=False, separators=(",", ":"))
    if issubclass(kind, Flag):
        return str(int(value.value))
    if issubclass(kind, Enum):
        return cast("str", value.name)
    if issubclass(kind, datetime):
        return cast("datetime", value).isoformat()
    return str(value)  # int, float, UUID


def _value(text: str, kind: type[Any], items: tuple[Any, ...] = ()) -> Any:
    if kind is str:
        return text
    if kind is bool:
        return _BOOLS[text]
    if kind is tuple:
        return _from_json(json.loads(text), tuple, items)
    for known, form, made in _FORMS:
        if issubclass(kind, known):
            if form is not None and form.fullmatch(text) is None:
                raise ValueError(f"is not the text form of {kind.__name__}")
            return made(kind, text)
    raise TypeError(f"no text form is known of {kind.__name__}")  # a kind that keys were taught and this was not


# In the order in which they are asked: an Enum can be an int, a datetime or a UUID besides.
_FORMS: Final[tuple[tuple[type[Any], re.Pattern[str] | None, Callable[[Any, str], Any]], ...]] = (
    (Flag, re.compile("[0-9]{1,310}"), lambda kind, text: kind(int(text))),
    (Enum, None, lambda kind, text: kind.__members__[text]),
    (int, _INT, lambda kind, text: int(text)),
    (float, _FLOAT, lambda kind, text: float(text)),
    (bytes, _BYTES, lambda kind, text: bytes.fromhex(text)),
    (UUID, _UUID, lambda kind, text: kind(text)),
    (datetime, _DATETIME, lambda kind, text: kind.fromisoformat(text)),
)


def _in_json(value: Any, kind: type[Any], items: tuple[Any, ...] = ()) -> Any:
    if kind in _IN_JSON:
        return value
    if kind is tuple:
        typed = bool(items)
        kinds = _kinds(items, len(value)) if typed else map(type, value)
        return [_in_json(item, _known(of, typed)) for item, of in zip(value, kinds, strict=True)]
    return _text(value, kind)


def _known(kind: type[Any], typed: bool) -> type[Any]:
    if typed or kind in _IN_JSON or kind is tuple:
        return kind
    raise ValueError(f"has a {kind.__name__} in an untyped tuple, which the other side could not know")


def _from_json(raw: Any, kind: type[Any], items: tuple[Any, ...] = ()) -> Any:
    if kind is tuple:
        if type(raw) is not list:
            raise ValueError("is no JSON array")
        inside = cast("list[Any]", raw)  # type: ignore[redundant-cast]  # not to pyright
        kinds = _kinds(items, len(inside)) if items else map(_native, inside)
        return tuple(_from_json(item, of) for item, of in zip(inside, kinds, strict=True))
    return raw if kind in _IN_JSON else _value(raw, kind)  # the key checks what JSON knows, the form the rest


def _native(item: object) -> type[Any]:
    return tuple if type(item) is list else type(item)


def _kinds(items: tuple[Any, ...], length: int) -> Iterable[type[Any]]:
    return items[:1] * length if items[-1] is ... else items
