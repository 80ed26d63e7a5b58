"""What the model is asked for a title belongs to the agent's turn that it is a title of."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.hermes, pytest.mark.since("0.17.0")]

RunHost = Callable[[str, str], Any]
ORDERS = ["returned_before", "returned_during", "returned_after", "title_in_the_next_turn", "without_a_turn", "acp"]
"""When the client's request returns, seen from the agent's turn; a late thread; a notification's turn; an editor's."""


@pytest.fixture
def run(run_host: RunHost) -> Any:
    return run_host("titles", "plugin")


def of_session(run: Any, order: str) -> list[dict[str, Any]]:
    """The spans of an order's session, as they began."""
    found = [s for s in run["spans"] if s["attributes"].get("ctxruntime.session.id") == run["ids"][order]]
    return sorted(found, key=lambda span: int(span["began"]))


@pytest.mark.parametrize("order", ORDERS)
def test_title_is_asked_for_inside_the_turn_that_it_is_a_title_of(run: Any, order: str) -> None:
    """Also where the turn that the frontend entered has ended, another has begun, or there was none."""
    found = of_session(run, order)
    turns = [span for span in found if span["name"] == "invoke_agent"]
    titles = {s["thread"]: s for s in found if s["name"] == "POST" and s["thread"].startswith("title")}

    assert "title 0" in titles
    for number, turn in enumerate(turns):
        assert turn["parent"] is None
        title = titles.get(f"title {number}", {"parent": turn["id"], "trace": turn["trace"]})
        assert (title["parent"], title["trace"]) == (turn["id"], turn["trace"])


@pytest.mark.parametrize("order", ORDERS)
def test_every_title_carries_its_session(run: Any, order: str) -> None:
    """The session and its group are those of the turn."""
    titles = [s for s in run["spans"] if s["phase"] == order and s["thread"].startswith("title")]
    (group,) = {span["attributes"]["session.id"] for span in of_session(run, order)}

    assert titles
    for title in titles:
        assert title["attributes"]["ctxruntime.session.id"] == run["ids"][order]
        assert title["attributes"]["session.id"] == group


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert run["log"] == []


IN_SDK = """
import threading
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ctxruntime_integrations.hermes import _spanning, spans
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
class Agent:
    def __init__(self, session_id):
        self.session_id = session_id
def nothing(agent):
    pass
def title(store, session_id):
    return trace.get_current_span().get_span_context()
asked = spans.title(title)
def span_of(name, number=-1):
    return [s for s in exporter.get_finished_spans() if s.name == name][number].context
"""


@pytest.mark.parametrize("session_id", ["before", "after"])
def test_session_that_rotates_in_the_turn_has_its_title_asked_for_under_either_id(session_id: str) -> None:
    """An editor knows the session by its first id, the other frontends by the one that it has when it has answered."""
    succeeds(
        f"""
def rotate(agent):
    agent.session_id = "after"
spans.agent_turn(rotate)(Agent("before"))
assert asked("store", "{session_id}").span_id == span_of("invoke_agent").span_id
assert asked("store", session_id="{session_id}").span_id == span_of("invoke_agent").span_id
assert context.get_current() == {{}}
"""
    )


def test_title_is_of_the_latest_turn_of_its_own_session() -> None:
    """Neither of another session's, nor of an agent's inside the turn that has the session's id (a review's fork)."""
    succeeds(
        """
inside = spans.agent_turn(nothing)
turn = spans.agent_turn(lambda agent: inside(Agent("s1")))
turn(Agent("s1"))
turn(Agent("s1"))
spans.agent_turn(nothing)(Agent("s2"))
inner, outer = [s for s in exporter.get_finished_spans() if s.name == "invoke_agent"][2:4]
assert inner.parent.span_id == outer.context.span_id == asked("store", "s1").span_id
assert not asked("store", "s3").is_valid and not asked(None, None).is_valid
"""
    )


def test_title_asked_for_in_a_turn_is_inside_what_asks() -> None:
    """What is current stays so."""
    succeeds(
        """
found = []
spans.agent_turn(nothing)(Agent("s1"))
spans.agent_turn(lambda agent: found.append(asked("store", "s1")))(Agent("s1"))
assert found[0].span_id == span_of("invoke_agent").span_id
"""
    )


def test_of_many_sessions_the_latest_are_remembered() -> None:
    """What is kept of turns that have ended is bounded, and no agent lives on for it."""
    succeeds(
        """
import gc, weakref
turn, kept = spans.agent_turn(lambda agent: contexts.append(context.get_current())), []
contexts = []
for number in range(_spanning.MOST_SESSIONS + 1):
    agent = Agent(str(number))
    kept.append(weakref.ref(agent))
    turn(agent)
del agent
gc.collect()
assert not any(one() for one in kept)
assert not asked("store", "0").is_valid and asked("store", "1").is_valid
"""
    )


def succeeds(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_SDK + program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
