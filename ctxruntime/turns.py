"""A turn, and the scope objects that make layers.

What `session(...)` returns is the turn's own layer itself, so that a live turn is one object. Whatever has to be
made anew for each entry (a bind inherits from where it is entered, a decorator serves many calls at once) is made
by a `Door`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import time
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar, cast, final, overload

from ctxruntime.decorating import Call, decorate
from ctxruntime.errors import InvalidValueError, NoTurnError
from ctxruntime.keys import (
    KEYS,
    PREVIOUS_SESSION_ID,
    SESSION_ID,
    Key,
    admitted,
    require_key,
)
from ctxruntime.layers import (
    CURRENT,
    LEFT,
    LINKED,
    UNSET,
    Layer,
    amending,
    enter,
    in_effect,
    leavable,
    leave,
    scope_of,
    write,
    write_links,
)
from ctxruntime.layers import current as current_layer

T = TypeVar("T")
D = TypeVar("D")
R_co = TypeVar("R_co", covariant=True)
L = TypeVar("L", bound=Layer)
F = TypeVar("F", bound=Callable[..., Any])

Given: TypeAlias = tuple[tuple[Key[Any], object], ...]

_here, _put = CURRENT.get, CURRENT.set


class Scope(Generic[R_co]):
    """What `session`, `session.join`, `bind` and `cleared` return: the ways of entering that all of them have."""

    __slots__ = ()

    def open(self) -> R_co:
        """Put the scope in effect, for `close` to end it."""
        raise NotImplementedError

    def close(self) -> None:
        """End the newest entry that is still open, from any task or thread; again is harmless."""
        raise NotImplementedError

    def __call__(self, fn: F, /) -> F:
        """Decorate a function of any kind: the scope is in effect during its whole body."""
        raise NotImplementedError

    def __enter__(self) -> R_co:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    async def __aenter__(self) -> R_co:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.__exit__(kind, error, trace)


@final
@leavable
class Turn(Layer, Scope["Turn"]):
    """One event let in at one entry point, and all work done for it.

    `session(...)` makes it; `current_turn()` finds it. It can be kept and read after it has ended.
    """

    __slots__ = ("joined", "started_at")

    started_at: float
    """When the turn was made, in seconds since the epoch."""
    joined: int

    def __init__(self) -> None:
        # As in the base class, whose call would cost a tenth of a turn; and typed there.
        layer: Any = self
        layer.session_id = layer.gateway_session_key = layer.previous_session_id = UNSET
        layer.user_id = layer.frontend = layer.own0 = layer.own1 = layer.own2 = UNSET
        layer.more = layer.token = layer.links = layer.mirrored = layer.derived = layer.door = None
        self.joined = 0
        self.started_at = time()

    @property
    def turn(self) -> Turn:  # a root's turn is itself, and a slot would be a cycle
        """This turn."""
        return self

    @property
    def ended(self) -> bool:
        """Whether the last of the turn's doors has been left; what took it over may still read it."""
        return (self.token is LEFT or self.left_elsewhere) and not self.joined

    @overload
    def get(self, key: Key[T], /) -> T: ...
    @overload
    def get(self, key: Key[T], default: D, /) -> T | D: ...
    def get(self, key: Key[Any], default: Any = UNSET, /) -> Any:
        """Return the turn's own value of a key, whatever is in effect here.

        Raises:
            UnboundKeyError: the turn does not know the key, and there is no default.
        """
        value = require_key(key).peek(self)
        return value if value is not UNSET else key.default_or_error(default)

    def amend(self, keys: Mapping[Key[Any], object] | None = None, /, **values: object) -> None:
        """Add or change facts of the turn itself, for all who serve it; see `amend`."""
        amend_from(self, tuple(admitted(keys, values)))

    def __enter__(self) -> Turn:
        if self.token is not None:
            return _remade(self).__enter__()
        layer: Layer = self
        layer.token = _put(layer)
        if LINKED:
            layer.links = write_links(layer, LINKED)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
        /,
    ) -> None:
        door = cast("Door[Any, Any] | None", self.door)
        if _here() is self or door is None or not door.within or self._is_entry_here(door):
            leave(self)
        else:
            door.__exit__(kind, error, trace)

    def _is_entry_here(self, door: object) -> bool:
        return next((layer for layer in in_effect() if layer is self or layer.door is door), None) is self

    def open(self) -> Turn:
        """Put the turn in effect, for `close` to end it."""
        if self.token is not None:
            return _remade(self).open()
        return self.__enter__()

    def close(self) -> None:
        """End the turn, from any task or thread; again is harmless.

        A scope object that was entered more than once ends the entry in effect here, else the newest.
        """
        door = cast("Door[Any, Any] | None", self.door)
        if door is None:
            leave(self)
        elif self in door.opened:
            door.end(self)
        else:
            entries = (layer for layer in in_effect() if layer is self or layer.door is door)
            entry = next(entries, door.opened[-1] if door.opened else self)
            leave(self) if entry is self else door.end(entry)

    def __call__(self, fn: F, /) -> F:
        """Decorate a function of any kind: each call is a turn of its own."""
        return _remade(self)(fn)

    def __repr__(self) -> str:
        shown = ((key.name, key.shown(key.peek(self))) for key in KEYS.values() if key.peek(self) is not UNSET)
        return f"<Turn {'ended ' if self.ended else ''}{' '.join(f'{name}={value}' for name, value in shown)}>"


def _remade(turn: Turn) -> SessionDoor:
    """Return the door that makes this turn anew, with what it was given."""
    with amending():  # two threads that enter it at once are to share one door
        if turn.door is None:
            turn.door = SessionDoor(bound_in(turn), ())
    return cast("SessionDoor", turn.door)


def bound_in(layer: Layer) -> Given:
    """Return what a layer binds."""
    return tuple((key, value) for key in KEYS.values() if (value := key.peek(layer)) is not UNSET)


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

    def left(self, layer: L) -> None:
        """Take note that an entry was left."""

    def result(self, layer: L) -> R_co:
        """Return what `with ... as` gives."""
        return cast("R_co", None)

    def _open(self) -> L:
        layer = self.make()
        self.opened.append(layer)
        self.enter(layer)
        return layer

    def open(self) -> R_co:
        """Put the scope in effect, for `close` to end it."""
        return self.result(self._open())

    def close(self) -> None:
        """End the entry in effect here, else the newest that is open, from any task or thread; again is harmless."""
        self.end(self._entry_here())

    def __enter__(self) -> R_co:
        layer = self._open()
        self.within.append(layer)
        return self.result(layer)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        layer = self._entry_here()
        with amending():
            if layer not in self.within:  # left from another context: it was closed before, or is the newest
                layer = next((entry for entry in self.within if entry not in self.opened), self.within[-1])
            self.within.remove(layer)
        self.end(layer)

    def _entry_here(self) -> L | None:
        here = _here()
        if here.door is self:
            return cast("L", here)
        return cast("L | None", next((layer for layer in in_effect() if layer.door is self), None))

    def end(self, entry: L | None) -> None:
        """End one entry, or the newest that is open; one that has ended already is left alone."""
        with amending():
            if entry is None and self.opened:
                entry = self.opened[-1]
            if entry not in self.opened:
                return
            self.opened.remove(entry)
        self.leave(entry)
        entry.door = None  # whoever holds it closes it alone

    def leave(self, layer: L) -> None:
        """End one entry."""
        leave(layer)
        self.left(layer)

    def __call__(self, fn: F, /) -> F:
        """Decorate a function of any kind: the scope is in effect during its whole body."""
        return decorate(fn, self)


@final
class SessionDoor(Door[Turn, Turn]):
    """Makes a turn for each entry."""

    __slots__ = ("take",)

    def __init__(self, given: Given, take: Iterable[Key[Any]]) -> None:
        super().__init__(given)
        self.take: tuple[Key[Any], ...] = tuple(require_key(key) for key in take)

    def make(self, call: Call | None = None) -> Turn:
        """Make a turn with what was given, and what is taken over."""
        turn = Turn()
        turn.door = self
        if self.take:
            before = current_layer()
            for key in self.take:
                key.put(turn, key.of(before))
        for key, value in resolved(self.given, call):
            if value is not UNSET or key not in self.take:
                key.put(turn, value)
        return turn

    def result(self, layer: Turn) -> Turn:
        """Return the turn."""
        return layer


def is_question(value: object, key: Key[Any]) -> TypeGuard[Callable[..., object]]:
    """Tell whether a decorator was given what computes the value from a call; an enum's member may be callable too."""
    return callable(value) and not isinstance(value, key.type)


def resolved(given: Given, call: Call | None) -> Given:
    """Return what was given, with the callables of a decorator called."""
    if not any(callable(value) for _, value in given):
        return given
    values: list[tuple[Key[Any], object]] = []
    for key, value in given:
        if is_question(value, key):
            if call is None:
                raise InvalidValueError(
                    key.name, "takes a function in a decorator only", "call it, and give what it returns"
                )
            value = key.admit(call.ask(value))
        values.append((key, value))
    return tuple(values)


def amend_from(layer: Layer, changes: Given) -> None:
    """Make changes as seen from a layer: all of them, or none."""
    with amending():
        places: list[tuple[Layer, Key[Any], object]] = []
        given = {key for key, _ in changes}
        for key, value in changes:
            scope = scope_of(layer, key.bit)
            if scope is None:
                raise NoTurnError(key.name)
            places.append((scope, key, value))
            if key is SESSION_ID and PREVIOUS_SESSION_ID not in given:
                before = key.peek(scope)
                if before not in (UNSET, "", value) and value is not UNSET:
                    places.append((scope, PREVIOUS_SESSION_ID, before))
        for scope, key, value in places:
            if isinstance(scope, Turn):
                _remade(scope)  # entering it again starts from what it was given
            write(scope, key, value)
    if LINKED:
        here = current_layer()
        seen = {key for scope, key, _ in places if scope_of(here, key.bit) is scope}
        write_links(here, [key for key in LINKED if key in seen])
