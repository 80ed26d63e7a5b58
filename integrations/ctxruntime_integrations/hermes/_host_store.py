"""What Hermes's own stores say of a session: its chat, and what it came from.

Read from hermes-agent 0.19.0. Two of them: the gateway's `SessionStore` knows the current session of each chat,
and the `SessionDB` has a row for each session that there was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from weakref import ref

from . import _host

__all__ = ["Origin", "chat_of", "origin_of", "remember", "session_of"]

Kind: TypeAlias = Literal["compression", "branch", "subagent"]

MOST_ANCESTORS: Final = 64
"""How far back a session is followed: rows that somebody tied into a circle end too."""

_seen: Callable[[], Any] = lambda: None  # noqa: E731  # a weak reference, as soon as there is one


class Origin(NamedTuple):
    """What a session came from."""

    parent: str
    kind: Kind


def remember(owner: object) -> None:
    """Keep hold, weakly, of the session database that an agent or a frontend of the host has."""
    global _seen
    db = getattr(owner, "_session_db", None)
    db = getattr(db, "_db", db)  # the door for event loops has the one behind it
    if db is not None and _seen() is not db:
        _seen = ref(db)


def chat_of(session_id: str) -> str | None:
    """Return the gateway key of the chat that a session is, or was, of; None if Hermes knows of none."""
    store = _session_store()
    entry = None if store is None else _entry_of(store, session_id)
    if entry is not None:
        return str(entry.session_key)
    return next((key for row in _lineage(session_id) if (key := row.get("session_key"))), None)


def origin_of(session_id: str) -> Origin | None:
    """Return what a session came from; None if it came from none."""
    rows = _lineage(session_id)
    row = next(rows, None)
    parent = None if row is None else row.get("parent_session_id")
    if row is None or not parent:
        return None
    marks: dict[str, object] = json.loads(row.get("model_config") or "{}") or {}
    if marks.get("_branched_from"):
        return Origin(parent, "branch")
    if marks.get("_delegate_from"):
        return Origin(parent, "subagent")
    above = next(rows, None)
    return Origin(parent, "compression") if above and above.get("end_reason") == "compression" else None


def session_of(key: str) -> str | None:
    """Return the id of the session that a chat is in; None if this process has no gateway with such a chat."""
    store = _session_store()
    return None if store is None else getattr(store._entries.get(key), "session_id", None)


def _session_store() -> Any:
    gateway = sys.modules.get(_host.GATEWAY.module)
    runner = getattr(gateway, "_gateway_runner_ref", lambda: None)()
    return getattr(runner, "session_store", None)


def _entry_of(store: Any, session_id: str) -> Any:
    look_up = getattr(store, "lookup_by_session_id", None)  # since 0.17.0
    if look_up is not None:
        return look_up(session_id)
    return next((entry for entry in list(store._entries.values()) if entry.session_id == session_id), None)


def _database() -> Any:
    """Return a session database that is open: agents may close the one that they were given."""
    found = (_seen(), getattr(_session_store(), "_db", None))
    opened = (getattr(db, "_db", db) for db in found if db is not None)
    return next((db for db in opened if getattr(db, "_conn", None) is not None), None)


def _lineage(session_id: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a session and of what it came from."""
    db = _database()
    for _ in range(MOST_ANCESTORS):
        row = None if db is None or not session_id else db.get_session(session_id)
        if row is None:
            return
        yield row
        session_id = row.get("parent_session_id") or ""
