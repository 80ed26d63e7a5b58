"""What a child process is told, and what of it the child believes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

import ctxruntime as ctx
from ctxruntime import wire

TENANT = ctx.Key("environments_tenant", wire=True)
THREAD = ctx.Key("environments_thread", wire=True)
HASHED = ctx.Key("environments_hashed", wire=True, redact="hash")
HOME = ctx.Key("environments_home")

SPAN = NonRecordingSpan(
    SpanContext(
        trace_id=0xA, span_id=0xB, is_remote=False, trace_flags=TraceFlags(1), trace_state=TraceState([("v", "1")])
    )
)
TRACEPARENT = f"00-{0xA:032x}-{0xB:016x}-01"
CARRIERS = ("BAGGAGE", "TRACEPARENT", "TRACESTATE")

TELL = f"import json, os; print(json.dumps({{name: os.environ.get(name) for name in {CARRIERS}}}))"
BELIEVE = """
import ctxruntime as ctx
from ctxruntime import wire
TENANT = ctx.Key("environments_tenant", wire=True)
with ctx.session(wire.from_env(trust=(TENANT,))):
    print(TENANT.get("nothing"))
"""


def child(program: str, env: dict[str, str]) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.fixture(autouse=True)
def the_environment_is_never_written_to(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in CARRIERS:
        monkeypatch.delenv(name, raising=False)
    yield
    assert not {name for name in CARRIERS if name in os.environ} - {"BAGGAGE"}


def test_a_child_gets_the_names_of_the_specification() -> None:
    """A real child finds what is bound and current in BAGGAGE, TRACEPARENT and TRACESTATE, and no other name."""
    with ctx.session({TENANT: "acme", HOME: "h"}), trace.use_span(SPAN):
        env = wire.child_env()

    assert json.loads(child(TELL, env)) == {
        "BAGGAGE": "environments_tenant=acme",
        "TRACEPARENT": TRACEPARENT,
        "TRACESTATE": "v=1",
    }
    assert env.keys() - os.environ.keys() == set(CARRIERS)


def test_a_stale_name_does_not_reach_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier turn left in the parent's environment is overlaid or removed; what is others' stays."""
    monkeypatch.setenv("BAGGAGE", "environments_tenant=old-chat,theirs=1,environments_thread=old-topic")

    with ctx.session({TENANT: "live-chat"}):
        assert json.loads(child(TELL, wire.child_env()))["BAGGAGE"] == "theirs=1,environments_tenant=live-chat"
    assert json.loads(child(TELL, wire.child_env()))["BAGGAGE"] == "theirs=1"


def test_what_was_cleared_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound to "not known" is not told, though an environment still tells it."""
    monkeypatch.setenv("BAGGAGE", "environments_tenant=old")

    with ctx.session({TENANT: "s"}), ctx.bind({TENANT: None}):
        assert "BAGGAGE" not in wire.child_env()


def test_a_stale_trace_does_not_reach_the_child() -> None:
    """Where no span is current, the child belongs to no trace; where one is, to that one alone."""
    stale = {"TRACEPARENT": "old", "TRACESTATE": "old=1", "HOME": "/"}
    bare = NonRecordingSpan(SpanContext(trace_id=0xA, span_id=0xB, is_remote=False, trace_flags=TraceFlags(1)))

    assert wire.child_env(stale) == {"HOME": "/"}
    with trace.use_span(bare):
        assert wire.child_env(stale) == {"HOME": "/", "TRACEPARENT": TRACEPARENT}


@pytest.mark.parametrize("name", ["TRACEPARENT", "TRACESTATE"])
@pytest.mark.parametrize("how", ["as text", "as bytes", "of the process"])
def test_a_stale_trace_is_removed_where_no_key_is_on_the_wire(name: str, how: str) -> None:
    """So it is in a program that defines no key with `wire=True`, and in which no span is current, in each spelling."""
    base = {"as text": f"{{'A': 'b', '{name}': 'old'}}", "as bytes": f"{{b'A': b'b', b'{name}': b'old'}}"}.get(how, "")
    program = (
        f"from ctxruntime import wire; print(*(str(n) for n in wire.child_env({base}) if '{name}' in str(n)), sep='')"
    )

    assert child(program, {**os.environ, name: "old"}) == ""


def test_a_redacted_key_never_reaches_a_child() -> None:
    """Not in clear, not hashed, not left over."""
    with ctx.session({HASHED: "secret"}):
        assert wire.child_env({"BAGGAGE": "environments_hashed=old"}) == {}


def test_the_base_is_not_changed() -> None:
    """A new dict is made, of whatever mapping is given, and `os.environ` stays byte for byte what it was."""
    base = {"A": "b", "BAGGAGE": "environments_tenant=old"}
    before = dict(os.environ)

    with ctx.session({TENANT: "acme"}):
        assert wire.child_env(base) == {"A": "b", "BAGGAGE": "environments_tenant=acme"}
        assert type(wire.child_env(os.environ)) is dict
        assert wire.child_env({}) == {"BAGGAGE": "environments_tenant=acme"}

    assert base == {"A": "b", "BAGGAGE": "environments_tenant=old"}
    assert dict(os.environ) == before


def test_nothing_is_changed_where_nothing_is_ours() -> None:
    """Without anything bound or stale, the child gets what it would have got."""
    assert wire.child_env({"A": "b", "BAGGAGE": " theirs=1 ,", "baggage": "x"}) == {
        "A": "b",
        "BAGGAGE": " theirs=1 ,",
        "baggage": "x",
    }
    assert wire.child_env() == dict(os.environ)


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has environments of bytes")
def test_an_environment_of_bytes_stays_one() -> None:
    """`os.environb` is an environment too, and what is no text in it is passed on."""
    base = {b"A": b"\xff", b"BAGGAGE": b"environments_tenant=old,theirs=\xff", b"TRACEPARENT": b"old"}

    with ctx.session({TENANT: "acme"}):
        assert wire.child_env(base) == {b"A": b"\xff", b"BAGGAGE": b"theirs=\xff,environments_tenant=acme"}
        assert wire.from_env(base, trust=(TENANT,)) == {TENANT: "old"}


def test_a_child_believes_what_it_trusts() -> None:
    """From door to door: bound here, trusted there, over a real process."""
    with ctx.session({TENANT: "Łódź, 7"}):
        assert child(BELIEVE, wire.child_env()) == "Łódź, 7"


def test_a_child_believes_nothing_by_default(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """An environment is inherited through anything: it says nothing unless the program trusts it."""
    monkeypatch.setenv("BAGGAGE", "environments_tenant=inherited")

    assert wire.from_env() == {}
    assert wire.from_env(trust=(THREAD,)) == {}
    assert wire.from_env(trust=(TENANT,)) == {TENANT: "inherited"}
    expected = "baggage not believed of what came in: environments_tenant (not trusted here)"
    assert [record.getMessage() for record in caplog.records] == [expected] * 2


def test_reading_an_environment_never_raises() -> None:
    """Broken bytes, line breaks and too much of it are dropped, as in headers."""
    for value in ("environments_tenant=\udcff", "environments_tenant=a\nb", "environments_tenant=" + "x" * 9000):
        assert wire.from_env({"BAGGAGE": value}, trust=(TENANT,)) == {}


def test_without_opentelemetry_nothing_of_it_is_imported() -> None:
    """A program that has no spans does not pay for asking."""
    program = (
        "import sys; from ctxruntime import wire; wire.child_env(); wire.inject();"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )

    assert child(program, dict(os.environ)) == "[]"
