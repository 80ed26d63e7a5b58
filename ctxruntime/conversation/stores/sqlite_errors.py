"""What SQLite says went wrong, in our words."""

from __future__ import annotations

import os
import sqlite3
from typing import Final

from ctxruntime.conversation.errors import (
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

__all__ = ["corrupt", "is_busy", "name_of", "store_error"]

_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_READ_ONLY: Final = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
"""The second: the file beside it could not grow. SQLite has no code of its own for a full disk there."""


def name_of(path: str) -> str:
    """Return how errors call the store of a path."""
    return f"SQLite store {path!r}"


def store_error(path: str, error: sqlite3.Error) -> StoreError:
    """Return the error of ours for one that SQLite raised."""
    name = name_of(path)
    # A few are raised by the module itself, and have no code.
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        if isinstance(error, sqlite3.OperationalError):  # a text that is no UTF-8
            return corrupt(path, f"is damaged ({error})")
        return StoreUnavailableError(name, f"cannot be used ({error})", "try again")
    if is_busy(error):
        return StoreBusyError(name, "was locked by others for too long", "try again, or raise its timeout")
    if code & 0xFF in _READ_ONLY:
        return _no_permission(path)
    if code in _FULL:
        return StoreFullError(name, "has no room left", "free some space on its disk")
    if code & 0xFF in _DAMAGED:
        return corrupt(path, f"is damaged ({error})")
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN:
        return _not_opened(path)
    return StoreUnavailableError(name, f"failed ({error})", "see whether its disk is in order")


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether others held a lock."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _BUSY


def corrupt(path: str, problem: str) -> StoreCorruptError:
    """Return the error for a file that is none of ours, or damaged."""
    return StoreCorruptError(
        name_of(path), problem, "move it away with its -wal and -shm files, or restore a backup, or give another path"
    )


def _no_permission(path: str) -> StoreReadOnlyError:
    return StoreReadOnlyError(
        name_of(path),
        "cannot be written, or not be opened at all",
        "give this process permission to write the file and its folder",
    )


def _not_opened(path: str) -> StoreError:
    """Find out why a file cannot be opened: SQLite does not say."""
    name, folder = name_of(path), os.path.dirname(path)
    no_folder = StoreUnavailableError(
        name, f"has no folder {folder!r} to be in", "make the folder, or give another path"
    )
    try:
        os.stat(folder)
    except PermissionError:
        return _no_permission(path)
    except OSError:
        return no_folder
    if not os.path.isdir(folder):
        return no_folder
    if os.path.isdir(path):
        return StoreUnavailableError(name, "is a folder", "give the path of a file in it")
    if not os.access(folder, os.W_OK | os.X_OK) or (os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK)):
        return _no_permission(path)
    return StoreUnavailableError(
        name, "cannot be opened", "see whether its disk is in order, and how many files this process has open"
    )
