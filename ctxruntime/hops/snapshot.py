"""What is captured on one side of a hop and put in effect on the other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial, wraps
from types import CoroutineType, FunctionType, MethodType, TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, final, overload

from ctxruntime.decorating import Call, decorate
from ctxruntime.generators import Held, answering_like, held_body, held_coroutine, kind_of
from ctxruntime.layers import CURRENT, Derived, Layer, current, derive, enter, in_effect, leave

if TYPE_CHECKING:  # pickle is loaded when something is pickled
    from ctxruntime.hops.plain import PlainDoor, PlainKeys

__all__ = ["Snapshot", "capture", "carry"]

_here = CURRENT.get

P = ParamSpec("P")
R = TypeVar("R")
Y = TypeVar("Y")
S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., Any])


@final
class Snapshot:
    """The state of one flow, to be put in effect in others; `capture()` makes it.

    It can be used by many threads at once, nested, and again. What the turn that was
    captured learns later (`amend`) is seen in it too.

    >>> from ctxruntime import SESSION_ID, capture, session
    >>> with session(session_id="s1"):
    ...     snapshot = capture()
    >>> with snapshot:
    ...     SESSION_ID.get()
    's1'
    """

    __slots__ = ("_context", "_entries", "_layer")

    def __init__(self, layer: Layer, context: Context) -> None:
        self._layer = layer
        self._context = context
        self._entries: list[Layer] = []

    def run(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` in a copy of the whole context that was captured; what it sets there is thrown away.

        A coroutine that it returns runs in that copy too; a generator has the keys in effect at each step.
        """
        context = self._context.copy()
        result = context.run(fn, *args, **kwargs)
        if type(result) is CoroutineType:
            inside = _Inside(cast("Any", result), context)
            return cast("R", held_coroutine(cast("Any", inside), Held(derive(self._layer))))
        return cast("R", held_body(result, Held(derive(self._layer))))

    def wrap(self, fn: F) -> F:
        """Return a callable that runs `fn` as `run` does."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return self.run(fn, *args, **kwargs)

        return cast("F", wraps(fn)(answering_like(cast("FunctionType", wrapped), kind_of(fn))))

    def __enter__(self) -> None:
        """Put the keys alone in effect here: for an item that rode a queue."""
        layer = derive(self._layer)
        layer.door = self
        enter(layer)
        self._entries.append(layer)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        here = _here()
        entry = here if here.door is self else next((layer for layer in in_effect() if layer.door is self), None)
        if entry is None and len(self._entries) == 1:  # left from another context, and no doubt which one
            entry = self._entries[0]
        if entry is not None:
            if entry in self._entries:
                self._entries.remove(entry)
            leave(entry)

    async def __aenter__(self) -> None:
        """Put the keys alone in effect here."""
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.__exit__(kind, error, trace)


@final
class _Inside:
    """A coroutine each step of which runs in one context."""

    __slots__ = ("__name__", "__qualname__", "_body", "_context")

    def __init__(self, body: CoroutineType[Any, Any, Any], context: Context) -> None:
        self._body = body
        self._context = context
        self.__name__ = body.__name__
        self.__qualname__ = body.__qualname__

    def send(self, value: object) -> Any:
        return self._context.run(self._body.send, value)

    def throw(self, error: BaseException) -> Any:
        return self._context.run(self._body.throw, error)

    def close(self) -> None:
        self._context.run(self._body.close)


def capture() -> Snapshot:
    """Capture the state of this flow: do it where the work is handed over, not where it is done."""
    return Snapshot(current(), copy_context())


@final
class _Carried:
    """A door for `decorate`: each call has the captured keys in effect."""

    __slots__ = ("layer",)

    asks: Any = {}  # noqa: RUF012  # nothing is computed from the call

    def __init__(self, layer: Layer) -> None:
        self.layer = layer

    def make(self, call: Call | None = None) -> Derived:
        return derive(self.layer)

    def enter(self, layer: Layer) -> None:
        enter(layer)

    def entered(self, layer: Layer) -> None:
        """Tell nobody: it was entered where it was captured."""

    def leave(self, layer: Layer) -> None:
        leave(layer)

    def left(self, layer: Layer) -> None:
        """Nobody counts."""


@final
class _CarriedCallable(partial[Any]):
    """What `carry` makes of a callable: a function to whoever calls or inspects it, and it pickles where `fn` does.

    A plain function pickles by its name alone, which would leave the keys behind, and find another function. A
    partial is called as fast, and inspect sees through it.
    """

    # Annotations of the class would be found before those of the function.
    __slots__ = ("carried", "door")

    def remember(self, carried: Callable[..., Any], door: _Carried | PlainDoor) -> None:
        self.carried = carried
        self.door = door

    def __getattr__(self, name: str) -> Any:
        return getattr(self.func, name)

    def __get__(self, instance: object, owner: type | None = None, /) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        from ctxruntime.hops.plain import PlainDoor, plain_keys

        door = self.door
        return _carried_here, (self.carried, door.keys if isinstance(door, PlainDoor) else plain_keys(door.layer))

    def __copy__(self) -> _CarriedCallable:
        return self

    def __deepcopy__(self, memo: object) -> _CarriedCallable:
        return self


def _carried(fn: Callable[..., Any], door: _Carried | PlainDoor) -> Callable[..., Any]:
    scoped = decorate(fn, door)
    if isinstance(fn, staticmethod):
        return scoped
    callable_ = _CarriedCallable(scoped)
    callable_.remember(fn, door)
    return wraps(fn)(callable_)


def _carried_here(fn: Callable[..., Any], keys: PlainKeys) -> Callable[..., Any]:
    """Make a callable of one that was carried to this process: its keys are plain data, and each call is a turn."""
    from ctxruntime.hops.plain import PlainDoor

    return _carried(fn, PlainDoor(keys))


@overload
def carry(work: Generator[Y, S, R], /) -> Generator[Y, S, R]: ...
@overload
def carry(work: AsyncGenerator[Y, S], /) -> AsyncGenerator[Y, S]: ...
@overload
def carry(work: Coroutine[Y, S, R], /) -> Coroutine[Y, S, R]: ...
@overload
def carry(work: F, /) -> F: ...
def carry(work: Any, /) -> Any:
    """Take the keys in effect now along with a function, a generator, an async generator or a coroutine.

    They are in effect there during the call, or during each step; whoever iterates has its own state between
    the steps. Nothing else of the context goes along: no open span, no decimal precision.

    A carried callable pickles if what it calls does, for the job of a process: there each call is a turn of its
    own, with the keys as they were when it was pickled. Those that the process does not define are dropped.

    Raises:
        TypeError: `work` is nothing that can be carried.

    >>> from ctxruntime import SESSION_ID, carry, session
    >>> with session(session_id="s1"):
    ...     job = carry(SESSION_ID.get)
    >>> job()
    's1'
    """
    layer = current()
    if callable(work):
        return _carried(work, _Carried(layer))
    held = held_body(work, Held(derive(layer)))
    if held is work:
        raise TypeError(
            f"carry takes a callable, a generator, an async generator or a coroutine, not {type(work).__name__}"
        )
    return held
