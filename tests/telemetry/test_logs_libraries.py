"""structlog's events and loguru's records show what is in effect where the log call is."""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import queue
from collections.abc import Callable, Iterator
from typing import Any

import loguru
import pytest
import structlog

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.telemetry.logs import install_record_factory, loguru_patcher, structlog_processor

SECRET = ctx.Key("log_secret", str, attributes="log.secret", redact="drop")

# structlog


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    """Configure structlog with our processor in front; give the events that come out."""
    capture = structlog.testing.LogCapture()
    structlog.configure(processors=[structlog_processor(), capture])
    yield capture.entries
    structlog.reset_defaults()


def test_a_structlog_event_carries_what_is_bound_and_nothing_else(events: list[dict[str, Any]]) -> None:
    """Bound keys are added under their names; where nothing is bound, nothing is added."""
    log = structlog.get_logger()

    with ctx.session({SECRET: "hunter2"}, session_id="s1", user_id="u1"):
        log.info("in")
    log.info("out")

    assert events == [
        {"event": "in", "log_level": "info", "session_id": "s1", "user_id": "u1"},
        {"event": "out", "log_level": "info"},
    ]


def test_what_a_structlog_logger_binds_wins(events: list[dict[str, Any]]) -> None:
    """What is bound to the logger, or given with the call, is what the event shows, None too."""
    log = structlog.get_logger().bind(session_id="bound")

    with ctx.session(session_id="s1", user_id="u1"):
        log.info("x", user_id=None)

    assert (events[0]["session_id"], events[0]["user_id"]) == ("bound", None)


def test_structlogs_async_methods_show_the_callers_session() -> None:
    """`ainfo` runs processors in a thread of a pool, and shows the session that awaits it."""
    capture = structlog.testing.LogCapture()
    structlog.configure(
        processors=[structlog_processor(), capture], wrapper_class=structlog.make_filtering_bound_logger(0)
    )

    async def serve(session_id: str) -> None:
        with ctx.session(session_id=session_id):
            await structlog.get_logger().ainfo(session_id)

    async def main() -> None:
        await asyncio.gather(*(serve(f"s{number}") for number in range(5)))

    asyncio.run(main())
    structlog.reset_defaults()

    assert sorted((entry["event"], entry["session_id"]) for entry in capture.entries) == [
        (f"s{number}", f"s{number}") for number in range(5)
    ]


def test_structlog_over_the_stdlib_and_a_queue_shows_the_session_of_the_log_call() -> None:
    """With structlog's ProcessorFormatter behind a queue, both its own and foreign events are right."""
    records, lines = queue.SimpleQueue[logging.LogRecord](), list[str]()

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    class Queue(logging.handlers.QueueHandler):
        def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
            return record  # the stdlib would make text of structlog's event

    kept = Kept()
    kept.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processor=structlog.processors.KeyValueRenderer(["event", "session_id"]),
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(["session_id"])],
        )
    )
    structlog.configure(
        processors=[structlog_processor(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    log = logging.getLogger("test_logs_libraries.structlog")
    log.propagate = False
    log.addHandler(Queue(records))
    listener = logging.handlers.QueueListener(records, kept)
    listener.start()

    with install_record_factory(), ctx.session(session_id="s1"):
        structlog.get_logger(log.name).warning("own")
        log.warning("foreign")
    listener.stop()
    log.handlers.clear()
    structlog.reset_defaults()

    assert lines == ["event='own' session_id='s1'", "event='foreign' session_id='s1'"]


def test_a_fault_of_ours_loses_no_structlog_event() -> None:
    """An event that cannot be added to goes on as it is, and the fault is counted."""

    class Sealed(dict[str, Any]):
        def setdefault(self, *args: Any) -> Any:
            raise TypeError("sealed")

    event, counted = Sealed(event="x"), fault_counts().get("structlog processor", 0)

    with ctx.session(session_id="s1"):
        assert structlog_processor()(None, "info", event) is event

    assert fault_counts()["structlog processor"] == counted + 1


# loguru


@pytest.fixture
def sink() -> Iterator[Callable[..., tuple[Any, list[str]]]]:
    """Give what adds a sink of a format to loguru; returns the logger and the lines that come out."""
    loguru.logger.remove()

    def add(fmt: str, **options: Any) -> tuple[Any, list[str]]:
        lines = list[str]()
        loguru.logger.add(lambda line: lines.append(str(line).strip()), format=fmt, catch=False, **options)
        loguru.logger.configure(patcher=loguru_patcher())
        return loguru.logger, lines

    yield add
    loguru.logger.remove()
    loguru.logger.configure(patcher=lambda record: None)


def test_a_loguru_format_shows_the_session_and_never_raises(sink: Callable[..., tuple[Any, list[str]]]) -> None:
    """`{extra[session_id]}` shows the session in effect, and the placeholder where none is or it is redacted."""
    log, lines = sink("{extra[session_id]} {extra[log_secret]} {message}")

    with ctx.session({SECRET: "hunter2"}, session_id="s1"):
        log.info("in")
    log.info("out")

    assert lines == ["s1 - in", "- - out"]


def test_what_a_loguru_logger_binds_wins(sink: Callable[..., tuple[Any, list[str]]]) -> None:
    """What is bound to the logger, contextualized, or given with the call, is what the record shows."""
    log, lines = sink("{extra[session_id]} {extra[user_id]} {extra[frontend]}")

    with ctx.session(session_id="s1", user_id="u1", frontend="web"), log.contextualize(frontend="theirs"):
        log.bind(session_id="bound").info("x", user_id="given")

    assert lines == ["bound given theirs"]


def test_loguru_with_a_queue_shows_the_session_of_the_log_call(sink: Callable[..., tuple[Any, list[str]]]) -> None:
    """With `enqueue=True`, where another thread writes, the record shows the session it was logged in."""
    log, lines = sink("{extra[session_id]} {message}", enqueue=True)

    for session_id in ("s1", "s2"):
        with ctx.session(session_id=session_id):
            log.info(session_id)
    log.complete()

    assert lines == ["s1 s1", "s2 s2"]


def test_the_loguru_patcher_goes_with_another(sink: Callable[..., tuple[Any, list[str]]]) -> None:
    """With `logger.patch`, ours and another library's patcher both take effect."""
    log, lines = sink("{extra[session_id]} {extra[theirs]}")
    log.configure(patcher=lambda record: record["extra"].update(theirs="t"))

    with ctx.session(session_id="s1"):
        log.patch(loguru_patcher()).info("x")

    assert lines == ["s1 t"]


def test_a_fault_of_ours_loses_no_loguru_record() -> None:
    """A record that cannot be patched goes on as it is, and the fault is counted."""
    counted = fault_counts().get("loguru patcher", 0)

    loguru_patcher()({})

    assert fault_counts()["loguru patcher"] == counted + 1
