"""Things that people reported, told with spans."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from opentelemetry import trace

import ctxruntime as ctx


def test_case_03_child_spans_have_the_session(spans: Any) -> None:
    """An id that is set once reaches the turn, the model call and the tool, not the root alone."""
    with ctx.session(session_id="s1"), spans.span("turn"), spans.span("llm_call"), spans.span("tool"):
        pass

    assert spans.column("session.id") == {"tool": "s1", "llm_call": "s1", "turn": "s1"}


def test_case_22_a_key_that_is_not_known_makes_no_noise(spans: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A turn without a gateway key has no null attribute, and the SDK warns of nothing."""
    with caplog.at_level(logging.WARNING), ctx.session(session_id="s1", gateway_session_key=None), spans.span("turn"):
        ctx.amend(user_id=None)

    assert spans.attributes("turn") == {"session.id": "s1", "gen_ai.conversation.id": "s1"}
    assert caplog.records == []


def test_a_fault_of_ours_never_breaks_the_host(
    spans: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where mirroring fails, spans, turns and amends go on without it, and one log line says so."""
    from ctxruntime.telemetry import spans as module

    def broken(*args: object) -> None:
        raise RuntimeError("ours")

    # The counts of the process are checked after every test; these faults are meant.
    monkeypatch.setattr("ctxruntime.guarding._counts", {})
    with monkeypatch.context() as patched:
        patched.setattr(module, "compile_build", broken)
        with spans.span("root") as root, ctx.session(session_id="s1"), spans.span("work"):
            ctx.amend(user_id="u1")
            assert trace.get_current_span() is not root

    assert set(spans.column("session.id").values()) == {None}
    assert {record.getMessage().partition(":")[0] for record in caplog.records} == {"telemetry"}
    assert len(caplog.records) == 3
