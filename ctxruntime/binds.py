"""A nested scope: values that are bound for a while, on top of what is in effect where it is entered."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, final

from ctxruntime.doors import Door, answer, is_question
from ctxruntime.keys import KEYS, PREVIOUS_SESSION_ID, SESSION_ID, find, named, plain
from ctxruntime.layers import (
    CURRENT,
    ELSEWHERE,
    HELD,
    LINKED,
    SUBSCRIBERS,
    UNSET,
    Derived,
    amending,
    derive,
    enter,
    inherit,
    settle,
    tell_entered,
)
from ctxruntime.scope import Once

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ctxruntime.decorating import Call
    from ctxruntime.doors import Given
    from ctxruntime.keys import Key
    from ctxruntime.layers import Bits, Layer
    from ctxruntime.scope import Scope

__all__ = ["bind"]

_here, _put = CURRENT.get, CURRENT.set
_SESSION, _PREVIOUS = SESSION_ID.bit, PREVIOUS_SESSION_ID.bit


@final
class Bound(Derived, Once[None]):
    """What `bind` returns: the layer of its first entry, which is nearly always the only one."""

    __slots__ = ("given",)

    def __init__(self, given: Given, binds: Bits) -> None:
        layer: Any = self  # typed in the base class, whose own call would cost a fiftieth of a bind
        layer.more = layer.token = layer.links = layer.mirrored = layer.derived = layer.door = None
        self.given: Given = given
        self.binds: Bits = binds

    def __enter__(self) -> None:
        if self.token is not None:
            return self.again().__enter__()
        layer: Layer = self
        layer.token = HELD  # it is taken; until it has its values, nobody reads it
        here = _here()
        inherit(self, settle() if here.token is ELSEWHERE else here)
        if self.binds & _SESSION:
            layer.previous_session_id = UNSET  # the one before another session is not known, unless it is given
        for key, value in self.given:
            if key.place is None:
                key.put(self, value)
            else:
                setattr(self, key.place, value)  # as `put` would, in half the time
        if LINKED:
            _enter_linked(self)
        else:
            layer.token = _put(self)
        if SUBSCRIBERS:
            tell_entered(self)
        return None

    def again(self) -> BindDoor:
        """Return the door that binds the same for each further entry."""
        layer: Any = self
        if layer.door is None:
            door = BindDoor(self.given, self.binds)
            with amending():  # two threads that enter it at once are to share one door
                layer.door = layer.door or door
        return cast("BindDoor", layer.door)


@final
class BindDoor(Door[None, Derived]):
    """Binds keys for each entry: to values, or to what a decorator computes from the call."""

    __slots__ = ("binds",)

    def __init__(self, given: Given, binds: Bits) -> None:
        super().__init__(given)
        self.binds: Bits = binds

    def make(self, call: Call | None = None) -> Derived:
        """Make a layer that inherits from what is in effect here."""
        here = _here()
        layer = derive(settle() if here.token is ELSEWHERE else here, self.binds)
        if self.binds & _SESSION:
            layer.previous_session_id = UNSET
        for key, value in self.given:
            key.put(layer, answer(key, value, call) if callable(value) else value)
        return layer

    def enter(self, layer: Derived) -> None:
        """Put it in effect."""
        _enter_linked(layer)
        self.entered(layer)

    def result(self, layer: Derived) -> None:
        """Return nothing: what is bound is read by its keys."""


def _enter_linked(layer: Derived) -> None:
    enter(layer, [key for key in LINKED if key.bit & layer.binds])


def bind(keys: Mapping[Key[Any], object] | None = None, /, **values: object) -> Scope[None]:
    """Put values in effect for a nested scope: all else is inherited, and seen again on leaving.

    A `session_id` that is bound is another session: `previous_session_id` is unbound with it unless given.
    None binds a key to "not known".

    Raises:
        InvalidValueError: a value is none that its key can hold, or a key is given twice. Nothing is bound then.
        UnknownKeyError: a name is none of a key.

    >>> from ctxruntime import session
    >>> with session(session_id="s1"), bind(session_id="child-1"):
    ...     SESSION_ID.get()
    'child-1'
    """
    bound: Given = []
    binds, computed = 0, False
    for name, value in (named(keys, values) if keys else values).items():
        try:
            key = KEYS[name]
        except KeyError:
            key = find(name)
        binds |= key.bit
        if plain(value) and key.type is str:
            pass  # nearly always
        elif callable(value) and is_question(value, key):
            computed = True
        else:
            value = key.admit(value)
        bound.append((key, value))
    if binds & _SESSION:
        binds |= _PREVIOUS
    return BindDoor(bound, binds) if computed else Bound(bound, binds)
