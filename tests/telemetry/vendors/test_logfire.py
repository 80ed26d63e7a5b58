"""Logfire's own SDK: every span is in its conversation, and what its scrubbing leaves of the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ctxruntime as ctx
from ctxruntime.telemetry import PRESETS, SessionSpanProcessor, add_to

pytestmark = pytest.mark.vendors

SCRUBBED = "[Scrubbed due to 'session']"


class Configured:
    """An instance of Logfire that exports into memory, and sends nothing."""

    def __init__(self, **options: Any) -> None:
        import logfire

        self.exporter = InMemorySpanExporter()
        self.logfire = logfire.configure(
            local=True,
            send_to_logfire=False,
            console=False,
            inspect_arguments=False,
            additional_span_processors=[SimpleSpanProcessor(self.exporter)],
            **options,
        )
        self.processor: SessionSpanProcessor = add_to(self.logfire.config.get_tracer_provider(), preset="logfire")

    def shown(self) -> dict[str, dict[str, Any]]:
        """Return what of ours each span carries, by its name."""
        ours = {name for names in PRESETS["logfire"].names.values() for name in names}
        return {
            span.name: {name: value for name, value in (span.attributes or {}).items() if name in ours}
            for span in self.exporter.get_finished_spans()
        }


@pytest.fixture
def configure() -> Iterator[Callable[..., Configured]]:
    made: list[Configured] = []

    def make(**options: Any) -> Configured:
        made.append(Configured(**options))
        return made[-1]

    yield make
    for configured in made:
        configured.processor.shutdown()
        configured.logfire.shutdown()


@pytest.mark.parametrize("known", ["early", "late"])
def test_spans_of_every_making_are_in_the_conversation(configure: Callable[..., Configured], known: str) -> None:
    """Spans, instrumented functions and log lines carry the id under which Logfire groups, late and in threads."""
    configured = configure()
    logfire = configured.logfire

    @logfire.instrument("decorated")
    def decorated() -> None:
        ctx.amend(session_id="s1")
        logfire.info("said")

    with ctx.install(), ctx.session(session_id="s1" if known == "early" else None), logfire.span("root"):
        thread = threading.Thread(target=decorated)
        thread.start()
        thread.join()
    with logfire.span("outside"):
        pass

    conversation = {"gen_ai.conversation.id": "s1", "session.id": SCRUBBED}
    assert configured.shown() == {**dict.fromkeys(("said", "decorated", "root"), conversation), "outside": {}}


def test_scrubbing_blanks_names_with_session_and_leaves_the_rest(configure: Callable[..., Configured]) -> None:
    """By default nothing with "session" in its name is readable in Logfire; conversation and user are."""
    configured = configure()
    with (
        ctx.session(session_id="s1", previous_session_id="s0", gateway_session_key="k1", user_id="u1"),
        configured.logfire.span("work"),
    ):
        pass

    assert configured.shown()["work"] == {
        "gen_ai.conversation.id": "s1",
        "user.id": "u1",
        "session.id": SCRUBBED,
        "session.previous_id": SCRUBBED,
        "gateway.session_key": SCRUBBED,
    }


def test_a_program_can_let_the_names_of_the_preset_pass(configure: Callable[..., Configured]) -> None:
    """With a scrubbing callback that knows the preset's names, all of them are readable."""
    import logfire

    ours = {name for names in PRESETS["logfire"].names.values() for name in names}
    configured = configure(
        scrubbing=logfire.ScrubbingOptions(callback=lambda match: match.value if match.path[-1] in ours else None)
    )
    with (
        ctx.session(session_id="s1", gateway_session_key="k1"),
        configured.logfire.span("work", session_cookie="c1"),
    ):
        pass

    assert configured.shown()["work"] == {
        "gen_ai.conversation.id": "s1",
        "session.id": "s1",
        "gateway.session_key": "k1",
    }
    assert dict(configured.exporter.get_finished_spans()[0].attributes or {})["session_cookie"] == SCRUBBED
