"""Adding the processor to a provider, whoever made it and whenever."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ctxruntime as ctx
from ctxruntime.telemetry import NoProviderError, UnknownPresetError, add_to, follow_providers


class Replacing(TracerProvider):
    """Throws its exporter away when a processor is added, as Phoenix's provider does."""

    def __init__(self) -> None:
        super().__init__(shutdown_on_exit=False)
        self.exporter = InMemorySpanExporter()
        super().add_span_processor(SimpleSpanProcessor(self.exporter))

    def add_span_processor(self, span_processor: Any) -> None:
        raise AssertionError("the exporter would be gone")


class Wrapping:
    """Passes everything on to a provider that can be exchanged, as Logfire's does."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider


@pytest.fixture
def provider() -> Iterator[Replacing]:
    provider = Replacing()
    yield provider
    provider.shutdown()


def exported(provider: Replacing) -> list[object]:
    with ctx.session(session_id="s1"):
        provider.get_tracer("tests").start_span("work").end()
    return [(span.attributes or {}).get("session.id") for span in provider.exporter.get_finished_spans()]


@pytest.mark.parametrize("wrap", [lambda made: made, Wrapping], ids=["subclass", "wrapped"])
def test_the_exporter_of_a_provider_stays(provider: Replacing, wrap: Callable[[Any], object]) -> None:
    """The processor is added past a provider's own way of adding, and past what wraps the provider."""
    add_to(wrap(provider))

    assert exported(provider) == ["s1"]


def test_adding_the_same_twice_is_adding_it_once(provider: Replacing) -> None:
    """The same options give the same processor; others, another one."""
    first = add_to(provider, preset="langfuse")

    assert add_to(provider, preset="langfuse") is first
    assert add_to(provider, preset="langfuse", pin="span") is not first


def test_without_a_provider_there_is_an_error_that_says_what_to_do() -> None:
    """What takes no processor, such as the API's stand-in for a provider to come, is refused."""
    program = "from ctxruntime.telemetry import add_to; add_to()"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert result.stderr.splitlines()[-1].endswith(
        "NoProviderError: ProxyTracerProvider takes no span processor: set up the SDK first, or call "
        "follow_providers() before it is"
    )
    with pytest.raises(NoProviderError, match="object takes no span processor"):
        add_to(object())


def test_providers_that_are_made_later_are_followed_until_the_undo() -> None:
    """Every provider made meanwhile, a subclass too, mirrors keys, before its exporter; none made afterwards."""
    init = TracerProvider.__init__
    stop = follow_providers(preset="langsmith")
    try:
        followed = Replacing()
    finally:
        stop()
        stop()
    later = Replacing()

    assert exported(followed) == ["s1"]
    assert "langsmith.metadata.thread_id" in (followed.exporter.get_finished_spans()[0].attributes or {})
    assert exported(later) == [None]
    assert TracerProvider.__init__ is init
    followed.shutdown()
    later.shutdown()


def test_following_refuses_a_wrong_option_at_once() -> None:
    """What is wrong with the call is its own error, not one of the host that makes a provider later."""
    init = TracerProvider.__init__
    with pytest.raises(UnknownPresetError):
        follow_providers(preset="nope")

    assert TracerProvider.__init__ is init


WITHOUT_SDK = """
import sys
sys.modules["opentelemetry.sdk"] = None
import ctxruntime.telemetry
assert "opentelemetry.sdk.trace" not in sys.modules
from ctxruntime.telemetry import {name}
"""


@pytest.mark.parametrize("name", ["SessionSpanProcessor", "add_to", "follow_providers"])
def test_without_the_sdk_the_error_names_the_extra(name: str) -> None:
    """What needs the SDK says which extra of ours brings it."""
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_SDK.format(name=name)], capture_output=True, text=True, timeout=60, check=False
    )

    assert result.stderr.splitlines()[-1] == (
        "ctxruntime.telemetry.errors.MissingExtraError: this needs opentelemetry-sdk, which is not installed: "
        "pip install 'ctxruntime[otel]'"
    )


@pytest.mark.parametrize("name", ["PRESETS", "set_hash_key"])
def test_what_needs_no_sdk_works_without(name: str) -> None:
    """Presets and redaction are there with the API alone."""
    subprocess.run([sys.executable, "-c", WITHOUT_SDK.format(name=name)], check=True, timeout=60)
