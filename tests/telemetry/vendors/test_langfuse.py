"""Langfuse's own SDK: every observation is in its session, whoever makes it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

import ctxruntime as ctx
from ctxruntime.telemetry import add_to

pytestmark = pytest.mark.vendors

S1 = {"session.id": "s1", "gen_ai.conversation.id": "s1"}


class Client:
    """A client of Langfuse that made the global provider, exports into memory and calls nobody."""

    def __init__(self) -> None:
        from langfuse import Langfuse

        self.exporter = InMemorySpanExporter()
        self.langfuse = Langfuse(
            public_key=f"pk-lf-{uuid4()}",
            secret_key="sk-lf-0",
            base_url="http://127.0.0.1:9",
            span_exporter=self.exporter,
            should_export_span=lambda span: True,
        )
        self.processor = add_to(trace.get_tracer_provider(), preset="langfuse")

    def shown(self) -> dict[str, dict[str, Any]]:
        """Return what of ours each observation carries, by its name."""
        self.langfuse.flush()
        return {
            span.name: {
                name: value for name, value in (span.attributes or {}).items() if not name.startswith("langfuse.")
            }
            for span in self.exporter.get_finished_spans()
        }


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr("ctxruntime.telemetry.presets._warned", set())
    made = Client()
    yield made
    made.langfuse.shutdown()
    made.processor.shutdown()
    type(made.langfuse._resources).reset()


def test_observations_of_every_making_are_in_the_session(client: Client) -> None:
    """Spans of `@observe`, of the client's own methods, and of other tracers carry the session, in threads too."""
    from langfuse import observe

    @observe
    def decorated() -> None: ...

    @observe(as_type="generation")
    def generation() -> None:
        thread = threading.Thread(target=decorated)
        thread.start()
        thread.join()
        with client.langfuse.start_as_current_observation(name="by hand", as_type="tool"):
            trace.get_tracer("other").start_span("other").end()

    with ctx.install(), ctx.session(session_id="s1"):
        generation()
    generation_shown = client.shown()
    client.exporter.clear()
    decorated()

    assert generation_shown == {"decorated": S1, "other": S1, "by hand": S1, "generation": S1}
    assert client.shown() == {"decorated": {}}


def test_a_late_id_reaches_the_open_observations(client: Client) -> None:
    """An id that is learned inside, in a thread, is on every observation that was open then, the root included."""
    from langfuse import observe

    @observe
    def late() -> None:
        ctx.amend(session_id="s1")

    @observe
    def root() -> None:
        thread = threading.Thread(target=late)
        thread.start()
        thread.join()

    with ctx.install(), ctx.session(gateway_session_key="k1"):
        root()

    shown = {**S1, "gateway.session_key": "k1"}
    assert client.shown() == {"late": shown, "root": shown}


def test_what_the_client_propagates_itself_wins(client: Client) -> None:
    """A session that is given by Langfuse's own `propagate_attributes` stays, and ours is added beside it."""
    from langfuse import propagate_attributes

    with ctx.session(session_id="s1"), propagate_attributes(session_id="theirs"):
        client.langfuse.start_observation(name="work").end()

    assert client.shown() == {"work": {"session.id": "theirs", "gen_ai.conversation.id": "s1"}}


@pytest.mark.parametrize(
    ("session_id", "kept"),
    [("s" * 200, True), ("s" * 201, False), ("sitzung-ä", False)],
    ids=["200 characters", "201 characters", "umlaut"],
)
def test_the_limits_are_langfuses_own(
    client: Client, caplog: pytest.LogCaptureFixture, session_id: str, kept: bool
) -> None:
    """What Langfuse drops, in its SDK or at its server, is absent here, with one warning that names the key."""
    from langfuse import propagate_attributes

    def shows(name: str) -> bool:
        client.langfuse.start_observation(name=name).end()
        return "session.id" in client.shown()[name]

    with propagate_attributes(session_id=session_id):
        theirs = shows("theirs")
    with caplog.at_level(logging.WARNING, "ctxruntime"), ctx.session(session_id=session_id):
        ours = [shows("first"), shows("second")]

    warned = [record.getMessage() for record in caplog.records if record.name == "ctxruntime"]
    assert theirs is (len(session_id) <= 200)  # its SDK lets other characters pass, and its server drops them
    assert ours == [kept, kept]
    assert [message.partition(" is ")[0] for message in warned] == [] if kept else ["a value of key 'session_id'"]
