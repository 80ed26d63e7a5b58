"""The attribute names that each backend reads, and its limits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime.layers import amending
from ctxruntime.telemetry import PRESETS, Preset, UnknownPresetError
from ctxruntime.telemetry.presets import preset_named

HASHED = ctx.Key("presets_hashed", attributes="presets.hashed", redact="hash")

EVERYWHERE = {
    "session.id": "s1",
    "gen_ai.conversation.id": "s1",
    "session.previous_id": "s0",
    "user.id": "u1",
    "gateway.session_key": "k1",
}
BESIDES = {
    "otel": {},
    "langfuse": {},
    "phoenix": {},
    "logfire": {},
    "traceloop": {
        "traceloop.association.properties.session_id": "s1",
        "traceloop.association.properties.user_id": "u1",
        "traceloop.association.properties.gateway_session_key": "k1",
    },
    "mlflow": {"mlflow.trace.session": "s1", "mlflow.trace.user": "u1"},
    "datadog": {},
    "langsmith": {
        "langsmith.metadata.session_id": "s1",
        "langsmith.metadata.thread_id": "s1",
        "langsmith.metadata.user_id": "u1",
        "langsmith.metadata.gateway_session_key": "k1",
    },
}


@pytest.mark.parametrize("preset", BESIDES)
def test_a_preset_shows_the_names_of_its_backend(record: Callable[..., Any], preset: str) -> None:
    """Every preset shows the conventions' names, and those that its backend reads besides; the late id too."""
    spans = record(preset=preset)
    with ctx.session(gateway_session_key="k1", user_id="u1", previous_session_id="s0"), spans.span("root"):
        ctx.amend(session_id="s1", previous_session_id="s0")
        spans.start("child").end()

    shown = EVERYWHERE | BESIDES[preset]
    assert [spans.attributes("child"), spans.attributes("root")] == [shown, shown]


def test_all_presets_are_here() -> None:
    """There are these presets and no others."""
    assert list(PRESETS) == list(BESIDES)


def test_no_preset_writes_the_project_id_of_langsmith() -> None:
    """`langsmith.trace.session_id` names a project: a session there would scatter the traces over projects."""
    written = {name for preset in PRESETS.values() for names in preset.names.values() for name in names}

    assert "langsmith.trace.session_id" not in written


def test_no_name_comes_from_what_opentelemetry_may_take_away() -> None:
    """Names are written out: the conventions' package calls these incubating, and moves them from one to the next."""
    package = Path(ctx.__file__).parent
    private = ("opentelemetry.semconv", "_envcarrier")
    found = [
        path.name for path in package.rglob("*.py") if any(name in path.read_text(encoding="utf-8") for name in private)
    ]

    assert found == []


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    """The error says what can be chosen."""
    with pytest.raises(UnknownPresetError, match="no preset is called 'honey': choose one of otel, langfuse, phoenix"):
        preset_named("honey")


def test_a_preset_of_ones_own_is_taken(record: Callable[..., Any]) -> None:
    """What is not named in a preset is shown under the key's own attributes, and an empty list hides a key."""
    spans = record(preset=Preset("mine", {"session_id": ("my.session",), "gateway_session_key": ()}))
    with ctx.session(session_id="s1", gateway_session_key="k1", user_id="u1"):
        spans.start("work").end()

    assert spans.attributes("work") == {"my.session": "s1", "user.id": "u1"}


@pytest.mark.parametrize(
    ("session_id", "reason"),
    [("s" * 201, "is longer than 200 characters"), ("sitzung-ä", "is not plain ASCII")],
    ids=["long", "umlaut"],
)
def test_what_langfuse_would_drop_is_left_out_with_one_warning(
    record: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    session_id: str,
    reason: str,
) -> None:
    """The warning names the key, never the value, and comes once; other attributes are shown."""
    monkeypatch.setattr("ctxruntime.telemetry.presets._warned", set())
    spans = record(preset="langfuse")
    with caplog.at_level(logging.WARNING):
        for name in ("first", "second"):
            with ctx.session(session_id=session_id, gateway_session_key="k1"):
                spans.start(name).end()

    assert spans.attributes("first") == spans.attributes("second") == {"gateway.session_key": "k1"}
    assert [record.getMessage() for record in caplog.records] == [
        f"a value of key 'session_id' {reason}, which langfuse drops: it is left out (logged once)"
    ]


@pytest.mark.parametrize("keys", [{"user_id": "ü"}, {"presets_hashed": "x"}], ids=["limit", "hash key"])
@pytest.mark.parametrize("nested", [False, True], ids=["turn", "bind"])
def test_a_warning_waits_for_nobody_who_waits_for_us(
    record: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    keys: dict[str, str],
    nested: bool,
) -> None:
    """No lock of ours is held where a warning is logged: a thread in a handler of the host's may wait for it."""
    monkeypatch.setattr("ctxruntime.telemetry.presets._warned", set())
    monkeypatch.setattr("ctxruntime.telemetry.redaction._given", [])
    monkeypatch.setattr("ctxruntime.telemetry.redaction._random", {})
    monkeypatch.delenv("CTXRUNTIME_HASH_KEY", raising=False)
    free: list[bool] = []

    def try_lock() -> None:
        if lock.acquire(blocking=False):
            lock.release()
            free.append(True)
        else:
            free.append(False)

    def note(record: logging.LogRecord) -> bool:
        thread = threading.Thread(target=try_lock)
        thread.start()
        thread.join()
        return True

    lock = amending()
    spans = record(preset="langfuse")
    monkeypatch.setattr(caplog.handler, "filters", [note])
    scope: Any = ctx.bind if nested else ctx.session
    with ctx.session(session_id="s1"), scope(**keys):
        spans.start("work").end()

    assert free == [True]


def test_what_langfuse_keeps_is_shown(record: Callable[..., Any]) -> None:
    """An id of 200 ASCII characters is within the limits, and no other preset has them."""
    langfuse, otel = record(preset="langfuse"), record()
    for spans, session_id in ((langfuse, "s" * 200), (otel, "ä" * 300)):
        with ctx.session(session_id=session_id):
            spans.start("work").end()

        assert spans.attributes("work")["session.id"] == session_id
