"""What must not be read is not shown: dropped, or as the same hash alike within a deployment."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import _logs as api
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk import _logs as sdk
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as sdk_export
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor

import ctxruntime as ctx
from ctxruntime.telemetry import redaction, set_hash_key
from ctxruntime.telemetry.fields import Fields
from ctxruntime.telemetry.log_records import add_logs_to

InMemory: Any = getattr(sdk_export, "InMemoryLogRecordExporter", None) or sdk_export.InMemoryLogExporter
Record: Any = getattr(sdk, "LogRecord", api.LogRecord)

SECRET = "tok-5e1f-do-not-show"
DROPPED = ctx.Key("dropped_token", attributes="token.dropped", redact="drop")
HASHED = ctx.Key("hashed_token", attributes="token.hashed", redact="hash")


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(redaction.HASH_KEY_VARIABLE, raising=False)
    monkeypatch.setattr(redaction, "_given", [])
    monkeypatch.setattr(redaction, "_random", {})


def expected(key: bytes) -> str:
    return hmac.new(key, SECRET.encode(), "sha256").hexdigest()


@pytest.mark.parametrize("pin", ["trace", "span"])
def test_a_dropped_key_is_in_no_span(record: Callable[..., Any], pin: str) -> None:
    """The value of a key with `redact="drop"` is nowhere in what is exported, learned early or late."""
    spans = record(pin=pin)
    with ctx.session({DROPPED: SECRET}, session_id="s1"), spans.span("root"):
        ctx.amend({DROPPED: SECRET + "2"})
        ctx.amend(user_id="u1")

    assert "token.dropped" not in spans.attributes("root")
    assert SECRET not in "".join(span.to_json() for span in spans.exporter.get_finished_spans())


def test_a_hashed_key_is_its_hmac_under_the_given_key(spans: Any) -> None:
    """The same value hashes alike wherever the deployment's key is the same, and is itself not exported."""
    set_hash_key(b"of the deployment")
    with ctx.session({HASHED: SECRET}):
        spans.start("work").end()

    assert spans.attributes("work") == {"token.hashed": expected(b"of the deployment")}
    assert SECRET not in "".join(span.to_json() for span in spans.exporter.get_finished_spans())


def test_the_key_comes_from_the_environment_unless_it_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `set_hash_key` was given goes before the environment variable."""
    monkeypatch.setenv("CTXRUNTIME_HASH_KEY", "of the environment")
    first = redaction.hashed(SECRET)
    set_hash_key("of the program")

    assert first == expected(b"of the environment")
    assert redaction.hashed(SECRET) == expected(b"of the program")


def test_without_a_key_it_is_a_random_one_and_a_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Hashes are alike within the process, tell nothing, and one warning names the variable to set."""
    with caplog.at_level(logging.WARNING):
        first, again = redaction.hashed(SECRET), redaction.hashed(SECRET)

    assert first == again
    assert first not in (expected(b""), SECRET)
    assert [record.getMessage().partition(":")[2] for record in caplog.records] == [
        " set CTXRUNTIME_HASH_KEY, or call ctxruntime.telemetry.set_hash_key"
    ]


def test_an_empty_key_is_refused() -> None:
    """An empty key would make hashes that anybody can try out."""
    with pytest.raises(ValueError, match="the hash key is empty"):
        set_hash_key("")


@pytest.fixture
def hashed_gateway_key() -> Iterator[None]:
    ctx.GATEWAY_SESSION_KEY.redact = "hash"
    yield
    ctx.GATEWAY_SESSION_KEY.redact = None


@pytest.mark.usefixtures("hashed_gateway_key")
def test_a_built_in_key_can_be_redacted_too(spans: Any) -> None:
    """`GATEWAY_SESSION_KEY.redact = "hash"`, set once at start, hides the platform and user ids in it."""
    set_hash_key(b"k")
    with ctx.session(gateway_session_key=SECRET):
        spans.start("work").end()

    assert spans.attributes("work") == {"gateway.session_key": expected(b"k")}


@pytest.mark.usefixtures("hashed_gateway_key")
def test_what_is_redacted_later_is_so_from_the_next_turn_on(spans: Any) -> None:
    """With zero code, telemetry is there before the program that says what is to be redacted."""
    ctx.GATEWAY_SESSION_KEY.redact = None
    exporter, fields, provider = InMemory(), Fields(None), LoggerProvider()
    add_logs_to(provider)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))

    def show() -> set[object]:
        with ctx.session(gateway_session_key=SECRET):
            spans.start("work").end()
            provider.get_logger("test").emit(Record(timestamp=1, severity_number=SeverityNumber.INFO, attributes={}))
            records = [it.log_record for it in exporter.get_finished_logs()]
            shown = {record.attributes["gateway.session_key"] for record in records}
            shown |= {spans.attributes("work")["gateway.session_key"], fields.known()["gateway_session_key"]}
        exporter.clear()
        spans.exporter.clear()
        return shown

    assert show() == {SECRET}
    set_hash_key(b"k")
    ctx.GATEWAY_SESSION_KEY.redact = "hash"
    assert show() == {expected(b"k")}
