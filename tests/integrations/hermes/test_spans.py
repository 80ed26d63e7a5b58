"""The spans of agents' turns and of their tools, which the host does not make."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

# Before it, the agent's own tools that run one after the other go by no function that could have a span around it.
pytestmark = [pytest.mark.hermes, pytest.mark.since("0.17.0")]

RunHost = Callable[[str, str], Any]
FRONTENDS = ["cli", "gateway", "tui"]
TURNS = [f"{frontend} {step}" for frontend in FRONTENDS for step in ("first", "cached", "rotated")]
TOOLS = {
    "one": {"read_file": 1},
    "three": {"read_file": 3},
    "mixed": {"todo": 1, "read_file": 1},
    "nested": {"execute_code": 1, "read_file": 1},
    "delegation": {"delegate_task": 1, "read_file": 1},
    "raising": {"read_file": 1},
    "blocked one": {"read_file": 1},
    "blocked three": {"read_file": 3},
    "blocked mixed": {"todo": 1, "read_file": 1},
    **{turn: {"read_file": 3} for turn in TURNS},
}
"""How often each tool is called in a phase; one by itself, three at once and both kinds have an executor each."""


@pytest.fixture
def run(run_host: RunHost) -> Any:
    # What is patched is the same however ctxruntime was loaded, and other tests see that.
    return run_host("spans", "plugin")


def spans(run: Any, phase: str, operation: str | None = None) -> list[dict[str, Any]]:
    """The spans that began in a phase, those of an operation or all that are not of the agent's making."""
    found = [s for s in run["spans"] if s["phase"] == phase]
    return [s for s in found if operation in (None, s["attributes"].get("gen_ai.operation.name"))]


def requests(run: Any, phase: str) -> list[dict[str, Any]]:
    """The spans of what the model was asked, which the instrumentation of httpx makes."""
    return [s for s in spans(run, phase) if s["name"] == "POST"]


def test_host_alone_makes_none(run_host: RunHost) -> None:
    """Without ctxruntime there are the requests alone, each a trace of its own."""
    alone = run_host("spans", "alone")

    assert {span["name"] for span in alone["spans"]} == {"GET", "POST"}
    assert all(span["parent"] is None for span in alone["spans"])


@pytest.mark.parametrize("phase", TOOLS)
def test_each_turn_of_an_agent_is_one_span(run: Any, phase: str) -> None:
    """Its name, kind and attributes are those of the conventions; a sub-agent's turn has one too."""
    turns = spans(run, phase, "invoke_agent")

    assert len(turns) == (2 if phase == "delegation" else 1)
    for turn in turns:
        assert (turn["name"], turn["kind"], turn["status"]) == ("invoke_agent", "INTERNAL", "UNSET")
        assert turn["attributes"]["gen_ai.agent.name"] == "hermes"
        assert turn["attributes"]["gen_ai.provider.name"] == "custom"
        assert turn["attributes"]["gen_ai.request.model"] == "stand-in"


@pytest.mark.parametrize("phase", TOOLS)
def test_each_tool_is_one_span_in_every_executor(run: Any, phase: str) -> None:
    """The agent's own tools, the registry's, a program's, those that are blocked and those that raise: once each."""
    tools = spans(run, phase, "execute_tool")

    assert Counter(tool["attributes"]["gen_ai.tool.name"] for tool in tools) == TOOLS[phase]
    for tool in tools:
        assert tool["name"] == f"execute_tool {tool['attributes']['gen_ai.tool.name']}"
        assert tool["kind"] == "INTERNAL"


@pytest.mark.parametrize("phase", TOOLS)
def test_a_turn_is_one_trace(run: Any, phase: str) -> None:
    """The turn, its tools, its sub-agents, what the model was asked, and for a title when the turn has answered."""
    found = [span for span in spans(run, phase) if not is_apart(span)]
    turns = [span["trace"] for span in found if span["parent"] is None]

    assert len(turns) == 1
    for span in found:  # the title of one turn may be asked for during the next
        assert span["trace"] in turns or (span["name"] == "POST" and traced_from(run, span) == "invoke_agent")


def is_apart(span: dict[str, Any]) -> bool:
    """Tell what is in no turn: the host asks which models there are."""
    return bool(span["name"] == "GET")


def traced_from(run: Any, span: dict[str, Any]) -> str:
    """The name of the span that a span's trace began with."""
    (root,) = [one["name"] for one in run["spans"] if one["trace"] == span["trace"] and one["parent"] is None]
    return str(root)


@pytest.mark.parametrize("phase", TOOLS)
def test_tools_and_requests_are_inside_the_turn(run: Any, phase: str) -> None:
    """In whichever thread they run; a program's tool is inside the program, a sub-agent inside the delegation."""
    name_of = {span["id"]: span["name"] for span in run["spans"]}
    parents = {(span["name"], name_of.get(span["parent"])) for span in spans(run, phase) if not is_apart(span)}
    nested = {"nested": {"read_file"}}.get(phase, set[str]())
    expected: set[tuple[str, str | None]] = {("invoke_agent", None), ("POST", "invoke_agent")}
    expected |= {(f"execute_tool {tool}", "invoke_agent") for tool in TOOLS[phase] if tool not in nested}
    expected |= {(f"execute_tool {tool}", "execute_tool execute_code") for tool in nested}
    expected |= {("invoke_agent", "execute_tool delegate_task")} if phase == "delegation" else set()

    assert parents == expected


def test_subagents_work_is_inside_its_own_turn(run: Any) -> None:
    """The tool that it uses and what its model is asked are not the parent's."""
    inner, outer = sorted(spans(run, "delegation", "invoke_agent"), key=lambda span: span["parent"] is None)
    (tool,) = [s for s in spans(run, "delegation") if s["name"] == "execute_tool read_file"]

    assert tool["parent"] == inner["id"]
    assert Counter(span["parent"] for span in requests(run, "delegation")) == {inner["id"]: 2, outer["id"]: 2}


@pytest.mark.parametrize("phase", TOOLS)
def test_every_span_carries_its_session(run: Any, phase: str) -> None:
    """Also what the model is asked, in a thread that is the host's: with the chat's key and the conversation."""
    for span in [*spans(run, phase, "invoke_agent"), *spans(run, phase, "execute_tool"), *requests(run, phase)]:
        assert span["attributes"]["gen_ai.conversation.id"] == span["attributes"]["session.id"]
        if not phase.startswith(("cli", "tui")):
            assert span["attributes"]["gateway.session_key"]


@pytest.mark.parametrize(
    # Before it a chat's /compress leaves the session its id.
    "frontend",
    ["cli", pytest.param("gateway", marks=pytest.mark.since("0.18.2")), "tui"],
)
def test_grouped_by_conversation_a_chat_is_one_session_over_rotations(run: Any, frontend: str) -> None:
    """A compression that gives the session another id leaves its spans in one group; other chats have others."""
    phases = [f"{frontend} {step}" for step in ("first", "cached", "rotated")]
    groups = {span["attributes"]["session.id"] for phase in phases for span in spans(run, phase, "invoke_agent")}

    assert len(groups) == 1
    assert run["ids"][phases[0]] == run["ids"][phases[1]] != run["ids"][phases[2]]
    for other in {*FRONTENDS} - {frontend}:
        assert groups.isdisjoint(s["attributes"]["session.id"] for s in spans(run, f"{other} first", "invoke_agent"))


@pytest.mark.parametrize(
    ("phase", "kind"), [("raising", "tool_error"), *((p, "plugin_block") for p in TOOLS if "blocked" in p)]
)
def test_tool_that_did_not_do_it_says_which_kind_of_error(run: Any, phase: str, kind: str) -> None:
    """Raised or blocked: the status is an error, and the turn, which goes on, has none."""
    for tool in spans(run, phase, "execute_tool"):
        assert (tool["status"], tool["attributes"]["error.type"]) == ("ERROR", kind)


def test_no_span_stays_open(run: Any) -> None:
    """Each that began has ended when the work has."""
    assert run["open"] == 0


def test_content_is_not_recorded(run: Any) -> None:
    """What was asked, what tools were given and gave back, and what errors say is on no span."""
    for span in run["spans"]:
        assert "what nobody is to know" not in span["text"]
        assert not any(name in span["text"] for name in run["texts"])


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert run["log"] == []


@pytest.mark.parametrize("setup", ["", "import opentelemetry.trace", "import opentelemetry.sdk.trace"])
def test_without_a_provider_of_the_sdk_there_is_no_span(setup: str) -> None:
    """Neither where only the API is there, which is not even imported, nor where no provider was set."""
    program = f"""
{setup}
import sys
before = set(sys.modules)
from ctxruntime_integrations.hermes import spans
def tool(name, args):
    from opentelemetry import context
    return context.get_current()
assert spans.registry_tool(lambda name, args: "done")("read_file", {{}}) == "done"
assert {bool(setup)} or not any(name.startswith("opentelemetry") for name in sys.modules)
assert spans.registry_tool(tool)("read_file", {{}}) == {{}}
"""
    succeeds(program)


IN_SDK = """
from opentelemetry import context, trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ctxruntime_integrations.hermes import spans
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""


def test_call_that_raises_ends_its_span_and_raises_what_it_raised() -> None:
    """Of the error there is its type, and neither its words nor its traceback; nothing stays current."""
    succeeds(
        IN_SDK
        + """
def tool(name, args, task_id, tool_call_id):
    raise KeyboardInterrupt("secret")
try:
    spans.registry_tool(tool)("read_file", {}, None, "1")
except KeyboardInterrupt as error:
    assert str(error) == "secret"
(span,) = exporter.get_finished_spans()
assert span.attributes["error.type"] == "KeyboardInterrupt" and not span.status.is_ok
assert "secret" not in span.to_json() and not span.events
assert context.get_current() == {}
"""
    )


def test_processor_that_fails_costs_the_host_nothing() -> None:
    """The tool runs once, and its result is returned, where a span cannot be made."""
    succeeds(
        IN_SDK
        + """
class Failing(SpanProcessor):
    def on_start(self, span, parent_context=None):
        raise RuntimeError("no span")
provider.add_span_processor(Failing())
calls = []
assert spans.registry_tool(lambda *a: calls.append(a) or "done")("read_file", {}) == "done"
assert spans.agent_turn(lambda agent: calls.append(agent) or "done")("agent") == "done"
assert len(calls) == 2 and context.get_current() == {}
"""
    )


def test_subagents_call_with_its_parents_id_is_a_call_of_its_own() -> None:
    """Models number their calls anew in each answer: the same id inside another agent's turn is another call."""
    succeeds(
        IN_SDK
        + """
def delegate(name, args, task_id, tool_call_id):
    return spans.agent_turn(lambda agent: again("read_file", {}, None, "call_0"))(object())
again = spans.registry_tool(lambda *a: "done")
twice = spans.registry_tool(spans.registry_tool(delegate))
assert twice("delegate_task", {}, None, "call_0") == "done"
names = [span.name for span in exporter.get_finished_spans()]
assert names == ["execute_tool read_file", "invoke_agent", "execute_tool delegate_task"], names
"""
    )


def succeeds(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
