"""Every OpenTelemetry log record that is emitted while keys are bound carries them."""

from __future__ import annotations

import logging
import logging.handlers
import queue
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import _logs as api
from opentelemetry.sdk import _logs as sdk
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs import export as sdk_export

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.telemetry import UnknownPresetError, set_hash_key
from ctxruntime.telemetry.log_records import NoLoggerProviderError, SessionLogRecordProcessor, add_logs_to
from ctxruntime.telemetry.logs import SessionFilter, install_record_factory
from ctxruntime.telemetry.redaction import hashed

SECRET = ctx.Key("log_secret", str, attributes="log.secret", redact="drop")
HASHED = ctx.Key("log_hashed", str, attributes="log.hashed", redact="hash")

InMemory: Any = getattr(sdk_export, "InMemoryLogRecordExporter", None) or sdk_export.InMemoryLogExporter
Record: Any = getattr(sdk, "LogRecord", api.LogRecord)


class Backend:
    """A provider with an exporter in memory, which was there before our processor was added."""

    def __init__(self, batch: bool = False, **options: Any) -> None:
        self.exporter = InMemory()
        self.provider = LoggerProvider()
        processor = sdk_export.BatchLogRecordProcessor if batch else sdk_export.SimpleLogRecordProcessor
        self.provider.add_log_record_processor(processor(self.exporter))
        self.ours = add_logs_to(self.provider, **options)

    def emit(self, **attributes: Any) -> None:
        logger: Any = self.provider.get_logger("test")
        severity = api.SeverityNumber.INFO
        logger.emit(Record(timestamp=1, body="x", severity_number=severity, attributes=attributes))

    @property
    def attributes(self) -> list[dict[str, Any]]:
        self.provider.force_flush()
        return [dict(it.log_record.attributes or {}) for it in self.exporter.get_finished_logs()]


@pytest.fixture
def backend() -> Iterator[Backend]:
    backend = Backend()
    yield backend
    backend.provider.shutdown()


@pytest.fixture
def log(backend: Backend, request: pytest.FixtureRequest) -> Iterator[logging.Logger]:
    log = logging.getLogger(f"test_logs_otel.{request.node.name}")
    log.propagate = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it moved, as it is, to a package that needs a new SDK
        log.addHandler(LoggingHandler(logger_provider=backend.provider))
    yield log
    log.handlers.clear()


def test_a_log_record_carries_the_keys_in_effect(backend: Backend) -> None:
    """A record has the preset's attributes of every bound key, and none of what is not bound or empty."""
    with ctx.session(session_id="s1", gateway_session_key="k1", user_id=""):
        backend.emit(mine=1)
    backend.emit()

    assert backend.attributes == [
        {
            "mine": 1,
            "session.id": "s1",
            "gen_ai.conversation.id": "s1",
            "gateway.session_key": "k1",
        },
        {},
    ]


def test_a_log_record_shows_the_ids_of_its_moment(backend: Backend) -> None:
    """After a rotation a record shows the new session and the one before, in a sub-agent the sub-agent's."""
    with ctx.session(session_id="s1"):
        with ctx.bind(session_id="child"):
            backend.emit()
        ctx.amend(session_id="s2")
        backend.emit()

    shown = [(it["session.id"], it.get("session.previous_id")) for it in backend.attributes]
    assert shown == [("child", None), ("s2", "s1")]


def test_what_the_caller_gave_a_log_record_wins(backend: Backend) -> None:
    """An attribute that the record has is not written over."""
    with ctx.session(session_id="s1", user_id="u1"):
        backend.emit(**{"session.id": "mine"})

    assert (backend.attributes[0]["session.id"], backend.attributes[0]["user.id"]) == ("mine", "u1")


def test_unbound_keys_make_no_warning(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """Case 22: neither SDK warns of a null value, as none is given."""
    with ctx.session(session_id="s1", gateway_session_key=None), ctx.bind(user_id=None):
        backend.emit()

    assert None not in backend.attributes[0].values()
    assert caplog.records == []


def test_redacted_keys_are_in_no_log_record(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dropped key is nowhere in what is exported, and a hashed one shows its hash alone."""
    monkeypatch.setattr("ctxruntime.telemetry.redaction._given", [])
    set_hash_key("of the deployment")

    with ctx.session({SECRET: "hunter2", HASHED: "correct horse"}, session_id="s1"):
        backend.emit()

    exported = backend.exporter.get_finished_logs()[0]
    assert exported.log_record.attributes["log.hashed"] == hashed("correct horse")
    text = str(vars(exported)) + str(vars(exported.log_record)) + str(backend.attributes)
    assert "hunter2" not in text
    assert "correct horse" not in text


@pytest.mark.parametrize("preset", ["langsmith", "traceloop"])
def test_a_log_record_has_its_presets_names(preset: str) -> None:
    """A record shows keys under the names of the preset."""
    backend = Backend(preset=preset)

    with ctx.session(session_id="s1"):
        backend.emit()

    name = {"langsmith": "langsmith.metadata.session_id", "traceloop": "traceloop.association.properties.session_id"}
    assert backend.attributes[0][name[preset]] == "s1"
    backend.provider.shutdown()


def test_an_unknown_preset_is_refused() -> None:
    """A preset that does not exist is an error of the caller's."""
    with pytest.raises(UnknownPresetError, match="no preset is called 'nope'"):
        SessionLogRecordProcessor("nope")


def test_exporters_that_were_there_before_see_the_keys() -> None:
    """Ours is put in front of what was added before it, which may send a record at once."""
    seen = list[dict[str, Any]]()

    class Sending(sdk.LogRecordProcessor):
        def on_emit(self, log_record: Any) -> None:
            seen.append(dict(log_record.log_record.attributes))

        emit = on_emit  # before 1.35

        def shutdown(self) -> None: ...

        def force_flush(self, timeout_millis: int = 30000) -> bool:
            return True

    provider: Any = LoggerProvider()
    provider.add_log_record_processor(Sending())
    add_logs_to(provider)
    with ctx.session(session_id="s1"):
        provider.get_logger("test").emit(Record(timestamp=1, body="x", severity_number=api.SeverityNumber.INFO))
    provider.shutdown()

    assert [it["session.id"] for it in seen] == ["s1"]


def test_records_handed_to_a_batch_carry_the_keys() -> None:
    """What a batch exports later, from a thread of its own, has the keys of where it was emitted."""
    backend = Backend(batch=True)

    with ctx.session(session_id="s1"):
        backend.emit()
    with ctx.session(session_id="s2"):
        assert [it["session.id"] for it in backend.attributes] == ["s1"]
    backend.provider.shutdown()


def test_a_key_defined_later_is_on_log_records(backend: Backend) -> None:
    """A key that a plugin defines after the processor was added is mirrored like those before."""
    late = ctx.Key(f"log_later_{id(backend)}", str, attributes="log.later")

    with ctx.session({late: "now"}):
        backend.emit()

    assert backend.attributes == [{"log.later": "now"}]


def test_adding_again_returns_the_processor_that_is_there(backend: Backend) -> None:
    """Added twice with one preset it is added once; with another preset, that is added too."""
    assert add_logs_to(backend.provider) is backend.ours
    other = add_logs_to(backend.provider, preset="langsmith")

    with ctx.session(session_id="s1"):
        backend.emit()

    assert other is not backend.ours
    assert backend.attributes[0]["langsmith.metadata.session_id"] == "s1"


def test_a_provider_that_wraps_the_sdks_is_taken(backend: Backend) -> None:
    """A provider that holds the SDK's as `provider`, as Logfire's does, is served."""

    class Wrapping:
        provider = backend.provider

    assert add_logs_to(Wrapping()) is backend.ours


def test_what_is_no_provider_is_refused() -> None:
    """Without an SDK's provider there is nothing to add to, and the error says what to do."""
    with pytest.raises(NoLoggerProviderError, match="object takes no log record processor: set up the SDK"):
        add_logs_to(object())


def test_the_processor_alone_is_no_reason_to_make_records() -> None:
    """Where the SDK asks whether anybody would emit a record, ours says no, and exporters decide."""
    provider: Any = LoggerProvider()
    processor = add_logs_to(provider)

    assert processor.enabled() is False
    if hasattr(sdk.LogRecordProcessor, "enabled"):
        assert provider.get_logger("x").enabled() is False
    assert processor.force_flush() is True
    provider.shutdown()


def test_a_fault_of_ours_loses_no_log_record(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that cannot be read goes on to the exporters, and the fault is counted."""
    counted = fault_counts().get("telemetry: a log record is emitted", 0)

    backend.ours.on_emit(object())

    assert fault_counts()["telemetry: a log record is emitted"] == counted + 1


# Through the stdlib's logging


def test_the_sdks_logging_handler_exports_the_session(backend: Backend, log: logging.Logger) -> None:
    """What is logged through the stdlib is exported with the keys; `extra=` of an attribute's name wins."""
    with ctx.session(session_id="s1", user_id="u1"):
        log.warning("x", extra={"user.id": "mine"})

    exported = backend.attributes[0]
    assert (exported["session.id"], exported["user.id"]) == ("s1", "mine")


def test_fields_that_nothing_fills_are_not_exported(backend: Backend, log: logging.Logger) -> None:
    """The placeholders that our filter or factory shows to people are no attributes; a caller's own field is."""
    log.addFilter(SessionFilter())
    log.warning("filter")
    log.filters.clear()
    with install_record_factory(placeholder=""):
        log.warning("factory", extra={"session_id": "mine"})

    fields = [{name for name in it if name in ("session_id", "user_id", "frontend")} for it in backend.attributes]
    assert fields == [set(), {"session_id"}]


def test_threads_and_pools_are_exported_under_their_starters_session(backend: Backend, log: logging.Logger) -> None:
    """With `install()`, records of threads and jobs carry the session that started them."""
    with ctx.install(), ThreadPoolExecutor(1) as pool:
        for session_id in ("s1", "s2"):
            with ctx.session(session_id=session_id):
                thread = threading.Thread(target=log.warning, args=("thread",))
                thread.start()
                thread.join()
                pool.submit(log.warning, "job").result()

    assert [it["session.id"] for it in backend.attributes] == ["s1", "s1", "s2", "s2"]


def test_behind_a_queue_the_factorys_fields_are_exported(backend: Backend, log: logging.Logger) -> None:
    """Where the SDK's handler is behind a queue, the record's fields show the session of the log call."""
    records = queue.SimpleQueue[logging.LogRecord]()
    exporting, log.handlers[:] = log.handlers[0], [logging.handlers.QueueHandler(records)]
    listener = logging.handlers.QueueListener(records, exporting)
    listener.start()

    with install_record_factory(), ctx.session(session_id="s1"):
        log.warning("x")
    listener.stop()

    assert backend.attributes[0]["session_id"] == "s1"


def test_without_the_sdk_the_error_names_the_extra() -> None:
    """Using the processor without opentelemetry-sdk says which extra to install; the stdlib's part works."""
    program = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "import ctxruntime.telemetry.logs, ctxruntime.telemetry.events\n"
        "try: import ctxruntime.telemetry.log_records\n"
        "except ImportError as error: print(error)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "pip install 'ctxruntime[otel]'" in done.stdout
