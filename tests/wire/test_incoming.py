"""What comes in by headers: nothing is believed but what is trusted, clean, small and said once."""

from __future__ import annotations

import logging
from collections import UserDict
from collections.abc import Iterator
from email.message import Message
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

import ctxruntime as ctx
from ctxruntime import wire

TENANT = ctx.Key("incoming_tenant", wire=True)
NUMBER = ctx.Key("incoming_number", int, wire=True)
ITEMS = ctx.Key("incoming_items", tuple[str, ...], wire=True)
HIDDEN = ctx.Key("incoming_hidden", wire=True, redact="hash")
HOME = ctx.Key("incoming_home")
ALL = (TENANT, NUMBER, ITEMS, HIDDEN)
MANY = [ctx.Key(f"incoming_many{number}", wire=True) for number in range(70)]


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ctxruntime"]


def not_believed(why: str) -> list[str]:
    return [f"baggage not believed of what came in: {why}"]


def test_nothing_is_believed_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """A client's header cannot choose the session that it is served in; the warning names the key only."""
    with ctx.session(wire.extract({"baggage": "incoming_tenant=evil"}), session_id="s1"):
        assert dict(ctx.current()) == {"session_id": "s1"}

    assert messages(caplog) == not_believed("incoming_tenant (not trusted here)")


def test_only_what_is_trusted_is_believed() -> None:
    """Trust in one key is no trust in another, of the same sender."""
    headers = {"baggage": "incoming_tenant=acme,incoming_number=7"}

    assert wire.extract(headers, trust=(TENANT,)) == {TENANT: "acme"}
    assert wire.extract(headers, trust=(TENANT, NUMBER)) == {TENANT: "acme", NUMBER: 7}


def test_what_is_believed_is_for_a_session() -> None:
    """The values go to `session(...)` as they are."""
    with ctx.session(wire.extract({"baggage": "incoming_tenant=acme"}, trust=[TENANT]), session_id="s1"):
        assert dict(ctx.current()) == {"session_id": "s1", "incoming_tenant": "acme"}


def test_a_key_that_may_not_leave_cannot_be_trusted() -> None:
    """Trusting a key without `wire=True` is a mistake of the entry point, and told to it."""
    with pytest.raises(ctx.InvalidValueError, match="'incoming_home' cannot be trusted from outside: define it with"):
        wire.extract({}, trust=(HOME,))


def test_trust_is_in_keys() -> None:
    """A name is no key."""
    with pytest.raises(ctx.UnknownKeyError):
        wire.extract({}, trust="incoming_tenant")  # type: ignore[arg-type]  # the mistake that is tested


def test_a_redacted_key_can_come_in() -> None:
    """Redaction is about what is shown: a trusted sender may still say it."""
    assert wire.extract({"baggage": "incoming_hidden=s"}, trust=(HIDDEN,)) == {HIDDEN: "s"}


def test_what_others_say_is_not_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    """Entries under other names, also of keys without `wire=True`, are neither believed nor warned about."""
    headers = {"baggage": "theirs=1,incoming_home=2,session_id=3,=,;,,%%%=\x00"}

    assert wire.extract(headers, trust=ALL) == {}
    assert messages(caplog) == []


message = Message()
message["Baggage"] = "incoming_tenant=acme"
message["baggage"] = "incoming_number=7"


@pytest.mark.parametrize(
    "headers",
    [
        {"baggage": "incoming_tenant=acme,incoming_number=7"},
        {"BAGGAGE": "incoming_tenant=acme,incoming_number=7", "other": "1"},
        {"Baggage": "incoming_tenant=acme", "baggage": "incoming_number=7"},
        {"baggage": ["incoming_tenant=acme", "incoming_number=7"]},
        {b"baggage": b"incoming_tenant=acme,incoming_number=7"},
        MappingProxyType({"baggage": "incoming_tenant=acme,incoming_number=7"}),
        UserDict({"baggage": "incoming_tenant=acme,incoming_number=7"}),
        [("baggage", "incoming_tenant=acme"), ("x", "y"), ("Baggage", "incoming_number=7")],
        [(b"baggage", b"incoming_tenant=acme"), (b"x", b"\xff"), (b"baggage", b"incoming_number=7")],
        ([b"baggage", b"incoming_tenant=acme,incoming_number=7"],),
        Headers(raw=[(b"baggage", b"incoming_tenant=acme"), (b"baggage", b"incoming_number=7")]),
        httpx.Headers([("baggage", "incoming_tenant=acme"), ("baggage", "incoming_number=7")]),
        message,
    ],
    ids=lambda headers: type(headers).__name__,
)
def test_headers_are_read_in_any_shape(headers: Any) -> None:
    """Mappings, pairs, text, bytes and multi-value headers say the same."""
    assert wire.extract(headers, trust=(TENANT, NUMBER)) == {TENANT: "acme", NUMBER: 7}


@pytest.mark.parametrize("headers", [None, {}, [], {"baggage": ""}, {"baggage": None}, [("baggage",)], [1, None, "ab"]])
def test_no_baggage_is_no_values(headers: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Headers without baggage, or with none that can be read, say nothing."""
    assert wire.extract(headers, trust=ALL) == {}
    assert messages(caplog) == []


@pytest.mark.parametrize(
    "member",
    [
        "incoming_tenant=acme",
        " \tincoming_tenant \t= \tacme\t ",
        "incoming_tenant=acme;private;ttl=3",
        "incoming_tenant=acme ; private",
        "incoming_tenant=%61cm%65",
        "incoming%5Ftenant=acme",
        ",,incoming_tenant=acme,,theirs=1",
    ],
)
def test_an_entry_is_read_as_w3c_writes_it(member: str) -> None:
    """White space, properties and percent-encoding are those of W3C Baggage."""
    assert wire.extract({"baggage": member}, trust=ALL) == {TENANT: "acme"}


@pytest.mark.parametrize("value", ["ü", "日本", "a=b", "x%y", "50%25", "a+b", 'quo"ted', "back\\slash", "; , ="])
def test_percent_encoded_text_arrives(value: str) -> None:
    """Any clean text can be said in percent-encoding."""
    encoded = "".join(f"%{byte:02x}" for byte in value.encode())

    assert wire.extract({"baggage": f"incoming_tenant={encoded}"}, trust=ALL) == {TENANT: value}


@pytest.mark.parametrize(
    "value",
    [
        "evil\r\nX-Injected: 1",
        "evil%0d%0aX-Injected:%201",
        "evil%00",
        "evil%C2%85",
        "evil%E2%80%A8",
        "%ff%fe",
        "%C3",
        "%zz",
        "%4",
        "ü",
        "\xc3\xbc",
        'quo"ted',
        "two words",
        "back\\slash",
        "x" * 1025,
        "%78" * 1025,
        "%E2%82%AC" * 460,
    ],
)
def test_an_unclean_value_is_dropped_with_one_warning(value: str, caplog: pytest.LogCaptureFixture) -> None:
    """Line breaks, control characters, broken encodings and long text are not believed, nor ever logged."""
    assert wire.extract({"baggage": f"incoming_tenant={value},incoming_number=7"}, trust=ALL) == {NUMBER: 7}

    assert messages(caplog) == not_believed("incoming_tenant (malformed, or no value of the key)")


def test_an_entry_without_a_value_is_dropped() -> None:
    """A name alone says nothing; an empty value is one."""
    assert wire.extract({"baggage": "incoming_tenant"}, trust=ALL) == {}
    assert wire.extract({"baggage": "incoming_tenant="}, trust=ALL) == {TENANT: ""}


@pytest.mark.parametrize("second", ["incoming_tenant=evil", "incoming%5ftenant=evil", " incoming_tenant =evil;a=b"])
def test_a_key_given_twice_is_not_believed(second: str, caplog: pytest.LogCaptureFixture) -> None:
    """Who appended to whose header cannot be known: of two that differ, neither is believed."""
    headers = [("baggage", "incoming_tenant=acme,incoming_number=7"), ("baggage", second)]

    assert wire.extract(headers, trust=ALL) == {NUMBER: 7}
    assert messages(caplog) == not_believed("incoming_tenant (given twice, and not alike)")


def test_a_key_given_twice_alike_is_believed() -> None:
    """Two proxies that say the same do not contradict each other."""
    assert wire.extract({"baggage": "incoming_tenant=a,incoming_tenant=%61"}, trust=ALL) == {TENANT: "a"}


def test_a_key_given_twice_once_malformed_is_not_believed() -> None:
    """A malformed second entry may be what a lenient reader in between went by."""
    assert wire.extract({"baggage": "incoming_tenant=a,incoming_tenant=%"}, trust=ALL) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("incoming_tenant=acme," + "x" * 8172, "over 8192 bytes"),
        ("incoming_tenant=acme," + ",".join(["a=1"] * 180), "over 180 entries"),
        ("incoming_tenant=acme," + ",".join(["a=1"] * 2000), "over 180 entries"),
        (",".join(f"{key.name}=1" for key in MANY[:65]), "over 64 entries of ours"),
    ],
)
def test_of_too_much_nothing_is_believed(text: str, why: str, caplog: pytest.LogCaptureFixture) -> None:
    """Padding cannot push an entry out of sight: over a limit of the whole, all of it is dropped, with one warning."""
    assert wire.extract({"baggage": text}, trust=(TENANT, *MANY)) == {}

    assert messages(caplog) == not_believed(f"all of it ({why})")


@pytest.mark.parametrize(
    "text",
    [
        "incoming_tenant=acme," + "x" * 8171,
        "incoming_tenant=acme," + ",".join(["a=1"] * 179),
    ],
    ids=["bytes", "entries"],
)
def test_what_is_within_the_limits_is_read(text: str) -> None:
    """8,192 bytes and 180 entries are still read."""
    assert wire.extract({"baggage": text}, trust=(TENANT,)) == {TENANT: "acme"}


def test_64_entries_of_ours_are_read() -> None:
    """As many as that are believed, if they are trusted."""
    text = ",".join(f"{key.name}=1" for key in MANY[:64])

    assert wire.extract({"baggage": text}, trust=MANY) == dict.fromkeys(MANY[:64], "1")


def test_one_warning_tells_of_all_that_was_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """However much is dropped of one request, it is one line."""
    wire.extract({"baggage": "incoming_tenant=%,incoming_number=x,incoming_items=%5B"}, trust=(TENANT, NUMBER))

    (line,) = messages(caplog)
    assert [name in line for name in ("incoming_tenant", "incoming_number", "incoming_items")] == [True] * 3


@pytest.fixture
def breaking_filter() -> Iterator[None]:
    def breaks(record: logging.LogRecord) -> bool:
        raise RuntimeError("of the host's")

    logging.getLogger("ctxruntime").addFilter(breaks)
    yield
    logging.getLogger("ctxruntime").removeFilter(breaks)


@pytest.mark.usefixtures("breaking_filter")
def test_a_broken_log_filter_breaks_no_request() -> None:
    """Whatever the host's logging does, reading the header goes on."""
    assert wire.extract({"baggage": "incoming_tenant=acme,incoming_number=x"}, trust=ALL) == {TENANT: "acme"}


names = st.sampled_from([key.name for key in (*ALL, HOME)]) | st.sampled_from(["session_id", "x", "incoming%5Ftenant"])
pieces = names | st.sampled_from([*",;=% \t\r\n\x00[]\"'\\", "%0d%0a", "%ff", "[[", "ü", "1", "acme"]) | st.text()
lists = st.text() | st.lists(pieces, max_size=30).map("".join)
bags = st.lists(st.tuples(names, st.just("="), lists).map("".join), max_size=6).map(",".join)
texts = lists | bags
pairs = st.tuples(
    st.sampled_from(["baggage", "Baggage", b"baggage", b"BAGGAGE", "other", None, 3]),
    texts | st.binary() | texts.map(lambda text: text.encode("utf-8", "replace")) | st.none() | st.lists(texts),
)


@given(headers=st.lists(pairs, max_size=4), trust=st.sets(st.sampled_from(ALL)))
def test_no_baggage_is_believed_that_should_not_be(headers: Any, trust: set[ctx.Key[Any]]) -> None:
    """Whatever is sent, reading never raises, and yields trusted keys only, each with a value that it can hold."""
    values = wire.extract(headers, trust=trust)

    assert values.keys() <= trust
    assert all(key.check(value) == value for key, value in values.items())
    with ctx.session(values):
        pass
