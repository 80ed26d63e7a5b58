"""What `ctxruntime conversations` prints: tables for people, and JSON lines for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import Final, NamedTuple

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores.base import FOREVER, Row

__all__ = ["Entry", "State", "print_json", "print_one", "print_table"]

SHORT: Final = 8
"""How much of a conversation's id a list shows."""
HEADINGS: Final = ("id", "gateway key", "current session", "ids", "age", "left", "parent")
DAMAGED: Final = "(damaged record)"
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


class State(NamedTuple):
    """What is kept for a conversation under one name."""

    name: str
    body: str
    """ASCII JSON."""


class Entry(NamedTuple):
    """A conversation, and until when it is there."""

    id: str
    known: Conversation | None
    """None if its record is damaged."""
    expires: float

    @classmethod
    def of(cls, id: str, row: Row) -> Entry:
        """Read a row."""
        try:
            known = Conversation.from_record(id, row.record)
        except (ValueError, LookupError, TypeError):
            known = None
        return cls(id, known, row.expires)

    @property
    def created_at(self) -> float:
        """When it was made; what is damaged is the oldest."""
        return self.known.created_at if self.known is not None else 0.0

    def as_json(self) -> dict[str, object]:
        """Return what programs are told of it."""
        known = self.known
        if known is None:
            return {"id": self.id, "damaged": True}
        return {
            "id": self.id,
            "gateway_key": known.gateway_key,
            "gateway_keys": known.gateway_keys,
            "session_ids": known.session_ids,
            "current": known.current,
            "parent": known.parent,
            "root": known.root,
            "created_at": known.created_at,
            "expires_at": None if self.expires >= FOREVER else self.expires,
        }


def print_json(entries: Iterable[Entry], states: Sequence[State] | None = None, *, values: bool = False) -> None:
    """Print a line for each; with states their sizes, and what they hold if `values`."""
    for entry in entries:
        told = entry.as_json()
        if states is not None:
            told["states"] = {
                state.name: {"bytes": len(state.body), **({"value": json.loads(state.body)} if values else {})}
                for state in states
            }
        typer.echo(json.dumps(told))


def print_table(entries: Sequence[Entry], now: float) -> None:
    """Print a line for each, in the width there is: what is too long loses its middle, as ends tell more apart."""
    console = _console()
    rows = [_cells(entry, now) for entry in entries]
    widths = _widths(rows, console.width)
    dots = "~" if console.options.ascii_only else "…"
    table = Table(box=SIMPLE_HEAD, padding=0)
    for heading, width in zip(HEADINGS, widths, strict=True):
        number = heading in ("ids", "age", "left")
        table.add_column(heading, no_wrap=True, width=width, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(Text(_cut(cell, width, dots)) for cell, width in zip(row, widths, strict=True)))
    console.print(table)


def _cells(entry: Entry, now: float) -> list[str]:
    known, left = entry.known, _span(entry.expires - now) if entry.expires < FOREVER else "-"
    if known is None:
        return [entry.id[:SHORT], DAMAGED, "", "", "", left, ""]
    return [
        entry.id[:SHORT],
        known.gateway_key or "-",
        known.current or "-",
        str(len(known.session_ids)),
        _span(now - known.created_at),
        left,
        (known.parent or "-")[:SHORT],
    ]


def _widths(rows: Sequence[Sequence[str]], console: int) -> list[int]:
    """Return how wide each column is: key and session share what the others leave, as they need it."""
    widths = [max(cell_len(row[at]) for row in [HEADINGS, *rows]) for at in range(len(HEADINGS))]
    key, session = widths[1:3]
    spaces = len(widths) + 1  # between any two, and around them
    room = max(20, console - (sum(widths) - key - session) - spaces)
    widths[2] = min(session, max(room // 2, room - key))
    widths[1] = min(key, room - widths[2])
    return widths


def _cut(text: str, width: int, dots: str) -> str:
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{set_cell_size(text, width - 1 - tail)}{dots}{set_cell_size(text[::-1], tail)[::-1]}"


def print_one(entry: Entry, states: Sequence[State], now: float, *, parent: Conversation | None, values: bool) -> None:
    """Print all that is known of it; what the states hold only if `values`."""
    known = entry.known
    if known is None:
        return
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(no_wrap=True, style="bold")
    facts.add_column(overflow="fold")
    until = "never" if entry.expires >= FOREVER else f"{_time(entry.expires)} (in {_span(entry.expires - now)})"
    for fact, told in (
        ("id", known.id),
        ("gateway keys", _lines(known.gateway_keys, inherited=known.inherited_key)),
        ("session ids", _lines(known.session_ids)),
        ("parent", _parent(known, parent)),
        ("root", "itself" if known.root == known.id else known.root),
        ("made", f"{_time(known.created_at)} ({_span(now - known.created_at)} ago)"),
        ("expires", until),
        *(() if states else (("states", "none"),)),
    ):
        facts.add_row(fact, Text(told))
    console = _console()
    console.print(facts)
    if states:
        console.print(_states(states, values=values))


def _states(states: Sequence[State], *, values: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("state", overflow="fold")
    table.add_column("bytes", justify="right", no_wrap=True)
    if values:
        table.add_column("value", overflow="fold")
    for state in states:
        table.add_row(Text(state.name), str(len(state.body)), *([Text(state.body)] if values else []))
    return table


def _lines(names: Sequence[str], *, inherited: str | None = None) -> str:
    """Return a line for each name, the oldest first; that bound last is marked where there are several."""
    if not names:
        return f"{inherited} (inherited)" if inherited is not None else "none"
    return "\n".join([*names[:-1], f"{names[-1]} (current)" if len(names) > 1 else names[-1]])


def _parent(known: Conversation, parent: Conversation | None) -> str:
    if known.parent is None:
        return "none"
    return known.parent if parent is not None else f"{known.parent} (gone)"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _span(seconds: float) -> str:
    """Return how long that is, in the largest unit that it fills."""
    unit, size = next((each for each in _UNITS if seconds >= each[1]), _UNITS[-1])
    return f"{max(0, int(seconds / size))}{unit}"


def _console() -> Console:
    """Return what prints; what the terminal has no character for is printed as an escape."""
    output: object = sys.stdout
    if isinstance(output, TextIOWrapper):
        output.reconfigure(errors="backslashreplace")
    return Console(highlight=False)
