"""A span held over the steps of a body: current in each step of it, and never in whoever makes the steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, coroutine
from typing import Any, Final, cast, final

from ctxruntime.generators import CO_COROUTINE, first_step, named_like
from ctxruntime.telemetry.tracing_spans import OpenSpan, Tracing

__all__ = ["run"]

CO_ITERABLE_COROUTINE: Final = 0x100

BODY: Final = "a generator"
WHOLE: Final = "a coroutine"
PART: Final = "one step of an async generator"


def run(tracing: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a handler with a span over its body."""
    fn, kind, opened = tracing.fn, tracing.kind, OpenSpan(tracing, args, kwargs)
    if kind & CO_COROUTINE and type(fn) is FunctionType:
        # Made with the first step: of a call that is never awaited, Python warns once.
        return named_like(fn, _coroutine(partial(fn, *args, **kwargs), opened))
    if kind:
        return _held(fn(*args, **kwargs), opened)
    token = opened.enter()
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:
        opened.failed(error)
        opened.leave(token)
        opened.end()
        raise
    opened.leave(token)
    if _has_not_begun(result):
        return _held(result, opened)
    opened.gave(result)
    opened.end()
    return result


def _has_not_begun(result: Any) -> bool:
    """Tell whether a result is a body that nobody has stepped yet: one that was kept somewhere is not the call's."""
    kind = cast("Any", type(result))  # not isinstance: proxies say they are what they wrap
    if kind is CoroutineType:
        return result.cr_frame is not None and not (result.cr_suspended or result.cr_running)
    if kind is GeneratorType:
        return result.gi_frame is not None and not (result.gi_suspended or result.gi_running)
    if kind is AsyncGeneratorType:
        # Up to 3.11 it does not say that it is suspended.
        return result.ag_frame is not None and not (getattr(result, "ag_suspended", False) or result.ag_running)
    return False


def _held(body: Any, opened: OpenSpan) -> Any:
    """Hold a span over whatever kind of body this is; return anything else as it is."""
    kind = cast("Any", type(body))
    if kind is GeneratorType:
        drive = _steps_awaited if body.gi_code.co_flags & CO_ITERABLE_COROUTINE else _steps
        return named_like(body, drive(body, opened, BODY))
    if kind is AsyncGeneratorType:
        return named_like(body, _async_generator(body, opened))
    if kind is CoroutineType:
        opened.waits = body
        return named_like(body, _coroutine(opened.waited, opened))
    return body


def _steps(body: Any, opened: OpenSpan, of: str) -> Generator[Any, Any, Any]:
    step: Callable[[Any], Any] = body.send
    given: Any = None
    try:
        while True:
            token = opened.enter()
            try:
                item = step(given)
            except StopIteration as stop:
                if of is WHOLE:
                    opened.gave(stop.value)
                return stop.value
            except BaseException as error:
                opened.failed(error)
                raise
            finally:
                opened.leave(token)
                del token
                given = None  # an error that was thrown in knows this frame, and would be a cycle with it
            if of is BODY:
                opened.gave(item, yielded=True)
            try:
                given = yield item
                step = body.send
            except BaseException as error:  # noqa: BLE001  # whatever is thrown in is the body's, a close too
                given, step = error, body.throw
    finally:
        if of is PART:
            del body, step  # what `athrow` made knows the error, which knows this frame
        else:
            opened.end()


# For a generator that can be awaited (`types.coroutine`), one that can be, too.
_steps_awaited: Final[Any] = coroutine(FunctionType(_steps.__code__, globals()))


@final
class _Awaited:
    """Awaits something with the span current in each of its steps."""

    __slots__ = ("body", "of", "opened")

    def __init__(self, body: Any, opened: OpenSpan, of: str) -> None:
        self.body = body
        self.opened = opened
        self.of = of

    def __await__(self) -> Generator[Any, Any, Any]:
        return _steps(self.body, self.opened, self.of)


async def _coroutine(make: Callable[[], Coroutine[Any, Any, Any]], opened: OpenSpan) -> Any:
    return await _Awaited(make(), opened, WHOLE)


async def _async_generator(body: AsyncGenerator[Any, Any], opened: OpenSpan) -> AsyncGenerator[Any, Any]:
    step: Callable[[Any], Any] = first_step(body)
    given: Any = None
    try:
        while True:
            try:
                item = await _Awaited(step(given), opened, PART)
            except StopAsyncIteration:
                return
            finally:
                given = None  # as in a generator
            opened.gave(item, yielded=True)
            try:
                given = yield item
                step = body.asend
            except GeneratorExit:
                await _Awaited(body.aclose(), opened, PART)
                raise
            except BaseException as error:  # noqa: BLE001  # whatever is thrown in is the body's
                given, step = error, body.athrow
    finally:
        opened.end()
