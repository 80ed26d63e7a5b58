"""The keys in effect as plain data, for where the program's own classes may not be there.

A process that gets them defines its keys itself, or does not. So nothing of a user's is named in the data but
under guard: text, numbers and bytes are as they are, a member of an enum is its name and value, made a member
again by the type of the key that is found there, and all else is a pickle of its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from enum import Enum, EnumMeta
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard, cast, final

from ctxruntime.decorating import Call
from ctxruntime.guarding import guard
from ctxruntime.keys import KEYS, Key
from ctxruntime.layers import NOTHING, UNSET, Layer, amending, current, derive, enter, leave
from ctxruntime.scope import Turn

__all__ = ["PlainDoor", "PlainKeys", "plain_keys"]

PlainKeys: TypeAlias = tuple[tuple[str, object], ...] | None
"""Name and value of each key that is bound; None where there is no turn and nothing is bound."""

_packing: Final = guard("hops: a value as plain data")
_unpacking: Final = guard("hops: a value from plain data")


class _Member(NamedTuple):
    """A member of an enum."""

    name: str | None
    value: object  # UNSET where it is no plain data itself


class _Pickled(NamedTuple):
    """What has to be loaded."""

    data: bytes


def plain_keys(layer: Layer | None = None) -> PlainKeys:
    """Return the keys that a layer binds, by default the one in effect, as plain data. Never raises.

    A value that cannot be put into plain data is left out, logged once and counted (`guard`).
    """
    bound = _bound_here() if layer is None else _bound_in(layer)
    if not bound and (layer or current()).turn is None:
        return None
    keys: list[tuple[str, object]] = []
    for key, value in bound:
        with _packing:
            keys.append((key.name, _packed(value, key.type, key.items)))
    return tuple(keys)


def _bound_in(layer: Layer) -> list[tuple[Key[Any], object]]:
    with amending():  # an id and the one before it are of one moment
        return [(key, value) for key in tuple(KEYS.values()) if (value := key.peek(layer)) is not UNSET]


def _bound_here() -> list[tuple[Key[Any], object]]:
    layer = current()
    if layer.turn is not None:
        return _bound_in(layer)
    # Outside any turn a linked key has what its variable has.
    values = ((key, key.peek(layer)) for key in tuple(KEYS.values()))
    known = ((key, key.linked() if value is UNSET else value) for key, value in values)
    return [(key, value) for key, value in known if value is not UNSET]


@final
class PlainDoor:
    """A door for `decorate` that puts plain data in effect: each call is a turn of its own, or has nothing."""

    __slots__ = ("keys",)

    asks: Any = {}  # noqa: RUF012  # nothing is computed from the call

    def __init__(self, keys: PlainKeys) -> None:
        self.keys: PlainKeys = keys

    def make(self, call: Call | None = None) -> Layer:
        """Make a layer of what the keys of this process take: others, and values they refuse, are dropped."""
        if self.keys is None:
            return derive(NOTHING)
        turn = Turn()
        for name, plain in self.keys:
            key = KEYS.get(name)
            if key is not None:
                with _unpacking:
                    key.put(turn, key.check(_unpacked(plain, key.type, key.items)))
        return turn

    def enter(self, layer: Layer) -> None:
        """Put the layer in effect."""
        enter(layer)

    def entered(self, layer: Layer) -> None:
        """Tell nobody: it was entered where the job comes from."""

    def leave(self, layer: Layer) -> None:
        """End it."""
        leave(layer)

    def left(self, layer: Layer) -> None:
        """Take no note: nobody counts."""


# One value


def _packed(value: object, kind: object, items: tuple[object, ...] = ()) -> object:
    if type(value) in (str, int, float, bool, bytes):
        return value
    if type(value) is tuple:
        values = cast("tuple[object, ...]", value)
        return tuple(_packed(item, kind) for item, kind in _with_kinds(values, items))
    if isinstance(value, Enum) and _has_members(kind):
        own = value.value
        # The name of a combined flag is none of a member's, and on some versions there is none.
        return _Member(cast("str | None", value.name), own if type(own) in (str, int, float, bool, bytes) else UNSET)
    return _Pickled(pickle.dumps(value))


def _unpacked(plain: object, kind: object, items: tuple[object, ...] = ()) -> Any:
    if isinstance(plain, _Pickled):
        return pickle.loads(plain.data)
    if isinstance(plain, _Member):
        return _member(plain, kind)
    if type(plain) is tuple:
        values = cast("tuple[object, ...]", plain)
        return tuple(_unpacked(item, kind) for item, kind in _with_kinds(values, items))
    return plain


def _member(plain: _Member, kind: object) -> Enum:
    if not _has_members(kind):
        raise TypeError("the key's type here is no enum")
    named = kind.__members__.get(plain.name or "")
    return kind(plain.value) if named is None else named


def _has_members(kind: object) -> TypeGuard[type[Enum]]:
    return isinstance(kind, EnumMeta) and bool(kind.__members__)


def _with_kinds(values: tuple[object, ...], items: tuple[object, ...]) -> Iterator[tuple[object, object]]:
    """Yield each value of a tuple with the type that the key says it has, or None."""
    if items and items[-1] is ...:
        items = items[:1] * len(values)
    for number, value in enumerate(values):
        yield value, items[number] if number < len(items) else None
