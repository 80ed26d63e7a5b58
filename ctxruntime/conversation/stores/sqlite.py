"""Conversations in one file, for every process of a machine, over restarts."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, TypeAlias, final
from weakref import finalize

from ctxruntime.conversation.errors import StoreError
from ctxruntime.conversation.stores.base import NO_DOC, Change, Doc, Look, Ref, Row
from ctxruntime.conversation.stores.sqlite_files import StoreFile, Synchronous
from ctxruntime.conversation.stores.sqlite_lines import Line

__all__ = ["SQLiteStore"]

KNOWN: Final = 20_000
"""How many refs are remembered while nobody commits."""
SWEPT: Final = 4
"""How many conversations that have expired a commit deletes, the longest expired first."""
PAGE: Final = 100
"""How many rows are read at a time; also how many refs one statement asks for, of which SQLite allows 500."""

_ALIVE: Final = "SELECT version FROM convs WHERE ns = ? AND id = ? AND expires > ?"
_FOUND: Final = tuple[str, Row]


Known: TypeAlias = tuple[str, Row]
_NOWHERE: Final[Known] = ("", Row(b"", float("-inf"), ""))
"""What a ref points to that points nowhere: what has expired, always."""


@final
class _Cache:
    """What the reading connection has seen, for as long as it says that nobody has committed since."""

    __slots__ = ("size", "spaces", "version")

    def __init__(self) -> None:
        self.renew(None)

    def renew(self, version: object) -> None:
        """Forget it all: it is of an older version of the file than this."""
        self.version = version
        self.spaces: dict[str, dict[Ref, Known]] = {}
        self.size = 0

    def opened(self, connection: sqlite3.Connection) -> None:
        """Forget it all, as each connection counts versions in its own way, and let this one only read."""
        connection.execute("PRAGMA query_only = 1")
        self.renew(None)


@final
class SQLiteStore:
    """Keep conversations in a SQLite file: the store of one machine that survives restarts and `kill -9`.

    Any number of processes and threads may use one file, on a local disk. It is in WAL, so that there are a `-wal` and
    a `-shm` file beside it, which belong to it; where the file system cannot do that, it has a rollback journal. Nothing
    is opened before the first call, which makes the file if there is none, in a folder that there is. A file that is not
    ours, or damaged, or of a newer ctxruntime, is not written to. One that may only be read can be read.

    To move or delete the file, end who uses it first. A store notices upon its next write, or when it is opened
    again, that another file is in its place, or none, and goes on with that.

    A fork waits for calls under way; connections are closed before it, and opened anew when they are needed.

    Args:
        path: the file; relative to the working directory of this call.
        timeout: seconds for which a call waits for others that have the file locked. (With a rollback journal twice that,
            at worst.)
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

    blocks: Final = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = 5.0,
        synchronous: Synchronous = "NORMAL",
        clock: Callable[[], float] = time.time,
    ) -> None:
        place = os.fspath(path)
        if not place or "\0" in place:
            raise ValueError("path is that of a file")
        if not timeout > 0 or synchronous not in ("NORMAL", "FULL"):
            raise ValueError("timeout is a number of seconds above 0; synchronous is 'NORMAL' or 'FULL'")
        self.path: Final = os.path.abspath(place)
        """Where the file is."""
        self._clock: Final = clock
        self._cache: Final = _Cache()
        file = StoreFile(self.path, timeout, synchronous)
        self._reader: Final = Line(file, self._cache.opened, watches=False)
        self._writer: Final = Line(file, id, watches=True)
        finalize(self, _close, self._reader, self._writer)

    def __repr__(self) -> str:
        return f"<SQLiteStore {self.path!r}>"

    def look(self, namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
        """See `base.Store`."""
        found: dict[Ref, str] = {}
        rows: dict[str, Row] = {}
        cache = self._cache
        with self._reader as cursor:
            version = cursor.execute("PRAGMA data_version").fetchone()
            if version != cache.version:
                cache.renew(version)
            known = cache.spaces.get(namespace)
            if known is None or ids:
                known = self._seen(cursor, namespace, refs, ids, rows)
            now = self._clock()
            for ref in refs:
                entry = known.get(ref)
                if entry is None:  # all of them anew: a look is as of one moment
                    known = self._seen(cursor, namespace, refs, ids, rows)
                    break
        for ref in refs:
            id, row = known[ref]
            if row[1] > now:
                found[ref] = id
                rows[id] = row
        return now, found, rows
