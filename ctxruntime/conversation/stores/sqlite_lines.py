"""A connection that is there when it is needed: one thread at a time, never over a fork, every error in our words."""

from __future__ import annotations

import os
import sqlite3
import time
from _thread import RLock, allocate_lock
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, final
from weakref import WeakSet

from ctxruntime.conversation.errors import StoreBusyError, StoreFullError
from ctxruntime.conversation.stores.sqlite_errors import name_of, store_error
from ctxruntime.conversation.stores.sqlite_files import StoreFile

__all__ = ["Line"]


@final
class Line:
    """A block in which this thread alone has the connection, opened if it is not: `with line as cursor`.

    An error in the block rolls back what was begun. One of SQLite's leaves it as the `StoreError` that it is, and
    unless it may pass by itself, the connection is given up, so that the next block opens and checks the file anew.

    The lock is none that its own thread may take twice: what a signal handler does in the middle of a transaction
    would become part of it. It fails with `StoreBusyError` instead.

    Args:
        file: what to open.
        opened: called with each new connection, before anybody uses it.
        watches: whether each block first sees if another file has taken the place of this one.
    """

    __slots__ = ("__weakref__", "_connection", "_cursor", "_file", "_held", "_hurried", "_identity", "_lock", "_opened",
                 "_watches")  # fmt: skip

    def __init__(
        self, file: StoreFile, opened: Callable[[sqlite3.Connection], None] | None = None, *, watches: bool
    ) -> None:
        self._file: Final = file
        self._opened: Final = opened
        self._watches: Final = watches
        self._lock = allocate_lock()
        self._connection: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        self._identity: tuple[int, int] | None = None
        self._hurried = False
        self._held = False
        with _forking:
            _LINES.add(self)

    def __enter__(self) -> sqlite3.Cursor:
        if not self._lock.acquire(False):
            self._wait()
        try:
            if self._watches:
                self._file.identify()
            if self._cursor is not None and self._identity is self._file.identity:
                return self._cursor
            return self._open()
        except sqlite3.Error as error:
            self._lock.release()
            raise store_error(self._file.path, error) from error
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if error is None and not self._hurried:
            self._lock.release()
            return
        try:
            if error is not None:
                self._fail(error)
        finally:
            if self._hurried:
                self._patience(self._file.timeout)
                self._hurried = False
            self._lock.release()

    def close(self) -> None:
        """Close the connection, if there is one.

        Raises:
            StoreBusyError: it was in use for longer than the timeout.
        """
        if not self._lock.acquire(False):
            self._wait()
        try:
            self._hurried = False
            self._drop()
        finally:
            self._lock.release()

    def _open(self) -> sqlite3.Cursor:
        self._drop()
        connection = self._file.open()
        if self._opened is not None:
            self._opened(connection)
        self._identity = self._file.identity
        self._connection, self._cursor = connection, connection.cursor()
        return self._cursor

    def _wait(self) -> None:
        """Wait for other threads; what that takes is not there any more to wait for other processes."""
        began, timeout = time.monotonic(), self._file.timeout
        if not self._lock.acquire(True, timeout):
            raise StoreBusyError(
                name_of(self._file.path), "was in use by other threads for too long", "try again, or raise its timeout"
            )
        taken = time.monotonic() - began
        if taken > timeout / 10:
            self._hurried = True
            self._patience(timeout - taken)

    def _patience(self, seconds: float) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):  # then what is asked of it next will say so
                self._connection.execute(f"PRAGMA busy_timeout = {max(0, int(seconds * 1000))}")

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, sqlite3.Error):
            self._roll_back()
            return
        told = store_error(self._file.path, error)
        if isinstance(told, StoreBusyError | StoreFullError):
            self._roll_back()
        else:
            self._drop()
        raise told from error

    def _roll_back(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                self._drop()

    def _drop(self) -> None:
        """Close the connection, if there is one: what it has begun is rolled back."""
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            connection.close()

    # SQLite keeps its books on locks per process, and a forked child would inherit them: nothing is open at a fork.

    def before_fork(self) -> None:
        """Wait until nobody uses it, close it, and keep it so."""
        self._held = self._lock.acquire(True, self._file.timeout + 1)
        if self._held:
            self._drop()

    def after_in_parent(self) -> None:
        """Let it be used again."""
        if self._held:
            self._held = False
            self._lock.release()

    def after_in_child(self) -> None:
        """Let it be used, by threads that may have been none when its lock was taken."""
        if not self._held:  # the fork came from within a block of this very thread, or a block that hangs
            _ABANDONED.append((self._connection, self._cursor))
            self._connection = self._cursor = None
        self._held = self._hurried = False
        self._lock = allocate_lock()


_LINES: Final[WeakSet[Line]] = WeakSet()
_ABANDONED: Final[list[object]] = []
"""Connections that this process inherited: never closed, as that would touch files that are the parent's to touch."""
_forking = RLock()


def _before_fork() -> None:
    _forking.acquire()
    for line in list(_LINES):
        line.before_fork()


def _after_in_parent() -> None:
    for line in list(_LINES):
        line.after_in_parent()
    _forking.release()


def _after_in_child() -> None:
    global _forking
    for line in list(_LINES):
        line.after_in_child()
    _forking = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
