"""What puts keys in effect: `session`, `session.join`, `bind`, `cleared`; and what changes them: `amend`.

Each of the first four gives a *scope object*, to be used in any of four ways:

    with session(session_id="s1") as turn: ...          # also: async with
    scope.open(); ...; scope.close()                    # begin and end hooks; close from anywhere, twice
    @session(session_id="s1")                           # the whole body of a function of any kind
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, cast, final

from ctxruntime.decorating import Call
from ctxruntime.errors import InvalidValueError
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
    LINKED,
    NOTHING,
    UNSET,
    Bits,
    Derived,
    Layer,
    Unset,
    amending,
    derive,
    enter,
)
from ctxruntime.layers import current as current_layer
from ctxruntime.turns import Door, Given, Scope, SessionDoor, Turn, amend_from, bound_in, is_question, resolved

__all__ = ["Scope", "Turn", "amend", "bind", "cleared", "current", "current_turn", "session"]

T = TypeVar("T")


@final
class _JoinDoor(Door[Turn, Layer]):
    """Joins the turn in effect where an identity says that it is the same, else enters one."""

    __slots__ = ()

    def make(self, call: Call | None = None) -> Layer:
        given = tuple(resolved(self.given, call))
        known = {key: value for key, value in given if value not in (UNSET, "")}
        here = current_layer()
        turn: Turn | None = here.turn
        if turn is not None and _is_same(here, known):
            with amending():
                if not turn.ended:
                    turn.joined += 1
                    layer: Layer = derive(here)
                    layer.door = self
                    amend_from(here, tuple(_to_add(here, known)))
                    return layer
        return _entered(given, self)

    def enter(self, layer: Layer) -> None:
        enter(layer, () if isinstance(layer, Derived) else LINKED)

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

    __slots__ = ("binds",)

    def __init__(self, given: Given) -> None:
        binds = 0
        for key, _ in given:
            binds |= key.bit
        if binds & SESSION_ID.bit and not binds & PREVIOUS_SESSION_ID.bit:
            # Another session: the one before it is not known, whatever the turn's was.
            binds |= PREVIOUS_SESSION_ID.bit
            given = (*given, (PREVIOUS_SESSION_ID, UNSET))
        super().__init__(given)
        self.binds: Bits = binds

    def make(self, call: Call | None = None) -> Derived:
        layer = derive(current_layer(), self.binds)
        for key, value in resolved(self.given, call):
            key.put(layer, value)
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


def _given(keys: Mapping[Key[Any], object] | None, values: Mapping[str, object]) -> Given:
    """Return what a door is given: callables as they are, all else checked now."""
    pairs = [(require_key(key), value) for key, value in keys.items()] if keys else []
    for name, value in values.items():
        pairs.append((KEYS.get(name) or find(name), value))
    return tuple([(key, value if is_question(value, key) else key.admit(value)) for key, value in pairs])


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
        return SessionDoor(_given(keys, own), take)
    return SessionDoor(bound_in(turn), take) if take else turn


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
    amend_from(current_layer(), tuple(admitted(keys, values)))


def current() -> Mapping[str, object]:
    """Return what is in effect here, read-only, by name; empty if nothing is."""
    return MappingProxyType({key.name: key.get() for key in KEYS.values() if key.is_bound()})


def current_turn() -> Turn | None:
    """Return the turn in effect here, ended or not."""
    return cast("Turn | None", current_layer().turn)
