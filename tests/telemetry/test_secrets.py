"""What must not be read is nowhere: one sweep over everything that shows or sends what is in effect."""

from __future__ import annotations

import hmac
import io
import logging
from collections.abc import Callable, Iterator
from traceback import format_exception
from typing import Any

import loguru
import pytest
import structlog
from opentelemetry import _logs as api
from opentelemetry import trace
from opentelemetry.sdk import _logs as sdk
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as sdk_export

import ctxruntime as ctx
from ctxruntime import wire
from ctxruntime.errors import CtxRuntimeError
from ctxruntime.hops.executor import Executor
from ctxruntime.telemetry import redaction, set_hash_key
from ctxruntime.telemetry.events import emit_session_events
from ctxruntime.telemetry.log_records import add_logs_to
from ctxruntime.telemetry.logs import SessionFilter, install_record_factory, loguru_patcher, structlog_processor
from ctxruntime.telemetry.traced import handler

VALUE = "tok-5e1f-hunter2"
LATER = "tok-77aa-hunter3"
TO_HASH = "tok-90bc-hunter4"
ITEM = "tok-12de-hunter5"
RAW_VALUE = b"tok-34fa-hunter6"
DEPLOYMENTS = ("deployment-key-91c0", "deployment-key-2b7e")
SECRETS = ("hunter", RAW_VALUE.hex(), *DEPLOYMENTS)

DROPPED = ctx.Key("secrets_dropped", attributes="secrets.dropped", redact="drop", wire=True, inject="any")
HASHED = ctx.Key("secrets_hashed", attributes="secrets.hashed", redact="hash", wire=True, inject="any")
DEFAULTED = ctx.Key("secrets_defaulted", default=VALUE, redact="drop")
PLACES = ctx.Key("secrets_tuple", tuple[str, ...], attributes="secrets.tuple", redact="drop")
RAW = ctx.Key("secrets_raw", bytes, attributes="secrets.raw", redact="drop")

BOUND: dict[Any, Any] = {DROPPED: VALUE, HASHED: TO_HASH, PLACES: (ITEM, "x"), RAW: RAW_VALUE}

InMemory: Any = getattr(sdk_export, "InMemoryLogRecordExporter", None) or sdk_export.InMemoryLogExporter
Record: Any = getattr(sdk, "LogRecord", api.LogRecord)


@pytest.fixture(autouse=True)
def no_hash_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(redaction.HASH_KEY_VARIABLE, raising=False)
    monkeypatch.setattr(redaction, "_given", [])
    monkeypatch.setattr(redaction, "_random", {})


@pytest.fixture
def logs() -> Iterator[Any]:
    """Give a provider of OpenTelemetry's logs that mirrors keys into an exporter in memory."""
    provider, exporter = LoggerProvider(), InMemory()
    add_logs_to(provider)
    provider.add_log_record_processor(sdk_export.SimpleLogRecordProcessor(exporter))
    provider.kept = exporter  # type: ignore[attr-defined]
    yield provider
    provider.shutdown()


def spans_say(spans: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start spans in a turn that knows the values, learns others late, and fails with them in a traced handler."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", spans.provider)

    @handler(record_input=True, record_output=True)
    def echo(raw: str, secrets_dropped: str, **more: Any) -> Any:
        return [raw, secrets_dropped, more, *BOUND.values()]

    @handler(record_input=True)
    def fail(raw: str, secrets_dropped: str) -> None:
        error = LookupError(f"{raw} {secrets_dropped} {ITEM} {RAW_VALUE.decode()} {RAW_VALUE.hex()} {BOUND}")
        if hasattr(error, "add_note"):
            error.add_note(f"{BOUND[RAW]!r}")
        raise ValueError(BOUND[PLACES]) from error

    @handler
    def enter() -> None:
        with ctx.session({DROPPED: LATER}):
            raise LookupError(LATER)

    with pytest.raises(LookupError):
        enter()
    with spans.span("early"), ctx.session(BOUND, session_id="s1"):
        echo(f"given {VALUE}")
        with pytest.raises(ValueError, match="tok-"):
            fail(f"given {VALUE}")
    with ctx.session(session_id="s2"), spans.span("late"):
        ctx.amend({DROPPED: LATER, HASHED: TO_HASH})
    found = spans.exporter.get_finished_spans()
    assert [span.name.rpartition(".")[2] for span in found] == ["enter", "echo", "fail", "early", "late"]
    for span in found:
        yield span.to_json()
        yield repr((span.attributes, span.status.description, [dict(event.attributes) for event in span.events]))


def otel_logs_say(logs: Any) -> Iterator[str]:
    """Emit a record, and the events of a session that rotates."""
    events = emit_session_events(provider=logs)
    with ctx.session(BOUND, session_id="s1"):
        severity = api.SeverityNumber.INFO
        logs.get_logger("test").emit(Record(timestamp=1, body="x", severity_number=severity, attributes={}))
        ctx.amend(session_id="s2")
    events.stop()
    found = [it.log_record for it in logs.kept.get_finished_logs()]
    assert len(found) == 4
    yield from (repr((vars(record), dict(record.attributes))) for record in found)


def stdlib_says() -> Iterator[str]:
    """Log through a filter, and through the record factory."""
    log, out = logging.getLogger("test_secrets"), io.StringIO()
    log.propagate = False
    stream = logging.StreamHandler(out)
    stream.setFormatter(logging.Formatter("%(secrets_dropped)s %(secrets_hashed)s %(message)s"))
    kept: list[logging.LogRecord] = []
    stream.addFilter(SessionFilter())
    stream.addFilter(lambda record: not kept.append(record))
    log.addHandler(stream)
    with ctx.session(BOUND):
        log.warning("filter")
        stream.removeFilter(stream.filters[0])
        with install_record_factory():
            log.warning("factory")
    log.handlers.clear()
    assert out.getvalue().splitlines() == [f"- {redaction.hashed(TO_HASH)} {how}" for how in ("filter", "factory")]
    yield from (f"{vars(record)!r}" for record in kept)


def structlog_says() -> Iterator[str]:
    out = io.StringIO()
    processors = [structlog_processor(), structlog.processors.JSONRenderer()]
    with ctx.session(BOUND):
        structlog.wrap_logger(structlog.PrintLogger(out), processors=processors).info("x")
    yield out.getvalue()


def loguru_says() -> Iterator[str]:
    lines: list[str] = []
    logger = loguru.logger.patch(loguru_patcher())
    sink = loguru.logger.add(lines.append, format="{extra} {message}")
    with ctx.session(BOUND):
        logger.warning("x")
    loguru.logger.remove(sink)
    yield from lines


def reprs_say() -> Iterator[str]:
    """Print whatever of ours a debugger would print."""
    with ctx.session(BOUND, session_id="s1") as turn, ctx.bind({DROPPED: LATER}) as bound:
        snapshot, door = ctx.capture(), ctx.session(BOUND)
        things = (turn, bound, snapshot, door, ctx.bind(BOUND), ctx.session.join(BOUND), ctx.current_turn())
        things += (
            ctx.carry(print),
            turn.mirrored,
            snapshot.wrap(print),
            ctx.current(),
            ctx.adapt(print),
            *BOUND,
            DEFAULTED,
        )
        with snapshot, Executor(1) as pool:
            future = pool.submit(ctx.current_turn)
            things += (pool, future.result(), future)
        yield from (f"{thing!r} {thing!s} {thing}" for thing in things)


def explanations_say() -> Iterator[str]:
    def block(raw: str, secrets_dropped: str, secrets_defaulted: str, *, secrets_hashed: str, **more: str) -> None: ...

    with ctx.session(BOUND):
        plan = ctx.explain(block)
    yield f"{plan} {plan!r}"


def what_errors_say() -> Iterator[str]:
    """Be wrong in every way in which a value of ours is at hand."""

    def needs(secrets_dropped: str, session_id: str) -> None: ...

    def enter(door: Any) -> None:
        with door:
            raise AssertionError("entered")

    class Subclass(str):
        __slots__ = ()

    wrong: list[Callable[[], object]] = [
        *(
            lambda make=make, bad=bad: enter(make({DROPPED: bad}))  # type: ignore[misc]
            for make in (ctx.session, ctx.bind, ctx.amend, ctx.session.join)
            for bad in (f"{VALUE}\n", VALUE * 500, Subclass(VALUE), VALUE.encode(), [VALUE], lambda: VALUE)
        ),
        lambda: DROPPED.check(f"{VALUE}\x00"),
        lambda: RAW.check(VALUE),  # type: ignore[arg-type]
        lambda: PLACES.check((VALUE, VALUE.encode())),  # type: ignore[arg-type]
        lambda: ctx.amend({HASHED: VALUE}),
        lambda: ctx.session(secrets_droped=VALUE),
        lambda: ctx.Key(DEFAULTED.name, default=LATER, redact="drop"),
        lambda: ctx.Key("secrets_refused", int, default=VALUE),  # type: ignore[arg-type]
        lambda: ctx.call(needs),
        lambda: wire.extract({"baggage": f"secrets_tuple={VALUE}"}, trust=(PLACES,)),
        lambda: set_hash_key(""),
    ]
    for act in wrong:
        with pytest.raises((CtxRuntimeError, ValueError)) as caught:
            act()
        yield f"{caught.value} {caught.value!r} {vars(caught.value)!r} {''.join(format_exception(caught.value))}"


def wire_says() -> Iterator[str]:
    """Send everything, and believe what comes in."""
    with ctx.session(BOUND):
        yield f"{wire.inject({})} {wire.child_env({})}"
    baggage = f"secrets_dropped={VALUE}%0A,secrets_hashed={VALUE * 500}"
    yield repr(wire.extract({"baggage": baggage}, trust=(DROPPED, HASHED)))


def sweep(spans: Any, logs: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """Return all that can be read, by where."""
    with caplog.at_level(logging.DEBUG):
        said = {
            "spans": spans_say(spans, monkeypatch),
            "log records": otel_logs_say(logs),
            "stdlib": stdlib_says(),
            "structlog": structlog_says(),
            "loguru": loguru_says(),
            "repr": reprs_say(),
            "explain": explanations_say(),
            "errors": what_errors_say(),
            "wire": wire_says(),
        }
        texts = {where: "\n".join(found) for where, found in said.items()}
    return texts | {"warnings": caplog.text}


MIRRORED = ("spans", "log records", "stdlib", "structlog", "loguru")


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_a_redacted_value_is_nowhere(
    spans: Any, logs: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, deployment: str
) -> None:
    """Nothing that is mirrored, printed or sent has a redacted value in it; mirrored is its hash, or nothing."""
    set_hash_key(deployment)
    found = sweep(spans, logs, monkeypatch, caplog)

    assert [(where, secret) for where, text in found.items() for secret in SECRETS if secret in text] == []
    for key in DEPLOYMENTS:
        expected = hmac.new(key.encode(), TO_HASH.encode(), "sha256").hexdigest()
        assert [where for where, text in found.items() if expected in text] == [*(MIRRORED * (key == deployment))]
