"""What a turn learns reaches its open spans; a trace belongs to one session."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from time import monotonic
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.trace import set_span_in_context

import ctxruntime as ctx
from ctxruntime.layers import amending


def test_the_first_session_id_reaches_every_open_span(spans: Any) -> None:
    """A late id is stamped on the root and all else that is open; what ended before carries the gateway key."""
    with ctx.session(gateway_session_key="k1"), spans.span("root"):
        spans.start("ended").end()
        aside = spans.start("aside")
        with spans.span("current"):
            ctx.amend(session_id="s1")
        spans.start("next").end()
        aside.end()

    assert spans.column("session.id") == {"ended": None, "current": "s1", "next": "s1", "aside": "s1", "root": "s1"}
    assert spans.column("gen_ai.conversation.id") == spans.column("session.id")
    assert set(spans.column("gateway.session_key").values()) == {"k1"}


def test_the_span_around_the_entry_point_gets_the_late_id(spans: Any) -> None:
    """A span that was open when the turn was entered is told too, also from another thread."""
    with spans.span("server"), ctx.session(gateway_session_key="k1") as turn:
        thread = threading.Thread(target=turn.amend, kwargs={"session_id": "s1"})
        thread.start()
        thread.join()

    assert spans.column("session.id") == {"server": "s1"}


def test_other_facts_reach_open_spans_too(spans: Any) -> None:
    """Whatever a turn learns is added to its open spans."""
    with ctx.session(session_id="s1"), spans.span("root"):
        ctx.amend(user_id="u1", previous_session_id="s0")

    assert spans.attributes("root") == {
        "session.id": "s1",
        "gen_ai.conversation.id": "s1",
        "user.id": "u1",
        "session.previous_id": "s0",
    }


def test_a_previous_id_alone_is_not_shown(spans: Any) -> None:
    """What came before is said of a session, and waits until that is known."""
    with ctx.session(previous_session_id="s0", user_id="u1"):
        spans.start("early").end()
        with spans.span("open"):
            ctx.amend(session_id="s1", previous_session_id="s0")

    assert spans.attributes("early") == {"user.id": "u1"}
    assert spans.column("session.previous_id") == {"early": None, "open": "s0"}


def test_a_late_stamp_rewrites_nothing(spans: Any) -> None:
    """What a span has, from whomever, stays; a previous id is not added to somebody else's session."""
    with ctx.session(user_id="u1"), spans.span("root") as root:
        root.set_attribute("session.id", "mine")
        ctx.amend(session_id="s1", previous_session_id="s0", user_id="u2")

    assert spans.attributes("root") == {"user.id": "u1", "session.id": "mine", "gen_ai.conversation.id": "s1"}


def test_no_other_turn_is_told(spans: Any) -> None:
    """An amend reaches the spans of its own turn alone."""
    with ctx.session(gateway_session_key="k2"):
        other = spans.start("other", context=Context())
    with ctx.session(gateway_session_key="k1"), spans.span("own"):
        ctx.amend(session_id="s1")
    other.end()

    assert spans.column("session.id") == {"own": "s1", "other": None}


@pytest.mark.parametrize("pin", ["trace", "span"])
def test_spans_that_start_while_the_id_is_learned_all_carry_it(record: Callable[..., Any], pin: str) -> None:
    """However an amend and the starts in other threads fall together, no open span is left without the id."""
    spans = record(pin=pin)
    with ThreadPoolExecutor(4) as pool:
        for number in range(50):
            with ctx.session(gateway_session_key="k1"):
                barrier = threading.Barrier(4)

                def start(barrier: threading.Barrier = barrier) -> Any:
                    barrier.wait()
                    return spans.start("work")

                jobs = [pool.submit(ctx.carry(start)) for _ in range(3)]
                barrier.wait()
                ctx.amend(session_id=f"s{number}")
                assert [job.result().attributes.get("session.id") for job in jobs] == [f"s{number}"] * 3


def test_first_spans_of_two_threads_at_once_are_both_told(spans: Any) -> None:
    """Of threads that each start what may be the turn's first span, none makes the other's be forgotten."""
    with ctx.session(gateway_session_key="k1") as turn, ThreadPoolExecutor(2) as pool:
        with amending():  # both get as far as taking note of the turn, and wait for each other there
            jobs = [pool.submit(copy_context().run, spans.start, "work") for _ in range(2)]
            deadline = monotonic() + 10
            while sum(frame.f_code.co_filename.endswith("spans.py") for frame in sys._current_frames().values()) < 2:
                assert turn.mirrored is None
                assert monotonic() < deadline
        work = [job.result() for job in jobs]
        ctx.amend(session_id="s1")

        assert [span.attributes.get("session.id") for span in work] == ["s1", "s1"]


def test_traces_that_begin_while_something_is_learned_are_told_of_it(
    spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traces that other threads begin get in nobody's way: no fact is lost, and no span's start."""
    monkeypatch.setattr("opentelemetry.sdk.trace.logger.disabled", True)  # spans may end while they are told
    switched, learned = sys.getswitchinterval(), threading.Event()

    def begin() -> None:
        while not learned.is_set():
            spans.start("trace", context=Context()).end()

    with ctx.session(session_id="s1") as turn:
        threads = [threading.Thread(target=copy_context().run, args=[begin]) for _ in range(3)]
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        for number in range(600):
            turn.amend(user_id=f"u{number}")
        sys.setswitchinterval(switched)
        learned.set()
        for thread in threads:
            thread.join()

    found = {span.attributes.get("session.id") for span in spans.exporter.get_finished_spans()}
    assert found == {"s1"}


def test_of_two_turns_that_are_entered_at_once_the_open_span_serves_one(spans: Any) -> None:
    """A span of no turn is taken in once, whatever is entered in it meanwhile, and all it shows is one turn's."""
    with spans.span("open") as span:
        elsewhere, is_recording = copy_context(), span.is_recording

        def enter_another() -> None:
            with ctx.session(session_id="s2", user_id="u2"):
                pass

        def is_recording_once() -> bool:
            span.is_recording = is_recording
            thread = threading.Thread(target=elsewhere.run, args=[enter_another])
            thread.start()
            thread.join()
            return is_recording()  # type: ignore[no-any-return]

        span.is_recording = is_recording_once
        with ctx.session(session_id="s1", gateway_session_key="k1"):
            pass

    shown = {"session.id": "s2", "gen_ai.conversation.id": "s2", "user.id": "u2"}
    assert spans.attributes("open") == shown


def test_a_rotation_shows_from_the_next_trace_on(spans: Any) -> None:
    """A trace keeps the id that was known first in it; the next one has the new id, and the one before."""
    with ctx.session(session_id="s1"):
        with spans.span("root"):
            ctx.amend(session_id="s2")
            spans.start("after rotation").end()
        with spans.span("next trace"):
            pass

    assert spans.column("session.id") == {"after rotation": "s1", "root": "s1", "next trace": "s2"}
    assert spans.column("session.previous_id") == {"after rotation": None, "root": None, "next trace": "s1"}
    assert set(spans.column("ctxruntime.session.id").values()) == {None}


def test_each_trace_of_a_turn_keeps_the_session_that_it_began_with(spans: Any) -> None:
    """A rotation shows in none of the traces that began before it, be it the turn's first trace or a later one."""
    with ctx.session(session_id="s1"):
        spans.start("first").end()
        with spans.span("second"):
            ctx.amend(session_id="s2")
            spans.start("child of the second").end()

    assert spans.column("session.id") == {"first": "s1", "second": "s1", "child of the second": "s1"}


def test_a_trace_keeps_its_session_after_its_spans_have_ended(spans: Any) -> None:
    """Detached work of a trace shows the id of the trace, also if nothing of it was open at the rotation."""
    with ctx.session(session_id="s1"):
        with spans.span("root") as root:
            pass
        ctx.amend(session_id="s2")
        spans.start("straggler", context=set_span_in_context(root)).end()

    assert spans.column("session.id") == {"root": "s1", "straggler": "s1"}


def test_a_rollback_adds_nothing_to_the_first_trace(spans: Any) -> None:
    """A trace that began without a session before it keeps none when the turn comes back to its id."""
    with ctx.session(session_id="s1"), spans.span("root"):
        ctx.amend(session_id="s2")
        ctx.amend(session_id="s1")
        spans.start("child").end()

    assert set(spans.column("session.previous_id").values()) == {None}


def test_a_sub_agent_is_in_the_trace_of_its_turn(spans: Any) -> None:
    """A nested bind's session id, also its rotations, are shown beside that of the turn."""
    with ctx.session(session_id="s1", previous_session_id="s0"), spans.span("root"), ctx.bind(session_id="child-1"):
        spans.start("first").end()
        ctx.amend(session_id="child-2")
        spans.start("second").end()

    assert set(spans.column("session.id").values()) == {"s1"}
    assert set(spans.column("session.previous_id").values()) == {"s0"}
    assert spans.column("ctxruntime.session.id") == {"first": "child-1", "second": "child-2", "root": None}


def test_a_sub_agents_id_is_never_the_pin(spans: Any) -> None:
    """Where the turn's own id is learned later, it is that one which its spans show."""
    with ctx.session(gateway_session_key="k1") as turn, ctx.bind(session_id="child-1"), spans.span("sub-agent"):
        turn.amend(session_id="s1")

    assert spans.attributes("sub-agent") == {
        "session.id": "s1",
        "gen_ai.conversation.id": "s1",
        "ctxruntime.session.id": "child-1",
        "gateway.session_key": "k1",
    }


def test_a_late_id_of_a_sub_agent_reaches_its_open_spans(spans: Any) -> None:
    """A sub-agent that learns its id says so on its own spans, and on no others."""
    with ctx.session(session_id="s1"), spans.span("root"), ctx.bind(session_id=None), spans.span("sub-agent"):
        ctx.amend(session_id="child-1")

    assert spans.column("ctxruntime.session.id") == {"sub-agent": "child-1", "root": None}


def test_two_turns_in_one_trace_have_their_own_sessions(spans: Any) -> None:
    """The pin is of a trace and a turn."""
    with ctx.session(session_id="s1"), spans.span("outer"):
        with ctx.session(session_id="s2"), spans.span("inner"):
            ctx.amend(session_id="s3")
            spans.start("still").end()
        spans.start("back").end()

    assert spans.column("session.id") == {"still": "s2", "inner": "s2", "back": "s1", "outer": "s1"}


def test_pinning_can_be_turned_off(record: Callable[..., Any]) -> None:
    """With `pin="span"` each span shows the session in effect where it started, and open ones stay as they are."""
    spans = record(pin="span")
    with ctx.session(session_id="s1"), spans.span("root"):
        ctx.amend(session_id="s2")
        spans.start("after rotation").end()
        with ctx.bind(session_id="child-1"):
            spans.start("sub-agent").end()

    assert spans.column("session.id") == {"after rotation": "s2", "sub-agent": "child-1", "root": "s1"}
    assert spans.column("session.previous_id") == {"after rotation": "s1", "sub-agent": None, "root": None}
    assert set(spans.column("ctxruntime.session.id").values()) == {None}


def test_a_turn_of_many_traces_stays_small(spans: Any) -> None:
    """A turn that goes on for ever forgets the traces that are over, but never one that is open."""
    with ctx.session(session_id="s1") as turn:
        first = spans.start("first")
        for _ in range(3000):
            spans.start("trace").end()
        ctx.amend(session_id="s2")
        spans.exporter.clear()
        spans.start("late", context=set_span_in_context(first)).end()

        assert len(turn.mirrored.pins) < 600
    assert spans.column("session.id") == {"late": "s1"}
