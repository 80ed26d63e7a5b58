"""Zero code: the instrumentor, called as loaders call it, and loaded by them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ctxruntime as ctx
from ctxruntime.hops.install import installed
from ctxruntime.layers import SUBSCRIBERS
from ctxruntime.telemetry import SessionSpanProcessor, UnknownPresetError, add_logs_to, add_to
from ctxruntime.telemetry.errors import UnknownOptionError
from ctxruntime.telemetry.instrumentor import CtxRuntimeInstrumentor
from ctxruntime.telemetry.sdk_logs import processors_of as log_processors_of
from ctxruntime.telemetry.sdk_spans import processors_of


class Recording:
    """A provider with an exporter, as a program makes it."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.logs = LoggerProvider(shutdown_on_exit=False)

    def attributes(self) -> list[dict[str, Any]]:
        """Return what a span carries that starts in a thread of a turn."""
        self.exporter.clear()
        with ctx.session(session_id="s1"):
            thread = threading.Thread(target=lambda: self.provider.get_tracer("tests").start_span("work").end())
            thread.start()
            thread.join()
        return [dict(span.attributes or {}) for span in self.exporter.get_finished_spans()]

    def ours(self) -> list[SessionSpanProcessor]:
        return [it for it in processors_of(self.provider) if isinstance(it, SessionSpanProcessor)]


PLAIN = {"session.id": "s1", "gen_ai.conversation.id": "s1"}


@pytest.fixture
def instrumentor() -> Iterator[CtxRuntimeInstrumentor]:
    """The instrumentor, and see to it that it leaves nothing behind."""
    inits = TracerProvider.__init__, LoggerProvider.__init__
    instrumentor = CtxRuntimeInstrumentor()
    yield instrumentor
    instrumentor.uninstrument()
    assert (TracerProvider.__init__, LoggerProvider.__init__) == inits
    assert installed() is None
    assert not instrumentor.is_instrumented_by_opentelemetry


@pytest.fixture
def recording() -> Iterator[Recording]:
    recording = Recording()
    yield recording
    recording.provider.shutdown()
    recording.logs.shutdown()


def test_the_provider_that_is_given_mirrors_and_hops_carry(
    instrumentor: CtxRuntimeInstrumentor, recording: Recording
) -> None:
    """Spans of threads have the keys, and so have log records."""
    instrumentor.instrument(tracer_provider=recording.provider, logger_provider=recording.logs)

    assert recording.attributes() == [PLAIN]
    assert len(log_processors_of(recording.logs)) == 1
    assert instrumentor.is_instrumented_by_opentelemetry


def test_only_the_provider_that_is_given_mirrors(instrumentor: CtxRuntimeInstrumentor, recording: Recording) -> None:
    """With a provider given, those made later are left alone."""
    instrumentor.instrument(tracer_provider=recording.provider, logger_provider=recording.logs)
    later = Recording()

    assert later.attributes() == [{}]
    assert log_processors_of(later.logs) == ()
    later.provider.shutdown()


def test_without_a_provider_those_made_later_mirror(instrumentor: CtxRuntimeInstrumentor) -> None:
    """A program that sets its providers up after the loader came has the keys on their spans and log records."""
    instrumentor.instrument(preset="traceloop")
    later = Recording()

    (attributes,) = later.attributes()
    assert attributes["traceloop.association.properties.session_id"] == "s1"
    assert [it.preset.name for it in log_processors_of(later.logs)] == ["traceloop"]
    later.provider.shutdown()


def test_instrumenting_twice_is_instrumenting_once(
    instrumentor: CtxRuntimeInstrumentor, recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    """A loader that comes after the configuration file changes nothing, and says nothing."""
    instrumentor.instrument(tracer_provider=recording.provider, preset="langsmith")
    caplog.clear()
    instrumentor.instrument(tracer_provider=recording.provider)

    assert [processor.preset.name for processor in recording.ours()] == ["langsmith"]
    assert CtxRuntimeInstrumentor() is instrumentor
    assert caplog.records == []


@pytest.mark.parametrize("preset", ["otel", "langsmith"])
@pytest.mark.parametrize("first", [True, False], ids=["program first", "program later"])
def test_a_provider_has_one_processor_and_the_program_says_which(
    instrumentor: CtxRuntimeInstrumentor, recording: Recording, first: bool, preset: str
) -> None:
    """What the program adds itself holds, before or after the loader, and stays when the loader's is taken back."""

    def add() -> None:
        add_to(recording.provider, preset=preset)
        add_logs_to(recording.logs, preset=preset)

    if first:
        add()
    instrumentor.instrument(tracer_provider=recording.provider, logger_provider=recording.logs)
    if not first:
        add()

    for _ in range(2):
        assert [processor.preset.name for processor in recording.ours()] == [preset]
        assert [processor.preset.name for processor in log_processors_of(recording.logs)] == [preset]
        instrumentor.uninstrument()


def test_uninstrumenting_takes_everything_back(instrumentor: CtxRuntimeInstrumentor, recording: Recording) -> None:
    """Neither hops nor processors are left; it can be called twice, and everything be put in place again."""
    start, told = threading.Thread.start, SUBSCRIBERS.copy()
    for _ in range(2):
        instrumentor.instrument(tracer_provider=recording.provider, logger_provider=recording.logs)
        assert recording.attributes() == [PLAIN]
        instrumentor.uninstrument()
        instrumentor.uninstrument()

        assert recording.attributes() == [{}]
        assert recording.ours() == []
        assert log_processors_of(recording.logs) == ()
        assert threading.Thread.start is start
        assert told == SUBSCRIBERS


def test_hops_that_the_program_installed_stay(instrumentor: CtxRuntimeInstrumentor, recording: Recording) -> None:
    """Taking back leaves what was there before."""
    with ctx.install() as installation:
        instrumentor.instrument(tracer_provider=recording.provider)
        instrumentor.uninstrument()

        assert installation.active


def test_a_processor_is_silenced_where_the_sdk_cannot_take_it_out(
    instrumentor: CtxRuntimeInstrumentor, recording: Recording
) -> None:
    """Should the SDK have changed inside, what is taken back does nothing any more."""
    instrumentor.instrument(tracer_provider=recording.provider)
    group: Any = recording.provider._active_span_processor
    lock = group.__dict__.pop("_lock")
    instrumentor.uninstrument()
    group._lock = lock
    with ctx.session(session_id="s1"):
        recording.provider.get_tracer("tests").start_span("work").end()

    assert [span.attributes for span in recording.exporter.get_finished_spans()] == [{}]


# The line


def test_one_line_says_what_is_bound(
    instrumentor: CtxRuntimeInstrumentor, recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    """It names processors and their providers, what is not there, and the hops."""
    with caplog.at_level(logging.INFO, "ctxruntime"):
        instrumentor.instrument(tracer_provider=recording.provider)
    (record,) = caplog.records
    spans, logs, hops = record.getMessage().split("; ")

    assert (record.name, record.levelname) == ("ctxruntime", "INFO")
    assert spans == "spans: <SessionSpanProcessor preset=otel pin=trace group_by=session> on TracerProvider"
    assert logs == "log records: no provider of the SDK is set yet, those made later are followed"
    assert hops.startswith("hops: threading")


def test_a_provider_that_takes_no_processor_is_named(
    instrumentor: CtxRuntimeInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    """What could be there and is not makes the line a warning, and no error."""
    instrumentor.instrument(tracer_provider=object())
    (record,) = caplog.records

    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("spans: not mirrored (object takes no span processor: ")


def test_a_fault_breaks_no_host(
    instrumentor: CtxRuntimeInstrumentor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What goes wrong is logged, and the rest is done."""
    monkeypatch.setattr("ctxruntime.telemetry.adding.SessionSpanProcessor", None)
    instrumentor.instrument(tracer_provider=TracerProvider(shutdown_on_exit=False))
    _, record = caplog.records

    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("spans: not mirrored, see the traceback; log records: no provider")
    assert installed() is not None


def test_switched_off_it_does_nothing(
    instrumentor: CtxRuntimeInstrumentor,
    recording: Recording,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`CTXRUNTIME_DISABLED` leaves providers and hops alone, and the line says so."""
    monkeypatch.setenv("CTXRUNTIME_DISABLED", "1")
    with caplog.at_level(logging.INFO, "ctxruntime"):
        instrumentor.instrument(tracer_provider=recording.provider)

    assert recording.ours() == []
    assert installed() is None
    assert [record.getMessage() for record in caplog.records] == ["nothing, as CTXRUNTIME_DISABLED is set"]


# Options


def test_options_reach_the_processor(instrumentor: CtxRuntimeInstrumentor, recording: Recording) -> None:
    """Preset, pin and grouping are what was asked for; what loaders give besides is no option."""
    instrumentor.instrument(
        tracer_provider=recording.provider,
        meter_provider=None,
        skip_dep_check=True,
        raise_exception_on_conflict=True,
        preset="mlflow",
        pin="span",
        group_by="conversation",
    )
    (processor,) = recording.ours()

    assert (processor.preset.name, processor.pin, processor.group_by) == ("mlflow", "span", "conversation")


WRONG = {
    "name": ({"presett": "otel"}, UnknownOptionError, "ctxruntime has no option 'presett': choose from deny, "),
    "preset": ({"preset": "nosuch"}, UnknownPresetError, "no preset is called 'nosuch'"),
    "pin": ({"pin": "turn"}, ValueError, "pin is 'trace' or 'span', not 'turn'"),
    "group_by": ({"group_by": 1}, ValueError, "group_by is 'session' or 'conversation', not 1"),
    "subprocesses": ({"subprocesses": "yes"}, ValueError, "subprocesses is False or True, not 'yes'"),
    "deny": ({"deny": "run"}, TypeError, "deny takes several names"),
}


@pytest.mark.parametrize(("options", "error", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_named(
    instrumentor: CtxRuntimeInstrumentor, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """It is the operator's error, and nothing is put in place."""
    with pytest.raises(error, match=message):
        instrumentor.instrument(**options)

    assert not instrumentor.is_instrumented_by_opentelemetry


def test_the_environment_names_the_preset(
    instrumentor: CtxRuntimeInstrumentor, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`CTXRUNTIME_PRESET` holds where no option says otherwise."""
    monkeypatch.setenv("CTXRUNTIME_PRESET", "phoenix")
    instrumentor.instrument(tracer_provider=recording.provider)

    assert [processor.preset.name for processor in recording.ours()] == ["phoenix"]


def test_a_wrong_name_in_the_environment_keeps_no_program_from_starting(
    instrumentor: CtxRuntimeInstrumentor,
    recording: Recording,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is a warning, and the default holds."""
    monkeypatch.setenv("CTXRUNTIME_PRESET", "nosuch")
    instrumentor.instrument(tracer_provider=recording.provider)

    assert [processor.preset.name for processor in recording.ours()] == ["otel"]
    assert caplog.records[0].getMessage().startswith("CTXRUNTIME_PRESET: no preset is called 'nosuch': ")


def test_without_the_sdk_hops_carry_and_the_line_says_what_is_missing(tmp_path: Path) -> None:
    """With opentelemetry-api alone the instrumentor does what it can."""
    program = """
import sys
sys.modules["opentelemetry.sdk"] = None
from ctxruntime.telemetry.instrumentor import CtxRuntimeInstrumentor
from ctxruntime.hops.install import installed
CtxRuntimeInstrumentor().instrument()
print(installed() is not None)
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    missing = "this needs opentelemetry-sdk, which is not installed: pip install 'ctxruntime[otel]'"

    assert process.stdout == "True\n"
    assert process.stderr.startswith(
        f"spans: not mirrored ({missing}); log records: not mirrored ({missing}); hops: threading"
    )


# Loaded by OpenTelemetry

APP = """
import logging
import threading

import ctxruntime as ctx
from opentelemetry import trace

tracer = trace.get_tracer("app")
with ctx.session(session_id="s1"), tracer.start_as_current_span("turn"):
    thread = threading.Thread(target=lambda: tracer.start_span("in thread").end())
    thread.start()
    thread.join()
    logging.getLogger("app").error("hello")
"""
EMITS = """
from opentelemetry._logs import LogRecord, SeverityNumber, get_logger

with ctx.session(session_id="s1"):
    get_logger("app").emit(LogRecord(timestamp=1, body="emitted", severity_number=SeverityNumber.INFO))
"""
CONFIG = """
file_format: "1.0"
tracer_provider:
  processors:
    - simple: {{exporter: {{console: {{}}}}}}
logger_provider:
  processors:
    - simple: {{exporter: {{console: {{}}}}}}
instrumentation/development:
  python:
    ctxruntime: {{{options}}}
"""
CONSOLE = {
    "OTEL_TRACES_EXPORTER": "console",
    "OTEL_LOGS_EXPORTER": "console",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOG_LEVEL": "info",
    "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED": "true",
}


def instrumented(folder: Path, *command: str, app: str = APP, **environ: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Run a program under `opentelemetry-instrument`: the attributes of its spans and log records, and stderr."""
    (folder / "app.py").write_text(app)
    process = subprocess.run(
        [Path(sys.executable).parent / "opentelemetry-instrument", *(command or (sys.executable, "app.py"))],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **CONSOLE, **environ},
    )
    assert process.returncode == 0, process.stderr
    return {item.get("name") or item["body"]: item["attributes"] for item in objects(process.stdout)}, process.stderr


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that console exporters wrote one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        found, at = decoder.raw_decode(text, at)
        yield found


@pytest.mark.peers
def test_opentelemetry_instrument_binds_spans_and_logs(tmp_path: Path) -> None:
    """Under the real loader spans, in threads too, and exported log records carry the keys; the line says so."""
    found, stderr = instrumented(tmp_path)

    assert found["turn"].items() >= PLAIN.items()
    assert found["in thread"].items() >= PLAIN.items()
    assert found["hello"].items() >= PLAIN.items()
    assert (
        "ctxruntime: spans: <SessionSpanProcessor preset=otel pin=trace group_by=session> on TracerProvider, and on "
        "those made later; log records: <SessionLogRecordProcessor preset=otel> on LoggerProvider, and on those made "
        "later; hops: threading, "
    ) in stderr


@pytest.mark.peers
def test_a_disabled_instrumentor_is_not_loaded(tmp_path: Path) -> None:
    """OpenTelemetry's own variable leaves ctxruntime out."""
    found, stderr = instrumented(tmp_path, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="requests, ctxruntime")

    assert found["turn"] == found["in thread"] == {}
    assert "session.id" not in found["hello"]
    assert "ctxruntime: " not in stderr


@pytest.mark.peers
def test_a_provider_that_the_program_sets_is_followed(tmp_path: Path) -> None:
    """Where no distribution sets a provider, the program's own mirrors, in front of its exporter."""
    own = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import set_tracer_provider

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
set_tracer_provider(provider)
"""
    found, stderr = instrumented(tmp_path, app=own + APP, OTEL_PYTHON_CONFIGURATOR="none", OTEL_PYTHON_DISTRO="none")

    assert found == {"turn": PLAIN, "in thread": PLAIN}
    assert "spans: no provider of the SDK is set yet, those made later are followed" in stderr


@pytest.mark.peers
def test_the_configuration_file_has_options(tmp_path: Path) -> None:
    """What it says holds, though the loader calls the instrumentor again without options."""
    (tmp_path / "otel.yaml").write_text(CONFIG.format(options="preset: langsmith, pin: span"))
    found, stderr = instrumented(tmp_path, app=APP + EMITS, OTEL_CONFIG_FILE="otel.yaml")

    assert found["in thread"]["langsmith.metadata.thread_id"] == "s1"
    assert found["emitted"]["langsmith.metadata.thread_id"] == "s1"  # its exporter came first, and waits for nothing
    assert stderr.count("ctxruntime: spans: ") == 1
    assert "preset=langsmith pin=span" in stderr
    assert "already instrumented" not in stderr


@pytest.mark.peers
def test_a_wrong_option_in_the_configuration_file_is_named(tmp_path: Path) -> None:
    """The program runs, with the defaults, and the error names the option."""
    (tmp_path / "otel.yaml").write_text(CONFIG.format(options="presett: langsmith"))
    found, stderr = instrumented(tmp_path, OTEL_CONFIG_FILE="otel.yaml")

    assert "UnknownOptionError: ctxruntime has no option 'presett': choose from deny, group_by, pin, " in stderr
    assert found["turn"] == PLAIN


@pytest.mark.peers
def test_both_ways_at_once_bind_once(tmp_path: Path) -> None:
    """`ctxruntime run` under `opentelemetry-instrument` adds no second processor, and its file has the spans too."""
    command = [sys.executable, "-m", "ctxruntime", "run", "--spans", "spans.jsonl", "app.py"]
    app = APP + (
        "there = trace.get_tracer_provider()._active_span_processor._span_processors\n"
        "assert sorted(type(it).__name__ for it in there) == "
        "['BatchSpanProcessor', 'SessionSpanProcessor', 'SimpleSpanProcessor'], there\n"
    )
    found, stderr = instrumented(tmp_path, *command, app=app)

    assert found["turn"] == PLAIN
    assert (tmp_path / "spans.jsonl").read_text().count('"session.id"') == 2
    assert stderr.count("<SessionSpanProcessor preset=otel") == 2  # each says which one is there


@pytest.mark.peers
def test_loaders_take_it_for_one_of_theirs() -> None:
    """It is found under its name, and is a BaseInstrumentor to those who ask."""
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

    (entry_point,) = metadata.entry_points(group="opentelemetry_instrumentor", name="ctxruntime")
    loaded = entry_point.load()()

    assert isinstance(loaded, BaseInstrumentor)
    assert loaded.instrumentation_dependencies() == ()
