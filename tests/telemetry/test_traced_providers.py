"""Whose spans a traced handler makes, and that no provider, a late one or a faulty one does harm."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from ctxruntime.guarding import fault_counts
from ctxruntime.telemetry.traced import handler, traced


def provider() -> tuple[TracerProvider, InMemorySpanExporter]:
    made, exporter = TracerProvider(), InMemorySpanExporter()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made, exporter


def run(program: str, **environment: str) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environment}
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@traced
def call() -> bool:
    return trace.get_current_span().is_recording()


def test_a_provider_that_is_changed_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call asks the global provider of the moment, and none is as it was before."""
    (one, at_one), (two, at_two) = provider(), provider()
    found = [call()]
    for made in (one, two, None, one):
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", made)
        found.append(call())

    assert found == [False, True, True, False, True]
    assert (len(at_one.get_finished_spans()), len(at_two.get_finished_spans())) == (2, 1)


def test_a_body_keeps_the_span_that_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that is set between two steps is for the calls after."""
    (one, at_one), (two, at_two) = provider(), provider()

    @traced
    def steps() -> Any:
        yield 1
        yield 2

    monkeypatch.setattr(trace, "_TRACER_PROVIDER", one)
    begun = steps()
    next(begun)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", two)
    list(begun)

    assert (len(at_one.get_finished_spans()), len(at_two.get_finished_spans())) == (1, 0)


LATE = """
from ctxruntime.telemetry.traced import handler
@handler("tool")
def block(session_id=None):
    return session_id
from opentelemetry import trace
block()
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
import ctxruntime as ctx
with ctx.session(session_id="s1"):
    print(block())
    print([(span.name, span.attributes["session.id"]) for span in exporter.get_finished_spans()])
"""


def test_a_provider_that_is_set_late_is_used() -> None:
    """What was decorated, and called, before there was a provider makes spans from then on."""
    assert run(LATE) == "s1\n[('tool', 's1')]\n"


def test_a_provider_that_the_environment_names_is_loaded_by_the_first_call() -> None:
    """OTEL_PYTHON_TRACER_PROVIDER is asked for as OpenTelemetry does it, and not before a call."""
    program = """
from ctxruntime.telemetry.traced import traced
from opentelemetry import trace
@traced
def call():
    return trace.get_current_span().is_recording()
print(trace._TRACER_PROVIDER, call(), type(trace._TRACER_PROVIDER).__module__)
"""

    assert run(program, OTEL_PYTHON_TRACER_PROVIDER="sdk_tracer_provider") == "None True opentelemetry.sdk.trace\n"


API_ALONE = """
import sys
sys.modules["opentelemetry.sdk"] = None  # importing it fails, as where it is not installed
import asyncio, ctxruntime as ctx
from ctxruntime.telemetry.traced import handler, traced
@handler("tool", record_input=True, record_output=True)
def block(raw, session_id): return raw, session_id
@handler
async def fetch(session_id): return session_id
@traced
def steps():
    yield 1
@handler
async def stream(session_id):
    yield session_id
@traced
def failing(): raise KeyError("mine")
async def main(): return await fetch(), [item async for item in stream()]
with ctx.session(session_id="s1"):
    print(block("x"), list(steps()), asyncio.run(main()))
try:
    failing()
except KeyError as error:
    print(error)
print(sorted(name for name in sys.modules if name.startswith("opentelemetry.sdk.")))
"""


def test_with_the_api_alone_everything_works() -> None:
    """Without opentelemetry-sdk handlers get their keys, there is no span, and nothing is said."""
    assert run(API_ALONE) == "('x', 's1') [1] ('s1', ['s1'])\n'mine'\n[]\n"


def test_importing_loads_no_opentelemetry() -> None:
    """OpenTelemetry comes with the first handler that is traced, not with the import."""
    program = """
import sys
from ctxruntime.telemetry.traced import handler, traced
print("opentelemetry" in sys.modules)
traced(lambda: None)
print("opentelemetry" in sys.modules)
"""

    assert run(program) == "False\nTrue\n"


def test_a_provider_that_makes_no_spans_leaves_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a no-op provider the span that is current outside is current in the body."""
    made, _ = provider()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider())

    with made.get_tracer("test").start_as_current_span("outer") as outer:
        assert traced(trace.get_current_span)() is outer


def test_a_span_that_is_not_sampled_is_current_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is below an unsampled span has to know that it is not sampled."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(sampler=ALWAYS_OFF))

    found = traced(trace.get_current_span)().get_span_context()

    assert (found.is_valid, found.trace_flags.sampled) == (True, False)


# A tracer that fails


class Broken(Exception):
    pass


def fail(*args: object, **kwargs: object) -> Any:
    raise Broken


class BrokenSpan(trace.NonRecordingSpan):
    def __init__(self) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)

    is_recording = set_attribute = record_exception = set_status = end = fail


class Provider(trace.TracerProvider):
    """A provider that fails at one place."""

    def __init__(self, place: str) -> None:
        self.place = place

    def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
        return fail() if self.place == "get_tracer" else self

    def start_span(self, name: str) -> Any:
        if self.place == "start_span":
            fail()
        return None if self.place == "no span" else BrokenSpan()


async def gather(items: Any) -> list[object]:
    return [item async for item in items]


@pytest.mark.parametrize("place", ["get_tracer", "start_span", "span", "no span"])
@pytest.mark.parametrize(
    "decorator",
    [traced, handler, traced(record_input=True, record_output=True)],
    ids=["traced", "handler", "with-content"],
)
def test_a_faulty_tracer_never_breaks_a_handler(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str, decorator: Any
) -> None:
    """Results, items and errors are the handler's own, whatever fails in the tracer; the fault is counted."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", Provider(place))
    caplog.set_level(logging.CRITICAL)
    before = sum(fault_counts().values())

    @decorator
    def steps() -> Any:
        yield 1
        return 2

    @decorator
    async def fetch() -> int:
        await asyncio.sleep(0)
        return 3

    @decorator
    async def stream() -> Any:
        yield 4

    @decorator
    def failing() -> None:
        raise KeyError("mine")

    assert list(steps()) == [1]
    assert (asyncio.run(fetch()), asyncio.run(gather(stream()))) == (3, [4])
    with pytest.raises(KeyError, match="mine"):
        failing()
    assert sum(fault_counts().values()) > before
    assert context.get_current() == {}


def test_a_fault_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A tracer that fails at each call is named in one log line."""
    monkeypatch.setattr("ctxruntime.guarding._counts", {})
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", Provider("start_span"))
    for _ in range(3):
        call()

    assert [record.name for record in caplog.records] == ["ctxruntime"]
    assert fault_counts() == {"traced: a span starts": 3}
