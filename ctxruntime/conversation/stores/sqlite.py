"""Conversations in one file, for every process of a machine, over restarts."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import inf
from typing import ClassVar, Final, TypeAlias, final
from weakref import finalize

from ctxruntime.conversation.errors import StoreError
from ctxruntime.conversation.stores.base import NO_DOC, Change, Doc, Look, Ref, Row
from ctxruntime.conversation.stores.places import TIMEOUT, checked_timeout
from ctxruntime.conversation.stores.sqlite_files import StoreFile, Synchronous
from ctxruntime.conversation.stores.sqlite_lines import Line

__all__ = ["SQLiteStore"]

KNOWN: Final = 20_000
"""How many different looks are remembered while nobody commits."""
SWEPT: Final = 4
"""How many conversations that have expired a commit deletes, the longest expired first."""
PAGE: Final = 100
"""How many rows are read at a time; also how many refs one statement asks for, of which SQLite allows 500."""

_Seen: TypeAlias = tuple[float, dict[Ref, str], dict[str, Row]]
"""What a look has found, and the time until which it is still so if nobody commits: the first expiry."""

_BY_REF: Final = """
    SELECT {place}, refs.conv, convs.version, convs.expires, convs.record
    FROM refs JOIN convs ON convs.ns = refs.ns AND convs.id = refs.conv
    WHERE refs.ns = ? AND refs.kind = ? AND refs.name = ?
"""
_AGREEING: Final = """
    SELECT convs.id, convs.version, convs.expires, convs.record
    FROM refs AS one CROSS JOIN refs AS other CROSS JOIN convs
    WHERE one.ns = ? AND one.kind = ? AND one.name = ? AND other.ns = ? AND other.kind = ? AND other.name = ?
        AND +other.conv = one.conv AND convs.ns = one.ns AND convs.id = one.conv
"""
_BY_ID: Final = "SELECT {place}, id, version, expires, record FROM convs WHERE ns = ? AND id = ?"
_POINTS_TO: Final = """
    SELECT refs.conv FROM refs JOIN convs ON convs.ns = refs.ns AND convs.id = refs.conv
    WHERE refs.ns = ? AND refs.kind = ? AND refs.name = ? AND convs.expires > ?
"""
_VERSION: Final = "SELECT version FROM convs WHERE ns = ? AND id = ? AND expires > ?"
_DOC: Final = """
    SELECT docs.version, docs.body
    FROM convs LEFT JOIN docs ON docs.ns = convs.ns AND docs.conv = convs.id AND docs.name = ?
    WHERE convs.ns = ? AND convs.id = ? AND convs.expires > ?
"""
_DOCS: Final = """
    SELECT docs.name, docs.version, docs.body
    FROM convs JOIN docs ON docs.ns = convs.ns AND docs.conv = convs.id
    WHERE convs.ns = ? AND convs.id = ? AND convs.expires > ?
"""
_ROWS: Final = """
    SELECT id, version, expires, record FROM convs WHERE ns = ? AND id > ? AND expires > ? ORDER BY id LIMIT ?
"""
_EXPIRED: Final = "SELECT ns, id FROM convs WHERE expires <= ? ORDER BY expires LIMIT ?"
_PUT_ROW: Final = "INSERT OR REPLACE INTO convs (ns, id, version, expires, record) VALUES (?, ?, ?, ?, ?)"
_PUT_REF: Final = "INSERT OR REPLACE INTO refs (ns, kind, name, conv) VALUES (?, ?, ?, ?)"
_PUT_DOC: Final = "INSERT OR REPLACE INTO docs (ns, conv, name, version, body) VALUES (?, ?, ?, ?, ?)"


@final
class _Cache:
    """What the reading connection has seen, for as long as it says that nobody has committed since."""

    __slots__ = ("looks", "version")

    def __init__(self) -> None:
        self.renew(None)

    def renew(self, version: object) -> None:
        """Forget it all: it is of an older version of the file than this."""
        self.version = version
        self.looks: dict[tuple[Ref | str, ...], _Seen] = {}

    def keep(self, asked: tuple[Ref | str, ...], seen: _Seen) -> None:
        """Remember what was read of this version, or a later one."""
        if len(self.looks) >= KNOWN:
            self.looks.clear()
        self.looks[asked] = seen

    def opened(self, connection: sqlite3.Connection) -> None:
        """Forget it all, as each connection counts versions in its own way, and let this one only read."""
        connection.execute("PRAGMA query_only = 1")
        self.renew(None)


@final
class SQLiteStore:
    """Keep conversations in a SQLite file: the store of one machine that survives restarts and `kill -9`.

    Any number of processes and threads may use one file, on a local disk. It is in WAL, so that there are a `-wal`
    and a `-shm` file beside it, which belong to it; where the file system cannot do that, it has a rollback journal.
    Nothing is opened before the first call, which makes the file if there is none, in a folder that there is. A file
    that is not ours, or damaged, or of a newer ctxruntime, is not written to. One that may only be read can be read.

    To move or delete the file, end who uses it first. A store notices upon its next write, or when it is opened
    again, that another file is in its place, or none, and goes on with that.

    A fork waits for calls under way; connections are closed before it, and opened anew when they are needed.

    Args:
        path: the file; relative to the working directory of this call.
        timeout: seconds for which a call waits for others that have the file locked; with a rollback journal twice
            that, at worst.
        synchronous: "NORMAL": what was written survives the end of any process, and of the system but for the last
            moments. "FULL": these too, for many times the cost of a write.
        clock: returns seconds since the epoch.

    Raises:
        ValueError: an argument is not what it can be.
        StoreUnavailableError: from every call: the file cannot be reached; there is no such folder.
        StoreBusyError: others had it locked for longer than the timeout.
        StoreReadOnlyError: there is no permission to write it.
        StoreFullError: the disk is full.
        StoreCorruptError, StoreVersionError: it cannot be used, and was not written to.
    """

    blocks: ClassVar[bool] = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = TIMEOUT,
        synchronous: Synchronous = "NORMAL",
        clock: Callable[[], float] = time.time,
    ) -> None:
        place = os.fspath(path)
        if not place or "\0" in place:
            raise ValueError("path is that of a file")
        if synchronous not in ("NORMAL", "FULL"):
            raise ValueError("synchronous is 'NORMAL' or 'FULL'")
        self.path: Final = os.path.abspath(place)
        """Where the file is."""
        self._clock: Final = clock
        self._cache: Final = _Cache()
        file = StoreFile(self.path, checked_timeout(timeout), synchronous)
        self._reader: Final = Line(file, self._cache.opened, watches=False)
        self._writer: Final = Line(file, watches=True)
        finalize(self, _close, self._writer, self._reader)

    def __repr__(self) -> str:
        return f"<SQLiteStore {self.path!r}>"

    def look(self, namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
        """See `base.Store`."""
        asked: tuple[Ref | str, ...] = (namespace, *refs, *ids)
        cache = self._cache
        with self._reader as cursor:
            version = cursor.execute("PRAGMA data_version").fetchone()
            if version != cache.version:
                cache.renew(version)
            now = self._clock()
            seen = cache.looks.get(asked)
            if seen is None or seen[0] <= now:
                seen = _read(cursor, namespace, refs, ids, now)
                cache.keep(asked, seen)
        return now, seen[1], seen[2]

    def commit(self, namespace: str, change: Change) -> bool:
        """See `base.Store`."""
        with self._writer as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            now = self._clock()
            if not _is_unchanged(cursor, namespace, change, now):
                cursor.execute("ROLLBACK")
                return False
            _write(cursor, namespace, change)
            _sweep(cursor, now)
            cursor.execute("COMMIT")
        return True

    def get_doc(self, namespace: str, conversation: str, name: str) -> Doc | None:
        """See `base.Store`."""
        with self._reader as cursor:
            found = cursor.execute(_DOC, (name, namespace, conversation, self._clock())).fetchone()
        if found is None:
            return None
        return NO_DOC if found[0] is None else Doc(*found)

    def put_doc(self, namespace: str, conversation: str, name: str, doc: Doc, was: bytes | None) -> bool | None:
        """See `base.Store`."""
        with self._writer as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            found = cursor.execute(_DOC, (name, namespace, conversation, self._clock())).fetchone()
            if found is None or found[0] not in (was, doc.version):
                cursor.execute("ROLLBACK")
                return None if found is None else False
            cursor.execute(_PUT_DOC, (namespace, conversation, name, *doc))
            cursor.execute("COMMIT")
        return True

    def docs(self, namespace: str, conversation: str) -> Mapping[str, Doc]:
        """See `base.Store`."""
        with self._reader as cursor:
            found = cursor.execute(_DOCS, (namespace, conversation, self._clock())).fetchall()
        return {name: Doc(version, body) for name, version, body in found}

    def rows(self, namespace: str) -> Iterator[tuple[str, Row]]:
        """See `base.Store`."""
        last = ""
        while True:
            with self._reader as cursor:
                page = cursor.execute(_ROWS, (namespace, last, self._clock(), PAGE)).fetchall()
            for last, *row in page:
                yield last, Row(*row)
            if len(page) < PAGE:
                return

    def close(self) -> None:
        """See `base.Store`."""
        self._writer.close()
        self._reader.close()


def _read(cursor: sqlite3.Cursor, namespace: str, refs: Sequence[Ref], ids: Sequence[str], now: float) -> _Seen:
    """Read what these refs and these ids have to say, as of one moment."""
    if len(refs) + len(ids) > PAGE:
        return _read_many(cursor, namespace, refs, ids, now)
    if len(refs) == 2 and not ids:  # most are a chat in its session, and this takes two thirds of the time
        agreed = cursor.execute(_AGREEING, (namespace, *refs[0], namespace, *refs[1])).fetchone()
        if agreed is not None and agreed[2] > now:
            id, *row = agreed
            return agreed[2], {refs[0]: id, refs[1]: id}, {id: Row._make(row)}
    asked: list[str] = []
    for ref in refs:
        asked += (namespace, *ref)
    for id in ids:
        asked += (namespace, id)
    until = inf
    found: dict[Ref, str] = {}
    rows: dict[str, Row] = {}
    for place, id, version, expires, record in cursor.execute(_question(len(refs), len(ids)), asked):
        if expires > now:
            if place < len(refs):
                found[refs[place]] = id
            if id not in rows:
                rows[id] = Row(version, expires, record)
                if expires < until:
                    until = expires
    return until, found, rows


def _read_many(cursor: sqlite3.Cursor, namespace: str, refs: Sequence[Ref], ids: Sequence[str], now: float) -> _Seen:
    """Read more of them than one statement can ask for."""
    cursor.execute("BEGIN")
    parts = [_read(cursor, namespace, refs[at : at + PAGE], (), now) for at in range(0, len(refs), PAGE)]
    parts += [_read(cursor, namespace, (), ids[at : at + PAGE], now) for at in range(0, len(ids), PAGE)]
    cursor.execute("COMMIT")
    until, found, rows = parts[0]
    for part in parts[1:]:
        until = min(until, part[0])
        found |= part[1]
        rows |= part[2]
    return until, found, rows


@lru_cache(64)
def _question(refs: int, ids: int) -> str:
    """Return the one statement that asks for so many refs, and then so many ids."""
    return " UNION ALL ".join((_BY_REF if place < refs else _BY_ID).format(place=place) for place in range(refs + ids))


def _is_unchanged(cursor: sqlite3.Cursor, namespace: str, change: Change, now: float) -> bool:
    """Tell whether all that a change is based on is as it was."""
    for ref, conversation in change.if_refs.items():
        found = cursor.execute(_POINTS_TO, (namespace, *ref, now)).fetchone()
        if (found and found[0]) != conversation:
            return False
    for conversation, version in change.if_versions.items():
        if cursor.execute(_VERSION, (namespace, conversation, now)).fetchone() != (version,):
            return False
    for conversation, versions in change.if_docs.items():
        if cursor.execute(_VERSION, (namespace, conversation, now)).fetchone() is None:
            return False
        if {name: version for name, version, _ in cursor.execute(_DOCS, (namespace, conversation, now))} != versions:
            return False
    return True


def _write(cursor: sqlite3.Cursor, namespace: str, change: Change) -> None:
    """Write all of it."""
    _delete(cursor, [(namespace, id) for id in change.gone])
    cursor.executemany(
        "DELETE FROM refs WHERE ns = ? AND kind = ? AND name = ?", [(namespace, *ref) for ref in change.no_refs]
    )
    cursor.executemany(_PUT_ROW, [(namespace, id, *row) for id, row in change.rows.items()])
    cursor.executemany(_PUT_REF, [(namespace, *ref, id) for ref, id in change.refs.items()])
    cursor.executemany(
        _PUT_DOC, [(namespace, id, name, *doc) for id, docs in change.docs.items() for name, doc in docs.items()]
    )


def _sweep(cursor: sqlite3.Cursor, now: float) -> None:
    """Delete a few of those that have expired, in any namespace, with what still points to them."""
    expired = cursor.execute(_EXPIRED, (now, SWEPT)).fetchall()
    if expired:
        cursor.executemany("DELETE FROM refs WHERE ns = ? AND conv = ?", expired)
        _delete(cursor, expired)


def _delete(cursor: sqlite3.Cursor, conversations: Collection[tuple[str, str]]) -> None:
    cursor.executemany("DELETE FROM convs WHERE ns = ? AND id = ?", conversations)
    cursor.executemany("DELETE FROM docs WHERE ns = ? AND conv = ?", conversations)


def _close(*lines: Line) -> None:
    for line in lines:
        with suppress(StoreError):
            line.close()
