"""What a conversation leaves behind: the rows of the host's own stores, and what its model was asked."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def rows(home: Path) -> dict[str, Rows]:
    """Every row of every table of Hermes's session database, in the order of writing; its indexes for search aside."""
    with sqlite3.connect(f"file:{home / 'state.db'}?mode=ro", uri=True) as db:
        db.row_factory = sqlite3.Row
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        found = {
            name: [dict(row) for row in db.execute(f'SELECT * FROM "{name}" ORDER BY rowid')]
            for name in names
            if "_fts" not in name
        }
    return {
        name: [{column: readable(value) for column, value in row.items()} for row in table]
        for name, table in found.items()
    }


def readable(value: Any) -> Any:
    """Take JSON out of its text, so that each time and each id in it can be told."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def routes(home: Path) -> Any:
    """The gateway's file of which chat is in which session."""
    file = home / "sessions" / "sessions.json"
    return json.loads(file.read_text()) if file.exists() else None
