"""Spans, records and events where a bridge is in use: what goes on while session ids rotate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as sdk_export

import ctxruntime as ctx
from ctxruntime import conversation
from ctxruntime.telemetry import emit_session_events

InMemory: Any = getattr(sdk_export, "InMemoryLogRecordExporter", None) or sdk_export.InMemoryLogExporter
CONVERSATION = "gen_ai.conversation.id"
OWN = "ctxruntime.session.id"


@pytest.fixture
def bridge() -> Iterator[conversation.Bridge]:
    """Return a bridge in use."""
    bridge = conversation.Bridge()
    with conversation.use(bridge):
        yield bridge


def name_of(record: Any) -> str:
    """Return an event's name: a field of its own, and in an SDK before 1.35 an attribute."""
    return str(getattr(record, "event_name", None) or record.attributes["event.name"])


def id_of(bridge: conversation.Bridge, **identity: str) -> str:
    found = bridge.find(**identity)
    assert found is not None
    return found.id


def test_spans_show_the_conversation_beside_the_session(record: Callable[..., Any], bridge: Any) -> None:
    """With a bridge in use gen_ai.conversation.id is the conversation, and session.id stays the session."""
    backend = record()

    with ctx.session(session_id="s1"), backend.span("turn"):
        pass

    assert backend.column("session.id") == {"turn": "s1"}
    assert backend.column(CONVERSATION) == {"turn": id_of(bridge, session_id="s1")}


def test_without_a_bridge_the_conversation_is_the_session(record: Callable[..., Any]) -> None:
    """Where no bridge is in use gen_ai.conversation.id is the session id, grouped by conversation or not."""
    backend = record(group_by="conversation")

    with ctx.session(session_id="s1"), backend.span("turn"):
        pass

    assert (backend.column("session.id"), backend.column(CONVERSATION)) == ({"turn": "s1"}, {"turn": "s1"})
    assert backend.column(OWN) == {"turn": None}


def test_grouped_by_conversation_a_rotation_is_one_session(record: Callable[..., Any], bridge: Any) -> None:
    """session.id is the conversation over rotations, and each span says which session it was in."""
    backend = record(group_by="conversation")

    with ctx.session(gateway_session_key="chat", session_id="s1"), backend.span("first"):
        pass
    bridge.rotate("s1", "s2", continues=True)
    with ctx.session(gateway_session_key="chat", session_id="s2", previous_session_id="s1"), backend.span("second"):
        pass

    one = id_of(bridge, gateway_session_key="chat")
    assert backend.column("session.id") == backend.column(CONVERSATION) == {"first": one, "second": one}
    assert backend.column(OWN) == {"first": "s1", "second": "s2"}
    assert backend.column("session.previous_id") == {"first": None, "second": None}


def test_grouped_by_conversation_a_chat_without_a_session_has_one(record: Callable[..., Any], bridge: Any) -> None:
    """A span that ended before the session id was known is in the conversation already."""
    backend = record(group_by="conversation")

    with ctx.session(gateway_session_key="chat"), backend.span("turn"):
        with backend.span("early"):
            pass
        ctx.amend(session_id="s1")
        with backend.span("late"):
            pass

    one = id_of(bridge, session_id="s1")
    assert backend.column("session.id") == {"early": one, "late": one, "turn": one}
    assert backend.column(OWN) == {"early": None, "late": "s1", "turn": "s1"}


def test_a_late_session_reaches_open_spans_of_a_known_conversation(record: Callable[..., Any], bridge: Any) -> None:
    """The trace's session is the first that is known in it, also where its conversation was known before."""
    backend = record()

    with ctx.session(gateway_session_key="chat"), backend.span("turn"):
        with backend.span("early"):
            pass
        ctx.amend(session_id="s1")
        with backend.span("late"):
            pass

    one = id_of(bridge, session_id="s1")
    assert backend.column("session.id") == {"early": None, "late": "s1", "turn": "s1"}
    assert backend.column(CONVERSATION) == {"early": one, "late": one, "turn": one}


def test_an_unexplained_session_shows_from_the_next_trace_on(record: Callable[..., Any], bridge: Any) -> None:
    """A trace keeps session and conversation, as first known; the next one has those that came in its middle."""
    backend = record()

    with ctx.session(gateway_session_key="chat", session_id="s1"):
        with backend.span("first"):
            ctx.amend(session_id="s2")
            with backend.span("inner"):
                pass
        with backend.span("second"):
            pass

    old, new = id_of(bridge, session_id="s1"), id_of(bridge, session_id="s2")
    assert old != new
    assert backend.column(CONVERSATION) == {"inner": old, "first": old, "second": new}
    assert backend.column("session.id") == {"inner": "s1", "first": "s1", "second": "s2"}


def test_a_sub_agents_spans_are_in_the_conversation_of_the_turn(record: Callable[..., Any], bridge: Any) -> None:
    """A trace belongs to one conversation, the turn's; the sub-agent's own session is shown beside it."""
    backend = record(group_by="conversation")

    with ctx.session(session_id="s1"), backend.span("turn"), ctx.bind(session_id="child"), backend.span("child"):
        pass

    one = id_of(bridge, session_id="s1")
    assert backend.column("session.id") == {"child": one, "turn": one}
    assert backend.column(OWN) == {"child": "child", "turn": "s1"}


@pytest.mark.parametrize("group_by", ["session", "conversation"])
def test_a_span_around_the_turn_waits_for_its_conversation(
    record: Callable[..., Any], tmp_path: Path, group_by: str
) -> None:
    """A span that was open when the turn was entered shows the conversation, though its store was not waited for."""
    backend = record(group_by=group_by)
    bridge = conversation.Bridge(f"sqlite:{tmp_path}/c.db")

    async def serve() -> None:
        with backend.span("request"):
            async with ctx.session(session_id="s1"):
                with backend.span("turn"):
                    pass

    with conversation.use(bridge):
        asyncio.run(serve())

    one = id_of(bridge, session_id="s1")
    assert backend.column(CONVERSATION) == {"request": one, "turn": one}
    assert set(backend.column("session.id").values()) == {"s1" if group_by == "session" else one}
    bridge.store.close()


def test_forgetting_a_conversation_ends_its_session(bridge: Any) -> None:
    """session.end comes for a session that was seen and has not ended, with the conversation that was forgotten."""
    exporter = InMemory()
    provider = LoggerProvider()
    provider.add_log_record_processor(sdk_export.SimpleLogRecordProcessor(exporter))

    with emit_session_events(provider):
        with ctx.session(gateway_session_key="chat", session_id="s1"):
            pass
        bridge.rotate("s1", "s2", continues=True)
        with ctx.session(gateway_session_key="chat", session_id="s2", previous_session_id="s1"):
            known = conversation.current()
        bridge.forget(known)
        bridge.forget(known)

    told = [it.log_record for it in exporter.get_finished_logs()]
    assert [(name_of(record), record.attributes["session.id"]) for record in told] == [
        ("session.start", "s1"),
        ("session.end", "s1"),
        ("session.start", "s2"),
        ("session.end", "s2"),
    ]
    assert known is not None
    assert {name: value for name, value in told[-1].attributes.items() if name != "event.name"} == {
        "session.id": "s2",
        CONVERSATION: known.id,
        "gateway.session_key": "chat",
    }


def test_an_expired_conversation_ends_its_session() -> None:
    """session.end comes when the bridge finds that a conversation has expired."""
    clock = [1000.0]
    bridge = conversation.Bridge(conversation.MemoryStore(clock=lambda: clock[0]), ttl=80)
    exporter = InMemory()
    provider = LoggerProvider()
    provider.add_log_record_processor(sdk_export.SimpleLogRecordProcessor(exporter))

    with emit_session_events(provider), conversation.use(bridge):
        with ctx.session(session_id="s1"):
            pass
        clock[0] += 100
        with ctx.session(session_id="s2"):
            pass

    told = [it.log_record for it in exporter.get_finished_logs()]
    assert sorted((name_of(record), record.attributes["session.id"]) for record in told) == [
        ("session.end", "s1"),
        ("session.start", "s1"),
        ("session.start", "s2"),
    ]
