"""What is left of a traced body that was cancelled, failed or was never begun: nothing."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial, wraps
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from ctxruntime.telemetry.traced import traced


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(shutdown_on_exit=False))


class Refused(Exception):
    pass


@traced
def generator() -> Iterator[int]:
    yield 1


@traced
async def coroutine() -> None:
    await asyncio.sleep(0)


@traced
async def async_generator() -> AsyncIterator[int]:
    yield 1


def throw_into_a_generator() -> None:
    steps: Any = generator()
    next(steps)
    steps.throw(Refused())


def throw_into_a_waiting_coroutine() -> None:
    steps: Any = coroutine()
    steps.send(None)
    steps.throw(Refused())


def throw_into_an_async_generator() -> None:
    steps: Any = async_generator()
    with pytest.raises(StopIteration):
        steps.__anext__().send(None)
    steps.athrow(Refused()).send(None)


@pytest.mark.parametrize(
    "throw",
    [
        throw_into_a_generator,
        throw_into_a_waiting_coroutine,
        throw_into_an_async_generator,
    ],
    ids=lambda throw: throw.__name__,
)
def test_an_error_that_was_thrown_in_is_in_no_cycle(throw: Callable[[], None]) -> None:
    """What is thrown into a body, as every cancellation is, goes with its last holder, without the collector."""

    def fail() -> weakref.ref[Refused]:
        try:
            throw()
        except Refused as error:
            return weakref.ref(error)
        raise AssertionError("nothing was raised")

    gc.collect()
    gc.disable()
    try:
        assert fail()() is None
    finally:
        gc.enable()


class Callee:
    async def __call__(self) -> None: ...


async def function() -> None: ...


@wraps(function)
def wrapped() -> Coroutine[Any, Any, None]:
    return function()


KINDS = {"function": function, "object": Callee(), "partial": partial(function), "wrapped": wrapped}


async def cancelled(handler: Callable[[], Coroutine[Any, Any, None]]) -> None:
    task = asyncio.ensure_future(handler())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("handler", KINDS.values(), ids=KINDS)
def test_a_coroutine_that_never_began_is_complained_of_as_without_a_span(
    handler: Callable[[], Coroutine[Any, Any, None]], recwarn: pytest.WarningsRecorder
) -> None:
    """One that is dropped is complained of once, and one that is closed or cancelled before its first step never."""
    decorated = traced(handler)
    decorated().close()
    asyncio.run(cancelled(decorated))
    gc.collect()
    assert [str(each.message) for each in recwarn] == []

    decorated()  # type: ignore[unused-coroutine]
    gc.collect()
    assert [str(each.message).partition(" ")[2] for each in recwarn] == [
        f"'{'Callee.__call__' if isinstance(handler, Callee) else 'function'}' was never awaited"
    ]


@pytest.mark.filterwarnings("ignore:coroutine .*answer. was never awaited")
def test_a_coroutine_that_is_kept_elsewhere_too_can_still_be_awaited() -> None:
    """What a function returned and keeps is not closed when its caller drops it."""
    kept: list[Coroutine[Any, Any, int]] = []

    async def answer() -> int:
        return 42

    @traced
    def submit() -> object:
        kept.append(answer())
        return kept[0]

    submit()
    gc.collect()

    assert asyncio.run(kept[0]) == 42
