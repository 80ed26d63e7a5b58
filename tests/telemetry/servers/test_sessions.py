"""Whole sessions in the backends that people use: the real servers, and what they answer of a real host's spans.

The host (`drive/host.py`) serves conversation A, which rotates from session A1 to A2, and conversation B.
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

WAYS = {
    "phoenix": ("phoenix",),
    "phoenix-preset": ("phoenix", "--preset", "phoenix"),
    "phoenix-register": ("phoenix", "--provider", "phoenix"),
    "phoenix-behind-a-collector": ("rotel",),
    "mlflow": ("mlflow",),
    "mlflow-preset": ("mlflow", "--preset", "mlflow"),
}
"""The server that spans are sent to, and how the host sends them."""

KEYS = {"A": "agent:main:discord:dm:7", "B": "agent:main:telegram:group:9"}
EVERYWHERE = ("in a task", "in a pool", "in a callback", "in a thread")
LATE = ("open in a thread", "not current", "agent", *EVERYWHERE)
EARLY = ("ended before", "early sub-agent")
SUB_AGENT = ("early sub-agent", "sub-agent", "its tool", "its tool in a pool")


def turn(name: str, session_id: str, *spans: str, without: tuple[str, ...] = ()) -> dict[str, dict[str, str | None]]:
    return {name: dict.fromkeys(without, None) | dict.fromkeys((name, *spans), session_id)}


SESSION_IDS = (
    turn("gateway A, late id", "A1", *LATE, without=EARLY)
    | turn("gateway B, late id", "B1", *LATE, without=EARLY)
    | turn("cli A, sub-agent", "A1", *SUB_AGENT[1:], "after the sub-agent")
    | turn("rpc B, first", "B1", "job 0", "job 1", "job 2")
    | turn("rpc B, second", "B1", "job 0", "job 1", "job 2")
    | turn("gateway A, rotation", "A1", "before the rotation", *EVERYWHERE)
    | turn("gateway A, rotation, next trace", "A2", "after the rotation")
    | turn("cli A, plain", "A2", "tool")
)
"""The session id of each span of each trace."""


@pytest.fixture(params=WAYS)
def found(request: pytest.FixtureRequest, sent: Any) -> Any:
    return sent(*WAYS[request.param])


def of_conversation(name: str) -> str:
    return name.split(",")[0][-1]


def test_every_turn_is_in_its_session(found: Any) -> None:
    """Two conversations over three frontends are the three sessions that they had, each with its traces alone."""
    assert found.sessions == {
        "A1": ["cli A, sub-agent", "gateway A, late id", "gateway A, rotation"],
        "A2": ["cli A, plain", "gateway A, rotation, next trace"],
        "B1": ["gateway B, late id", "rpc B, first", "rpc B, second"],
    }


def test_a_conversation_is_found_by_its_gateway_key(found: Any) -> None:
    """A search for the gateway key finds the traces of all sessions that the conversation has had."""
    assert {key: found.roots(traces) for key, traces in found.answer["keys"].items()} == {
        key: sorted(root for root in SESSION_IDS if of_conversation(root) == of) for of, key in KEYS.items()
    }


def test_every_span_that_could_know_its_session_carries_it(found: Any) -> None:
    """What was open or began when the id was known has it, in threads and jobs too; what ended before lacks it."""
    assert found.column("session.id") == SESSION_IDS
    assert found.column("gen_ai.conversation.id") == SESSION_IDS


def test_every_span_carries_the_gateway_key(found: Any) -> None:
    """All spans of a conversation are found by its key, those that ended before the session was known included."""
    assert found.column("gateway.session_key") == {
        root: dict.fromkeys(spans, KEYS[of_conversation(root)]) for root, spans in SESSION_IDS.items()
    }


def test_a_rotation_links_the_next_trace_to_the_session_before(found: Any) -> None:
    """The trace of the rotation keeps its session; the next one names the session before, and no other does."""
    next_trace = "gateway A, rotation, next trace"

    assert found.column("session.previous_id") == {
        root: dict.fromkeys(spans, "A1" if root == next_trace else None) for root, spans in SESSION_IDS.items()
    }


def test_a_sub_agents_spans_stay_in_the_session_of_their_turn(found: Any) -> None:
    """A sub-agent's own id is never the session, though its spans are the first that the backend gets."""
    assert found.column("ctxruntime.session.id") == {
        root: {span: "child" if span in SUB_AGENT else None for span in spans} for root, spans in SESSION_IDS.items()
    }
    assert "cli A, sub-agent" in found.sessions["A1"]


@pytest.mark.parametrize("server", ["phoenix", "mlflow"])
def test_without_the_pin_a_sub_agent_takes_traces_of_its_turn(sent: Any, server: str) -> None:
    """This is what the pin is for: a backend gives a trace to the session of the span that it takes in first."""
    found = sent(server, "--pin", "span")

    # Phoenix takes in spans of one trace at once, so it is chance which of these three are lost.
    with_sub_agent = {"cli A, sub-agent", "gateway A, late id", "gateway B, late id"}
    assert with_sub_agent.issuperset(found.sessions["child"])
    assert {root for roots in found.sessions.values() for root in roots} == set(SESSION_IDS)
