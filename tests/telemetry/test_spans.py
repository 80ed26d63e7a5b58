"""Every span that is started while keys are bound carries them, whoever starts it and wherever it runs."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import set_span_in_context

import ctxruntime as ctx
from ctxruntime.telemetry import SessionSpanProcessor

TENANT = ctx.Key("telemetry_tenant", attributes="tenant.id")
RETRY = ctx.Key("telemetry_retry", int, attributes=("retry", "retry.count"), default=7)


S1 = {"session.id": "s1", "gen_ai.conversation.id": "s1"}


def test_all_spans_of_a_turn_carry_its_keys(spans: Any) -> None:
    """Root, child and grandchild carry every key under its attribute names."""
    keys = {"session_id": "s1", "gateway_session_key": "k1", "user_id": "u1", "frontend": "cli"}
    with ctx.session(**keys), spans.span("root"), spans.span("child"), spans.span("grandchild"):
        pass

    shown = {**S1, "gateway.session_key": "k1", "user.id": "u1", "frontend": "cli"}
    assert [spans.attributes(name) for name in ("root", "child", "grandchild")] == [shown] * 3


def test_the_spans_that_are_open_when_a_turn_is_entered_carry_its_keys(spans: Any) -> None:
    """The current span and those above it are in the turn that is entered in them, if they are in none."""
    with spans.span("root"), spans.span("current"):
        with ctx.session(session_id="s1"):
            pass
        with ctx.session(session_id="s2"):
            pass

    assert spans.column("session.id") == {"root": "s1", "current": "s1"}


def test_a_span_is_in_one_turn_only(spans: Any) -> None:
    """The next turn in the same open span adds nothing to it, whatever it knows more."""
    with spans.span("worker"):
        with ctx.session(session_id="s1"):
            pass
        with ctx.session(session_id="s2", user_id="u2"):
            ctx.amend(frontend="cli")

    assert spans.attributes("worker") == S1


def test_a_nested_bind_takes_no_span_in(spans: Any) -> None:
    """A span of no turn that is made current within one stays outside, whatever is bound there."""
    outside = spans.start("outside")
    with ctx.session(session_id="s1"), trace.use_span(outside, end_on_exit=True), ctx.bind(user_id="u1"):
        pass

    assert spans.attributes("outside") == {}


def test_a_session_is_not_shown_as_the_one_before_itself(spans: Any) -> None:
    """`session.previous_id` differs from `session.id`, or is not there."""
    with ctx.session(session_id="s1", previous_session_id="s1"):
        spans.start("work").end()

    assert spans.attributes("work") == S1


@pytest.mark.parametrize("kind", ["function", "coroutine", "generator"])
def test_the_open_span_is_in_the_turn_of_a_decorated_function(spans: Any, kind: str) -> None:
    """However a turn is entered, the span that is current then carries its keys."""
    scope = ctx.session(session_id="s1")

    @scope
    def function() -> None: ...

    @scope
    async def coroutine() -> None: ...

    @scope
    def generator() -> Iterator[None]:
        yield

    run = {"function": function, "coroutine": lambda: asyncio.run(coroutine()), "generator": lambda: [*generator()]}
    with spans.span("server"):
        run[kind]()

    assert spans.attributes("server") == S1


def test_a_span_with_an_empty_context_carries_the_keys(spans: Any) -> None:
    """A span that is told to have no parent is of the turn in effect."""
    with ctx.session(session_id="s1"):
        spans.start("alone", context=Context()).end()

    assert spans.attributes("alone") == S1


def test_a_span_after_the_turn_carries_nothing(spans: Any) -> None:
    """After leaving, spans carry nothing, those under a span that was in the turn included."""
    with spans.span("root"):
        with ctx.session(session_id="s1"):
            pass
        with spans.span("after"):
            pass

    assert spans.attributes("after") == {}


def test_a_span_that_is_not_current_carries_the_keys(spans: Any) -> None:
    """`start_span` is enough, and who ends it where does not matter."""
    with ctx.session(session_id="s1"):
        span = spans.start("work")
    thread = threading.Thread(target=span.end)
    thread.start()
    thread.join()

    assert spans.attributes("work") == S1


def test_spans_in_threads_and_pools_carry_the_submitters_keys(spans: Any) -> None:
    """With `install()`, spans of threads, pool jobs and `run_in_executor` are of the turn that started the work."""

    def work(name: str) -> None:
        with spans.span(name):
            pass

    async def main(pool: ThreadPoolExecutor) -> None:
        await asyncio.get_running_loop().run_in_executor(pool, work, "executor")

    with ctx.install(), ThreadPoolExecutor(1) as pool:
        for session_id in ("s1", "s2"):
            with ctx.session(session_id=session_id):
                pool.submit(work, f"pool {session_id}").result()
                thread = threading.Thread(target=work, args=[f"thread {session_id}"])
                thread.start()
                thread.join()
        with ctx.session(session_id="s3"):
            asyncio.run(main(pool))

    assert spans.column("session.id") == {
        "pool s1": "s1",
        "thread s1": "s1",
        "pool s2": "s2",
        "thread s2": "s2",
        "executor": "s3",
    }


def test_concurrent_turns_keep_apart(spans: Any) -> None:
    """Each of many tasks at once has its own session on its spans."""

    async def turn(number: int) -> None:
        with ctx.session(session_id=f"s{number}"), spans.span(f"s{number}"):
            await asyncio.sleep(0)
            with spans.span(f"s{number}"):
                await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(turn(number) for number in range(20)))

    asyncio.run(main())

    found = [(span.name, (span.attributes or {}).get("session.id")) for span in spans.exporter.get_finished_spans()]
    assert sorted(found) == sorted((f"s{number}", f"s{number}") for number in range(20) for _ in "12")


@pytest.mark.parametrize("before", [0, 1, 2])
def test_what_a_span_was_started_with_wins_in_every_trace(spans: Any, before: int) -> None:
    """A span's own attributes stay, be it the turn's first span or one of a later trace."""
    with ctx.session(session_id="s1", user_id="u1", frontend="cli"):
        for number in range(before):
            spans.start(f"before {number}").end()
        spans.start("own", attributes={"user.id": "mine"}).end()

    assert spans.attributes("own") == {**S1, "user.id": "mine", "frontend": "cli"}


def test_what_the_caller_set_wins(spans: Any) -> None:
    """An attribute that is given at start stays, and the others are added."""
    with ctx.session(session_id="s1", user_id="u1", previous_session_id="s0"):
        spans.start("work", attributes={"session.id": "mine", "other": 1}).end()

    shown = {"session.id": "mine", "other": 1, "gen_ai.conversation.id": "s1", "user.id": "u1"}
    assert spans.attributes("work") == shown


class OtherwiseMade:
    """A span that keeps its attributes where the SDK's of today does not."""

    def __init__(self, **given: str) -> None:
        self.attributes = {name.replace("_", "."): value for name, value in given.items()}
        self.context = trace.SpanContext(trace_id=7, span_id=8, is_remote=False)

    def set_attributes(self, attributes: dict[str, str]) -> None:
        self.attributes |= attributes

    def set_attribute(self, name: str, value: str) -> None:
        self.attributes[name] = value


def test_what_the_caller_set_wins_wherever_a_span_keeps_it(spans: Any) -> None:
    """An attribute that is given at start stays, whatever a span is inside: in a turn's first and later ones."""
    shown: list[dict[str, str]] = []
    with ctx.session(session_id="s1", user_id="u1"):
        for _ in range(3):
            span: Any = OtherwiseMade(session_id="mine")
            spans.processor.on_start(span)
            shown.append(span.attributes)

    assert shown == [{"session.id": "mine", "gen_ai.conversation.id": "s1", "user.id": "u1"}] * 3


def test_an_explicit_parent_of_another_turn_wins_over_the_keys_in_effect(spans: Any) -> None:
    """A span that is given a parent of another turn is that turn's, here and outside any turn."""
    with ctx.session(session_id="s1"):
        parent = spans.start("parent")
    context = set_span_in_context(parent)
    with ctx.session(session_id="s2"):
        spans.start("foreign", context=context).end()
    spans.start("outside", context=context).end()

    assert spans.column("session.id") == {"foreign": "s1", "outside": "s1"}


def test_a_parent_that_is_current_anyway_decides_nothing(spans: Any) -> None:
    """A turn inside a span of another turn has its own keys, also where a library passes the context on."""
    with ctx.session(session_id="s1"), spans.span("outer"), ctx.session(session_id="s2"):
        spans.start("implicit").end()
        spans.start("passed on", context=set_span_in_context(trace.get_current_span())).end()

    assert spans.column("session.id") == {"implicit": "s2", "passed on": "s2", "outer": "s1"}


def test_a_parent_of_the_same_turn_leaves_the_nested_scope_in_effect(spans: Any) -> None:
    """Within one turn, what is bound where the span starts is shown."""
    with ctx.session(session_id="s1", user_id="u1"):
        parent = spans.start("parent")
        with ctx.bind(user_id="u2"):
            spans.start("child", context=set_span_in_context(parent)).end()

    assert spans.attributes("child") == {**S1, "user.id": "u2"}


def test_a_bind_outside_any_turn_is_mirrored(spans: Any) -> None:
    """Where there is no turn, the outermost bind is what spans belong to."""
    with spans.span("open"), ctx.bind(session_id="s1"), spans.span("inner"), ctx.bind(session_id="child"):
        spans.start("child").end()

    assert spans.column("session.id") == {"child": "s1", "inner": "s1", "open": "s1"}
    assert spans.attributes("child")["ctxruntime.session.id"] == "child"


def test_cleared_spans_carry_nothing(spans: Any) -> None:
    """What is started under `cleared()` is of no session, and can be of one that is entered there."""
    with ctx.session(session_id="s1"), ctx.cleared(), spans.span("cleared"):
        pass
    with ctx.session(session_id="s1"), ctx.cleared(), spans.span("lent"), ctx.session(session_id="s2"):
        pass

    assert spans.column("session.id") == {"cleared": None, "lent": "s2"}


def test_own_keys_are_shown_under_their_names_and_defaults_are_not(spans: Any) -> None:
    """A key of one's own has the attributes it was defined with, in its own type; a default is no fact."""
    with ctx.session({TENANT: "acme", RETRY: 0}):
        spans.start("both").end()
    with ctx.session({TENANT: "acme"}):
        spans.start("one").end()

    assert spans.attributes("both") == {"tenant.id": "acme", "retry": 0, "retry.count": 0}
    assert spans.attributes("one") == {"tenant.id": "acme"}


def test_a_key_that_is_defined_later_is_shown_too(spans: Any) -> None:
    """Keys may be defined after the first span."""
    with ctx.session(session_id="s1"):
        spans.start("before").end()
    late = ctx.Key("telemetry_late", attributes="late")
    with ctx.session({late: "here"}):
        spans.start("after").end()

    assert spans.attributes("after") == {"late": "here"}


def test_unbound_and_empty_keys_leave_no_trace(spans: Any, caplog: pytest.LogCaptureFixture) -> None:
    """No attribute is null or empty, and the SDK has nothing to warn about."""
    with caplog.at_level(logging.DEBUG):
        spans.start("outside").end()
        with ctx.session(session_id=None, gateway_session_key="", user_id="u1"):
            spans.start("inside").end()

    assert spans.attributes("outside") == {}
    assert spans.attributes("inside") == {"user.id": "u1"}
    assert caplog.records == []


def test_a_turn_left_elsewhere_is_not_shown_where_it_was_entered(spans: Any) -> None:
    """A span behind a turn that another thread has closed carries nothing."""
    for what in ("shown before", "never shown"):
        scope = ctx.session(session_id="s1")
        scope.open()
        if what == "shown before":
            spans.start(what).end()
            assert spans.attributes(what)["session.id"] == "s1"
        thread = threading.Thread(target=scope.close)
        thread.start()
        thread.join()

        spans.start(f"after: {what}").end()

        assert spans.attributes(f"after: {what}") == {}


def test_spans_that_are_not_recorded_are_left_alone() -> None:
    """A span that no exporter will see is not touched, and none is kept for the turn."""
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    processor = SessionSpanProcessor()
    provider.add_span_processor(processor)
    with ctx.session(session_id="s1") as turn:
        span: Any = provider.get_tracer("tests").start_span("work")

        assert not span.is_recording()
        assert turn.mirrored is None
    processor.shutdown()


def test_open_spans_are_held_weakly(spans: Any) -> None:
    """Spans that are dropped without an end are collected, and leave next to nothing in a turn that goes on."""
    with ctx.session(session_id="s1") as turn:
        dropped = [weakref.ref(spans.start("dropped")) for _ in range(1000)]
        held = [spans.start("held") for _ in range(3)]

        assert [reference for reference in dropped if reference() is not None] == []
        assert len(turn.mirrored.spans) < 100
        ctx.amend(user_id="u1")
        assert [span.attributes["user.id"] for span in held] == ["u1"] * 3


def test_spans_that_are_over_take_no_room_where_somebody_keeps_them(spans: Any) -> None:
    """A turn that goes on refers to few of the spans that have ended, though they are kept elsewhere."""
    kept: list[Any] = []
    with ctx.session(session_id="s1") as turn:
        for _ in range(1000):
            kept.append(spans.start("over"))
            kept[-1].end()

        assert len(turn.mirrored.spans) < 100


def test_a_turn_and_its_spans_are_no_cycle(spans: Any) -> None:
    """With the collector off, a turn goes with its last span."""
    gc.collect()
    gc.disable()
    try:
        with ctx.session(gateway_session_key="k1") as turn, spans.span("root"):
            ctx.amend(session_id="s1")
        gone = weakref.ref(turn)
        spans.exporter.clear()
        del turn

        assert gone() is None
    finally:
        gc.enable()


def test_two_processors_show_the_same_span_in_two_ways(spans: Any) -> None:
    """Two presets on one provider, or on two, do not get in each other's way."""
    second = SessionSpanProcessor("langsmith")
    spans.provider.add_span_processor(second)
    with spans.span("root"), ctx.session(user_id="u1"), spans.span("work"):
        ctx.amend(session_id="s1")

    shown = {"session.id": "s1", "langsmith.metadata.thread_id": "s1", "langsmith.metadata.user_id": "u1"}
    assert [spans.attributes(name) | shown for name in ("root", "work")] == [
        spans.attributes(name) for name in ("root", "work")
    ]


def test_what_is_mirrored_does_not_leave_the_program(spans: Any) -> None:
    """Spans have the keys and outgoing headers do not: baggage would tell third parties who talks to whom."""
    headers: dict[str, str] = {}
    with ctx.session(session_id="s1", gateway_session_key="agent:main:discord:dm:7"), spans.span("request"):
        propagate.inject(headers)

    assert list(headers) == ["traceparent"]


@pytest.mark.parametrize(("option", "value"), [("preset", "nope"), ("pin", "turn"), ("group_by", "user")])
def test_a_wrong_option_is_refused(option: str, value: str) -> None:
    """Asking for what there is not is an error at once, which names it."""
    with pytest.raises(ValueError, match=value):
        SessionSpanProcessor(**{option: value})  # type: ignore[arg-type]
