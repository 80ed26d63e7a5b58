"""Spans in a file: `ctxruntime run --spans FILE`."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.telemetry import add_to
from ctxruntime.telemetry.otlp_json import line_of
from ctxruntime.telemetry.spans_file import SpansFile

NUMBERS = {"int": 2**40, "zero": 0, "float": 1.5, "inf": math.inf, "-inf": -math.inf, "nan": math.nan, "bool": False}
TEXTS = {"text": "ü\n\u2028", "empty": "", "surrogate": "\ud800", "list": ["a", "b"], "ints": [1, 2], "none": []}


def provider_to(exporter: Any) -> TracerProvider:
    provider = TracerProvider(resource=Resource({"service.name": "tests"}, "https://x/1"), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


@pytest.fixture
def ended() -> tuple[Any, ...]:
    """Spans with all that a span can have."""
    exporter = InMemorySpanExporter()
    provider = provider_to(exporter)
    tracer = provider.get_tracer("scope", "1.0", "https://x/2")
    far = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "b")]))
    with tracer.start_as_current_span("parent", kind=SpanKind.SERVER, links=[Link(far, {"k": 1})]) as parent:
        parent.set_attributes({**NUMBERS, **TEXTS})
        parent.add_event("event", {"a": True}, timestamp=5)
        with provider.get_tracer("other").start_as_current_span("child", kind=SpanKind.CLIENT) as child:
            child.set_status(Status(StatusCode.ERROR, "bad"))
    return exporter.get_finished_spans()


def test_a_line_is_a_request_of_otlp(ended: tuple[Any, ...]) -> None:
    """Ids are hexadecimal, numbers of 64 bits are text, names are in lower camel case, one line is one request."""
    line = line_of(ended[1:])
    (resource,) = json.loads(line)["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    (span,) = scope["spans"]
    attributes = {pair["key"]: pair["value"] for pair in span["attributes"]}

    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    assert resource["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "tests"}}]
    assert (resource["schemaUrl"], scope["schemaUrl"]) == ("https://x/1", "https://x/2")
    assert scope["scope"] == {"name": "scope", "version": "1.0"}
    assert span["traceId"] == f"{ended[1].context.trace_id:032x}"
    assert span["spanId"] == f"{ended[1].context.span_id:016x}"
    assert span["startTimeUnixNano"] == str(ended[1].start_time)
    assert span["endTimeUnixNano"] == str(ended[1].end_time)
    assert (span["name"], span["kind"], span["flags"], span["status"]) == ("parent", 2, 0x100, {})
    assert span["events"] == [
        {"timeUnixNano": "5", "name": "event", "attributes": [{"key": "a", "value": {"boolValue": True}}]}
    ]
    assert span["links"] == [
        {
            "traceId": f"{1:032x}",
            "spanId": f"{2:016x}",
            "attributes": [{"key": "k", "value": {"intValue": "1"}}],
            "flags": 0x300,
        }
    ]
    assert attributes == {
        "int": {"intValue": str(2**40)},
        "zero": {"intValue": "0"},
        "float": {"doubleValue": 1.5},
        "inf": {"doubleValue": "Infinity"},
        "-inf": {"doubleValue": "-Infinity"},
        "nan": {"doubleValue": "NaN"},
        "bool": {"boolValue": False},
        "text": {"stringValue": "ü\n\u2028"},
        "empty": {"stringValue": ""},
        "surrogate": {"stringValue": "\ud800"},
        "list": {"arrayValue": {"values": [{"stringValue": "a"}, {"stringValue": "b"}]}},
        "ints": {"arrayValue": {"values": [{"intValue": "1"}, {"intValue": "2"}]}},
        "none": {"arrayValue": {}},
    }


def test_a_child_names_its_parent(ended: tuple[Any, ...]) -> None:
    """A span that failed has its status, and one with a parent the id of that."""
    (resource,) = json.loads(line_of(ended))["resourceSpans"]
    (child,), (parent,) = (scope["spans"] for scope in resource["scopeSpans"])

    assert "parentSpanId" not in parent
    assert child["parentSpanId"] == parent["spanId"]
    assert child["status"] == {"message": "bad", "code": 2}


@pytest.mark.peers
def test_lines_are_those_of_opentelemetry(ended: tuple[Any, ...]) -> None:
    """OpenTelemetry's own encoder gives the same, for whatever a span can have."""
    from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans

    assert json.loads(line_of(ended)) == json.loads(json.dumps(encode_spans(ended).to_dict()))


def test_without_spans_there_is_no_line() -> None:
    """An empty export writes nothing."""
    assert line_of(()) == b""


# The file


def read(path: Path) -> list[dict[str, Any]]:
    """Return the spans of a file, each with its attributes as plain values and its service."""
    found: list[dict[str, Any]] = []
    for line in path.read_text("ascii").splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            service = plain(resource["resource"]["attributes"])["service.name"]
            for scope in resource["scopeSpans"]:
                found += [
                    {"name": span["name"], "service": service, **plain(span.get("attributes", []))}
                    for span in scope["spans"]
                ]
    return found


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: next(iter(pair["value"].values()), None) for pair in attributes}


def sessions(path: Path) -> list[tuple[str, Any]]:
    return [(span["name"], span.get("session.id")) for span in read(path)]


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Callable[[], TracerProvider]]:
    """Make providers that write to one file."""
    made: list[TracerProvider] = []

    def make() -> TracerProvider:
        made.append(provider_to(SpansFile(tmp_path / "spans.jsonl")))
        return made[-1]

    yield make
    for provider in made:
        provider.shutdown()


def test_what_is_in_the_file_stays(writing: Callable[[], TracerProvider], tmp_path: Path) -> None:
    """The file is appended to."""
    for name in ("one", "two"):
        writing().get_tracer("tests").start_span(name).end()

    assert [span["name"] for span in read(tmp_path / "spans.jsonl")] == ["one", "two"]


def test_threads_and_forked_children_share_the_file(writing: Callable[[], TracerProvider], tmp_path: Path) -> None:
    """Each span is one whole line, once, whoever writes at the same time."""
    tracer = writing().get_tracer("tests")
    names = [f"{process}-{thread}-{number}" for process in "abc" for thread in "12" for number in range(50)]

    def work(process: str) -> None:
        def make(thread: str) -> None:
            for number in range(50):
                tracer.start_span(f"{process}-{thread}-{number}", attributes={"pad": "x" * 5000}).end()

        threads = [threading.Thread(target=make, args=(thread,)) for thread in "12"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    children: list[int] = []
    for process in "bc":
        child = os.fork()
        if not child:
            work(process)
            os._exit(0)
        children.append(child)
    work("a")
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert sorted(span["name"] for span in read(tmp_path / "spans.jsonl")) == sorted(names)


def test_a_file_that_cannot_be_written_breaks_nothing(tmp_path: Path) -> None:
    """The program goes on, and it is logged and counted."""
    folder = tmp_path / "folder"
    folder.mkdir()
    file = SpansFile(folder / "spans.jsonl")
    (folder / "spans.jsonl").unlink()
    folder.rmdir()
    site = "telemetry: a span is written to the file"
    before = fault_counts().get(site, 0)

    assert file.export(()) is SpanExportResult.FAILURE
    assert fault_counts()[site] == before + 1


def end_spans(exporter: SpansFile, *names: str) -> None:
    provider = provider_to(exporter)
    for name in names:
        provider.get_tracer("tests").start_span(name).end()
    provider.shutdown()


@pytest.mark.parametrize("who", ["the same program", "the next program"])
def test_a_line_that_is_torn_takes_no_other_along(tmp_path: Path, who: str) -> None:
    """When a disk was full in the middle of a line, what comes next is in lines of its own."""
    path = tmp_path / "spans.jsonl"
    ours = SpansFile(path)
    end_spans(ours, "before")
    resource = pytest.importorskip("resource", reason="no limit to set here")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, limits[1]))
    end_spans(ours, "torn")
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    end_spans(ours if who == "the same program" else SpansFile(path), "after", "last")

    lines = path.read_text("ascii").splitlines()
    assert len(lines[1]) == 50
    path.write_text("\n".join([lines[0], *lines[2:]]))
    assert [span["name"] for span in read(path)] == ["before", "after", "last"]


def test_redaction_holds_in_the_file(writing: Callable[[], TracerProvider], tmp_path: Path) -> None:
    """A key that is dropped is not in the file, one that is hashed is there as its hash, late facts are there too."""
    provider = writing()
    add_to(provider)
    dropped = ctx.Key("spans_file_dropped", attributes="dropped", redact="drop")
    hashed = ctx.Key("spans_file_hashed", attributes="hashed", redact="hash")
    tracer = provider.get_tracer("tests")
    with ctx.session({dropped: "secret-1", hashed: "secret-2"}), tracer.start_as_current_span("turn"):
        ctx.amend(session_id="late")

    (span,) = read(tmp_path / "spans.jsonl")
    assert span["session.id"] == "late"
    assert "hashed" in span
    assert "secret" not in (tmp_path / "spans.jsonl").read_text()


# The command

BARE = """
import ctxruntime as ctx
from opentelemetry import trace

tracer = trace.get_tracer("app")

@tracer.start_as_current_span("decorated")
def decorated():
    pass

@ctx.traced
def traced():
    pass

with ctx.session(session_id="s1"), tracer.start_as_current_span("turn"):
    decorated()
    traced()
"""
SETS_ITS_OWN = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ctxruntime as ctx

tracer = trace.get_tracer("early")

@tracer.start_as_current_span("decorated")
def decorated():
    pass

assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
tracer.start_span("before").end()
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
assert trace.get_tracer_provider() is provider
with ctx.session(session_id="s1"):
    tracer.start_span("after").end()
    decorated()
    trace.get_tracer("late").start_span("late").end()
print([(span.name, span.attributes.get("session.id")) for span in exporter.get_finished_spans()])
"""
ENDING = """
import os, signal, sys
from opentelemetry import trace

tracer = trace.get_tracer("app")
tracer.start_span("ended").end()
left_open = tracer.start_span("open")
{how}
"""


def run(folder: Path, program: str, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    (folder / "app.py").write_text(program)
    command = [sys.executable, "-m", "ctxruntime", "run", "--spans", "spans.jsonl", *options, "app.py"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, env={**os.environ, **environ}
    )


def test_a_program_that_sets_no_provider_has_its_spans_in_the_file(tmp_path: Path) -> None:
    """A provider of ours stands in: for tracers, decorators of theirs and `traced`, with the session's keys."""
    process = run(tmp_path, BARE)

    assert (process.returncode, process.stderr) == (0, "")
    assert sessions(tmp_path / "spans.jsonl") == [("decorated", "s1"), ("traced", "s1"), ("turn", "s1")]
    assert {span["service"] for span in read(tmp_path / "spans.jsonl")} == {"app"}


def test_the_environment_names_the_service(tmp_path: Path) -> None:
    """What OpenTelemetry's variable says holds for the stand-in too."""
    run(tmp_path, BARE, OTEL_SERVICE_NAME="named")

    assert {span["service"] for span in read(tmp_path / "spans.jsonl")} == {"named"}


def test_the_provider_that_a_program_sets_is_in_charge(tmp_path: Path) -> None:
    """It can be set, gets every span from then on, also of tracers had before, and the file gets them too."""
    process = run(tmp_path, SETS_ITS_OWN)
    after = [("after", "s1"), ("decorated", "s1"), ("late", "s1")]

    assert (process.stdout, process.stderr) == (f"{after}\n", "")
    assert sessions(tmp_path / "spans.jsonl") == [("before", None), *after]


def test_the_file_has_the_attributes_of_the_preset(tmp_path: Path) -> None:
    """`--preset` is what the file shows."""
    run(tmp_path, BARE, "--preset", "langsmith")

    assert {span["langsmith.metadata.thread_id"] for span in read(tmp_path / "spans.jsonl")} == {"s1"}


@pytest.mark.skipif(find_spec("opentelemetry.util._decorator") is None, reason="the API itself cannot before 1.22")
def test_a_tracer_of_the_stand_in_decorates_coroutines(tmp_path: Path) -> None:
    """The span is there while the coroutine runs, as with the API's own tracers."""
    program = """
import asyncio
from opentelemetry import trace

@trace.get_tracer("app").start_as_current_span("coroutine")
async def coroutine():
    await asyncio.sleep(0)
    trace.get_current_span().set_attribute("inside", True)

asyncio.run(coroutine())
"""
    run(tmp_path, program)

    assert read(tmp_path / "spans.jsonl") == [{"name": "coroutine", "service": "app", "inside": True}]


@pytest.mark.parametrize(
    ("how", "code"),
    {
        "exit": ("sys.exit(7)", 7),
        "error": ("1 / 0", 1),
        "terminated": ("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
        "killed": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        "at once": ("os._exit(3)", 3),
    }.values(),
    ids=["exit", "error", "terminated", "killed", "at once"],
)
def test_spans_that_ended_are_in_the_file_however_a_program_ends(tmp_path: Path, how: str, code: int) -> None:
    """Nothing is kept back that a flush would have to bring."""
    process = run(tmp_path, ENDING.format(how=how))

    assert process.returncode == code
    assert sessions(tmp_path / "spans.jsonl") == [("ended", None)]


def test_the_file_is_the_one_named_wherever_the_program_goes(tmp_path: Path) -> None:
    """A program that changes its folder, and closes every file as daemons do, writes to the same file."""
    (tmp_path / "elsewhere").mkdir()
    program = "import os\nos.chdir('elsewhere')\nos.closerange(3, 100)\nfiles = [open(os.devnull, 'w')] * 5\n" + BARE

    assert run(tmp_path, program).returncode == 0
    assert len(read(tmp_path / "spans.jsonl")) == 3
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_switched_off_run_writes_no_spans(tmp_path: Path) -> None:
    """With `CTXRUNTIME_DISABLED` nothing is done, which the command says."""
    process = run(tmp_path, BARE, CTXRUNTIME_DISABLED="1")

    assert process.returncode == 0
    assert process.stderr == "ctxruntime: spans.jsonl is not written: nothing, as CTXRUNTIME_DISABLED is set\n"
    assert not (tmp_path / "spans.jsonl").exists()
