"""What can be ambient: typed keys, each read like a context variable.

    TENANT = Key("tenant", str, attributes="tenant.id")

    with session(session_id="s1", tenant="acme"):
        TENANT.get()                # "acme"

A key has the contract of `contextvars.ContextVar` for its readers: `get()`, `get(default)`, a `LookupError`
when nothing binds it, a value that tasks take along. All keys share one variable (see `layers`).
"""

from __future__ import annotations

import builtins
from _operator import attrgetter
from types import GenericAlias
from typing import TYPE_CHECKING, cast, final, overload

from ctxruntime.layers import BUILT_IN, CURRENT, LINKED, PLACES, UNSET, Layer, amending, current

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import ContextVar
    from typing import Any, Final, Literal, TypeAlias, TypeVar
    from typing import Generic as Generic  # for `scope`

    from ctxruntime.errors import InvalidValueError
    from ctxruntime.layers import Bits, Unset
    from ctxruntime.values import Problem

    T = TypeVar("T")
    D = TypeVar("D")
    Inject: TypeAlias = Literal["any", "named", "marked", "never"]
    Redact: TypeAlias = Literal["hash", "drop"]
else:
    T = "T"

    class Generic:
        """What `typing.Generic` is to annotations, without its cost: a tenth of `import ctxruntime` for each class."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


__all__ = [
    "FRONTEND",
    "GATEWAY_SESSION_KEY",
    "PREVIOUS_SESSION_ID",
    "SESSION_ID",
    "USER_ID",
    "Key",
    "Link",
]

MAX_TEXT: Final = 1024
"""The most characters that a text value may have, and bytes a `bytes` value."""

KEYS: Final[dict[str, Key[Any]]] = {}
"""Every key of the process, by name."""
REVISIONS: Final[list[str]] = []  # of the keys: a definition, or another redaction; by its length, what holds still
ANYWHERE: Final[list[Key[Any]]] = []
"""The keys that go into `**kwargs` too."""

_here = CURRENT.get


@final
class Link(Generic[T]):
    """Tie a key to a context variable of the host's, which holds `unset` where the key is not known."""

    __slots__ = ("unset", "var")

    def __init__(self, var: ContextVar[Any], unset: object) -> None:
        self.var: ContextVar[Any] = var
        self.unset: object = unset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Link) and self.var is other.var and self.unset == other.unset

    def __hash__(self) -> int:
        return hash(self.var)


@final
class Key(Generic[T]):
    """Define a named, typed ambient value.

    Defining a key of the same name alike again returns the key that is there.

    Args:
        name: an identifier, and not `take`; handlers and `session(...)` know the key by it.
        type: `str`, `int`, `float`, `bool`, `bytes`, `UUID`, `datetime`, an `Enum`, `tuple` or `tuple[...]`.
        attributes: the name, or names, under which telemetry shows it.
        default: what reading and injection give where nothing binds it; never mirrored.
        redact: `"hash"` or `"drop"` it in everything mirrored or printed.
        wire: whether it may leave the program, in headers and child environments.
        inject: `"any"` handler that accepts it, `**kwargs` included; parameters `"named"` after it; only where
            the handler has it `"marked"`; or `"never"`.
        link: a context variable of the host's to keep in step (`Link`).

    Raises:
        DuplicateKeyError: a key of this name is defined, and not alike.
        InvalidValueError: the name, the type or the default is none that a key can have.

    >>> COLOUR = Key("doc_colour", str)
    >>> COLOUR.get("none")
    'none'
    """

    __slots__ = (
        "attributes",
        "bit",
        "default",
        "inject",
        "items",
        "link",
        "name",
        "of",
        "peek",
        "place",
        "put",
        "redacted",
        "type",
        "wire",
    )

    name: str
    type: builtins.type[T]
    attributes: tuple[str, ...]
    default: T | Unset
    redacted: Redact | None
    wire: bool
    inject: Inject
    link: Link[T] | None
    items: tuple[Any, ...]
    bit: Bits
    place: str | None
    """The name of its slot in the layers, if it has one."""
    of: Callable[[Layer], Any]
    """The value in a layer as its readers see it, or UNSET."""
    peek: Callable[[Layer], Any]
    """The value in a layer as it stands there, whatever became of the layer."""
    put: Callable[[Layer, object], None]

    @overload
    def __new__(
        cls,
        name: str,
        *,
        attributes: str | tuple[str, ...] = (),
        default: str | Unset = UNSET,
        redact: Redact | None = None,
        wire: bool = False,
        inject: Inject = "named",
        link: Link[str] | None = None,
    ) -> Key[str]: ...
    @overload
    def __new__(
        cls,
        name: str,
        type: builtins.type[T],
        *,
        attributes: str | tuple[str, ...] = (),
        default: T | Unset = UNSET,
        redact: Redact | None = None,
        wire: bool = False,
        inject: Inject = "named",
        link: Link[T] | None = None,
    ) -> Key[T]: ...
    def __new__(
        cls,
        name: str,
        type: builtins.type[Any] = str,
        *,
        attributes: str | tuple[str, ...] = (),
        default: Any = UNSET,
        redact: Redact | None = None,
        wire: bool = False,
        inject: Inject = "named",
        link: Link[Any] | None = None,
    ) -> Key[Any]:
        """Define the key, or return the one that is defined alike."""
        key: Key[Any] = object.__new__(cls)
        key.name, key.type, key.items = name, type, ()
        key.attributes = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        key.default, key.redacted, key.wire, key.inject, key.link = default, redact, wire, inject, link
        if len(KEYS) >= len(BUILT_IN):  # those are right, and checking them is not worth a module's import
            from ctxruntime.values import check_definition

            check_definition(key)
        if defined := KEYS.get(name):
            from ctxruntime.values import check_alike

            check_alike(defined, key)
            return defined
        _place(key)
        return key

    @property
    def redact(self) -> Redact | None:
        """How it is mirrored and printed; a program may set that of a built-in key, before its first turn."""
        return self.redacted

    @redact.setter
    def redact(self, how: Redact | None) -> None:
        self.redacted = how
        REVISIONS.append(self.name)

    @overload
    def get(self, /) -> T: ...
    @overload
    def get(self, default: D, /) -> T | D: ...
    def get(self, default: Any = UNSET, /) -> Any:
        """Return the value in effect here, else `default`, else the key's default.

        Raises:
            UnboundKeyError: nothing binds the key, and there is no default. It is a `LookupError`.
        """
        value = self.of(_here())
        return value if value is not UNSET else self.fallback(default)

    def fallback(self, default: Any = UNSET) -> Any:
        """Return what reading gives where no layer binds the key: linked variable, defaults, or the error."""
        value = self.linked()
        return value if value is not UNSET else self.default_or_error(default)

    def default_or_error(self, default: Any = UNSET) -> Any:
        """Return the default that is given, else the key's own, else raise UnboundKeyError."""
        value = default if default is not UNSET else self.default
        if value is UNSET:
            from ctxruntime.errors import UnboundKeyError

            raise UnboundKeyError(self.name)
        return value

    def is_bound(self) -> bool:
        """Tell whether the key has a value here; its default is none."""
        return self.of(_here()) is not UNSET or self.linked() is not UNSET

    def linked(self) -> Any:
        """Return what the linked variable holds outside any turn, or UNSET."""
        link = self.link
        if link is None or current().turn is not None:
            return UNSET
        value = link.var.get(UNSET)
        return UNSET if value == link.unset else value

    def check(self, value: T) -> T:
        """Return the value if the key can hold it.

        Raises:
            InvalidValueError: what entering with it would raise.
        """
        if problem := _problem_of(value, self.type, self.items):
            raise invalid(self.name, *problem)
        return value

    def admit(self, value: object) -> Any:
        """Return what a layer holds for a value that was given: UNSET for None, which means "not known"."""
        if self.type is str and plain(value):
            return value
        if value is None or value is UNSET:
            return UNSET
        return self.check(cast("T", value))

    def shown(self, value: object) -> str:
        """Return how people are shown a value of this key."""
        return repr(value) if self.redact is None else "<redacted>"

    def __repr__(self) -> str:
        return f"<Key {self.name}: {self.type.__name__}>"

    def __reduce__(self) -> tuple[Callable[[str], Key[Any]], tuple[str]]:
        return find, (self.name,)


def plain(value: object) -> str | None:
    """Return a value that every text key can hold: nearly always, and at the way in of every message."""
    return value if type(value) is str and value.isprintable() and len(value) <= MAX_TEXT else None


def _problem_of(value: object, kind: builtins.type[Any], items: tuple[Any, ...]) -> Problem | None:
    """Load the checks upon the first value that is not plain text, and step out of their way."""
    global _problem_of
    from ctxruntime.values import problem_of as _problem_of

    return _problem_of(value, kind, items)


def invalid(key: str, reason: str, advice: str) -> InvalidValueError:
    """Return the error to raise; its module is loaded with the first one."""
    from ctxruntime.errors import InvalidValueError

    return InvalidValueError(key, reason, advice)


def find(name: str) -> Key[Any]:
    """Return the key of this name.

    Raises:
        UnknownKeyError: there is none; says which one may have been meant.
    """
    key = KEYS.get(name)
    if key is not None:
        return key
    from difflib import get_close_matches

    from ctxruntime.errors import UnknownKeyError

    near = get_close_matches(str(name), KEYS, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"define it first, Key({name!r}, str)"
    raise UnknownKeyError(str(name), advice)


def require_key(thing: object) -> Key[Any]:
    """Return `thing` if it is a Key, else say what was expected."""
    if isinstance(thing, Key):
        return cast("Key[Any]", thing)  # type: ignore[redundant-cast]  # not to pyright
    from ctxruntime.errors import UnknownKeyError

    raise UnknownKeyError(str(thing)[:40], "a Key object is expected here, such as SESSION_ID")


def named(keys: Mapping[Key[Any], object] | None, values: Mapping[str, object]) -> Mapping[str, object]:
    """Return everything that was given, by object or by name, by name.

    Raises:
        InvalidValueError: a key was given both ways.
        UnknownKeyError: what should be a key is none.
        TypeError: what should be a mapping by key is none.
    """
    if not keys:
        return values
    if not hasattr(keys, "items"):
        raise TypeError(
            f"values are given by name, session_id=..., or in a mapping by Key, not in {type(keys).__name__}"
        )
    given = dict(values)
    for key, value in keys.items():
        if require_key(key).name in given:
            raise invalid(key.name, "is given twice", "give it once, by key or by name")
        given[key.name] = value
    return given


def admitted(keys: Mapping[Key[Any], object] | None, values: Mapping[str, object]) -> list[tuple[Key[Any], object]]:
    """Return every key that was given, by object or by name, with its value as a layer holds it."""
    given: list[tuple[Key[Any], object]] = []
    for name, value in (named(keys, values) if keys else values).items():
        key = KEYS.get(name) or find(name)
        given.append((key, value if plain(value) and key.type is str else key.admit(value)))
    return given


# Defining


def _place(key: Key[Any]) -> None:
    """Give a new key its bit and its slot in the layers: a spare one, else a name among the further ones."""
    number = len(KEYS)
    key.bit = 1 << number
    key.place = PLACES[number] if number < len(PLACES) else None
    if key.place is None:
        key.of, key.peek, key.put = _further(key.name)
    else:
        slot: Any = Layer.__dict__[key.place]
        key.of, key.peek, key.put = attrgetter(key.place), slot.__get__, slot.__set__
    KEYS[key.name] = key
    REVISIONS.append(key.name)
    if key.inject == "any":
        ANYWHERE.append(key)
    if key.link is not None:
        LINKED.append(key)


def _further(
    name: str,
) -> tuple[Callable[[Layer], Any], Callable[[Layer], Any], Callable[[Layer, object], None]]:
    raw: Any = Layer.__dict__["more"]

    def of(layer: Layer) -> Any:
        more = layer.more
        return UNSET if more is None else more.get(name, UNSET)

    def peek(layer: Layer) -> Any:
        more = raw.__get__(layer)
        return UNSET if more is None else more.get(name, UNSET)

    def put(layer: Layer, value: object) -> None:
        with amending():  # another thread may put another key
            layer.more = {**(raw.__get__(layer) or {}), name: value}

    return of, peek, put


SESSION_ID: Final = Key("session_id", str, attributes="session.id", inject="any")
GATEWAY_SESSION_KEY: Final = Key("gateway_session_key", str, attributes="gateway.session_key", inject="any")
PREVIOUS_SESSION_ID: Final = Key("previous_session_id", str, attributes="session.previous_id", inject="marked")
USER_ID: Final = Key("user_id", str, attributes="user.id", inject="marked")
FRONTEND: Final = Key("frontend", str, attributes="frontend", inject="marked")
