"""Scopes held over the steps of generators and async generators."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextvars import Context, copy_context
from typing import Any

import pytest

import ctxruntime as ctx

inner = ctx.session(session_id="inner")


def here() -> Any:
    return ctx.SESSION_ID.get(None)


@inner
def counting() -> Generator[Any, Any, Any]:
    yield here()
    yield here()
    return here()


@inner
async def acounting() -> AsyncGenerator[Any, Any]:
    yield here()
    await asyncio.sleep(0)
    yield here()


def in_thread(fn: Any, *args: Any) -> Any:
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(fn(*args)))
    thread.start()
    thread.join()
    return seen[0]


async def in_task(fn: Any, *args: Any) -> Any:
    async def call() -> Any:
        return await fn(*args)

    return await asyncio.create_task(call())


def test_body_has_its_scope_and_the_consumer_its_own() -> None:
    """At each step the body is in its scope, and between the steps the consumer is in its own."""
    with ctx.session(session_id="outer"):
        seen = [(step, here()) for step in counting()]
        assert here() == "outer"
    assert seen == [("inner", "outer")] * 2


@pytest.mark.asyncio
async def test_async_body_has_its_scope_and_the_consumer_its_own() -> None:
    """The same holds for async generators."""
    with ctx.session(session_id="outer"):
        seen = [(step, here()) async for step in acounting()]
        assert here() == "outer"
    assert seen == [("inner", "outer")] * 2


def test_return_value_is_handed_on() -> None:
    """`yield from` gets what the body returned."""

    def outer() -> Generator[Any, Any, Any]:
        return (yield from counting())

    generator = outer()
    assert [next(generator), next(generator)] == ["inner", "inner"]
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "inner"


@inner
def echoing() -> Generator[Any, Any, Any]:
    item: Any = "ready"
    while True:
        try:
            item = yield item, here()
        except ValueError as error:
            item = error


@inner
async def aechoing() -> AsyncGenerator[Any, Any]:
    item: Any = "ready"
    while True:
        try:
            item = yield item, here()
        except ValueError as error:
            item = error


def test_send_reaches_the_body() -> None:
    """What is sent arrives in the body, in its scope."""
    generator = echoing()
    next(generator)
    assert generator.send("hello") == ("hello", "inner")
    generator.close()


def test_throw_reaches_the_body() -> None:
    """What is thrown is raised in the body, in its scope, as the same object."""
    generator, error = echoing(), ValueError("thrown")
    next(generator)
    assert generator.throw(error) == (error, "inner")
    generator.close()


@pytest.mark.asyncio
async def test_asend_and_athrow_reach_the_body() -> None:
    """The same holds for `asend` and `athrow`."""
    generator, error = aechoing(), ValueError("thrown")
    await anext(generator)
    assert await generator.asend("hello") == ("hello", "inner")
    assert await generator.athrow(error) == (error, "inner")
    await generator.aclose()


def test_thrown_error_that_the_body_does_not_catch_ends_it() -> None:
    """An uncaught error reaches the consumer unchanged, and ends the turn."""
    turns: list[Any] = []

    @inner
    def body() -> Iterator[None]:
        turns.append(ctx.current_turn())
        yield

    generator: Any = body()
    next(generator)
    error = KeyError("thrown")
    with pytest.raises(KeyError) as caught:
        generator.throw(error)

    assert caught.value is error
    assert turns[0].ended
    assert dict(ctx.current()) == {}


def cleaning(seen: list[Any]) -> Any:
    @inner
    def body() -> Iterator[Any]:
        try:
            seen.append(ctx.current_turn())
            yield here()
            yield here()
        finally:
            seen.append(here())

    return body()


def acleaning(seen: list[Any]) -> Any:
    @inner
    async def body() -> AsyncIterator[Any]:
        try:
            seen.append(ctx.current_turn())
            yield here()
            yield here()
        finally:
            await asyncio.sleep(0)
            seen.append(here())

    return body()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another thread"])
def test_close_runs_the_cleanup_in_scope(elsewhere: bool) -> None:
    """`close` runs the body's `finally` in its scope, and ends the turn."""
    seen: list[Any] = []
    generator = cleaning(seen)
    with ctx.session(session_id="outer"):
        next(generator)
        if elsewhere:
            in_thread(generator.close)
        else:
            generator.close()
        assert here() == "outer"

    assert seen[1:] == ["inner"]
    assert seen[0].ended


@pytest.mark.asyncio
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another task"])
async def test_aclose_runs_the_cleanup_in_scope(elsewhere: bool) -> None:
    """`aclose` runs the body's `finally` in its scope, from whichever task, and ends the turn."""
    seen: list[Any] = []
    generator = acleaning(seen)
    with ctx.session(session_id="outer"):
        await anext(generator)
        await (in_task(generator.aclose) if elsewhere else generator.aclose())
        assert here() == "outer"

    assert seen[1:] == ["inner"]
    assert seen[0].ended


def test_early_break_and_collection_run_the_cleanup_in_scope() -> None:
    """A generator that a `break` leaves behind cleans up in its scope, without changing the consumer's."""
    seen: list[Any] = []
    with ctx.session(session_id="outer"):
        for _ in cleaning(seen):
            break
        gc.collect()
        assert here() == "outer"

    assert seen[1:] == ["inner"]
    assert seen[0].ended


def test_stepped_in_another_context_each_time() -> None:
    """Whoever steps a generator, in whichever context, its body is in its own scope."""
    generator = counting()
    assert [Context().run(next, generator), in_thread(next, generator)] == ["inner", "inner"]
    generator.close()


@pytest.mark.asyncio
async def test_stepped_by_a_new_task_each_time() -> None:
    """An async generator that a new task steps each time keeps its scope."""
    generator = acounting()
    assert [await in_task(anext, generator) for _ in range(2)] == ["inner", "inner"]
    await generator.aclose()


def test_scope_is_of_the_call_and_not_of_the_first_step() -> None:
    """A bind inherits from where the generator was made, not from where it is stepped first."""

    @ctx.bind(user_id="u1")
    def body() -> Iterator[Any]:
        yield dict(ctx.current())

    with ctx.session(session_id="made"):
        generator = body()
    with ctx.session(session_id="stepped"):
        assert list(generator) == [{"session_id": "made", "user_id": "u1"}]


def test_amend_in_a_step_is_seen_at_the_next() -> None:
    """What the body amends stays in its turn, and out of the consumer's."""

    @inner
    def body() -> Iterator[Any]:
        ctx.amend(user_id="u1")
        yield None
        yield ctx.USER_ID.get()

    with ctx.session(session_id="outer"):
        generator = body()
        next(generator)
        assert ctx.USER_ID.get(None) is None
        assert next(generator) == "u1"


@inner
def nesting() -> Iterator[Any]:
    with ctx.bind(user_id="u1"), ctx.bind(frontend="f1"):
        yield dict(ctx.current())
        yield dict(ctx.current())
    yield dict(ctx.current())


NESTED = {"session_id": "inner", "user_id": "u1", "frontend": "f1"}


def test_nested_binds_are_kept_between_steps() -> None:
    """What the body entered and has not left is in effect at its next step, and not between."""
    with ctx.session(session_id="outer"):
        seen = [(step, dict(ctx.current())) for step in nesting()]

    outer = {"session_id": "outer"}
    assert seen == [(NESTED, outer), (NESTED, outer), ({"session_id": "inner"}, outer)]


def test_nested_binds_are_left_in_another_context() -> None:
    """What was entered in one step can be left in a later one, stepped from another context."""
    generator = nesting()
    seen = [Context().run(next, generator), in_thread(next, generator), Context().run(next, generator)]
    assert seen == [NESTED, NESTED, {"session_id": "inner"}]
    assert dict(ctx.current()) == {}
    generator.close()  # type: ignore[attr-defined]


def test_nested_scope_of_the_body_closed_from_elsewhere() -> None:
    """A scope that the body opened and somebody else closed is gone at the body's next step."""
    scope = ctx.bind(user_id="u1")

    @inner
    def body() -> Iterator[Any]:
        scope.open()
        yield ctx.USER_ID.get(None)
        yield ctx.USER_ID.get(None)

    generator = body()
    first = next(generator)
    in_thread(scope.close)

    assert [first, next(generator)] == ["u1", None]


def test_copied_context_of_a_step_keeps_the_bodys_scope() -> None:
    """A context that was copied inside a step keeps the body's scope after the generator ended."""

    @inner
    def body() -> Iterator[Any]:
        yield copy_context()

    (context,) = body()
    assert context.run(here) == "inner"
    assert context.run(ctx.current_turn).ended  # type: ignore[union-attr]


@pytest.mark.asyncio
async def test_task_made_in_a_step_keeps_the_bodys_scope() -> None:
    """A task that the body starts serves the body's turn."""

    async def read() -> Any:
        return here()

    @inner
    async def body() -> AsyncIterator[Any]:
        yield asyncio.create_task(read())

    with ctx.session(session_id="outer"):
        async for task in body():
            assert await task == "inner"


def test_generators_that_take_turns_do_not_mix() -> None:
    """Two generators that are stepped alternately are each in their own scope."""
    make = [ctx.session(session_id=name)(counting.__wrapped__) for name in "ab"]  # type: ignore[attr-defined]
    assert list(zip(*(made() for made in make), strict=True)) == [("a", "b"), ("a", "b")]


def test_generator_inside_a_generator() -> None:
    """A body that iterates another generator has its own scope between that one's steps."""

    @ctx.session(session_id="middle")
    def body() -> Iterator[Any]:
        for step in counting():
            yield step, here()

    with ctx.session(session_id="outer"):
        assert [(*step, here()) for step in body()] == [("inner", "middle", "outer")] * 2


def test_never_started_generator_ends_its_turn() -> None:
    """A generator that is thrown away before its first step ends the turn it joined."""

    @ctx.session.join(session_id="s1")
    def body() -> Iterator[None]:
        yield

    with ctx.session(session_id="s1") as turn:
        generator = body()
    alive = not turn.ended
    del generator
    gc.collect()

    assert alive
    assert turn.ended


def test_never_started_generator_that_is_closed_ends_its_turn() -> None:
    """Closing before the first step ends the turn too, and runs nothing of the body."""

    @ctx.session.join(session_id="s1")
    def body() -> Iterator[None]:
        raise AssertionError
        yield

    with ctx.session(session_id="s1") as turn:
        generator: Any = body()
    generator.close()
    del generator

    assert turn.ended


def test_exhausted_generator_ends_its_turn() -> None:
    """A turn ends with the body, not with the garbage collector."""
    turns: list[Any] = []

    @inner
    def body() -> Iterator[None]:
        turns.append(ctx.current_turn())
        yield

    generator = body()
    alive = [turns[0].ended for _ in generator]

    assert alive == [False]
    assert turns[0].ended


def test_half_consumed_generators_are_collected_without_cycles() -> None:
    """A generator that is dropped is freed at once: nothing of ours refers back to it."""
    seen: list[Any] = []
    gc.disable()
    try:
        generator = cleaning(seen)
        next(generator)
        del generator
        assert seen[1:] == ["inner"]
    finally:
        gc.enable()


def test_shutdown_closes_async_generators_in_scope(caplog: pytest.LogCaptureFixture) -> None:
    """A loop that shuts down closes every half-consumed generator in its scope, without a log line."""
    bodies: list[list[Any]] = [[] for _ in range(20)]
    kept: list[Any] = []

    async def main() -> None:
        for seen in bodies:
            generator = acleaning(seen)
            kept.append(generator)
            await in_task(anext, generator)

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())

    assert [seen[1:] for seen in bodies] == [["inner"]] * 20
    assert all(seen[0].ended for seen in bodies)
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


@pytest.mark.asyncio
async def test_async_break_leaves_the_consumer_its_scope(caplog: pytest.LogCaptureFixture) -> None:
    """An early `break` out of an async generator changes nothing for the consumer, at once."""
    seen: list[Any] = []
    with ctx.session(session_id="outer"):
        async for _ in acleaning(seen):
            break
        assert here() == "outer"
        gc.collect()
        await asyncio.sleep(0)
        assert here() == "outer"
    assert caplog.records == []


def test_driver_is_a_generator_of_the_same_name() -> None:
    """What a decorated generator function returns is a real generator, called as the function."""
    generator = counting()
    assert inspect.isgenerator(generator)
    assert generator.__name__ == "counting"
    generator.close()


def test_body_that_refuses_to_end_is_an_error_as_always() -> None:
    """A body that yields while it is closed raises the RuntimeError that Python raises."""

    @inner
    def body() -> Iterator[Any]:
        while True:
            try:
                yield
            except GeneratorExit:
                yield

    generator: Any = body()
    next(generator)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        generator.close()
    assert dict(ctx.current()) == {}


def test_stop_iteration_of_the_body_is_an_error_as_always() -> None:
    """A StopIteration that escapes the body is a RuntimeError, as in any generator."""

    @inner
    def body() -> Iterator[Any]:
        yield next(iter(()))

    with pytest.raises(RuntimeError, match="generator raised StopIteration"):
        list(body())


def close_own() -> None:
    turn = ctx.current_turn()
    assert turn is not None
    turn.close()
    turn.close()
    assert turn.ended


@inner
def closing() -> Iterator[Any]:
    yield here()
    close_own()
    yield here()
    with ctx.bind(session_id="nested"):
        yield here()
    yield here()


@inner
async def aclosing() -> AsyncIterator[Any]:
    for seen in closing_steps():
        yield seen
        await asyncio.sleep(0)


def closing_steps() -> Iterator[Any]:
    yield here()
    close_own()
    yield here()
    with ctx.bind(session_id="nested"):
        yield here()
    yield here()


def test_body_that_closes_its_turn_has_its_consumers_state_from_then_on() -> None:
    """A generator's body can end its own turn: the rest sees what whoever steps it has in effect, and binds alike."""
    with ctx.session(session_id="outer"):
        seen = [(inside, here()) for inside in closing()]

    assert [inside for inside, _ in seen] == ["inner", "outer", "nested", "outer"]
    assert {outside for _, outside in seen} == {"outer"}


def test_bind_made_after_closing_in_one_step_is_kept_from_the_consumer() -> None:
    """What a body binds in the very step in which it ends its turn is in effect in the body alone."""

    @inner
    def body() -> Iterator[Any]:
        close_own()
        with ctx.bind(session_id="nested"):
            yield here()
            yield here()

    with ctx.session(session_id="outer"):
        seen = [(inside, here()) for inside in body()]
        assert here() == "outer"

    assert seen == [("nested", "outer"), ("nested", "outer")]


@pytest.mark.asyncio
async def test_async_body_that_closes_its_turn_has_its_consumers_state_from_then_on() -> None:
    """An async generator's body can end its own turn as a generator's can."""
    with ctx.session(session_id="outer"):
        seen = [(inside, here()) async for inside in aclosing()]

    assert [inside for inside, _ in seen] == ["inner", "outer", "nested", "outer"]
    assert {outside for _, outside in seen} == {"outer"}


@pytest.mark.asyncio
async def test_coroutine_that_closes_its_turn_has_its_callers_state_from_then_on() -> None:
    """A coroutine's body can end its own turn, at once and over each await that follows."""

    @inner
    async def body() -> list[Any]:
        seen = [here()]
        close_own()
        for _ in range(2):
            seen.append(here())
            await asyncio.sleep(0)
        return seen

    with ctx.session(session_id="outer"):
        assert await body() == ["inner", "outer", "outer"]
        assert here() == "outer"


def test_turn_of_a_suspended_body_is_closed_from_elsewhere() -> None:
    """A held turn that is closed between two steps, from any thread, is over in the body's next step."""
    turns: list[ctx.Turn | None] = []

    @inner
    def body() -> Iterator[Any]:
        turns.append(ctx.current_turn())
        with ctx.bind(user_id="u1"):
            yield here()
        yield here()

    with ctx.session(session_id="outer"):
        steps = body()
        assert next(steps) == "inner"
        turn = turns[0]
        assert turn is not None
        in_thread(turn.close)
        assert turn.ended
        assert here() == "outer"
        assert list(steps) == ["outer"]
        assert here() == "outer"


def test_turn_of_a_body_is_entered_again_as_another() -> None:
    """Entering the turn of a decorated body inside of it is a turn of its own."""

    @inner
    def body() -> Iterator[bool]:
        turn = ctx.current_turn()
        assert turn is not None
        with turn as again:
            yield again is not turn
            yield ctx.current_turn() is again
        yield ctx.current_turn() is turn

    assert list(body()) == [True, True, True]


def test_suspended_body_keeps_no_consumer_alive() -> None:
    """A generator that is not stepped holds nothing of the turn in which it was stepped last."""
    steps = counting()
    with ctx.session(session_id="outer") as turn:
        next(steps)
    gone = weakref.ref(turn)
    del turn

    assert gone() is None
    steps.close()


def test_a_cleanup_that_awaits_ends_in_scope_when_the_loop_ends(caplog: pytest.LogCaptureFixture) -> None:
    """A stream left by `break`, whose cleanup still waits for a thread when the loop ends, is cleaned up in scope."""
    ended: list[Any] = []

    @inner
    async def stream() -> AsyncIterator[Any]:
        try:
            while True:
                yield here()
        finally:
            try:
                await asyncio.to_thread(here)
            finally:
                ended.append(here())

    async def leave() -> None:
        async for _ in stream():
            break
        gc.collect()

    asyncio.run(leave())

    assert ended == ["inner"]
    assert caplog.records == []


def test_a_generator_that_ignores_its_close_is_reported_as_ever() -> None:
    """Yielding on a close is the RuntimeError that it is without a scope, and the scope is left."""

    @inner
    def stubborn() -> Iterator[Any]:
        try:
            yield here()
        except GeneratorExit:
            yield "again"

    generator: Any = stubborn()
    assert next(generator) == "inner"
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        generator.close()
    assert here() is None


class Pause:
    def __await__(self) -> Generator[None, None, None]:
        yield


def dropped() -> None:
    next(counting())


def closed() -> None:
    body = counting()
    next(body)
    body.close()


def thrown_into() -> None:
    body = counting()
    next(body)
    with pytest.raises(KeyError):
        body.throw(KeyError())


def async_thrown_into() -> None:
    body = acounting()
    with pytest.raises(StopIteration):
        body.asend(None).send(None)
    with pytest.raises(KeyError):
        body.athrow(KeyError()).send(None)


def coroutine_closed() -> None:
    @inner
    async def waiting() -> None:
        await Pause()

    body = waiting()
    body.send(None)
    body.close()


@pytest.mark.parametrize("end", [dropped, closed, thrown_into, async_thrown_into, coroutine_closed])
def test_an_ended_body_leaves_no_cycle(end: Any) -> None:
    """However a suspended body ends, its consumer's turn is gone with its last user, without the collector."""
    gc.collect()
    gc.disable()
    try:
        with ctx.session(session_id="outer") as turn:
            end()
        gone = weakref.ref(turn)
        del turn

        assert gone() is None
        assert gc.collect() == 0
    finally:
        gc.enable()


async def nothing() -> None: ...


@pytest.mark.parametrize(
    "make", [lambda: ctx.carry(nothing()), lambda: ctx.capture().run(nothing), lambda: inner(nothing)()]
)
def test_a_coroutine_that_is_closed_unstarted_is_closed_with_its_driver(
    recwarn: pytest.WarningsRecorder, make: Any
) -> None:
    """Closing what holds a coroutine that nobody started is as quiet as closing the coroutine."""
    make().close()
    gc.collect()

    assert [str(warning.message) for warning in recwarn] == []


def test_a_held_coroutine_that_is_dropped_unstarted_is_told_of_once(recwarn: pytest.WarningsRecorder) -> None:
    """A coroutine that was never awaited is told of as Python does: by its name, once."""
    ctx.carry(nothing())
    gc.collect()

    assert [str(warning.message) for warning in recwarn] == ["coroutine 'nothing' was never awaited"]
