"""The provider that Phoenix's `register` makes, whose own way of adding a processor throws the exporter away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ctxruntime as ctx
from ctxruntime.telemetry import SessionSpanProcessor, add_to, follow_providers

pytestmark = pytest.mark.vendors


def register() -> tuple[Any, InMemorySpanExporter]:
    """Return a provider of Phoenix's and its exporter, exchanged for one in memory."""
    from phoenix.otel import register

    provider: Any = register(endpoint="http://127.0.0.1:9/v1/traces", verbose=False, set_global_tracer_provider=False)
    exporter = InMemorySpanExporter()
    assert isinstance(provider._default_processor, SimpleSpanProcessor)
    provider._default_processor.span_exporter = exporter
    return provider, exporter


@pytest.fixture
def registered() -> Iterator[tuple[Any, InMemorySpanExporter]]:
    provider, exporter = register()
    yield provider, exporter
    provider.shutdown()


def sessions(provider: Any, exporter: InMemorySpanExporter) -> list[object]:
    """Return the session of each span that is exported of a turn whose id comes late."""
    with ctx.session(gateway_session_key="k1"), provider.get_tracer("tests").start_as_current_span("root"):
        ctx.amend(session_id="s1")
        provider.get_tracer("tests").start_span("child").end()
    return [(span.attributes or {}).get("session.id") for span in exporter.get_finished_spans()]


def test_add_to_leaves_phoenix_its_exporter(registered: tuple[Any, InMemorySpanExporter]) -> None:
    """What `register` set up goes on exporting, with the session on every span."""
    add_to(registered[0], preset="phoenix")

    assert sessions(*registered) == ["s1", "s1"]


def test_phoenixs_own_way_of_adding_is_a_trap(registered: tuple[Any, InMemorySpanExporter]) -> None:
    """Added by `provider.add_span_processor`, nothing is exported any more: the reason for `add_to`."""
    registered[0].add_span_processor(SessionSpanProcessor("phoenix"))

    assert sessions(*registered) == []


def test_a_provider_that_is_registered_later_is_followed() -> None:
    """`follow_providers` serves a `register` that comes after it, and its exporter stays."""
    stop = follow_providers(preset="phoenix")
    try:
        provider, exporter = register()
    finally:
        stop()

    assert sessions(provider, exporter) == ["s1", "s1"]
    provider.shutdown()
