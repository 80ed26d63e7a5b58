"""What leaves by headers: keys with `wire=True`, and nothing that could break one."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from email.message import Message
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState
from starlette.datastructures import MutableHeaders

import ctxruntime as ctx
from ctxruntime import wire
from ctxruntime.keys import Link

TENANT = ctx.Key("outgoing_tenant", wire=True)
NUMBER = ctx.Key("outgoing_number", int, wire=True)
HOME = ctx.Key("outgoing_home")
DEFAULTED = ctx.Key("outgoing_defaulted", wire=True, default="d")
HASHED = ctx.Key("outgoing_hashed", wire=True, redact="hash")
DROPPED = ctx.Key("outgoing_dropped", wire=True, redact="drop")
UMLAUT = ctx.Key("outgoing_schlüssel", wire=True)
HOSTS: ContextVar[Any] = ContextVar("outgoing_hosts")
LINKED = ctx.Key("outgoing_linked", wire=True, link=Link(HOSTS, unset=""))


def span(state: str | None = None) -> Any:
    context = SpanContext(
        trace_id=0xA,
        span_id=0xB,
        is_remote=False,
        trace_flags=TraceFlags(1),
        trace_state=TraceState.from_header([state or ""]),
    )
    return trace.use_span(NonRecordingSpan(context))


TRACEPARENT = f"00-{0xA:032x}-{0xB:016x}-01"


@pytest.fixture
def bound() -> Iterator[None]:
    with ctx.session({TENANT: "acme", HOME: "h"}, session_id="s1"):
        yield


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ctxruntime"]


@pytest.mark.usefixtures("bound")
def test_only_keys_with_wire_leave() -> None:
    """A bound key leaves under its own name if it is defined with `wire=True`, and no other does."""
    assert wire.inject() == {"baggage": "outgoing_tenant=acme"}


def test_a_default_does_not_leave() -> None:
    """A key's default is for readers and handlers here."""
    with ctx.session(session_id="s1"):
        assert wire.inject() == {}


def test_an_empty_value_leaves() -> None:
    """Bound to an empty text is bound."""
    with ctx.session({TENANT: ""}):
        assert wire.inject() == {"baggage": "outgoing_tenant="}


def test_a_redacted_key_never_leaves() -> None:
    """Neither in clear nor hashed: a hash would be taken for the value on the other side."""
    with ctx.session({HASHED: "secret", DROPPED: "secret"}):
        assert wire.inject({"baggage": "outgoing_hashed=old"}) == {}


def test_a_name_is_percent_encoded() -> None:
    """A key's name can be any identifier, a header cannot."""
    with ctx.session({UMLAUT: "1"}):
        headers = wire.inject()

    assert headers == {"baggage": "outgoing_schl%C3%BCssel=1"}
    assert wire.extract(headers, trust=(UMLAUT,)) == {UMLAUT: "1"}


def test_a_built_in_key_leaves_where_the_host_says_so() -> None:
    """Setting `wire` on a built-in key lets it leave, from then on."""
    with ctx.session(session_id="s1"):
        assert wire.inject() == {}
        ctx.SESSION_ID.wire = True
        try:
            assert wire.inject() == {"baggage": "session_id=s1"}
        finally:
            ctx.SESSION_ID.wire = False


def test_what_is_bound_nearest_leaves() -> None:
    """A nested scope says what its own requests carry."""
    with ctx.session({TENANT: "outer"}), ctx.bind({TENANT: "inner", NUMBER: 7}):
        assert wire.inject() == {"baggage": "outgoing_tenant=inner,outgoing_number=7"}


def test_a_linked_variable_leaves_only_clean(caplog: pytest.LogCaptureFixture) -> None:
    """A host's variable may hold anything: what the key could not hold stays here, with a warning without it."""
    HOSTS.set("from the host")
    assert wire.inject() == {"baggage": "outgoing_linked=from%20the%20host"}
    HOSTS.set("a\r\nb")
    assert wire.inject() == {}
    HOSTS.set("")

    assert messages(caplog) == ["baggage left out of what goes out: outgoing_linked (has no text form)"]


# Headers that are there


@pytest.mark.usefixtures("bound")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("theirs=1", "theirs=1,outgoing_tenant=acme"),
        ("theirs=%20;private , other", "theirs=%20;private,other,outgoing_tenant=acme"),
        ("outgoing_tenant=old,theirs=1", "theirs=1,outgoing_tenant=acme"),
        ("outgoing_number=3,theirs=1", "theirs=1,outgoing_tenant=acme"),
        ("outgoing%5Ftenant=old;a=b,outgoing_tenant=older", "outgoing_tenant=acme"),
        ("outgoing_tenant%20=old", "outgoing_tenant=acme"),
        ("outgoing_home=theirs", "outgoing_home=theirs,outgoing_tenant=acme"),
        ("ü=ü", "ü=ü,outgoing_tenant=acme"),
    ],
)
def test_others_entries_stay_and_ours_are_replaced(before: str, after: str) -> None:
    """Entries of others are passed on as they are; ours say what is bound now, and nothing if nothing is."""
    assert wire.inject({"baggage": before}) == {"baggage": after}


def test_a_stale_entry_is_removed() -> None:
    """What is unbound is not sent, whoever left it in the headers; an empty header is none."""
    assert wire.inject({"baggage": "outgoing_tenant=old", "a": "b"}) == {"a": "b"}
    assert wire.inject({"baggage": "outgoing_tenant=old,theirs=1"}) == {"baggage": "theirs=1"}


def test_headers_without_anything_of_ours_are_left_alone() -> None:
    """Where nothing is bound and nothing of ours is there, nothing is changed, however odd it looks."""
    headers = [("Baggage", " theirs=1 , \r\n"), ("baggage", ""), ("traceparent", "theirs")]

    assert wire.inject(list(headers)) == headers


@pytest.mark.usefixtures("bound")
def test_a_dict_keeps_the_name_it_has() -> None:
    """A header is found under any spelling, and not added a second time."""
    headers = {"BAGGAGE": "theirs=1", "baggage": "outgoing_tenant=old", "X": "y"}

    assert wire.inject(headers) is headers
    assert headers == {"BAGGAGE": "theirs=1,outgoing_tenant=acme", "X": "y"}


@pytest.mark.usefixtures("bound")
def test_pairs_are_changed_in_place() -> None:
    """A list of pairs keeps all other headers, and gets one line of baggage."""
    headers = [("Baggage", "a=1"), ("set-cookie", "x"), ("baggage", "b=2"), ("set-cookie", "y")]

    assert wire.inject(headers) is headers
    assert headers == [("set-cookie", "x"), ("set-cookie", "y"), ("Baggage", "a=1,b=2,outgoing_tenant=acme")]


@pytest.mark.usefixtures("bound")
@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ([(b"host", b"x")], [(b"host", b"x"), (b"baggage", b"outgoing_tenant=acme")]),
        ([(b"Baggage", b"a=\xff")], [(b"Baggage", b"a=\xff,outgoing_tenant=acme")]),
        ([], [("baggage", "outgoing_tenant=acme")]),
        ({b"host": b"x"}, {b"host": b"x", b"baggage": b"outgoing_tenant=acme"}),
    ],
)
def test_bytes_stay_bytes(headers: Any, after: Any) -> None:
    """Raw headers get raw names and values, and bytes of others are not reencoded."""
    assert wire.inject(headers) == after


@pytest.mark.usefixtures("bound")
@pytest.mark.parametrize("make", [MutableHeaders, httpx.Headers, Message], ids=lambda make: make.__name__)
def test_frameworks_headers_are_written_to(make: Any) -> None:
    """Mutable headers of frameworks end up with one line of baggage."""
    headers = make()
    headers["Baggage"] = "a=1,outgoing_tenant=old"

    wire.inject(headers)

    assert [value for name, value in headers.items() if name.lower() == "baggage"] == ["a=1,outgoing_tenant=acme"]


class MultiDict:
    """As aiohttp's: every line under its own spelling, and deleting one deletes them all."""

    def __init__(self, *lines: tuple[str, str]) -> None:
        self.lines = list(lines)

    def items(self) -> list[tuple[str, str]]:
        return self.lines

    def __setitem__(self, name: str, value: str) -> None:
        self.lines.append((name, value))

    def __delitem__(self, name: str) -> None:
        kept = [line for line in self.lines if line[0].lower() != name.lower()]
        if kept == self.lines:
            raise KeyError(name)
        self.lines = kept


@pytest.mark.usefixtures("bound")
def test_a_multi_value_mapping_gets_one_line() -> None:
    """Several lines of baggage become one, whatever deleting means to the mapping."""
    headers: Any = MultiDict(("Baggage", "a=1"), ("x", "y"), ("baggage", "outgoing_tenant=old"))

    assert wire.inject(headers).items() == [("x", "y"), ("Baggage", "a=1,outgoing_tenant=acme")]


@pytest.mark.parametrize("headers", [MappingProxyType({}), (), "baggage"])
def test_headers_that_cannot_be_written_to_are_refused(headers: Any) -> None:
    """Silence would look like success."""
    with pytest.raises(TypeError, match="a mutable mapping or a list of pairs"):
        wire.inject(headers)


# Limits


def test_nothing_of_ours_can_break_a_header() -> None:
    """All but unreserved characters are percent-encoded; line breaks do not get into a key at all."""
    with pytest.raises(ctx.InvalidValueError), ctx.session({TENANT: "a\r\nX-Injected: 1"}):
        pass
    with ctx.session({TENANT: 'a,b=c;d "e"\\%+'}):
        assert wire.inject() == {"baggage": "outgoing_tenant=a%2Cb%3Dc%3Bd%20%22e%22%5C%25%2B"}


@pytest.mark.usefixtures("bound")
def test_others_line_breaks_do_not_leave_with_ours(caplog: pytest.LogCaptureFixture) -> None:
    """A header that we write has no control characters, whoever put them there."""
    assert wire.inject({"baggage": "a=1\r\nX-Injected: 1,b=2,c=\x00"}) == {"baggage": "b=2,outgoing_tenant=acme"}
    assert messages(caplog) == ["baggage left out of what goes out: entries of others with control characters"]


@pytest.mark.usefixtures("bound")
@pytest.mark.parametrize("theirs", ["x" * 8172, "x" * 9000, ",".join(["a=1"] * 180)], ids=["full", "over", "entries"])
def test_what_has_no_room_is_left_out(theirs: str, caplog: pytest.LogCaptureFixture) -> None:
    """Others' entries are not pushed out by ours, and the header grows over no limit by us."""
    headers = {"baggage": theirs}

    assert wire.inject(headers) == {"baggage": theirs}
    assert messages(caplog) == ["baggage left out of what goes out: outgoing_tenant (no room)"]


@pytest.mark.usefixtures("bound")
@pytest.mark.parametrize("theirs", ["x" * 8171, ",".join(["a=1"] * 179)], ids=["bytes", "entries"])
def test_the_last_room_is_used(theirs: str) -> None:
    """8,192 bytes and 180 entries are allowed."""
    assert wire.inject({"baggage": theirs}) == {"baggage": f"{theirs},outgoing_tenant=acme"}


def test_an_entry_that_is_too_long_is_left_out() -> None:
    """Others read entries of up to 4,096 bytes: one that is longer would be lost there, silently."""
    with ctx.session({TENANT: "€" * 500, NUMBER: 7}):
        assert wire.inject() == {"baggage": "outgoing_number=7"}


@given(theirs=st.text(), tenant=st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=300))
def test_no_header_of_others_breaks_ours(theirs: str, tenant: str) -> None:
    """Whatever is there, what we write is one clean line in which ours is read again."""
    with ctx.session({TENANT: tenant}):
        headers = wire.inject({"baggage": theirs})

    line = headers["baggage"]
    assert not any(ord(character) < 32 and character != "\t" for character in line)
    assert wire.extract(headers, trust=(TENANT,)) == {TENANT: tenant} or len(line.split(",")[-1]) > 4096


# Trace context


@pytest.mark.usefixtures("bound")
def test_the_current_span_leaves() -> None:
    """`traceparent` and `tracestate` are those of the span that is current."""
    with span("vendor=1"):
        headers = wire.inject({"Traceparent": "old", "tracestate": "old=1"})

    assert headers == {"baggage": "outgoing_tenant=acme", "Traceparent": TRACEPARENT, "tracestate": "vendor=1"}


def test_a_stale_tracestate_is_removed() -> None:
    """The state of another trace does not go with this one."""
    with span():
        assert wire.inject({"tracestate": "old=1"}) == {"traceparent": TRACEPARENT}


def test_without_a_span_the_headers_trace_stays() -> None:
    """What a proxy passes on is its own affair."""
    assert wire.inject({"traceparent": "theirs"}) == {"traceparent": "theirs"}


def test_a_span_of_the_sdk_leaves() -> None:
    """The real thing: a span of OpenTelemetry's SDK."""
    with TracerProvider().get_tracer("t").start_as_current_span("work") as current:
        context = current.get_span_context()
        expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        assert wire.inject() == {"traceparent": expected}
