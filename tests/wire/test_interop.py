"""OpenTelemetry's own propagators read what we write, and we read what they write."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import baggage, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import ctxruntime as ctx
from ctxruntime import wire

TENANT = ctx.Key("interop_tenant", wire=True)
UMLAUT = ctx.Key("interop_schlüssel", wire=True)

# 300 characters of 12 bytes each still fit one entry.
clean = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=300)


@given(value=clean)
def test_opentelemetry_reads_what_we_write(value: str) -> None:
    """The value arrives in OpenTelemetry's baggage, but for the white space around it that it strips."""
    with ctx.session({TENANT: value, UMLAUT: "1"}):
        context = W3CBaggagePropagator().extract(wire.inject(), context=Context())

    assert baggage.get_all(context) == {"interop_tenant": value.strip(), "interop_schlüssel": "1"}


@given(value=clean)
def test_we_read_what_opentelemetry_writes(value: str) -> None:
    """Its baggage under a key's name arrives as the key, spaces included, which it writes as `+`."""
    context = baggage.set_baggage("interop_tenant", value, baggage.set_baggage("theirs", "x, y", Context()))
    headers: dict[str, str] = {}
    W3CBaggagePropagator().inject(headers, context)

    assert wire.extract(headers, trust=(TENANT,)) == {TENANT: value}


def test_both_write_into_one_header() -> None:
    """Its entries survive when we inject after it, and ours are not doubled."""
    context = baggage.set_baggage("theirs", "x, y", baggage.set_baggage("interop_tenant", "old", Context()))
    headers: dict[str, str] = {}
    W3CBaggagePropagator().inject(headers, context)
    with ctx.session({TENANT: "acme"}):
        wire.inject(headers)

    back = W3CBaggagePropagator().extract(headers, context=Context())
    assert baggage.get_all(back) == {"theirs": "x, y", "interop_tenant": "acme"}


def test_opentelemetry_continues_the_trace() -> None:
    """A span started from our headers is a child of the span that was current here."""
    span = NonRecordingSpan(SpanContext(trace_id=0xA, span_id=0xB, is_remote=False, trace_flags=TraceFlags(1)))
    with trace.use_span(span):
        headers = wire.inject()

    context = trace.get_current_span(TraceContextTextMapPropagator().extract(headers)).get_span_context()
    assert (context.trace_id, context.span_id) == (0xA, 0xB)


def test_opentelemetry_reads_the_environment() -> None:
    """Its carrier for environments finds both under the names of its specification."""
    carrier: Any = pytest.importorskip("opentelemetry.propagators._envcarrier", reason="the api is older than that")
    span = NonRecordingSpan(SpanContext(trace_id=0xA, span_id=0xB, is_remote=False, trace_flags=TraceFlags(1)))
    with ctx.session({TENANT: "acme"}), trace.use_span(span):
        env = wire.child_env({})

    getter = carrier.EnvironmentGetter()
    context = TraceContextTextMapPropagator().extract(env, getter=getter)
    context = W3CBaggagePropagator().extract(env, context=context, getter=getter)
    assert trace.get_current_span(context).get_span_context().span_id == 0xB
    assert baggage.get_all(context) == {"interop_tenant": "acme"}
