"""What puts keys in effect: `session`, `session.join` and `cleared`; and what changes them: `amend`.

Each of the first three, and `bind`, gives a *scope object*, to be used in any of four ways:

    with session(session_id="s1") as turn: ...          # also: async with
    scope.open(); ...; scope.close()                    # begin and end hooks; close from anywhere, twice
    @session(session_id="s1")                           # the whole body of a function of any kind
"""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, cast, overload

from ctxruntime.keys import (
    FRONTEND,
    GATEWAY_SESSION_KEY,
    KEYS,
    PREVIOUS_SESSION_ID,
    SESSION_ID,
    USER_ID,
    Generic,
    admitted,
    plain,
    require_key,
)
from ctxruntime.layers import (
    BUILT_IN,
    CURRENT,
    HELD,
    LINKED,
    SUBSCRIBERS,
    UNSET,
    Layer,
    has_ended,
    in_effect,
    leave,
    tell_entered,
    write_links,
)
from ctxruntime.layers import current as current_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Final, ParamSpec, Protocol, TypeAlias, TypeVar

    from ctxruntime.doors import Door, Given, SessionDoor
    from ctxruntime.keys import Key
    from ctxruntime.layers import Unset

    T = TypeVar("T")
    D = TypeVar("D")
    R_co = TypeVar("R_co", covariant=True)
    F = TypeVar("F", bound=Callable[..., Any])
    P = ParamSpec("P")
    Value: TypeAlias = T | Unset | Callable[..., T | None] | None
    """What a key can be given: a value, None for "not known", or, in a decorator, what computes it from the call."""

    class Session(Protocol[P]):
        """The shape of `session`: a function that has a `join`."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Scope[Turn]:
            """Enter a turn."""
            ...

        def join(self, keys: Mapping[Key[Any], object] | None = None, /, **values: object) -> Scope[Turn]:
            """Enter a further door of one turn."""
            ...


else:
    R_co = "R_co"

__all__ = ["Scope", "Turn", "amend", "cleared", "current", "current_turn", "session"]

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

    def __exit__(self, kind: object, error: object, trace: object, /) -> None:
        self.close()

    async def __aenter__(self) -> R_co:
        if not SUBSCRIBERS:
            return self.__enter__()
        from ctxruntime.subscriptions import entered_async

        return await entered_async(self.__enter__, lambda _: self.__exit__(None, None, None))

    async def __aexit__(self, kind: object, error: object, trace: object, /) -> None:
        self.__exit__(kind, error, trace)


class Once(Layer, Scope[R_co]):
    """A scope object that is the layer of its own first entry; what makes further ones is a door."""

    __slots__ = ()

    def again(self) -> Door[Any, Any]:
        """Return the door that makes a layer of this one's for each further entry."""
        raise NotImplementedError

    def __exit__(self, kind: object = None, error: object = None, trace: object = None, /) -> None:
        door: Any = self.door  # a Door, if any; cast() would cost a fiftieth of a turn
        if _here() is self or door is None or not (door.within or has_ended(self)) or self._entry_here(door) is self:
            leave(self)
        else:
            door.__exit__(kind, error, trace)

    def _entry_here(self, door: object) -> Any:
        return next((layer for layer in in_effect() if layer is self or layer.door is door), None)

    def open(self) -> R_co:
        """Put the scope in effect, for `close` to end it."""
        return self.__enter__() if self.token is None else self.again().open()

    def close(self) -> None:
        """End the scope, from any task or thread; again is harmless.

        A scope object that was entered more than once ends the entry in effect here, else the newest.
        """
        door: Any = self.door
        if door is None:
            leave(self)
        elif self in door.opened:
            door.end(self)
        else:
            entry = self._entry_here(door)
            if entry is self:
                door.within.append(self)  # its block, if it has one, is still to be left
                leave(self)
            elif not (door.end(entry) or entry):
                leave(self)

    def __call__(self, fn: F, /) -> F:
        """Decorate a function of any kind: the scope is in effect during its whole body."""
        return self.again()(fn)


class Turn(Once["Turn"]):
    """One event let in at one entry point, and all work done for it.

    `session(...)` makes it; `current_turn()` finds it. It can be kept and read after it has ended.
    """

    __slots__ = ("joined", "started_at")

    is_root = True
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
        return has_ended(self) and not self.joined

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
        _amend_from(self, admitted(keys, values))

    def __enter__(self) -> Turn:
        if self.token is not None:
            return self.again().__enter__()
        layer: Layer = self
        layer.token = HELD  # of two threads that enter it at once, one does
        layer.token = _put(layer)
        if LINKED:
            layer.links = write_links(layer, LINKED)
        if SUBSCRIBERS:
            tell_entered(layer)
        return self

    def again(self) -> SessionDoor:
        """Return the door that makes a turn of this one's for each further entry."""
        return _remade(self)

    def __repr__(self) -> str:
        shown = ((key.name, key.shown(key.peek(self))) for key in KEYS.values() if key.peek(self) is not UNSET)
        return f"<Turn {'ended ' if self.ended else ''}{' '.join(f'{name}={value}' for name, value in shown)}>"


def _remade(turn: Turn) -> SessionDoor:
    """Load the doors with the first of them, and step out of the way."""
    global _remade
    from ctxruntime.doors import remade as _remade

    return _remade(turn)


def _amend_from(layer: Layer, changes: Given) -> None:
    global _amend_from  # as above
    from ctxruntime.amending import amend_from as _amend_from

    _amend_from(layer, changes)


# The public verbs


def _join(keys: Mapping[Key[Any], object] | None = None, /, **values: object) -> Scope[Turn]:
    """Enter a further door of one turn: gateway, then agent, then tool.

    It joins the turn in effect if an identity that it is given (`gateway_session_key`, which ranks before
    `session_id`) is in effect there and equal, and none of higher rank differs; what is missing is added
    then, and an id that differs is a rotation. Otherwise it enters a turn as `session` does. Facts such as
    `user_id` decide nothing, and one that differs keeps the turn's value.

    Raises:
        InvalidValueError: a value is none that its key can hold, or a key is given twice.
        UnknownKeyError: a name is none of a key.
    """
    from ctxruntime.doors import JoinDoor, given

    return JoinDoor(given(keys, values))


_join.__name__, _join.__qualname__ = "join", "session.join"


def _with_join(verb: Callable[P, Scope[Turn]]) -> Session[P]:
    verb.join = _join  # type: ignore[attr-defined]  # an instance with a __call__ would cost twice a function's call
    return cast("Session[P]", verb)


@_with_join
def session(
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

    All behind this door see it (tasks, callbacks, threads that carry), and keep it when the scope is left, with
    `turn.ended` true.

    Args:
        keys: values by key, for your own keys and for type checkers.
        session_id, gateway_session_key, previous_session_id, user_id, frontend: values of the built-in keys; None
            for what is not known yet (see `amend`).
        take: keys that are taken over from the turn in effect, ended or not, where they are not given.
        own: values of your own keys, by name.

    Raises:
        InvalidValueError: a value is none that its key can hold, or a key is given twice. Nothing is bound then.
        UnknownKeyError: a name is none of a key.

    >>> with session(session_id="s1", gateway_session_key="agent:main:cli") as turn:
    ...     SESSION_ID.get(), turn.ended
    ('s1', False)
    >>> turn.ended, SESSION_ID.is_bound()
    (True, False)
    """
    if not take and (not keys or _BUILT_IN.isdisjoint(keys)):
        turn = Turn()
        try:
            if session_id is not UNSET:
                turn.session_id = plain(session_id) or SESSION_ID.admit(session_id)
            if gateway_session_key is not UNSET:
                turn.gateway_session_key = plain(gateway_session_key) or GATEWAY_SESSION_KEY.admit(gateway_session_key)
            if previous_session_id is not UNSET:
                turn.previous_session_id = plain(previous_session_id) or PREVIOUS_SESSION_ID.admit(previous_session_id)
            if user_id is not UNSET:
                turn.user_id = plain(user_id) or USER_ID.admit(user_id)
            if frontend is not UNSET:
                turn.frontend = plain(frontend) or FRONTEND.admit(frontend)
            if keys or own:
                for key, value in admitted(keys, own):
                    key.put(turn, value)
        except ValueError:
            pass  # a function that computes a value, or what is refused again below
        else:
            return turn
    from ctxruntime.doors import session_door

    given = zip(BUILT_IN, (session_id, gateway_session_key, previous_session_id, user_id, frontend), strict=True)
    return session_door(keys, own | {name: value for name, value in given if value is not UNSET}, take)


_BUILT_IN: Final = frozenset((SESSION_ID, GATEWAY_SESSION_KEY, PREVIOUS_SESSION_ID, USER_ID, FRONTEND))


def cleared() -> Scope[None]:
    """Put nothing in effect: to start what belongs to the process, and outlives the turn that starts it."""
    from ctxruntime.doors import ClearedDoor

    return ClearedDoor([])


def amend(keys: Mapping[Key[Any], object] | None = None, /, **values: object) -> None:
    """Add or change facts of the scope in effect, for all who serve it.

    Each key changes where it is bound: in the nearest scope that binds it, else in the turn. All holders see
    it: outer layers that await a copied task, sibling threads, snapshots, open spans; no other turn does. None
    unbinds. A known `session_id` that becomes another is a rotation: `previous_session_id` becomes the old one.

    Raises:
        NoTurnError: no scope in effect binds the key, and no turn is in effect. Nothing is changed then.
        InvalidValueError: a value is none that its key can hold, or a key is given twice. Nothing is changed then.
        UnknownKeyError: a name is none of a key.

    >>> with session(gateway_session_key="agent:main:discord:dm:7"):
    ...     amend(session_id="20261130_0911_ab12")
    ...     SESSION_ID.get()
    '20261130_0911_ab12'
    """
    _amend_from(current_layer(), admitted(keys, values))


def current() -> Mapping[str, object]:
    """Return what is in effect here, read-only, by name; empty if nothing is."""
    from ctxruntime.effective import effective

    return effective()


def current_turn() -> Turn | None:
    """Return the turn in effect here, ended or not."""
    return cast("Turn | None", current_layer().turn)
