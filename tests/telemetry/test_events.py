"""The events `session.start` and `session.end`: when they come, once per id, and what they carry."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as sdk_export
from opentelemetry.sdk.trace import TracerProvider

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.layers import SUBSCRIBERS
from ctxruntime.telemetry.events import SESSION_END, SESSION_START, emit_session_events
from ctxruntime.telemetry.log_records import add_logs_to

InMemory: Any = getattr(sdk_export, "InMemoryLogRecordExporter", None) or sdk_export.InMemoryLogExporter
SECRET = ctx.Key("log_secret", str, attributes="log.secret", redact="drop")


class Backend:
    def __init__(self) -> None:
        self.exporter = InMemory()
        self.provider = LoggerProvider()
        add_logs_to(self.provider)
        self.provider.add_log_record_processor(sdk_export.SimpleLogRecordProcessor(self.exporter))

    @property
    def records(self) -> list[Any]:
        return [it.log_record for it in self.exporter.get_finished_logs()]

    @property
    def told(self) -> list[tuple[str, ...]]:
        """Return the events, each as its name, its session, and the one before if it has one."""
        return [
            (
                name_of(it),
                it.attributes["session.id"],
                *([it.attributes["session.previous_id"]] if continues(it) else []),
            )
            for it in self.records
        ]


def name_of(record: Any) -> str:
    """Return an event's name: a field of its own, and in an SDK before 1.35 an attribute."""
    return str(getattr(record, "event_name", None) or record.attributes["event.name"])


def continues(record: Any) -> bool:
    return "session.previous_id" in record.attributes


@pytest.fixture
def backend() -> Iterator[Backend]:
    backend = Backend()
    with emit_session_events(backend.provider):
        yield backend
    assert SUBSCRIBERS == []
    backend.provider.shutdown()


def test_a_session_starts_when_its_id_is_first_seen(backend: Backend) -> None:
    """An id that is entered starts its session once, in however many turns; leaving one ends nothing."""
    for session_id in ("s1", "s2", "s1"):
        with ctx.session(session_id=session_id):
            pass

    assert backend.told == [("session.start", "s1"), ("session.start", "s2")]


def test_a_session_starts_when_its_id_is_learned_late(backend: Backend) -> None:
    """An id that is amended into a turn starts its session; amending the same again does nothing."""
    with ctx.session(gateway_session_key="k1") as turn:
        assert backend.told == []
        ctx.amend(session_id="s1")
        turn.amend(session_id="s1")

    assert backend.told == [("session.start", "s1")]


def test_a_rotation_ends_the_session_before_it_starts_the_next(backend: Backend) -> None:
    """`session.end` of the old id comes before `session.start` of the new, which names the old."""
    with ctx.session(session_id="s1"):
        ctx.amend(session_id="s2")

    assert backend.told == [("session.start", "s1"), ("session.end", "s1"), ("session.start", "s2", "s1")]


def test_a_joined_door_rotates_like_an_amend(backend: Backend) -> None:
    """Where `session.join` brings a new id to a turn, that is a rotation."""
    with (
        ctx.session(gateway_session_key="k1", session_id="s1"),
        ctx.session.join(gateway_session_key="k1", session_id="s2"),
    ):
        pass

    assert backend.told == [("session.start", "s1"), ("session.end", "s1"), ("session.start", "s2", "s1")]


def test_a_rollback_starts_and_ends_nothing_twice(backend: Backend) -> None:
    """Each event comes once per id: an id that comes back does not start again, nor end again."""
    with ctx.session(session_id="s1"):
        for session_id in ("s2", "s1", "s2", "s3"):
            ctx.amend(session_id=session_id)

    assert backend.told == [
        ("session.start", "s1"),
        ("session.end", "s1"),
        ("session.start", "s2", "s1"),
        ("session.end", "s2"),
        ("session.start", "s3", "s2"),
    ]


def test_a_session_that_started_before_the_telling_did_ends_on_its_rotation() -> None:
    """A rotation is one, though nobody was told of the old session's start."""
    backend = Backend()
    with ctx.session(session_id="s1"), emit_session_events(backend.provider):
        ctx.amend(session_id="s2")

    assert backend.told == [("session.end", "s1"), ("session.start", "s2", "s1")]
    backend.provider.shutdown()


def test_a_session_entered_as_continuing_another_ends_that_here(backend: Backend) -> None:
    """A turn that says which session it continues ends that, if that was started here and has not ended."""
    with ctx.session(session_id="s1"):
        pass
    with ctx.session(session_id="s2", previous_session_id="s1"):
        pass
    with ctx.session(session_id="s4", previous_session_id="never seen here"):
        pass

    assert backend.told == [
        ("session.start", "s1"),
        ("session.end", "s1"),
        ("session.start", "s2", "s1"),
        ("session.start", "s4", "never seen here"),
    ]


def test_a_previous_id_equal_to_the_id_is_no_continuation(backend: Backend) -> None:
    """`session.previous_id` differs from `session.id`, as the conventions have it, and nothing ends."""
    for _ in range(2):
        with ctx.session(session_id="s1", previous_session_id="s1"):
            pass

    assert backend.told == [("session.start", "s1")]


def test_a_sub_agent_has_a_session_that_starts_and_rotates(backend: Backend) -> None:
    """A `bind` of a session id starts it, continuing nothing; its rotation leaves the turn's session alone."""
    with ctx.session(session_id="s1"):
        with ctx.bind(session_id="child-1"):
            ctx.amend(session_id="child-2")
        with ctx.bind(user_id="u1"):
            pass

    assert backend.told == [
        ("session.start", "s1"),
        ("session.start", "child-1"),
        ("session.end", "child-1"),
        ("session.start", "child-2", "child-1"),
    ]


def test_what_is_not_known_starts_nothing(backend: Backend) -> None:
    """No id, an empty one, an unbound one and a cleared scope are no sessions."""
    with ctx.session(), ctx.bind(session_id=""), ctx.bind(session_id=None), ctx.cleared():
        pass
    with ctx.session(session_id="s1"):
        ctx.amend(session_id=None)

    assert backend.told == [("session.start", "s1")]


def test_events_carry_the_other_facts_of_their_scope(backend: Backend) -> None:
    """An event has the user and gateway key of its turn too, and no redacted value."""
    with ctx.session({SECRET: "hunter2"}, session_id="s1", user_id="u1", gateway_session_key="k1"):
        pass

    attributes = dict(backend.records[0].attributes)
    attributes.pop("event.name", None)
    assert attributes == {
        "session.id": "s1",
        "gen_ai.conversation.id": "s1",
        "user.id": "u1",
        "gateway.session_key": "k1",
    }


def test_an_event_told_from_another_turn_carries_its_own_turns_facts_alone(backend: Backend) -> None:
    """A turn amended from within another one has events of its own keys, and none of the other's."""
    first = ctx.session(gateway_session_key="k1")
    with first as turn, ctx.session(session_id="s2", user_id="u2", frontend="web"):
        turn.amend(session_id="s1")
        assert ctx.SESSION_ID.get() == "s2"

    event = next(it for it in backend.records if it.attributes["session.id"] == "s1")
    assert {"user.id", "frontend"} & set(event.attributes) == set()
    assert event.attributes["gateway.session_key"] == "k1"


def test_a_session_of_a_decorated_body_starts_once(backend: Backend) -> None:
    """A generator that holds a session starts it, with its own facts, whatever its consumer is in."""

    @ctx.session(session_id="s1")
    def body() -> Iterator[str]:
        yield ctx.SESSION_ID.get()
        yield ctx.SESSION_ID.get()

    with ctx.session(session_id="s2", user_id="u2"):
        assert list(body()) == ["s1", "s1"]

    assert sorted(backend.told) == [("session.start", "s1"), ("session.start", "s2")]
    assert [it.attributes.get("user.id") for it in backend.records] == ["u2", None]


def test_events_belong_to_the_span_that_is_current(backend: Backend) -> None:
    """An event has the trace and span of where it happened."""
    tracer = TracerProvider().get_tracer("test")

    with tracer.start_as_current_span("turn") as span, ctx.session(session_id="s1"):
        pass

    context = span.get_span_context()
    assert (backend.records[0].trace_id, backend.records[0].span_id) == (context.trace_id, context.span_id)
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_ids_are_remembered_in_a_bounded_memory() -> None:
    """Of more ids than `max_ids` the last used are remembered: one that is served again does not start again."""
    backend = Backend()
    with emit_session_events(backend.provider, max_ids=2):
        for session_id in ("s1", "s2", "s1", "s3", "s1", "s2"):
            with ctx.session(session_id=session_id):
                pass

    assert [session for _, session in backend.told] == ["s1", "s2", "s3", "s2"]
    backend.provider.shutdown()


def test_a_memory_for_less_than_a_rotation_is_refused() -> None:
    """A rotation is of two ids."""
    with pytest.raises(ValueError, match="max_ids is at least 2"):
        emit_session_events(max_ids=1)


def test_after_stop_nothing_is_told() -> None:
    """`stop()` ends the telling, and can be called twice."""
    backend = Backend()
    events = emit_session_events(backend.provider)
    events.stop()
    events.stop()

    with ctx.session(session_id="s1"):
        pass

    assert backend.told == []
    assert SUBSCRIBERS == []
    backend.provider.shutdown()


def test_a_session_that_many_threads_enter_starts_once(backend: Backend) -> None:
    """Of threads that enter one session id in the same moment, one starts it."""
    together = threading.Barrier(8)

    def serve() -> None:
        together.wait()
        for number in range(20):
            with ctx.session(session_id=f"s{number}"):
                pass

    threads = [threading.Thread(target=serve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(backend.told) == sorted(("session.start", f"s{number}") for number in range(20))


def test_a_session_id_that_the_backend_drops_has_no_event(caplog: pytest.LogCaptureFixture) -> None:
    """An event without `session.id` would be none: where a preset does not show the id, nothing is emitted."""
    backend = Backend()
    with emit_session_events(backend.provider, preset="langfuse"), ctx.session(session_id="ü"):
        pass

    assert backend.records == []
    backend.provider.shutdown()


def test_a_provider_that_fails_breaks_no_turn() -> None:
    """What a logger provider raises is counted, and the turn is entered."""

    class Broken(LoggerProvider):
        def get_logger(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("theirs")

    counted = fault_counts().get("telemetry: a session event", 0)
    with emit_session_events(Broken()), ctx.session(session_id="s1"):
        assert ctx.SESSION_ID.get() == "s1"

    assert fault_counts()["telemetry: a session event"] == counted + 1


def test_without_a_provider_events_are_lost_in_silence() -> None:
    """With only the API and no provider set, entering sessions works, and no event is logged or warned of."""
    with emit_session_events(), ctx.session(session_id="s1"):
        ctx.amend(session_id="s2")
        assert ctx.SESSION_ID.get() == "s2"


def test_the_global_provider_is_followed() -> None:
    """Without a provider of its own, an event goes to the global one, though that is set after the telling began."""
    program = """
import ctxruntime as ctx
from ctxruntime.telemetry.events import emit_session_events
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider, export

exporter = (getattr(export, "InMemoryLogRecordExporter", None) or export.InMemoryLogExporter)()
emit_session_events()
with ctx.session(session_id="s1"):
    provider = LoggerProvider()
    provider.add_log_record_processor(export.SimpleLogRecordProcessor(exporter))
    set_logger_provider(provider)
    ctx.amend(session_id="s2")
print([it.log_record.attributes["session.id"] for it in exporter.get_finished_logs()])
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("['s1', 's2']\n", "")


def test_the_events_have_the_names_of_the_conventions() -> None:
    """The names are those of OpenTelemetry's semantic conventions."""
    assert (SESSION_START, SESSION_END) == ("session.start", "session.end")
