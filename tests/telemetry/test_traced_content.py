"""Content on spans: none, unless it is asked for."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Annotated, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import ctxruntime as ctx
from ctxruntime.layers import SUBSCRIBERS
from ctxruntime.telemetry import add_to
from ctxruntime.telemetry.traced import handler, traced
from ctxruntime.telemetry.tracing_secrets import Seen

SECRET = ctx.Key("traced_secret", str, redact="drop", attributes="secret", inject="any")
CONTENT = ("input.value", "input.mime_type", "output.value", "output.mime_type")


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, made = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", made)
    return exporter


@pytest.fixture
def ended(exporter: InMemorySpanExporter) -> Callable[[], ReadableSpan]:
    """Return how to get the one span there is."""

    def read() -> ReadableSpan:
        [span] = exporter.get_finished_spans()
        return span

    return read


@pytest.fixture
def shown(ended: Callable[[], ReadableSpan]) -> Callable[[], dict[str, Any]]:
    """Return how to read its attributes."""
    return lambda: dict(ended().attributes or {})


def test_content_is_private_by_default(shown: Callable[[], dict[str, Any]]) -> None:
    """Neither what is given nor what is returned is on the span."""
    traced(str.upper)("private")

    assert not {"private", "PRIVATE"} & set(shown().values())
    assert set(shown()).isdisjoint(CONTENT)


def test_input_is_what_the_caller_gave_by_name(shown: Callable[[], dict[str, Any]]) -> None:
    """`input.value` is JSON of the arguments; `self`, and parameters for keys, are left out."""

    class Plugin:
        @handler(record_input=True, aliases={"sid": ctx.SESSION_ID})
        def handle(
            self, path: str, *rest: object, sid: str = "", mark: Annotated[str, SECRET] = "", **more: object
        ) -> None: ...

    with ctx.session({SECRET: "s3cr3t"}, session_id="s1", gateway_session_key="k1"):
        Plugin().handle("a", 2, Plugin, limit=3)

    assert json.loads(shown()["input.value"]) == {"path": "a", "rest": [2, repr(Plugin)], "more": {"limit": 3}}
    assert shown()["input.mime_type"] == "application/json"


@pytest.mark.parametrize(
    ("value", "text", "kind"),
    [
        ("text", "text", "text/plain"),
        ({"a": [1, None]}, '{"a": [1, null]}', "application/json"),
        (False, "false", "application/json"),
        (None, None, None),
    ],
)
def test_output_is_what_is_returned(
    shown: Callable[[], dict[str, Any]], value: object, text: str | None, kind: str | None
) -> None:
    """`output.value` is text as it is and anything else as JSON; None is nothing."""
    traced(record_output=True)(lambda: value)()

    assert (shown().get("output.value"), shown().get("output.mime_type")) == (text, kind)


@traced(record_output=True)
async def returned() -> str:
    return "ab"


@traced(record_output=True)
def texts() -> Iterator[str]:
    yield from ("a", "b")


@traced(record_output=True)
async def streamed() -> AsyncIterator[str]:
    yield "a"
    yield "b"


@traced(record_output=True)
def mixed() -> Iterator[object]:
    yield "a"
    yield {"b": 1}


async def consume(items: AsyncIterator[object]) -> list[object]:
    return [item async for item in items]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        pytest.param(lambda: asyncio.run(returned()), "ab", id="coroutine"),  # type: ignore[arg-type]
        pytest.param(lambda: list(texts()), "ab", id="generator"),
        pytest.param(lambda: asyncio.run(consume(streamed())), "ab", id="async-generator"),
        pytest.param(lambda: list(mixed()), '["a", {"b": 1}]', id="mixed"),
    ],
)
def test_output_of_other_kinds_is_all_of_it(
    shown: Callable[[], dict[str, Any]], call: Callable[[], object], text: str
) -> None:
    """A coroutine shows what it returns, a generator all that it yields: texts joined, else a JSON list."""
    call()

    assert shown()["output.value"] == text


def test_content_is_cut_off(shown: Callable[[], dict[str, Any]]) -> None:
    """A span shows at most 16,384 characters of either."""
    traced(record_input=True, record_output=True)(lambda text: text)("x" * 20_000)

    assert shown()["output.value"] == "x" * 16_384 + "…"
    assert len(shown()["input.value"]) == 16_385


def test_a_long_stream_is_not_kept(shown: Callable[[], dict[str, Any]]) -> None:
    """Of an endless stream no more is kept than is shown."""

    @traced(record_output=True)
    def stream() -> Iterator[str]:
        for _ in range(100):
            yield "x" * 1000

    list(stream())

    assert shown()["output.value"] == "x" * 16_384 + "…"


def test_what_is_yielded_beyond_the_limit_is_not_looked_at(shown: Callable[[], dict[str, Any]]) -> None:
    """Of an endless stream no item is written out, or kept, that will not be shown."""
    looked_at: list[object] = []

    class Item:
        def __repr__(self) -> str:
            looked_at.append(None)
            return "x" * 1000

    list(traced(record_output=True)(lambda: (Item() for _ in range(100)))())

    assert len(looked_at) == 17


def test_a_parameter_that_an_alias_of_inject_fills_is_no_input(shown: Callable[[], dict[str, Any]]) -> None:
    """What was injected is left out also where `traced` is put on a handler that injects already."""

    @traced(record_input=True)
    @ctx.inject(aliases={"sid": ctx.SESSION_ID})
    def fn(raw: str, sid: str = "") -> str:
        return sid

    with ctx.session(session_id="s1"):
        assert fn("x") == "s1"
    assert json.loads(shown()["input.value"]) == {"raw": "x"}


@pytest.mark.parametrize("secret", ["s3cr3t", 'with "quotes"'])
def test_no_redacted_value_is_in_content(shown: Callable[[], dict[str, Any]], secret: str) -> None:
    """The value of a key with `redact` is taken out, wherever in the content it is."""
    with ctx.session({SECRET: secret}):
        handler(record_input=True, record_output=True)(lambda url, **keys: [url, keys])(f"?token={secret}")

    escaped = json.dumps(secret)[1:-1]
    assert not [value for value in shown().values() if secret in value or escaped in value]
    assert json.loads(shown()["input.value"]) == {"url": "?token=<redacted>", "keys": {}}


def test_content_that_cannot_be_shown_costs_the_content_alone(shown: Callable[[], dict[str, Any]]) -> None:
    """An argument whose `repr` fails is the handler's all the same, and the span ends."""

    class Awkward:
        def __repr__(self) -> str:
            raise ValueError

    awkward = Awkward()

    assert traced(record_input=True, record_output=True)(lambda x: x)(awkward) is awkward
    assert set(shown()).isdisjoint(CONTENT)


def test_no_redacted_value_is_in_an_error(ended: Callable[[], ReadableSpan]) -> None:
    """An error that names the value of a key with `redact` is recorded without it: message, traceback and status."""

    @traced
    def failing() -> None:
        raise LookupError("no account for hunter2")

    with ctx.session({SECRET: "hunter2"}), pytest.raises(LookupError, match="hunter2"):
        failing()

    span = ended()
    recorded = dict(span.events[0].attributes or {})
    assert (recorded["exception.type"], recorded["exception.message"]) == ("LookupError", "no account for <redacted>")
    assert "hunter2" not in span.to_json()
    assert span.status.description == "LookupError: no account for <redacted>"


def test_an_error_that_cannot_be_printed_is_one_all_the_same(ended: Callable[[], ReadableSpan]) -> None:
    """The status is an error's, and says whose text cannot be had."""

    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not now")

    @traced
    def fail() -> None:
        raise Unprintable

    with pytest.raises(Unprintable):
        fail()

    status = ended().status
    assert (status.status_code, status.description) == (StatusCode.ERROR, "Unprintable: <exception str() failed>")
    (event,) = ended().events
    assert (event.attributes or {})["exception.message"] == "<exception str() failed>"


SCOPES: dict[str, Callable[[str], Any]] = {
    "turn": lambda secret: ctx.session({SECRET: secret}),
    "bind": lambda secret: ctx.bind({SECRET: secret}),
}


def fail_after(enter: Callable[[str], Any]) -> Iterator[str]:
    """Bind four values, one after the other, in calls and here, and name all of them when they are left."""

    @traced
    def use(secret: str) -> str:
        with enter(secret):
            return secret

    used = [use("hunter1"), use("hunter2")]
    with enter("hunter3"):
        ctx.amend({SECRET: "hunter4"})
    yield f"{used} hunter3"
    raise ValueError(used, "hunter3", "hunter4")


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("enter", SCOPES.values(), ids=SCOPES)
def test_what_a_body_bound_and_left_again_is_not_shown(
    exporter: InMemorySpanExporter, enter: Callable[[str], Any], mirrored: bool
) -> None:
    """A value that was in effect anywhere in the body, or in a body that it called, is in no error and no content."""
    told = SUBSCRIBERS.copy()
    processor = add_to(trace.get_tracer_provider()) if mirrored else None

    with ctx.session({SECRET: "hunter0"}), pytest.raises(ValueError, match="hunter4"):
        list(traced("fail", record_output=True)(fail_after)(enter))

    if processor is not None:
        processor.shutdown()
    assert [span.name for span in exporter.get_finished_spans() if "hunter" in span.to_json()] == []
    assert told == SUBSCRIBERS


def test_what_one_body_bound_is_no_secret_of_another(exporter: InMemorySpanExporter) -> None:
    """A body keeps back what is its own or its callees', and says what it likes of others: they are strangers."""

    @traced
    def use(secret: str, says: str) -> None:
        with ctx.session({SECRET: secret}), suppress(ValueError):
            refuse(says)

    @traced
    def refuse(says: str) -> None:
        raise ValueError(says)

    @traced
    def worker() -> None:
        use("alpha", "alpha beta")
        use("beta", "alpha beta")

    worker()

    texts = [span.status.description for span in exporter.get_finished_spans() if span.status.description]
    assert texts == ["ValueError: <redacted> beta", "ValueError: alpha <redacted>"]


def test_calls_that_start_each_other_keep_none_alive(exporter: InMemorySpanExporter) -> None:
    """What is noted of a body goes with it, also where contexts are handed on from one to the next."""
    contexts: list[Context] = []
    others = [it for it in gc.get_objects() if isinstance(it, Seen)]  # of tests before this one

    @traced
    def hand_on() -> None:
        contexts.append(copy_context())

    hand_on()
    for _ in range(3):
        contexts[-1].run(hand_on)

    assert len(contexts) == 4
    assert [it for it in gc.get_objects() if isinstance(it, Seen) and it not in others] == []
