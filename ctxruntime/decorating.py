"""A scope as a decorator: in effect during the whole body of functions of every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, final

from ctxruntime.errors import InvalidValueError
from ctxruntime.generators import CO_COROUTINE, Held, answering_like, held_body, kind_of
from ctxruntime.layers import SUBSCRIBERS, Layer
from ctxruntime.subscriptions import entered_async

if TYPE_CHECKING:  # inspect is too dear to import before it is needed
    from inspect import Signature

    from ctxruntime.keys import Key

    class Entrance(Protocol):
        """What a decorator needs of a door."""

        @property
        def asks(self) -> Mapping[Key[Any], Callable[..., object]]:
            """What is computed from a call, by key."""
            ...

        def make(self, call: Call | None = None) -> Layer:
            """Make the layer of one call."""
            ...

        def enter(self, layer: Any) -> None:
            """Put a layer that was made in effect."""
            ...

        def entered(self, layer: Any) -> None:
            """Take note that a body holds a layer from now on."""
            ...

        def leave(self, layer: Any) -> None:
            """End it."""
            ...

        def left(self, layer: Any) -> None:
            """Take note that it was left."""
            ...


F = TypeVar("F", bound=Callable[..., Any])


@final
class Call:
    """One call of a decorated function, for what is computed from its arguments."""

    __slots__ = ("_arguments", "args", "fn", "kwargs", "signature")

    def __init__(self, fn: Callable[..., Any], signature: Signature, args: Any, kwargs: Any) -> None:
        self.fn: Callable[..., Any] = fn
        self.signature: Signature = signature
        self.args: Any = args
        self.kwargs: Any = kwargs
        self._arguments: dict[str, object] | None = None

    def ask(self, question: Callable[..., object]) -> object:
        """Call `question` with the arguments that it names."""
        arguments = self._arguments
        if arguments is None:
            arguments = self._arguments = self._bind()
        return question(*(arguments[name] for name in _named(question) if name in arguments))

    def _bind(self) -> dict[str, object]:
        try:
            bound = self.signature.bind(*self.args, **self.kwargs)
        except TypeError:
            self.fn(*self.args, **self.kwargs)  # says better what is wrong with the call
            raise
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                arguments |= arguments[name]
        return arguments


def _named(question: Callable[..., object]) -> tuple[str, ...]:
    from inspect import signature

    return tuple(signature(question).parameters)


def _check_questions(fn: Callable[..., Any], door: Entrance, signature: Signature) -> None:
    parameters = signature.parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for key, question in door.asks.items():
        for name in _named(question):
            if name not in parameters:
                raise InvalidValueError(
                    key.name,
                    f"is computed from argument {name!r}, which {getattr(fn, '__qualname__', fn)} does not take",
                    f"name one of {', '.join(parameters) or 'none'}",
                )


def decorate(fn: F, door: Entrance) -> F:
    """Put a layer that `door` makes for each call in effect during the whole body of `fn`.

    Raises:
        InvalidValueError: a value is to be computed from an argument that `fn` does not take.
        TypeError: `fn` is not callable.
    """
    if isinstance(fn, (staticmethod, classmethod)):
        method = cast("Any", fn)
        return cast("F", type(method)(decorate(method.__func__, door)))
    if not callable(fn):
        raise TypeError(f"a scope decorates a function, not {type(fn).__name__}: write `with` around the work")
    new_call = _asking(fn, door) if door.asks else _no_call
    kind = kind_of(fn)
    if not kind:
        scoped = _function(fn, door, new_call)
    elif kind == CO_COROUTINE:
        scoped = _coroutine_function(fn, door, new_call)
    else:
        scoped = answering_like(cast("FunctionType", _generator_function(fn, door, new_call)), kind)
    return cast("F", wraps(fn)(scoped))


NewCall = Callable[[Any, Any], "Call | None"]


def _asking(fn: Callable[..., Any], door: Entrance) -> NewCall:
    from inspect import signature

    shape = signature(fn)
    _check_questions(fn, door, shape)
    return lambda args, kwargs: Call(fn, shape, args, kwargs)


def _no_call(args: Any, kwargs: Any) -> Call | None:
    return None


def _function(fn: Callable[..., Any], door: Entrance, new_call: NewCall) -> Callable[..., Any]:
    def scoped(*args: Any, **kwargs: Any) -> Any:
        layer = door.make(new_call(args, kwargs))
        door.enter(layer)
        try:
            return fn(*args, **kwargs)
        finally:
            door.leave(layer)

    return scoped


def _coroutine_function(fn: Callable[..., Any], door: Entrance, new_call: NewCall) -> Callable[..., Any]:
    async def scoped(*args: Any, **kwargs: Any) -> Any:
        call = new_call(args, kwargs)
        layer = await entered_async(lambda: _held_by(door, call), door.leave) if SUBSCRIBERS else door.make(call)
        held = Held(layer, door.left)
        return await held_body(held.call(fn, args, kwargs), held)

    return scoped


def _held_by(door: Entrance, call: Call | None) -> Layer:
    """Make the layer of one call, which its body holds from now on: both may tell subscribers."""
    layer = door.make(call)
    door.entered(layer)
    return layer


def _generator_function(fn: Callable[..., Any], door: Entrance, new_call: NewCall) -> Callable[..., Any]:
    def scoped(*args: Any, **kwargs: Any) -> Any:
        layer = _held_by(door, new_call(args, kwargs))  # of the caller's state, not of the first stepper's
        held = Held(layer, door.left)
        return held_body(held.call(fn, args, kwargs), held)

    return scoped
