from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ctxruntime.guarding import fault_counts
from ctxruntime.layers import SUBSCRIBERS
from ctxruntime.telemetry import SessionSpanProcessor


class Recording:
    """A real tracer provider with our processor, and what its exporter was given."""

    def __init__(self, **options: Any) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.processor = SessionSpanProcessor(**options)
        self.provider.add_span_processor(self.processor)
        self.exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("tests")

    def span(self, name: str, **options: Any) -> Any:
        return self.tracer.start_as_current_span(name, **options)

    def start(self, name: str, **options: Any) -> Any:
        return self.tracer.start_span(name, **options)

    def attributes(self, name: str) -> dict[str, Any]:
        """Return what the one exported span of this name carries."""
        (span,) = [span for span in self.exporter.get_finished_spans() if span.name == name]
        return dict(span.attributes or {})

    def column(self, attribute: str) -> dict[str, Any]:
        """Return one attribute of every exported span, by name."""
        return {span.name: (span.attributes or {}).get(attribute) for span in self.exporter.get_finished_spans()}


@pytest.fixture
def record() -> Iterator[Callable[..., Recording]]:
    """Make recordings, and see to it afterwards that nothing of ours failed and nobody is told any more."""
    made: list[Recording] = []
    faults = fault_counts()
    told = SUBSCRIBERS.copy()

    def make(**options: Any) -> Recording:
        made.append(Recording(**options))
        return made[-1]

    yield make
    for recording in made:
        recording.provider.shutdown()
    assert told == SUBSCRIBERS
    assert fault_counts() == faults


@pytest.fixture
def spans(record: Callable[..., Recording]) -> Recording:
    return record()
