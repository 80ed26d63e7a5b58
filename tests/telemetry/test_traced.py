"""A traced handler's span: what it covers, what it shows, and where it is current."""

from __future__ import annotations

import asyncio
import gc
import threading
import types
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, wraps
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import ctxruntime as ctx
from ctxruntime.telemetry.spans import SessionSpanProcessor
from ctxruntime.telemetry.traced import handler, traced

Spans = Callable[[], list[ReadableSpan]]


def provide(monkeypatch: pytest.MonkeyPatch, *processors: Any) -> Spans:
    """Make a provider the global one, which OpenTelemetry lets a process do once; return how to read its spans."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    for processor in (*processors, SimpleSpanProcessor(exporter)):
        provider.add_span_processor(processor)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return lambda: list(exporter.get_finished_spans())


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    return provide(monkeypatch)


def names(spans: Spans) -> list[str]:
    return [span.name for span in spans()]


def here() -> str | None:
    """Return the name of the current span."""
    return getattr(trace.get_current_span(), "name", None)


def only(spans: Spans) -> ReadableSpan:
    [span] = spans()
    return span


def events(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


# Case 08: every kind of function, over its whole body


@traced("plain")
def plain() -> str | None:
    return here()


@traced("coroutine")
async def coroutine() -> tuple[str | None, str | None]:
    before = here()
    await asyncio.sleep(0)
    return before, here()


@traced("generator")
def generator(count: int = 2) -> Iterator[str | None]:
    for _ in range(count):
        yield here()


@traced("async generator")
async def async_generator(count: int = 2) -> AsyncIterator[str | None]:
    for _ in range(count):
        yield here()
        await asyncio.sleep(0)


def test_a_function_has_its_span_current_while_it_runs(spans: Spans) -> None:
    """The span of a function is current in its body, ended when it returns, and current no more."""
    assert (plain(), here(), names(spans)) == ("plain", None, ["plain"])


async def ended_names(spans: Spans) -> list[str]:
    await asyncio.sleep(0)
    return names(spans)


@pytest.mark.asyncio
async def test_the_span_of_a_coroutine_lasts_until_the_body_has_returned(spans: Spans) -> None:
    """A coroutine's span is current over its awaits, and begins with its body, not with the call."""
    called = coroutine()
    assert names(spans) == []

    assert await called == ("coroutine", "coroutine")

    assert (here(), names(spans)) == (None, ["coroutine"])


def test_the_span_of_a_generator_is_current_in_its_steps_alone(spans: Spans) -> None:
    """A generator's span is current in each step, never in the consumer, and ended with the last item."""
    seen: list[tuple[object, ...]] = [(item, here(), names(spans)) for item in generator()]

    assert seen == [("generator", None, [])] * 2
    assert names(spans) == ["generator"]


@pytest.mark.asyncio
async def test_the_span_of_an_async_generator_is_current_in_its_steps_alone(spans: Spans) -> None:
    """An async generator's span is current in each step, never in the consumer, and ended with the last item."""
    seen: list[tuple[object, ...]] = [(item, here(), names(spans)) async for item in async_generator()]

    assert seen == [("async generator", None, [])] * 2
    assert names(spans) == ["async generator"]


def test_a_span_is_as_long_as_its_body(spans: Spans) -> None:
    """What is started in a body, and in the consumer between two steps, lies where it was started."""
    inner = trace.get_tracer_provider().get_tracer("test")

    @traced("outer")
    def body() -> Iterator[None]:
        inner.start_span("in the body").end()
        yield
        inner.start_span("in the body").end()

    for _ in body():
        inner.start_span("in the consumer").end()

    *parts, outer = spans()
    assert [(span.name, span.parent) for span in parts] == [
        ("in the body", outer.context),
        ("in the consumer", None),
        ("in the body", outer.context),
    ]
    assert outer.start_time is not None
    assert all(outer.start_time <= (span.start_time or 0) <= (outer.end_time or 0) for span in parts)


@pytest.mark.parametrize("through", ["wraps", "partial", "object", "lambda"])
@pytest.mark.asyncio
async def test_a_plain_wrapping_of_a_coroutine_function_is_traced_over_the_whole_body(
    spans: Spans, through: str
) -> None:
    """A coroutine that a plain callable returns before its first step is part of the body."""

    async def body() -> str | None:
        await asyncio.sleep(0)
        return here()

    @wraps(body)
    def wrapped() -> Any:
        return body()

    class Handler:
        async def __call__(self) -> str | None:
            return await body()

    ways: dict[str, Callable[[], Any]] = {
        "wraps": wrapped,
        "partial": partial(body),
        "object": Handler(),
        "lambda": lambda: body(),
    }

    assert await traced("whole")(ways[through])() == "whole"
    assert names(spans) == ["whole"]


@pytest.mark.asyncio
async def test_a_body_that_was_begun_elsewhere_is_returned_itself(spans: Spans) -> None:
    """A generator or coroutine that a plain function hands out from somewhere is not the call's own body."""
    begun = generator.__wrapped__(2)  # type: ignore[attr-defined]
    next(begun)

    assert traced("look-up")(lambda: begun)() is begun
    assert names(spans) == ["look-up"]


@pytest.mark.asyncio
async def test_a_generator_that_can_be_awaited_still_can(spans: Spans) -> None:
    """What `types.coroutine` makes is awaited as before, with the span over the whole of it."""

    @traced("old")
    @types.coroutine
    def body() -> Any:
        yield from asyncio.sleep(0).__await__()
        return here()

    assert await body() == "old"
    assert names(spans) == ["old"]


# How a body ends


def test_a_generator_that_is_closed_ends_its_span_without_an_error(spans: Spans) -> None:
    """GeneratorExit is no error."""
    steps = generator()
    next(steps)
    steps.close()  # type: ignore[attr-defined]

    assert (only(spans).status.status_code, events(only(spans))) == (StatusCode.UNSET, [])


def test_a_generator_that_is_dropped_ends_its_span(spans: Spans) -> None:
    """A generator that the consumer breaks out of and forgets ends its span when it is garbage-collected."""
    for _ in generator():
        break
    gc.collect()

    assert (only(spans).status.status_code, here()) == (StatusCode.UNSET, None)


@pytest.mark.asyncio
async def test_an_async_generator_that_is_closed_ends_its_span_without_an_error(spans: Spans) -> None:
    """`aclose`, from another task too, ends the span, and nothing is recorded."""
    steps = async_generator()
    await anext(steps)
    await asyncio.create_task(steps.aclose())  # type: ignore[attr-defined]

    assert (only(spans).status.status_code, events(only(spans))) == (StatusCode.UNSET, [])


@pytest.mark.asyncio
async def test_an_async_generator_that_is_dropped_ends_its_span(spans: Spans, caplog: pytest.LogCaptureFixture) -> None:
    """The event loop closes what was dropped in a task of its own: the span ends, and nothing is logged."""
    async for _ in async_generator():
        break
    gc.collect()
    for _ in range(5):
        await asyncio.sleep(0)

    assert only(spans).status.status_code is StatusCode.UNSET
    assert caplog.records == []


def test_an_async_generator_that_outlives_its_loop_ends_its_span_with_it(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    """What is still open when the loop shuts its async generators down is closed inside its span."""
    closed_in: list[str | None] = []
    kept: list[Any] = []

    @traced("stream")
    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            closed_in.append(here())

    async def main() -> None:
        for _ in range(20):
            kept.append(stream())
            await anext(kept[-1])

    asyncio.run(main())

    assert closed_in == names(spans) == ["stream"] * 20
    assert caplog.records == []


@pytest.mark.asyncio
async def test_an_async_body_is_closed_inside_its_span(spans: Spans) -> None:
    """What the body does on being closed, awaits included, is done before `aclose` returns, with its span current."""
    closed_in: list[str | None] = []

    @traced("stream")
    async def stream() -> Any:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            closed_in.append(here())

    steps = stream()
    await anext(steps)
    await steps.aclose()

    assert (closed_in, names(spans)) == (["stream"], ["stream"])


@pytest.mark.parametrize("make", [coroutine, generator, async_generator], ids=lambda make: make.__name__)
def test_a_body_that_never_began_has_no_span(
    spans: Spans, make: Callable[[], Any], recwarn: pytest.WarningsRecorder
) -> None:
    """Without a step there is no body and no span, and Python says once what it says of a coroutine then."""
    make()
    gc.collect()

    assert names(spans) == []
    assert [str(each.message) for each in recwarn] == (
        ["coroutine 'coroutine' was never awaited"] if make is coroutine else []
    )


def test_a_body_that_a_function_returned_and_nobody_steps_ends_its_span_when_it_is_dropped(spans: Spans) -> None:
    """The span that began with the call ends with the body at the latest."""
    traced("call")(lambda: (item for item in "ab"))()
    gc.collect()

    assert names(spans) == ["call"]


class Refused(Exception):
    pass


@traced("failing")
def failing() -> None:
    raise Refused("no")


@traced("failing")
async def failing_coroutine() -> None:
    await asyncio.sleep(0)
    raise Refused("no")


@traced("failing")
def failing_generator() -> Iterator[int]:
    yield 1
    raise Refused("no")


@traced("failing")
async def failing_async_generator() -> AsyncIterator[int]:
    yield 1
    raise Refused("no")


async def consume(items: AsyncIterator[object]) -> None:
    async for _ in items:
        pass


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(failing, id="function"),
        pytest.param(lambda: asyncio.run(failing_coroutine()), id="coroutine"),  # type: ignore[arg-type]
        pytest.param(lambda: list(failing_generator()), id="generator"),
        pytest.param(lambda: asyncio.run(consume(failing_async_generator())), id="async-generator"),  # type: ignore[arg-type]
    ],
)
def test_an_exception_is_recorded_and_passes_unchanged(spans: Spans, call: Callable[[], object]) -> None:
    """An exception that leaves the body is an event and the status of the span, once, and the caller's as it was."""
    with pytest.raises(Refused, match=r"^no$") as caught:
        call()

    span = only(spans)
    assert caught.value.__cause__ is None
    assert events(span) == ["exception"]
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "Refused: no")


def test_an_error_that_is_thrown_in_and_caught_is_no_error(spans: Spans) -> None:
    """The body may answer what is thrown into it, and what it then yields and returns arrives."""

    @traced
    def body() -> Any:
        try:
            yield 1
        except Refused:
            yield 2
        return 3

    steps = body()
    assert (next(steps), steps.throw(Refused())) == (1, 2)
    with pytest.raises(StopIteration) as stop:
        next(steps)

    assert stop.value.value == 3
    assert only(spans).status.status_code is StatusCode.UNSET


@pytest.mark.asyncio
async def test_an_error_that_is_thrown_into_an_async_body_and_caught_is_no_error(spans: Spans) -> None:
    """`athrow` reaches the body, and so does what is sent after it."""

    @traced
    async def body() -> Any:
        try:
            yield 1
        except Refused:
            yield (yield 2)

    steps = body()
    found = [await anext(steps), await steps.athrow(Refused()), await steps.asend(3)]
    await steps.aclose()

    assert found == [1, 2, 3]
    assert only(spans).status.status_code is StatusCode.UNSET


def test_an_error_that_is_thrown_in_and_leaves_the_body_is_recorded(spans: Spans) -> None:
    """What the body does not catch is its error."""
    steps = generator()
    next(steps)
    with pytest.raises(Refused):
        steps.throw(Refused("thrown"))  # type: ignore[attr-defined]

    assert only(spans).status.description == "Refused: thrown"


@pytest.mark.asyncio
async def test_a_cancellation_ends_the_span_without_an_error(spans: Spans) -> None:
    """A cancelled body has a span that ended, and no error."""
    task = asyncio.create_task(traced("waiting")(asyncio.sleep)(3600))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (only(spans).status.status_code, events(only(spans))) == (StatusCode.UNSET, [])


@pytest.mark.parametrize("end", [StopIteration, StopAsyncIteration])
def test_the_end_of_an_iterator_is_no_error(spans: Spans, end: type[Exception]) -> None:
    """A traced `__next__` may say that there is no more."""

    @traced
    def step() -> None:
        raise end

    with pytest.raises(end):
        step()

    assert only(spans).status.status_code is StatusCode.UNSET


# Beside each other, and in one another


def test_each_call_of_a_recursion_has_its_span(spans: Spans) -> None:
    """A call within a call is its child."""

    @traced("down")
    def down(depth: int) -> int:
        return depth and down(depth - 1)

    down(2)

    innermost, middle, outer = spans()
    assert (innermost.parent, middle.parent, outer.parent) == (middle.context, outer.context, None)


@pytest.mark.asyncio
async def test_tasks_at_once_keep_their_spans_apart(spans: Spans) -> None:
    """In each task its own span is current, over every await."""

    async def work(name: str) -> set[str | None]:
        seen = {here()}
        for _ in range(3):
            await asyncio.sleep(0)
            seen.add(here())
        return seen

    found = await asyncio.gather(*(traced(name)(work)(name) for name in "abc"))

    assert found == [{"a"}, {"b"}, {"c"}]
    assert sorted(names(spans)) == ["a", "b", "c"]


def test_generators_in_turn_keep_their_spans_apart(spans: Spans) -> None:
    """Bodies that are stepped by turns, from one thread and another, each have their own span current."""
    one, two = traced("one")(generator.__wrapped__)(), traced("two")(generator.__wrapped__)()  # type: ignore[attr-defined]
    seen = [next(one), next(two)]
    thread = threading.Thread(target=lambda: seen.extend([next(two), next(one)]))
    thread.start()
    thread.join()

    assert seen == ["one", "two", "two", "one"]
    assert here() is None


def test_a_span_that_a_body_holds_over_a_step_stays_in_the_body(spans: Spans) -> None:
    """What the body itself makes current is current at its next step, and never in the consumer."""
    tracer = trace.get_tracer_provider().get_tracer("test")

    @traced("outer")
    def body() -> Iterator[str | None]:
        with tracer.start_as_current_span("inner"):
            yield here()
            yield here()
        yield here()

    assert [(item, here()) for item in body()] == [("inner", None), ("inner", None), ("outer", None)]
    assert names(spans) == ["inner", "outer"]


@pytest.mark.asyncio
async def test_what_is_sent_arrives(spans: Spans) -> None:
    """`send` and `asend` reach the body."""

    @traced
    def echo() -> Any:
        yield (yield "first")

    @traced
    async def async_echo() -> Any:
        yield (yield "first")

    steps, async_steps = echo(), async_echo()

    assert (next(steps), steps.send("x")) == ("first", "x")
    assert (await anext(async_steps), await async_steps.asend("x")) == ("first", "x")
    steps.close()
    await async_steps.aclose()


# What it shows


def test_a_span_is_named_after_the_handler(spans: Spans) -> None:
    """Without a name it is the qualified name, from the defining function on."""

    class Plugin:
        @traced
        def handle(self) -> None: ...

        @traced("named")
        def other(self) -> None: ...

    Plugin().handle()
    Plugin().other()
    traced(partial(Plugin.handle.__wrapped__, None))()  # type: ignore[attr-defined]

    assert names(spans) == ["Plugin.handle", "named", "Plugin.handle"]


def test_without_a_processor_the_span_shows_the_keys_in_effect(spans: Spans) -> None:
    """Where no SessionSpanProcessor is in use, a traced span itself carries what is bound, in the otel preset."""
    with ctx.session(session_id="s1", gateway_session_key="k1", frontend=""):
        plain()

    assert dict(only(spans).attributes or {}) == {
        "session.id": "s1",
        "gen_ai.conversation.id": "s1",
        "gateway.session_key": "k1",
    }


def test_with_a_processor_the_span_shows_what_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a SessionSpanProcessor is in use, a traced span has its pin, its preset and its late facts."""
    processor = SessionSpanProcessor("mlflow")
    spans = provide(monkeypatch, processor)

    @traced
    def learn() -> None:
        ctx.amend(user_id="u1")

    with ctx.session(session_id="s1"), ctx.bind(session_id="child"):
        learn()
    processor.shutdown()

    assert dict(only(spans).attributes or {}) == {
        "session.id": "s1",
        "gen_ai.conversation.id": "s1",
        "mlflow.trace.session": "s1",
        "ctxruntime.session.id": "child",
        "user.id": "u1",
        "mlflow.trace.user": "u1",
    }


def test_what_a_processor_leaves_out_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that the processor's preset does not show, as the backend would drop it, is not shown by `traced`."""
    processor = SessionSpanProcessor("langfuse")
    spans = provide(monkeypatch, processor)

    with ctx.session(user_id="ü"):
        plain()
    processor.shutdown()

    assert dict(only(spans).attributes or {}) == {}


def test_a_span_outside_any_scope_shows_no_key(spans: Spans) -> None:
    """Nothing is bound, nothing is shown."""
    plain()

    assert dict(only(spans).attributes or {}) == {}


@pytest.mark.parametrize("kind", ["generator", "coroutine"])
def test_under_a_session_decorator_the_span_shows_its_keys(spans: Spans, kind: str) -> None:
    """The span begins with the body, inside the session that is held over it."""
    scoped: Any = ctx.session(session_id="s1")
    if kind == "generator":
        list(scoped(generator)())
    else:
        asyncio.run(scoped(coroutine)())

    assert (only(spans).attributes or {})["session.id"] == "s1"


def test_a_handler_gets_its_keys_and_its_span(spans: Spans) -> None:
    """`handler` injects and traces; a key that is required and unbound fails before the span."""

    @handler("tool")
    def block(raw: str, session_id: str) -> tuple[str, str, str | None]:
        return raw, session_id, here()

    with pytest.raises(ctx.UnboundKeyError, match="session_id"):
        block("x")  # type: ignore[call-arg]
    with ctx.session(session_id="s1"):
        assert block("x") == ("x", "s1", "tool")  # type: ignore[call-arg]

    assert names(spans) == ["tool"]
