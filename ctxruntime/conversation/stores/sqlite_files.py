"""The file of a SQLite store: opened, checked before anything is written to it, made if there is none."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias, final

from ctxruntime.conversation.errors import StoreVersionError
from ctxruntime.conversation.stores.sqlite_errors import corrupt, is_busy, name_of

__all__ = ["APPLICATION_ID", "SCHEMA", "StoreFile", "Synchronous"]

Synchronous: TypeAlias = Literal["NORMAL", "FULL"]

APPLICATION_ID: Final = int.from_bytes(b"ctxr", "big")
"""Says in a file's header whose it is."""
SCHEMA: Final = 1
"""The newest schema that is known here; a file has that of the ctxruntime that made it."""
_MADE_BY: Final = (
    """
    CREATE TABLE refs (
        ns TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, conv TEXT NOT NULL,
        PRIMARY KEY (ns, kind, name)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE convs (
        ns TEXT NOT NULL, id TEXT NOT NULL, version BLOB NOT NULL, expires REAL NOT NULL, record TEXT NOT NULL,
        PRIMARY KEY (ns, id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE docs (
        ns TEXT NOT NULL, conv TEXT NOT NULL, name TEXT NOT NULL, version BLOB NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (ns, conv, name)
    )
    """,
    "CREATE INDEX refs_by_conv ON refs (ns, conv)",
    "CREATE INDEX convs_by_expires ON convs (expires)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA}",
)
_WHOSE: Final = """
    SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version), count(*),
        count(*) FILTER (WHERE type = 'table' AND name IN ('refs', 'convs', 'docs'))
    FROM sqlite_master
    """
"""Asked in one statement, and so of one moment: others may be making the file."""
_SWITCHING: Final = 0.5
"""Seconds at most that opening waits for the moment in which nobody holds the file."""


@final
class StoreFile:
    """Where a store is kept, and how it is opened.

    In WAL, where the file system can do that; else with a rollback journal, and then always `synchronous=FULL`, as
    with less a loss of power could damage the file.
    """

    __slots__ = ("_synchronous", "identity", "path", "timeout")

    def __init__(self, path: str, timeout: float, synchronous: Synchronous) -> None:
        self.path: Final = path
        self.timeout: Final = timeout
        self._synchronous: Final = synchronous
        self.identity: tuple[int, int] | None = None
        """Which file was last seen at the path; None if there was none. Another object for another file."""

    def open(self) -> sqlite3.Connection:
        """Return a connection to what is ours, or has been made now, in autocommit mode, for any thread.

        Raises:
            StoreCorruptError, StoreVersionError: it is not ours to use. It was not written to.
            sqlite3.Error: SQLite could not.
        """
        self._glance()
        connection = self._connect("mode=rwc")
        try:
            if not self._is_ours(connection):
                self._make(connection)
            safe = self._synchronous if self._is_in_wal(connection) else "FULL"
            connection.execute(f"PRAGMA synchronous = {safe}")
            self.identify()
        except BaseException:
            connection.close()
            raise
        return connection

    def identify(self) -> None:
        """See which file is at the path now."""
        try:
            found = os.stat(self.path)
        except OSError:
            self.identity = None
            return
        if self.identity != (found.st_dev, found.st_ino):
            self.identity = found.st_dev, found.st_ino

    def _connect(self, how: str, path: str | None = None) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{Path(path or self.path).as_uri()}?{how}",
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )

    def _glance(self) -> None:
        """Refuse what is plainly not ours before it is opened in earnest, which may roll it back or clean up beside it.

        By SQLite, and without its locks (`immutable`): to open and close the file in another way would lose this
        process all locks that it has there. Without locks a file that is being written may look damaged.
        """
        with suppress(OSError):
            if os.path.getsize(self.path) == 0 and os.path.getsize(f"{self.path}-wal") > 0:
                raise corrupt(self.path, "is empty, and the -wal file that belongs to it is not")  # SQLite deletes that
        try:
            with closing(self._connect("immutable=1")) as connection:
                self._is_ours(connection)
        except sqlite3.OperationalError:
            return
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_NOTADB:
                raise corrupt(self.path, "is no database") from error

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """Tell whether it is ours, or empty.

        Raises:
            StoreCorruptError, StoreVersionError: it is neither.
        """
        owner, schema, entries, tables = connection.execute(_WHOSE).fetchone()
        if owner == APPLICATION_ID:
            if schema > SCHEMA:
                raise StoreVersionError(name_of(self.path), schema, SCHEMA)
            if schema < 1 or tables != 3:
                raise corrupt(self.path, "is damaged (tables are missing)")
            return True
        if owner or schema or entries:
            raise corrupt(self.path, "is the database of another program")
        return False

    def _make(self, connection: sqlite3.Connection) -> None:
        """Make the tables, unless another process does so at the same time.

        With a rollback journal, as a new file has: so whose it is stands in the file from its first moment on, and
        not in a WAL beside it.
        """
        connection.execute("BEGIN IMMEDIATE")
        if not self._is_ours(connection):
            for statement in _MADE_BY:
                connection.execute(statement)
        connection.execute("COMMIT")

    def _is_in_wal(self, connection: sqlite3.Connection) -> bool:
        """Switch it to WAL, if it is not; tell whether it is now."""
        if _answer(connection, "PRAGMA journal_mode") == "wal":
            return True
        if not self._can_folder():
            return False
        # How long SQLite itself waits here depends on which lock it is that is held: from not at all to all the time.
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            return self._is_switched(connection)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self.timeout * 1000)}")

    def _is_switched(self, connection: sqlite3.Connection) -> bool:
        give_up = time.monotonic() + min(self.timeout / 4, _SWITCHING)
        while True:
            try:
                return _answer(connection, "PRAGMA journal_mode = WAL") == "wal"
            except sqlite3.OperationalError as error:
                # It works without, if not as well; the next who opens it tries again.
                if not is_busy(error) or time.monotonic() > give_up:
                    return False
            time.sleep(random.uniform(0.0005, 0.005))

    def _can_folder(self) -> bool:
        """Try in a file of its own: one that was switched where it cannot be used so is lost to everybody."""
        trial = f"{os.path.realpath(self.path)}-trial-{os.urandom(4).hex()}"
        try:
            with closing(self._connect("mode=rwc", trial)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("CREATE TABLE trial (x)")
                return _answer(connection, "PRAGMA journal_mode") == "wal"
        except sqlite3.Error:
            return False
        finally:
            for end in ("", "-wal", "-shm", "-journal"):
                with suppress(OSError):
                    os.unlink(trial + end)


def _answer(connection: sqlite3.Connection, question: str) -> str:
    """Return the one text that a statement returns."""
    ((answer,),) = connection.execute(question)
    assert isinstance(answer, str)
    return answer
