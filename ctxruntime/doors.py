"""The scope objects that make layers, one for each entry.

What `session(...)` returns is the turn's own layer itself, so that a live turn is one object. Whatever has to be
made anew for each entry (a bind inherits from where it is entered, a decorator serves many calls at once) is made
by a `Door`. A program that only enters turns never loads this module.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar, cast, final

from ctxruntime.amending import write_from
from ctxruntime.decorating import decorate
from ctxruntime.errors import InvalidValueError
from ctxruntime.keys import GATEWAY_SESSION_KEY, KEYS, SESSION_ID, Key, find, named, require_key
from ctxruntime.layers import (
    CURRENT,
    LINKED,
    NOTHING,
    SUBSCRIBERS,
    UNSET,
    Derived,
    Layer,
    amending,
    derive,
    enter,
    has_ended,
    in_effect,
    leave,
    tell_amended,
    tell_entered,
)
from ctxruntime.layers import current as current_layer
from ctxruntime.scope import Scope, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Final, TypeAlias, TypeGuard

    from ctxruntime.decorating import Call
    from ctxruntime.layers import Bits

    F = TypeVar("F", bound=Callable[..., Any])
    Given: TypeAlias = list[tuple[Key[Any], object]]

R_co = TypeVar("R_co", covariant=True)
L = TypeVar("L", bound=Layer)

_here, _put = CURRENT.get, CURRENT.set


class Door(Scope[R_co], Generic[R_co, L]):
    """A scope object that makes a fresh layer for each entry, and knows which of them are open."""

    __slots__ = ("given", "opened", "within")

    def __init__(self, given: Given) -> None:
        self.given: Given = given
        self.opened: list[L] = []
        """The entries that have not ended."""
        self.within: list[L] = []
        """The entries whose `with` block has not been left, ended or not."""

    @property
    def asks(self) -> Mapping[Key[Any], Callable[..., object]]:
        """What is computed from the call in a decorator, by key."""
        return {key: value for key, value in self.given if is_question(value, key)}

    def make(self, call: Call | None = None) -> L:
        """Make the layer of one entry; `call` is the decorated call that it is for."""
        raise NotImplementedError

    def enter(self, layer: L) -> None:
        """Put a layer that was made in effect."""
        enter(layer)
        self.entered(layer)

    def entered(self, layer: L) -> None:
        """Tell that a layer was entered, or that a body holds it from now on."""
        if SUBSCRIBERS:
            tell_entered(layer)

    def left(self, layer: L) -> None:
        """Take note that an entry was left."""

    def result(self, layer: L) -> R_co:
        """Return what `with ... as` gives."""
        raise NotImplementedError

    def open(self) -> R_co:
        """Put the scope in effect, for `close` to end it."""
        layer = self.make()
        layer.door = self
        self.opened.append(layer)
        self.enter(layer)
        return self.result(layer)

    def close(self) -> None:
        """End the entry in effect here, else the newest that is open, from any task or thread; again is harmless."""
        self.end(self._entry_here())

    def __enter__(self) -> R_co:
        layer = self.make()
        layer.door = self
        self.opened.append(layer)
        self.within.append(layer)
        self.enter(layer)
        return self.result(layer)

    def __exit__(self, kind: object, error: object, trace: object, /) -> None:
        layer: Any = _here()
        if layer.door is not self:
            layer = self._entry_here()
        try:
            self.within.remove(layer)
        except ValueError:
            layer = self._block_left() or layer
        self.end(layer)

    def _block_left(self) -> L | None:
        """Take note that a block is left which is not the one in effect here, and return its entry, if there is any.

        It may be below what `open` put in effect; else it was closed before; else it is the newest of another context.
        """
        with amending():
            here = (layer for layer in in_effect() if layer in self.within)
            closed = (entry for entry in self.within if has_ended(entry))
            left: Any = next(chain(here, closed, reversed(self.within)), None)
            if left is not None:
                with suppress(ValueError):  # its own thread has left it just now
                    self.within.remove(left)
        return cast("L | None", left)

    def _entry_here(self) -> L | None:
        here = _here()
        if here.door is self:
            return cast("L", here)
        # a turn that is entered again has another door, which makes a turn of each entry
        entries = (layer for layer in in_effect() if layer.door is self or layer in self.opened)
        return cast("L | None", next(entries, None))

    def end(self, entry: L | None) -> bool:
        """End one entry, or the newest that is open; tell whether there was one that had not ended."""
        try:
            if entry is None:
                with amending():
                    entry = next(entry for entry in reversed(self.opened) if not has_ended(entry))
                    self.opened.remove(entry)
            else:
                self.opened.remove(entry)  # one step: of two who end it at once, one does
        except (StopIteration, ValueError):
            return False
        leave(entry)
        self.left(entry)
        if entry.door is self:
            entry.door = None  # whoever holds it closes it alone
        return True

    def leave(self, layer: L) -> None:
        """End one entry."""
        leave(layer)
        self.left(layer)

    def __call__(self, fn: F, /) -> F:
        """Decorate a function of any kind: the scope is in effect during its whole body."""
        return decorate(fn, self)


@final
class TakingTurn(Turn):
    """A turn with keys of the one that starts it: work with an identity of its own, for that turn's chat and user."""

    __slots__ = ("taken",)

    def __init__(self, take: Iterable[Key[Any]]) -> None:
        super().__init__()
        self.taken: Bits = 0
        before = current_layer()
        for key in take:
            key.put(self, key.of(before))
            self.taken |= key.bit


@final
class SessionDoor(Door[Turn, Turn]):
    """Makes a turn for each entry."""

    __slots__ = ("take",)

    def __init__(self, given: Given, take: Iterable[Key[Any]]) -> None:
        super().__init__(given)
        self.take: tuple[Key[Any], ...] = tuple(require_key(key) for key in take)

    def make(self, call: Call | None = None) -> Turn:
        """Make a turn with what was given, and what is taken over."""
        turn = TakingTurn(self.take) if self.take else Turn()
        for key, value in self.given:
            known = answer(key, value, call)
            if known is not UNSET or key not in self.take:
                key.put(turn, known)
                if turn.taken:
                    turn.taken &= ~key.bit
        return turn

    def result(self, layer: Turn) -> Turn:
        """Return the turn."""
        return layer


@final
class JoinDoor(Door[Turn, Layer]):
    """Joins the turn in effect where an identity says that it is the same, else enters one."""

    __slots__ = ()

    def make(self, call: Call | None = None) -> Layer:
        """Make a door of the turn in effect, or a turn."""
        given = [(key, answer(key, value, call)) for key, value in self.given]
        known = {key: value for key, value in given if value not in (UNSET, "")}
        here = current_layer()
        turn: Turn | None = here.turn
        if turn is not None and _is_same(here, known) and (layer := _join(turn, here, known)) is not None:
            return layer
        turn = Turn()
        for key, value in given:
            key.put(turn, value)
        return turn

    def enter(self, layer: Layer) -> None:
        """Put it in effect."""
        enter(layer, () if isinstance(layer, Derived) else LINKED)
        self.entered(layer)

    def left(self, layer: Layer) -> None:
        """Take note: the turn ends with the last of its doors."""
        if isinstance(layer, Derived):
            with amending():
                layer.turn.joined -= 1

    def result(self, layer: Layer) -> Turn:
        """Return the turn."""
        return cast("Turn", layer.turn)


def _join(turn: Turn, here: Layer, known: Mapping[Key[Any], object]) -> Derived | None:
    """Make a further door of a turn, and add what it brings; None if the turn has ended."""
    with amending():
        if turn.ended:
            return None
        turn.joined += 1
        layer = derive(here)
        added = write_from(here, list(_to_add(here, known)))
    if SUBSCRIBERS:
        tell_amended(added)
    return layer


IDENTITIES: Final = (GATEWAY_SESSION_KEY, SESSION_ID)
"""The keys that tell one conversation from another, highest rank first."""


def _is_same(here: Layer, known: Mapping[Key[Any], object]) -> bool:
    """Tell whether an identity is equal, and none of higher rank differs."""
    for key in IDENTITIES:
        value = key.of(here)
        if key in known and value not in (UNSET, ""):
            return bool(value == known[key])
    return False


def _to_add(here: Layer, known: Mapping[Key[Any], object]) -> Iterable[tuple[Key[Any], object]]:
    """Yield what a joined door adds: what is missing, and an identity that differs (a rotation)."""
    for key, value in known.items():
        before = key.of(here)
        if before in (UNSET, "") or (key in IDENTITIES and before != value):
            yield key, value


@final
class ClearedDoor(Door[None, Derived]):
    """Puts nothing in effect."""

    __slots__ = ()

    def make(self, call: Call | None = None) -> Derived:
        """Make a layer in which nothing is bound."""
        return derive(NOTHING)

    def result(self, layer: Derived) -> None:
        """Return nothing."""


def given(keys: Mapping[Key[Any], object] | None, values: Mapping[str, object]) -> Given:
    """Return what a door is given: callables as they are, all else checked now."""
    found: list[tuple[Key[Any], object]] = []
    for name, value in named(keys, values).items():
        key = KEYS.get(name) or find(name)
        found.append((key, value if callable(value) and is_question(value, key) else key.admit(value)))
    return found


def session_door(
    keys: Mapping[Key[Any], object] | None, values: Mapping[str, object], take: Iterable[Key[Any]]
) -> Scope[Turn]:
    """Return what enters a turn with values that are computed, or with keys that are taken over."""
    return SessionDoor(given(keys, values), take)


def is_question(value: object, key: Key[Any]) -> TypeGuard[Callable[..., object]]:
    """Tell whether a decorator was given what computes the value from a call; an enum's member may be callable too."""
    return callable(value) and not isinstance(value, key.type)


def answer(key: Key[Any], value: object, call: Call | None) -> object:
    """Return what a layer holds for what was given: a function of a decorator is called."""
    if not is_question(value, key):
        return value
    if call is None:
        raise InvalidValueError(key.name, "takes a function in a decorator only", "call it, and give what it returns")
    return key.admit(call.ask(value))


def remade(turn: Turn) -> SessionDoor:
    """Return the door that makes this turn anew, with what it was given."""
    if not isinstance(turn.door, SessionDoor):  # a door that joins might join, where a turn is to be entered
        with amending():  # two threads that enter it at once are to share one door
            if not isinstance(turn.door, SessionDoor):
                turn.door = SessionDoor(bound_in(turn), ())
    return turn.door


def bound_in(layer: Layer) -> Given:
    """Return what a layer binds."""
    return [(key, value) for key in KEYS.values() if (value := key.peek(layer)) is not UNSET]
