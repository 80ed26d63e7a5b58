"""A layer held over the steps of generators and coroutines.

Generators have no context of their own: what they bind stays bound in whoever iterates them. A *held* body has
its layer in effect during each step, whoever makes it and in whichever task, and its consumer has its own state
between the steps. What the body itself entered and has not left is kept, and is in effect again at the next step.
"""

from __future__ import annotations

import sys
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Token
from functools import partial
from itertools import takewhile
from typing import Any, Final, TypeVar, cast, final

from ctxruntime.layers import (
    CURRENT,
    HELD,
    LEFT,
    LINKED,
    NOTHING,
    Layer,
    current,
    derive,
    in_effect,
    restore_links,
    write_links,
)

Y = TypeVar("Y")
S = TypeVar("S")
R = TypeVar("R")

_get, _set, _reset = CURRENT.get, CURRENT.set, CURRENT.reset


@final
class Held:
    """What a suspended body has in effect: a layer, and above it what the body entered and has not left."""

    __slots__ = ("above", "base", "coroutine", "entered", "on_end")

    def __init__(self, base: Layer, on_end: Callable[[Layer], None] | None = None) -> None:
        self.entered: Layer = base
        self.base: Layer = base
        """The layer that was entered; once that was left, one that lets through what the stepper has in effect."""
        self.above: list[Layer] | None = None
        self.on_end = on_end
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        """The body, if it is one of those that complain when they were never started."""

    def resume(self) -> Token[Layer]:
        """Put it in effect for one step; what is returned goes to `suspend`."""
        if self.base.token is LEFT:
            self.base = derive(current())
        base = self.base
        token = base.token = _set(base)
        if LINKED:
            base.links = write_links(base, LINKED)
        for layer in self.above or ():
            # This step may run in another context than the last one: a token serves only where it was made.
            layer.token = _set(layer)
            if layer.links:
                written = {var for var, _ in layer.links}
                layer.links = write_links(layer, [key for key in LINKED if key.link.var in written])
        self.above = None
        return token

    def suspend(self, token: Token[Layer]) -> None:
        """Give the consumer its own state back, and remember what the body has in effect."""
        base, below = self.base, token.old_value
        current()  # settles what was left elsewhere
        if _get() is not base:
            self.above = list(takewhile(lambda layer: layer is not base and layer is not below, in_effect()))[::-1]
        try:
            _reset(token)
        except RuntimeError:  # the base was left in this step: what the body entered is all there is to take away
            if self.above:
                _set(below if isinstance(below, Layer) else NOTHING)
        except ValueError:
            pass  # closed from another context: nothing was touched there
        if base.links is not None:
            restore_links(base.links)
            base.links = None
        if base is not self.entered or base.token is LEFT:
            base.token = LEFT
            self.above = self.above or []
        else:
            base.token = HELD
        current()  # the body may have left what it uncovers

    def call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call what makes the body: a wrapper of it (`inject`) may read now what its body will have in effect."""
        token = self.resume()
        try:
            return fn(*args, **kwargs)
        finally:
            self.suspend(token)
            if self.entered.token is HELD:
                self.entered.token = None  # no step of it has begun

    def end(self) -> None:
        """Tell that the body has ended."""
        self.entered.token = LEFT
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(self.entered)

    def __del__(self) -> None:
        if self.coroutine is not None and self.entered.token is None:
            self.coroutine.close()  # to complain is its driver's, which may have been closed in good order
        if self.on_end is not None:  # a body that was never started runs no `finally`
            self.end()


def held_generator(body: Generator[Y, S, R], held: Held) -> Generator[Y, S, R]:
    """Drive a generator with `held` in effect during each step; transparent otherwise."""
    return named_like(body, _drive(body, held, ends=True))


def _drive(body: Generator[Y, S, R], held: Held, *, ends: bool) -> Generator[Y, S, R]:
    base = held.entered
    send = body.send
    step: Callable[[Any], Y] = send
    given: Any = None
    try:
        while True:
            if held.above is None and not LINKED:
                token = base.token = _set(base)
            else:
                token = held.resume()
            try:
                item = step(given)
            except StopIteration as stop:
                return cast("R", stop.value)
            finally:
                if _get() is base and base.links is None:
                    _reset(token)
                    base.token = HELD
                else:
                    held.suspend(token)
                del token  # it knows the consumer's layer
                given = None  # an error that was thrown in knows this frame, and would be a cycle with it
            try:
                given = yield item
                step = send
            except BaseException as error:  # noqa: BLE001  # whatever is thrown in is the body's, a close too
                given, step = error, body.throw
    finally:
        if ends:
            held.end()
        else:
            del body, send, step  # what `athrow` made knows the error, which knows this frame


def held_async_generator(body: AsyncGenerator[Y, S], held: Held) -> AsyncGenerator[Y, S]:
    """Drive an async generator with `held` in effect during each step; transparent otherwise."""

    async def drive() -> AsyncGenerator[Y, S]:
        step: Callable[[Any], Any] = first_step(body)
        given: Any = None
        try:
            while True:
                try:
                    item = await _Steps(step(given), held, ends=False)
                except StopAsyncIteration:
                    return
                finally:
                    given = None  # as in a generator
                try:
                    given = yield item
                    step = body.asend
                except GeneratorExit:
                    await _Steps(body.aclose(), held, ends=False)
                    raise
                except BaseException as error:  # noqa: BLE001  # whatever is thrown in is the body's
                    given, step = error, body.athrow
        finally:
            held.end()

    return named_like(body, drive())


def first_step(body: AsyncGenerator[Y, S]) -> Callable[[Any], Any]:
    """Return `asend`, made so that the event loop adopts the driver alone.

    A loop closes what it adopted on shutdown, each by itself: the body would be closed outside its scope.
    """

    def step(given: Any) -> Any:
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            return body.asend(given)
        finally:
            sys.set_asyncgen_hooks(*hooks)

    return step


def held_coroutine(body: Coroutine[Y, S, R], held: Held) -> Coroutine[Y, S, R]:
    """Drive a coroutine with `held` in effect during each step, whichever context it is stepped in."""

    held.coroutine = body

    async def drive() -> R:
        return cast("R", await _Steps(body, held, ends=True))

    return named_like(body, drive())


@final
class _Steps:
    """Await something with `held` in effect during each of its steps."""

    __slots__ = ("body", "ends", "held")

    def __init__(self, body: Any, held: Held, *, ends: bool) -> None:
        self.body = body
        self.held = held
        self.ends = ends

    def __await__(self) -> Generator[Any, Any, Any]:
        return _drive(self.body, self.held, ends=self.ends)


DriverT = TypeVar("DriverT")


def named_like(body: Any, driver: DriverT) -> DriverT:
    """Give a driver the names of the body that it drives; return it."""
    cast("Any", driver).__name__ = getattr(body, "__name__", "held")
    cast("Any", driver).__qualname__ = getattr(body, "__qualname__", "held")
    return driver


def held_body(body: Any, held: Held) -> Any:
    """Hold a layer over whatever kind of body this is; return anything else as it is."""
    if isinstance(body, types.GeneratorType):
        return held_generator(cast("Generator[Any, Any, Any]", body), held)
    if isinstance(body, types.AsyncGeneratorType):
        return held_async_generator(cast("AsyncGenerator[Any, Any]", body), held)
    if isinstance(body, types.CoroutineType):
        return held_coroutine(cast("Coroutine[Any, Any, Any]", body), held)
    return body


CO_GENERATOR: Final = 0x20
CO_COROUTINE: Final = 0x80
CO_ASYNC_GENERATOR: Final = 0x200


def kind_of(fn: Any) -> int:
    """Return which of the three flags above the code behind a callable has; 0 for plain functions."""
    while not isinstance(getattr(fn, "__code__", None), types.CodeType):
        inner: Any = fn.func if isinstance(fn, partial) else getattr(cast("Any", type(fn)), "__call__", None)  # noqa: B004  # what it calls, not whether
        if isinstance(fn, type) or inner is None or isinstance(inner, _SLOT_WRAPPER):
            return 0
        fn = inner
    return int(fn.__code__.co_flags) & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)


_SLOT_WRAPPER: Final = type(object.__init__)


def answering_like(wrapper: types.FunctionType, kind: int) -> types.FunctionType:
    """Return a plain function that answers `inspect.iscoroutinefunction` and its kin as one of this kind does.

    Since CPython 3.11 a flag of the code object is what inspect reads, and no more: what a call makes is decided
    by the code's first instruction.
    """
    if not kind:
        return wrapper
    code = wrapper.__code__
    answering = types.FunctionType(
        code.replace(co_flags=code.co_flags | kind),
        wrapper.__globals__,
        wrapper.__name__,
        wrapper.__defaults__,
        wrapper.__closure__,
    )
    answering.__kwdefaults__ = wrapper.__kwdefaults__
    return answering
