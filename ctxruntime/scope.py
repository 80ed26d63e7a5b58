"""What puts keys in effect: `session`, `session.join`, `bind`, `cleared`; and what changes them: `amend`.

Each of the first four gives a *scope object*, to be used in any of four ways:

    with session(session_id="s1") as turn: ...          # also: async with
    scope.open(); ...; scope.close()                    # begin and end hooks; close from anywhere, twice
    @session(session_id="s1")                           # the whole body of a function of any kind

What `session(...)` returns is the turn's own layer itself, so that a live turn is one object. Whatever has to be
made anew for each entry (a bind inherits from where it is entered, a decorator serves many calls at once) is made
by a `Door`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import time
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast, final

from ctxruntime.decorating import Call, decorate
from ctxruntime.errors import InvalidValueError, NoTurnError
from ctxruntime.keys import (
    FRONTEND,
    GATEWAY_SESSION_KEY,
    KEYS,
    PREVIOUS_SESSION_ID,
    SESSION_ID,
    USER_ID,
    Key,
    admitted,
    find,
    require_key,
)
from ctxruntime.layers import (
    CURRENT,
    LEFT,
    LINKED,
    NOTHING,
    UNSET,
    Derived,
    Layer,
    Unset,
    amending,
    derive,
    enter,
    in_effect,
    leavable,
    leave,
    scope_of,
    write,
    write_links,
)
from ctxruntime.layers import current as current_layer

__all__ = ["Scope", "Turn", "amend", "bind", "cleared", "current", "current_turn", "session"]

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
        return self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


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
        # As in the base class, whose call would cost a tenth of a turn.
        self.session_id = self.gateway_session_key = self.previous_session_id = UNSET
        self.user_id = self.frontend = self.own0 = self.own1 = self.own2 = UNSET
        self.more = self.token = self.links = self.mirrored = self.derived = self.door = None
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

    def get(self, key: Key[T], default: D | Unset = UNSET, /) -> T | D:
        """Return the turn's own value of a key, whatever is in effect here.

        Raises:
            UnboundKeyError: the turn does not know the key, and there is no default.
        """
        value = require_key(key).peek(self)
        return cast("T", value if value is not UNSET else key.fallback(default))

    def amend(self, keys: Mapping[Key[Any], object] | None = None, /, **values: object) -> None:
        """Add or change facts of the turn itself, for all who serve it; see `amend`."""
        _amend(self, tuple(admitted(keys, values)))

    def __enter__(self) -> Turn:
        if self.token is not None:
            return _remade(self).open()
        self.token = _put(self)
        if LINKED:
            self.links = write_links(self, LINKED)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
        /,
    ) -> None:
        if _here() is self:
            leave(self)
        else:
            self.close()

    def open(self) -> Turn:
        """Put the turn in effect, for `close` to end it."""
        return self.__enter__()

    def close(self) -> None:
        """End the turn's newest entry that is still open, from any task or thread; again is harmless."""
        door = cast("_SessionDoor | None", self.door)
        if door is None or not door.close_newest(self):
            leave(self)

    def __call__(self, fn: F, /) -> F:
        """Decorate a function of any kind: each call is a turn of its own."""
        return _remade(self)(fn)

    def __repr__(self) -> str:
        shown = ((key.name, key.shown(key.peek(self))) for key in KEYS.values() if key.peek(self) is not UNSET)
        return f"<Turn {'ended ' if self.ended else ''}{' '.join(f'{name}={value}' for name, value in shown)}>"


def _remade(turn: Turn) -> _SessionDoor:
    """Return the door that makes this turn anew, with what it was given."""
    with amending():  # two threads that enter it at once are to share one door
        if turn.door is None:
            turn.door = _SessionDoor(_bound_in(turn), ())
    return cast("_SessionDoor", turn.door)


def _bound_in(layer: Layer) -> Given:
    return tuple((key, value) for key in KEYS.values() if (value := key.peek(layer)) is not UNSET)


# Doors


class Door(Scope[R_co], Generic[R_co, L]):
    """A scope object that makes a fresh layer for each entry, and knows which of them are open."""

    __slots__ = ("given", "opened")

    def __init__(self, given: Given) -> None:
        self.given = given
        self.opened: list[L] = []

    @property
    def asks(self) -> Mapping[Key[Any], Callable[..., object]]:
        """What is computed from the call in a decorator, by key."""
        return {key: value for key, value in self.given if callable(value)}

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

    def open(self) -> R_co:
        """Put the scope in effect, for `close` to end it."""
        layer = self.make()
        self.opened.append(layer)
        self.enter(layer)
        return self.result(layer)

    def close(self) -> None:
        """End the newest entry that is still open, from any task or thread; again is harmless."""
        self.close_newest()

    def close_newest(self, first: Layer | None = None) -> bool:
        """End the entry in effect here, else the newest that is open; tell whether there was one.

        `first` is an entry that is its own layer, and not among those opened.
        """
        opened = self.opened
        if not opened:
            return False
        here = next((layer for layer in in_effect() if layer is first or layer in opened), opened[-1])
        if here is first:
            return False
        try:
            opened.remove(cast("L", here))
        except ValueError:  # another thread closed it just now
            return False
        self.leave(cast("L", here))
        return True

    def leave(self, layer: L) -> None:
        """End one entry."""
        leave(layer)
        self.left(layer)

    def __call__(self, fn: F, /) -> F:
        """Decorate a function of any kind: the scope is in effect during its whole body."""
        return decorate(fn, self)


@final
class _SessionDoor(Door[Turn, Turn]):
    """Makes a turn for each entry."""

    __slots__ = ("take",)

    def __init__(self, given: Given, take: Iterable[Key[Any]]) -> None:
        super().__init__(given)
        self.take = tuple(require_key(key) for key in take)

    def make(self, call: Call | None = None) -> Turn:
        turn = Turn()
        turn.door = self
        if self.take:
            before = current_layer()
            for key in self.take:
                key.put(turn, key.of(before))
        for key, value in _resolved(self.given, call):
            if value is not UNSET or key not in self.take:
                key.put(turn, value)
        return turn

    def result(self, layer: Turn) -> Turn:
        return layer


@final
class _JoinDoor(Door[Turn, Layer]):
    """Joins the turn in effect where an identity says that it is the same, else enters one."""

    __slots__ = ()

    def make(self, call: Call | None = None) -> Layer:
        given = tuple(_resolved(self.given, call))
        known = {key: value for key, value in given if value not in (UNSET, "")}
        here = current_layer()
        turn: Turn | None = here.turn
        if turn is not None and _is_same(here, known):
            with amending():
                if not turn.ended:
                    turn.joined += 1
                    layer: Layer = derive(here)
                    layer.door = self
                    _amend(here, tuple(_to_add(here, known)))
                    return layer
        return _entered(given, self)

    def left(self, layer: Layer) -> None:
        if isinstance(layer, Derived):
            with amending():
                layer.turn.joined -= 1

    def result(self, layer: Layer) -> Turn:
        return cast("Turn", layer.turn)


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


def _entered(given: Iterable[tuple[Key[Any], object]], door: object) -> Turn:
    turn = Turn()
    turn.door = door
    for key, value in given:
        key.put(turn, value)
    return turn


@final
class _BindDoor(Door[None, Derived]):
    """Binds keys in a scope nested in the one where it is entered."""

    __slots__ = ()

    def make(self, call: Call | None = None) -> Derived:
        values = [(key.put, value) for key, value in _resolved(self.given, call)]
        binds = sum({key.bit for key, _ in self.given})
        if binds & SESSION_ID.bit and not binds & PREVIOUS_SESSION_ID.bit:
            # Another session: the one before it is not known, whatever the turn's was.
            binds |= PREVIOUS_SESSION_ID.bit
            values.append((PREVIOUS_SESSION_ID.put, UNSET))
        layer = derive(current_layer(), binds, values)
        layer.door = self
        return layer

    def enter(self, layer: Derived) -> None:
        enter(layer, [key for key in LINKED if key.bit & layer.binds] if LINKED else ())


@final
class _ClearedDoor(Door[None, Derived]):
    """Puts nothing in effect."""

    __slots__ = ()

    def make(self, call: Call | None = None) -> Derived:
        layer = derive(NOTHING)
        layer.door = self
        return layer


def _resolved(given: Given, call: Call | None) -> Iterable[tuple[Key[Any], object]]:
    """Yield what was given, with the callables of a decorator called."""
    for key, value in given:
        if not callable(value):
            yield key, value
        elif call is not None:
            yield key, key.admit(call.ask(value))
        else:
            raise InvalidValueError(
                key.name, "takes a function in a decorator only", "call it, and give what it returns"
            )


def _given(keys: Mapping[Key[Any], object] | None, values: Mapping[str, object]) -> Given:
    """Return what a door is given: callables as they are, all else checked now."""
    pairs = [(require_key(key), value) for key, value in (keys or {}).items()]
    pairs += [(find(name), value) for name, value in values.items()]
    return tuple((key, value if callable(value) else key.admit(value)) for key, value in pairs)


# The public verbs


if TYPE_CHECKING:  # not worth its import for the running program
    Value: TypeAlias = T | Unset | Callable[..., T | None] | None
    """What a key can be given: a value, None for "not known", or, in a decorator, what computes it from the call."""

    class SessionVerb(Protocol):
        """The shape of `session`: a function that has a `join`."""

        def __call__(
            self,
            keys: Mapping[Key[Any], object] | None = None,
            /,
            *,
            session_id: Value[str] = UNSET,
            gateway_session_key: Value[str] = UNSET,
            previous_session_id: Value[str] = UNSET,
            user_id: Value[str] = UNSET,
            frontend: Value[str] = UNSET,
            take: Iterable[Key[Any]] = (),
            **own: object,
        ) -> Scope[Turn]:
            """Enter a turn."""
            ...

        def join(self, keys: Mapping[Key[Any], object] | None = None, /, **values: object) -> Scope[Turn]:
            """Enter a further door of one turn."""
            ...


def _session(
    keys: Mapping[Key[Any], object] | None = None,
    /,
    *,
    session_id: Value[str] = UNSET,
    gateway_session_key: Value[str] = UNSET,
    previous_session_id: Value[str] = UNSET,
    user_id: Value[str] = UNSET,
    frontend: Value[str] = UNSET,
    take: Iterable[Key[Any]] = (),
    **own: object,
) -> Scope[Turn]:
    """Enter a turn: replace all keys, whoever spawned this task. What is not given is unbound.

    Whoever reads a key behind this door sees it: tasks, callbacks and threads that carry, until the scope is
    left; those who took it over see it longer, with `turn.ended` true.

    Args:
        keys: values by key, for your own keys and for type checkers.
        session_id: the session's id; None where it is not known yet (see `amend`).
        gateway_session_key: what a gateway calls the chat.
        previous_session_id: the id that `session_id` follows.
        user_id: who wrote.
        frontend: which frontend let the event in.
        take: keys that are taken over from the turn in effect, ended or not, where they are not given.
        own: values of your own keys, by name.

    Raises:
        InvalidValueError: a value is none that its key can hold. Nothing is bound then.
        UnknownKeyError: a name is none of a key.

    >>> with session(session_id="s1", gateway_session_key="agent:main:cli") as turn:
    ...     SESSION_ID.get(), turn.ended
    ('s1', False)
    >>> turn.ended, SESSION_ID.is_bound()
    (True, False)
    """
    turn = Turn()
    try:
        if session_id is not UNSET:
            turn.session_id = SESSION_ID.admit(session_id)
        if gateway_session_key is not UNSET:
            turn.gateway_session_key = GATEWAY_SESSION_KEY.admit(gateway_session_key)
        if previous_session_id is not UNSET:
            turn.previous_session_id = PREVIOUS_SESSION_ID.admit(previous_session_id)
        if user_id is not UNSET:
            turn.user_id = USER_ID.admit(user_id)
        if frontend is not UNSET:
            turn.frontend = FRONTEND.admit(frontend)
        if keys or own:
            for key, value in admitted(keys, own):
                key.put(turn, value)
    except InvalidValueError:
        own |= {
            "session_id": session_id,
            "gateway_session_key": gateway_session_key,
            "previous_session_id": previous_session_id,
            "user_id": user_id,
            "frontend": frontend,
        }
        if not any(map(callable, [*own.values(), *(keys or {}).values()])):
            raise
        return _SessionDoor(_given(keys, own), take)
    return _SessionDoor(_bound_in(turn), take) if take else turn


def _join(keys: Mapping[Key[Any], object] | None = None, /, **values: object) -> Scope[Turn]:
    """Enter a further door of one turn: gateway, then agent, then tool.

    It joins the turn in effect if an identity that it is given (`gateway_session_key`, which ranks before
    `session_id`) is in effect there and equal, and none of higher rank differs; what is missing is added
    then, and an id that differs is a rotation. Otherwise it enters a turn as `session` does. Facts such as
    `user_id` decide nothing, and one that differs keeps the turn's value.

    Raises:
        InvalidValueError: a value is none that its key can hold.
        UnknownKeyError: a name is none of a key.
    """
    return _JoinDoor(_given(keys, values))


_session.join = _join  # type: ignore[attr-defined]  # the shape is SessionVerb
_session.__name__ = _session.__qualname__ = "session"
_join.__name__, _join.__qualname__ = "join", "session.join"
session: Final = cast("SessionVerb", _session)  # an instance with a __call__ would cost twice a function's call


def bind(keys: Mapping[Key[Any], object] | None = None, /, **values: object) -> Scope[None]:
    """Put values in effect for a nested scope: all else is inherited, and seen again on leaving.

    A `session_id` that is bound is another session: `previous_session_id` is unbound with it unless given.
    None binds a key to "not known".

    Raises:
        InvalidValueError: a value is none that its key can hold. Nothing is bound then.
        UnknownKeyError: a name is none of a key.

    >>> with session(session_id="s1"), bind(session_id="child-1"):
    ...     SESSION_ID.get()
    'child-1'
    """
    return _BindDoor(_given(keys, values))


def cleared() -> Scope[None]:
    """Put nothing in effect: to start what belongs to the process, and outlives the turn that starts it.

    >>> with session(session_id="s1"), cleared():
    ...     SESSION_ID.get(None) is None
    True
    """
    return _ClearedDoor(())


def amend(keys: Mapping[Key[Any], object] | None = None, /, **values: object) -> None:
    """Add or change facts of the scope in effect, for all who serve it.

    Each key changes where it is bound: in the nearest scope that binds it, else in the turn. All holders see
    it: outer layers that await a copied task, sibling threads, snapshots, open spans; no other turn does. None
    unbinds. A known `session_id` that becomes another is a rotation: `previous_session_id` becomes the old one.

    Raises:
        NoTurnError: no scope in effect binds the key, and no turn is in effect. Nothing is changed then.
        InvalidValueError: a value is none that its key can hold. Nothing is changed then.
        UnknownKeyError: a name is none of a key.

    >>> with session(gateway_session_key="agent:main:discord:dm:7"):
    ...     amend(session_id="20261130_0911_ab12")
    ...     SESSION_ID.get()
    '20261130_0911_ab12'
    """
    _amend(current_layer(), tuple(admitted(keys, values)))


def _amend(layer: Layer, changes: Given) -> None:
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
        write_links(current_layer(), [key for key in LINKED if key in given])


def current() -> Mapping[str, object]:
    """Return what is in effect here, read-only, by name; empty if nothing is."""
    return MappingProxyType({key.name: key.get() for key in KEYS.values() if key.is_bound()})


def current_turn() -> Turn | None:
    """Return the turn in effect here, ended or not."""
    return cast("Turn | None", current_layer().turn)
