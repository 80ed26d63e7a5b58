"""The one ContextVar, the layers it holds, and how an amend reaches them.

A *layer* is what is in effect: one slot per key. Every scope that is entered puts a layer of its own into the
variable. A turn's own layer (`scope.Turn`) is the root; a `Derived` layer (a nested bind, a joined door, a
snapshot put in effect) holds the values of its parent, but for the keys that it binds itself.

Readers check nothing. What could change under them is brought to them instead:

- an *amend* writes into the layer that binds the key and into every layer that derives from it;
- a layer that was *left elsewhere* (from another task or thread, or under another layer) is swapped to a twin
  class, whose slots settle the variable before they answer.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock  # threading would cost what `import ctxruntime` must not
from _weakref import ref
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, cast, final

from ctxruntime.references import References

if TYPE_CHECKING:  # a checker narrows enum members; the enum module is too dear to import for one sentinel
    from collections.abc import Iterable, Iterator
    from enum import Enum
    from typing import Any, Final, Literal, TypeAlias

    class Unset(Enum):
        """The type of UNSET."""

        UNSET = "UNSET"

    UNSET: Final = Unset.UNSET
else:

    @final
    class Unset:
        """The type of UNSET."""

        __slots__ = ()

        def __repr__(self) -> str:
            return "UNSET"

        def __reduce__(self) -> str:
            return "UNSET"

        def __bool__(self) -> bool:
            return False

    UNSET = Unset()

BUILT_IN: Final = ("session_id", "gateway_session_key", "previous_session_id", "user_id", "frontend")
# Handed out to a program's own keys as it defines them; further ones live in `more`. Three, because a live turn
# with the five built-in keys is promised to take no more than 265 bytes.
SPARE: Final = ("own0", "own1", "own2")
PLACES: Final = (*BUILT_IN, *SPARE)

if TYPE_CHECKING:
    Bits: TypeAlias = int
    """A set of keys: the sum of their bits."""
    Links: TypeAlias = list[tuple[ContextVar[Any], Token[Any] | None]]
    """The variables of a host's that were written, and what resets each; None for what was amended meanwhile."""


class Layer:
    """What is in effect: the value of each key, or UNSET."""

    __slots__ = (
        *PLACES,
        "more",  # the values of keys that have no slot, by name; None while there are none
        "token",  # None before entering, the variable's Token while entered (HELD between two steps), LEFT after;
        # ELSEWHERE is read where the layer was left elsewhere
        "links",  # what to give back to linked variables on leaving
        "mirrored",  # what telemetry keeps for the layer; an amend calls its `outdate`
        "derived",  # the layers that an amend of this one must reach, weakly
        "door",  # the scope object that makes this layer anew
        "__weakref__",
    )
    if TYPE_CHECKING:
        session_id: object
        gateway_session_key: object
        previous_session_id: object
        user_id: object
        frontend: object
        own0: object
        own1: object
        own2: object
        more: dict[str, object] | None
        token: Token[Layer] | Literal["held", "left", "elsewhere"] | None
        links: Links | None
        mirrored: Any  # telemetry's, whatever it keeps
        derived: References[Derived] | None
        door: object

    is_root: bool = False  # whether it is a turn's own
    parent: Layer | None = None
    turn: Any = None  # scope.Turn, which is defined above this floor
    binds: Bits = 0
    taken: Bits = 0
    """The keys that a turn took over from the one that started it, and was not given."""

    def __init__(self) -> None:
        self.session_id = self.gateway_session_key = self.previous_session_id = UNSET
        self.user_id = self.frontend = self.own0 = self.own1 = self.own2 = UNSET
        self.more = self.token = self.links = self.mirrored = self.derived = self.door = None


# A token keeps the layer below alive: kept past leaving, turns that start turns would chain for ever.
LEFT: Final = "left"
HELD: Final = "held"
ELSEWHERE: Final = "elsewhere"

NOTHING: Final = Layer()
"""What is in effect where no scope is."""
CURRENT: Final[ContextVar[Layer]] = ContextVar("ctxruntime", default=NOTHING)
_get, _set, _reset = CURRENT.get, CURRENT.set, CURRENT.reset

LINKED: Final[list[Any]] = []
"""The keys that are linked to a variable of the host's, in the order they were defined."""
SUBSCRIBERS: Final[list[Any]] = []
"""Who is told of every entering and every amend; see `subscriptions`."""


def renew_in_child(namespace: dict[str, Any], *locks: str) -> None:
    """Have these locks of a module made anew in each forked child: a thread of the parent may have held one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: namespace.update((name, RLock()) for name in locks))


_lock = RLock()
renew_in_child(globals(), "_lock")
_amends = 0
"""How often a layer was written; under the lock."""
NO_GIL: Final = not getattr(sys, "_is_gil_enabled", lambda: True)()


# A layer that was left elsewhere


def _settling(name: str) -> property:
    slot: Any = Layer.__dict__[name]  # a member descriptor: typeshed has no type for a slot's

    def read(layer: Layer) -> object:
        return getattr(settle(), name) if _get() is layer else slot.__get__(layer)

    return property(read, slot.__set__)


_twins: dict[type[Layer], type[Layer]] = {}


_raw_token: Final[Any] = Layer.__dict__["token"]
_elsewhere: Final[Any] = property(lambda _: ELSEWHERE, _raw_token.__set__)


def _twin_of(cls: type[Layer]) -> type[Layer]:
    """Return the class that a layer of this one becomes when it is left elsewhere, made at the first need."""
    if cls.token is _elsewhere:  # another thread has left it just now
        return cls
    twin = _twins.get(cls)
    if twin is None:
        slots = {name: _settling(name) for name in (*PLACES, "more")}
        made = type(f"{cls.__name__}LeftElsewhere", (cls,), {"__slots__": (), "token": _elsewhere, **slots})
        # `type` called with three arguments is a plain `type`; of two threads that make one, the first has it
        twin = _twins.setdefault(cls, cast("type[Layer]", made))
    return twin


def settle() -> Layer:
    """Return the layer in effect, after unbinding here what was left elsewhere.

    A token tells whose context this is: where it resets, the scope was entered here, and its binding ends; where
    it does not, this context took the state over, keeps it, and gets an unmarked copy.
    """
    layer = _get()
    while layer.token is ELSEWHERE:
        try:
            _reset(_raw_token.__get__(layer))  # what is no token is the TypeError below
        except (ValueError, RuntimeError, TypeError):
            copy = derive(layer)
            _set(copy)
            return copy
        layer.token = LEFT
        restore_links(layer.links or [])
        layer.links = None
        layer.__class__ = type(layer).__base__  # type: ignore[assignment]  # a twin's base is its plain class
        layer = _get()
    return layer


def current() -> Layer:
    """Return the layer in effect; `NOTHING` outside any scope."""
    layer = _get()
    return settle() if layer.token is ELSEWHERE else layer


def in_effect() -> Iterator[Layer]:
    """Yield the layers that were entered here and not left, the newest first, as they stand."""
    layer: object = _get()
    while isinstance(layer, Layer) and isinstance(token := _raw_token.__get__(layer), Token):
        yield layer
        layer = token.old_value  # Token.MISSING where there was none before


# Entering and leaving


def enter(layer: Layer, linked: Iterable[Any] = LINKED) -> None:
    """Put a fresh layer in effect, and the values of `linked` keys into the variables they are linked to."""
    layer.token = _set(layer)
    if LINKED:
        layer.links = write_links(layer, linked)


def leave(layer: Layer) -> None:
    """End the layer's binding in the context that entered it, from wherever this is called. Never raises."""
    token = layer.token
    if token is None or token is LEFT or token is ELSEWHERE:
        return
    if _get() is layer:
        try:
            _reset(token)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # HELD: a TypeError
        except (ValueError, RuntimeError, TypeError):
            pass  # another context's: it unbinds itself when it reads next
        else:
            layer.token = LEFT
            if layer.links is not None:
                _unlink(layer)
            return
    for above in in_effect():
        if above is layer:
            break
        if above.links is None:
            above.links = []  # leaving it settles what it uncovers
    layer.__class__ = _twin_of(type(layer))


def has_ended(layer: Layer) -> bool:
    """Tell whether a layer that was entered has been left, by whomever."""
    token = layer.token
    return token is LEFT or token is ELSEWHERE


def _unlink(layer: Layer) -> None:
    restore_links(layer.links or [])
    layer.links = None
    current()  # a task that is started before anybody reads would take a left layer over


def write_links(layer: Layer, linked: Iterable[Any]) -> Links:
    """Write what `layer` holds of the linked keys into their variables; return what undoes it."""
    links: Links = []
    for key in linked:
        value = key.of(layer)
        links.append((key.link.var, key.link.var.set(key.link.unset if value is UNSET else value)))
    return links


def restore_links(links: Links) -> None:
    """Give the variables back what they held; where they cannot be reset, this context never wrote them."""
    for var, token in reversed(links):
        if token is not None:
            with suppress(ValueError, RuntimeError):
                var.reset(token)
    amended = [var for var, token in links if token is None]
    here = _get()
    for key in LINKED if amended else ():  # what they held is what the scope knew before
        if key.link.var in amended and (here.turn is not None or key.of(here) is not UNSET):
            write_links(here, [key])


def relink(amended: Iterable[tuple[Layer, Any]]) -> None:
    """Write linked keys that were amended in a scope into their variables, here and wherever leaving leads to."""
    here = current()
    for scope, key in amended:
        if scope_of(here, key.bit) is scope:
            write_links(here, [key])
        mark = (key.link.var, None)
        for layer in in_effect():
            if layer is scope:
                break
            if mark not in (layer.links or ()):
                layer.links = [*(layer.links or ()), mark]


# Deriving and amending


class Derived(Layer):
    """A layer that holds its parent's values, but for the keys that it binds itself."""

    __slots__ = ("binds", "parent", "turn")
    if TYPE_CHECKING:
        parent: Layer | None
        turn: Any
        binds: Bits

    def __init__(self) -> None:  # the values are the parent's, and copied
        layer: Any = self
        layer.more = layer.token = layer.links = layer.mirrored = layer.derived = layer.door = None


def derive(parent: Layer, binds: Bits = 0) -> Derived:
    """Make a layer of the parent's values, in which `binds` are bound to what the caller then puts there."""
    layer = Derived()
    layer.binds = binds
    inherit(layer, parent)
    return layer


def inherit(layer: Derived, parent: Layer) -> None:
    """Give a new layer its parent, and the values that are in effect there.

    It is registered first: an amend that goes by while it copies is written to it, or makes it copy again.
    """
    layer.turn = parent if parent.is_root else parent.turn
    layer.parent = None if parent is NOTHING else parent
    amends, token = _amends, parent.token
    if parent is not NOTHING:
        derived = parent.derived
        if derived is None:
            derived = _derived_of(parent)
        derived.append(ref(layer))
        if len(derived) > derived.room:
            with _lock:
                derived.tidy()
    if token is not ELSEWHERE:
        layer.session_id = parent.session_id
        layer.gateway_session_key = parent.gateway_session_key
        layer.previous_session_id = parent.previous_session_id
        layer.user_id = parent.user_id
        layer.frontend = parent.frontend
        layer.own0 = parent.own0
        layer.own1 = parent.own1
        layer.own2 = parent.own2
        layer.more = parent.more
    # Amended or left elsewhere with half of it copied, maybe settled too; without the GIL nobody can tell.
    if token is ELSEWHERE or parent.token is not token or amends != _amends or NO_GIL:
        with _lock:
            for slot in _RAW_SLOTS:  # past those of a twin, which would settle the variable first
                slot.__set__(layer, slot.__get__(parent))


def _derived_of(parent: Layer) -> References[Derived]:
    with _lock:  # two threads that derive from it at once are to share one list
        if parent.derived is None:
            parent.derived = References()
        return parent.derived


_RAW_SLOTS: Final[list[Any]] = [Layer.__dict__[name] for name in (*PLACES, "more")]


def scope_of(layer: Layer, bit: Bits) -> Layer | None:
    """Return the nearest layer that binds a key, else the turn's own; None where there is neither."""
    at: Layer | None = layer
    while at is not None:
        if at.binds & bit or at.is_root:
            return at
        at = at.parent
    return None


def write(layer: Layer, key: Any, value: object) -> None:
    """Write one key where it is bound, and into every layer that derives from there and does not shadow it."""
    global _amends
    key.put(layer, value)
    _amends += 1  # between what a new layer may have copied, and who is looked up to be told
    if layer.mirrored is not None:
        layer.mirrored.outdate()
    for reference in tuple(layer.derived or ()):
        derived = reference()
        if derived is not None and not derived.binds & key.bit:
            write(derived, key, value)


def tell_entered(layer: Layer) -> None:
    """Tell the subscribers that a layer was entered."""
    for subscriber in SUBSCRIBERS.copy():
        subscriber.entered(layer)


def tell_amended(places: Iterable[tuple[Layer, Any, object]]) -> None:
    """Tell the subscribers which keys were amended, scope by scope. No lock may be held."""
    by_scope: dict[Layer, list[Any]] = {}
    for scope, key, _ in places:
        by_scope.setdefault(scope, []).append(key)
    for subscriber in SUBSCRIBERS.copy():
        for scope, keys in by_scope.items():
            subscriber.amended(scope, keys)


def amending() -> RLock:
    """Return the lock to hold while layers are looked up and written."""
    return _lock
