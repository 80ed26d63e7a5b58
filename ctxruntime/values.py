"""What a key can be, and what it can hold: values that are small, immutable and clean.

They hang on tasks and timers, are shared by threads, and end up in logs and headers.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import Any, Final, TypeAlias, cast, get_args, get_origin

from ctxruntime.errors import InvalidValueError
from ctxruntime.keys import MAX_TEXT, Key
from ctxruntime.layers import UNSET

MAX_ITEMS: Final = 128
"""The most items that a tuple may have."""
MAX_BITS: Final = 1024
"""The most bits that an int may need: an id of any kind, and no number that takes a second to print."""

_EXACT: Final = (str, int, float, bool, bytes, tuple)
Problem: TypeAlias = tuple[str, str]
"""What is wrong with a value, and what to do about it."""


_INJECT: Final = ("any", "named", "marked", "never")
_REDACT: Final = (None, "hash", "drop")


def check_definition(key: Key[Any]) -> None:
    """Take the type of a new key apart.

    Raises:
        InvalidValueError: the name, the type, a choice or the default is none that a key can have.
    """
    name = cast("object", key.name)  # whatever the caller gave
    if not isinstance(name, str) or not name.isidentifier() or iskeyword(name) or name == "take":
        raise InvalidValueError(
            str(name)[:40],
            "cannot be defined by this name",
            "choose an identifier that can be a parameter, other than 'take'",
        )
    for choice, allowed in ((key.inject, _INJECT), (key.redact, _REDACT)):
        if choice not in allowed:
            raise InvalidValueError(name, f"cannot be defined with {choice!r}", f"choose one of {allowed}")
    key.type, key.items = get_origin(key.type) or key.type, get_args(key.type)
    if not all(is_allowed(kind) for kind in (key.type, *key.items) if kind is not ...):
        raise InvalidValueError(
            name,
            "cannot be of this type",
            "choose str, int, float, bool, bytes, UUID, datetime, an Enum or a tuple of them, and keep "
            "objects in per-conversation state",
        )
    if key.default is not UNSET:
        key.check(key.default)


def is_allowed(kind: object) -> bool:
    """Tell whether a key can be of this type."""
    if not isinstance(kind, type):
        return False
    if kind in _EXACT:
        return True
    from datetime import datetime
    from enum import Enum
    from uuid import UUID

    return issubclass(kind, (Enum, UUID, datetime))


def problem_of(value: object, kind: type[Any], items: tuple[Any, ...] = ()) -> Problem | None:
    """Say why a value is not of `kind`, small, immutable and clean; None if it is."""
    # A subclass of str or int can carry anything: only the types themselves are known to be immutable.
    if type(value) is not kind if kind in _EXACT else not isinstance(value, kind):
        wanted, given = kind.__name__, type(value).__name__
        return (
            f"takes {wanted}, not {given}",
            f"give {wanted}(...), or keep the object in per-conversation state",
        )
    if isinstance(value, str):
        return _text_problem(value)
    if isinstance(value, bytes) and len(value) > MAX_TEXT:
        return f"takes at most {MAX_TEXT} bytes", "keep large values in per-conversation state"
    if type(value) is int and value.bit_length() > MAX_BITS:
        return f"takes numbers of at most {MAX_BITS} bits", "give str(...) of what names it"
    if type(value) is tuple:
        return _tuple_problem(cast("tuple[object, ...]", value), items)
    return None


def _text_problem(text: str) -> Problem | None:
    if len(text) > MAX_TEXT:
        return f"takes at most {MAX_TEXT} characters", "keep long text in per-conversation state"
    if text.isprintable() or not any(map(_is_unclean, text)):
        return None
    return (
        "takes no control characters, line breaks or lone surrogates",
        "strip them where the value comes in; it ends up in logs and headers",
    )


def _is_unclean(character: str) -> bool:
    """Tell whether a character could break a log line or a header, or cannot be encoded."""
    code = ord(character)
    return code < 0x20 or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF or code in (0x2028, 0x2029)


def _tuple_problem(values: tuple[object, ...], items: tuple[Any, ...]) -> Problem | None:
    if len(values) > MAX_ITEMS:
        return f"takes tuples of at most {MAX_ITEMS} items", "keep large values in per-conversation state"
    if not items:
        kinds: tuple[Any, ...] = tuple(type(value) for value in values)
    elif items[-1] is ...:
        kinds = items[:1] * len(values)
    else:
        kinds = items
    if len(kinds) != len(values):
        return f"takes tuples of {len(kinds)} items", "give one value for each"
    for value, kind in zip(values, kinds, strict=True):
        if not is_allowed(kind):
            return f"takes no tuple with {kind.__name__} in it", "give str(...) of the item"
        if problem := problem_of(value, kind):
            return problem
    return None


def check_alike(defined: Key[Any], key: Key[Any]) -> None:
    """Raise DuplicateKeyError where a key is not as the one of its name that is defined."""
    for aspect in ("type", "items", "attributes", "default", "redact", "wire", "inject", "link"):
        if getattr(defined, aspect) != getattr(key, aspect):
            from ctxruntime.errors import DuplicateKeyError

            raise DuplicateKeyError(key.name, "type" if aspect == "items" else aspect)
