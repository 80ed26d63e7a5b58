"""What the demo prints."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ctxruntime.demo.report import Report, Run, shortened
from ctxruntime.demo.script import Conversation, right_answers

CHATS = (Conversation("gateway", "g1", "milk", "k1"), Conversation("gateway", "g2", "bread", "k2"))
COMMANDS = ("legacy", "kwargs")
RIGHT = right_answers(CHATS, COMMANDS)

EXPECTED = """\
What each handler received. Right: worked out from the script of events alone.
Chats

 frontend  handler  without              with             right
 ──────────────────────────────────────────────────────────────────────
 gateway   legacy   ✓ args only          ✓ args only      args only
 gateway   kwargs   ✗ args only / g2+k2  ✓ g1+k1 / g2+k2  g1+k1 / g2+k2

def note(text, session_id=None):
    notes.setdefault(session_id or "_default", []).append(text)
without  _default  bread, milk
with     g1        milk
         g2        bread

without: 3 of 4 answers are right
with: 4 of 4 answers are right"""


def report(*runs: Run) -> Report:
    return Report("Chats", CHATS, COMMANDS, RIGHT, runs)


def printed(shown: Report, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=80).print(shown)
    file.seek(0)
    return "\n".join(line.rstrip() for line in file.read().splitlines())


def test_report_shows_each_run_beside_what_was_right() -> None:
    """A row has what a handler received in both conversations, in each run, and what was right."""
    without = Run("without", {**RIGHT, ("g1", "kwargs"): "line 4 of g1"}, {"_default": ["milk", "bread"]})
    adopted = Run("with", RIGHT, {"g1": ["milk"], "g2": ["bread"]})

    assert printed(report(without, adopted)) == EXPECTED


def test_report_is_readable_in_ascii() -> None:
    """Where the output has no other characters, right and wrong can still be told apart."""
    run = Run("run", {("g1", "legacy"): "line 0 of g1", ("g2", "legacy"): "line 0 of g2"}, {})

    rows = [line.replace(" ", "") for line in printed(report(run), encoding="ascii").splitlines()]

    assert rows[5:7] == ["|gateway|legacy|=argsonly|argsonly|", "|gateway|kwargs|xnoanswer|g1+k1/g2+k2|"]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("line 4 of g1", "args only"),
        ("line 4 of g1 -> session_id=g1", "g1"),
        ("line 4 of g1 -> session_id=g1, gateway_session_key=k1", "g1+k1"),
        ("line 4 of g1 -> plugin error: TypeError", "TypeError"),
        ("line 4 of g1 -> session_id=g1 -> called 2 times", "called 2 times"),
        ("line 4 of g2 -> session_id=g2", "other args"),
        (None, "no answer"),
    ],
    ids=["nothing", "id", "both", "fault", "twice", "other", "none"],
)
def test_answer_is_shortened_to_what_was_received(answer: str | None, shown: str) -> None:
    """A cell says what came beside the one argument, or what went wrong."""
    assert shortened(answer, RIGHT["g1", "kwargs"]) == shown


def test_report_is_right_if_every_answer_is() -> None:
    """One wrong answer is enough for a run to be wrong."""
    right = Run("right", RIGHT, {})
    wrong = Run("wrong", {**RIGHT, ("g2", "legacy"): "line 0 of g1"}, {})
    shown = report(right, wrong)

    assert (shown.is_right(right), shown.is_right(wrong)) == (True, False)
