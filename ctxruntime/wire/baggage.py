"""W3C Baggage: the members of a list, which of them are ours, and what of them is believed.

Ours are the entries under the names of keys with `wire=True`. A name is matched as the most lenient reader
would read it: percent-decoded, white space around it stripped.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote, unquote_plus, unquote_to_bytes

from ctxruntime.errors import InvalidValueError
from ctxruntime.keys import KEYS, Key, require_key
from ctxruntime.wire.texts import text_of, value_of

__all__ = ["MAX_BYTES", "MAX_MEMBERS", "MAX_MEMBER_BYTES", "MAX_OURS", "believed", "managed", "merged"]

MAX_BYTES: Final = 8192
"""The most bytes of baggage, all headers and commas counted."""
MAX_MEMBERS: Final = 180
"""The most entries of baggage, everybody's."""
MAX_OURS: Final = 64
"""The most entries that are ours."""
MAX_MEMBER_BYTES: Final = 4096
"""The most bytes of one entry."""

_SPACE: Final = " \t"
_VALUE: Final = re.compile(r"(?:[\x21\x23\x24\x26-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]|%[0-9A-Fa-f]{2})*")
_BREAKS_A_HEADER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def managed() -> dict[str, Key[Any]]:
    """Return the keys that may be on the wire, by name. Asked at each call: keys are defined at any time."""
    return {name: key for name, key in KEYS.copy().items() if key.wire}  # others may define one meanwhile


# What leaves


def merged(text: str) -> str:
    """Return the baggage `text` with our entries replaced by what is bound here; the rest stays as it is.

    What is unbound is removed. Nothing is pushed out to make room: what does not fit any more is left out.
    """
    ours = managed()
    present = [(member, _name(member)) for member in _members(text)]
    kept = [member for member, name in present if name not in ours]
    entries, problems = _entries(ours.values())
    if len(kept) == len(present) and not entries:
        _warn("left out of what goes out", problems)
        return text
    if any(map(_BREAKS_A_HEADER.search, kept)):
        problems.append("entries of others with control characters")
        kept = [member for member in kept if not _BREAKS_A_HEADER.search(member)]
    size = sum(map(len, kept)) + len(kept)
    for name, entry in entries.items():
        if len(entry) > MAX_MEMBER_BYTES or size + len(entry) > MAX_BYTES or len(kept) >= MAX_MEMBERS:
            problems.append(f"{name} (no room)")
            continue
        kept.append(entry)
        size += len(entry) + 1
    _warn("left out of what goes out", problems)
    return ",".join(kept)


def _entries(keys: Iterable[Key[Any]]) -> tuple[dict[str, str], list[str]]:
    """Return the entries of what is bound, by name, and what is wrong with the rest."""
    entries: dict[str, str] = {}
    problems: list[str] = []
    for key in keys:
        value = key.get(None)
        # A hash would be taken for the value on the other side, and is no use for what redaction protects.
        if value is None or key.redact is not None:
            continue
        try:
            text = quote(text_of(key, value), safe="")  # `+` too, which some read as a space
        except Exception:  # noqa: BLE001  # a linked variable, or a type of the host's: it can be anything
            problems.append(f"{key.name} (has no text form)")
        else:
            entries[key.name] = f"{quote(key.name, safe='')}={text}"
    return entries, problems


# What comes in


def believed(text: str, trust: Iterable[Key[Any]]) -> dict[Key[Any], object]:
    """Return the values of trusted keys in the baggage `text`.

    Raises:
        InvalidValueError: `trust` has a key without `wire=True`.
        UnknownKeyError: `trust` has something that is no key.
    """
    trusted = frozenset(_trusted(trust))
    ours = managed()
    if not text or not ours:
        return {}
    given, problem = _given(text, ours)
    values: dict[Key[Any], object] = {}
    problems = [problem] if problem else []
    for name, members in given.items():
        key = ours[name]
        if key not in trusted:
            problems.append(f"{name} (not trusted here)")
            continue
        try:
            texts = {_decoded(member) for member in members}
            value = value_of(key, texts.pop())
        except Exception:  # noqa: BLE001  # the key's type can be a class of the host's, which raises what it likes
            problems.append(f"{name} (malformed, or no value of the key)")
            continue
        if texts:
            problems.append(f"{name} (given twice, and not alike)")
        else:
            values[key] = value
    _warn("not believed of what came in", problems)
    return values


def _trusted(trust: Iterable[object]) -> Iterator[Key[Any]]:
    for thing in trust:
        key = require_key(thing)
        if not key.wire:
            raise InvalidValueError(key.name, "cannot be trusted from outside", "define it with wire=True first")
        yield key


def _given(text: str, ours: dict[str, Key[Any]]) -> tuple[dict[str, list[str]], str | None]:
    """Return the members that are ours, by name; none, and why, if there is too much of anything.

    Not the first ones of too many: padding would choose for us which of two contradicting entries we see.
    """
    if len(text) > MAX_BYTES:
        return {}, f"all of it (over {MAX_BYTES} bytes)"
    members = list(_members(text))
    if len(members) > MAX_MEMBERS:
        return {}, f"all of it (over {MAX_MEMBERS} entries)"
    given: dict[str, list[str]] = {}
    for member in members:
        name = _name(member)
        if name in ours:
            given.setdefault(name, []).append(member)
    if sum(map(len, given.values())) > MAX_OURS:
        return {}, f"all of it (over {MAX_OURS} entries of ours)"
    return given, None


def _decoded(member: str) -> str:
    """Return the value of a list member, properties left out; `+` is a space, as OpenTelemetry writes it."""
    _, equals, rest = member.partition("=")
    value = rest.partition(";")[0].strip(_SPACE)
    if not equals or len(member) > MAX_MEMBER_BYTES or _VALUE.fullmatch(value) is None:
        raise ValueError("is no list member")
    return unquote_to_bytes(value.replace("+", " ")).decode("utf-8")


# Both ways


def _members(text: str) -> Iterator[str]:
    for part in text.split(","):
        if member := part.strip(_SPACE):
            yield member


def _name(member: str) -> str:
    name = re.split("[=;]", member, maxsplit=1)[0]
    return unquote_plus(name, errors="replace").strip()


def _warn(what: str, problems: list[str]) -> None:
    """Say once per call what was dropped: names of keys, which are the program's own, and never a value."""
    if problems:
        with suppress(Exception):  # a handler or filter of the host's
            logging.getLogger("ctxruntime").warning("baggage %s: %s", what, ", ".join(problems))
