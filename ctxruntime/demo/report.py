"""What is printed: a table of what each handler received beside what was right, and where the notes ended up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from ctxruntime.demo.script import Answers, Call, Conversation

TITLE: Final = "What each handler received. Right: worked out from the script of events alone."

FAULT: Final = (
    "def note(text, session_id=None):",
    '    notes.setdefault(session_id or "_default", []).append(text)',
)
"""The fault that began it all, as in `plugins.Notes`."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of the script left behind."""

    heading: str
    answers: Answers
    notes: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Report:
    """Runs of the script, and what was right; rich can print it."""

    sessions: str
    """Where which sessions are, in one line."""
    conversations: Sequence[Conversation]
    commands: Sequence[str]
    right: Answers
    runs: Sequence[Run]

    def right_in(self, run: Run) -> int:
        """Count the right answers of a run."""
        return sum(run.answers.get(call) == answer for call, answer in self.right.items())

    def is_right(self, run: Run) -> bool:
        """Whether every answer of a run is right."""
        return self.right_in(run) == len(self.right)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"{TITLE}\n{self.sessions}")
        yield self._table(ascii_only=options.ascii_only)
        yield Text("\n".join(FAULT), style="bold")
        yield self._buckets()
        yield ""
        for run in self.runs:
            style = "green" if self.is_right(run) else "red"
            yield Text(f"{run.heading}: {self.right_in(run)} of {len(self.right)} answers are right", style)

    def _table(self, *, ascii_only: bool) -> Table:
        headings = ["frontend", "handler", *(run.heading for run in self.runs), "right"]
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for heading in headings:
            table.add_column(heading, no_wrap=True)
        for frontend in dict.fromkeys(conversation.frontend for conversation in self.conversations):
            ids = [one.session_id for one in self.conversations if one.frontend == frontend]
            for command in self.commands:
                calls = [(session_id, command) for session_id in ids]
                cells = [self._judged(run.answers, calls, ascii_only=ascii_only) for run in self.runs]
                table.add_row(frontend, command, *cells, self._received(self.right, calls))
            table.add_section()
        return table

    def _judged(self, answers: Answers, calls: Sequence[Call], *, ascii_only: bool) -> Text:
        is_right = all(answers.get(call) == self.right[call] for call in calls)
        mark = ("=" if is_right else "x") if ascii_only else ("✓" if is_right else "✗")
        return Text(f"{mark} {self._received(answers, calls)}", style="green" if is_right else "red")

    def _received(self, answers: Answers, calls: Sequence[Call]) -> str:
        """Show what the handler received in each conversation; once, where that is the same."""
        shown = dict.fromkeys(shortened(answers.get(call), self.right[call]) for call in calls)
        return " / ".join(shown)

    def _buckets(self) -> Table:
        grid = Table.grid(padding=(0, 2, 0, 0))
        for run in self.runs:
            for number, (bucket, texts) in enumerate(sorted(run.notes.items())):
                grid.add_row("" if number else run.heading, bucket, Text(", ".join(sorted(texts))))
        return grid


def shortened(answer: str | None, right: str) -> str:
    """Shorten an answer to what its handler received beside its one argument."""
    if answer is None:
        return "no answer"
    text, *received = answer.split(" -> ")
    if text != right.split(" -> ")[0]:
        return "other args"
    keys = received[-1].split(", ") if received else ["args only"]
    return "+".join(key.rpartition("=")[2] for key in keys).removeprefix("plugin error: ")
