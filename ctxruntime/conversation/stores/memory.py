"""Conversations of this process alone, and no more of them than fit."""

from __future__ import annotations

import os
import time
from _thread import RLock
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Final, final
from weakref import WeakSet

from ctxruntime.conversation.stores.base import NO_DOC, Change, Doc, Look, Ref, Row

__all__ = ["MemoryStore"]

_NO_ROW: Final = Row(b"", 0.0, "")
SWEPT: Final = 4
"""How many of the longest unused conversations a commit looks at, to drop those that have expired."""


@final
class _Kept:
    """What is kept of one conversation."""

    __slots__ = ("docs", "refs", "row")

    def __init__(self) -> None:
        self.row: Row = _NO_ROW
        self.refs: set[Ref] = set()
        self.docs: dict[str, Doc] = {}


@final
class _Space:
    """What is kept in one namespace. The store's lock is held by whoever calls."""

    __slots__ = ("kept", "refs")

    def __init__(self) -> None:
        self.kept: OrderedDict[str, _Kept] = OrderedDict()
        """By id; the longest unused first."""
        self.refs: dict[Ref, str] = {}

    def alive(self, id: str, now: float) -> _Kept | None:
        """Return what is kept of a conversation that has not expired."""
        kept = self.kept.get(id)
        return None if kept is None or kept.row.expires <= now else kept

    def is_unchanged(self, change: Change, now: float) -> bool:
        """Tell whether all that a change is based on is as it was."""
        for ref, was in change.if_refs.items():
            id = self.refs.get(ref)
            if (id if id is not None and self.alive(id, now) else None) != was:
                return False
        for id, version in change.if_versions.items():
            kept = self.alive(id, now)
            if kept is None or kept.row.version != version:
                return False
        for id, versions in change.if_docs.items():
            kept = self.alive(id, now)
            if kept is None or {name: doc.version for name, doc in kept.docs.items()} != versions:
                return False
        return True

    def write(self, change: Change) -> None:
        """Write all of it."""
        for id in change.gone:
            self.drop(id)
        for ref in change.no_refs:
            self.unpoint(ref)
        for id, row in change.rows.items():
            kept = self.kept.setdefault(id, _Kept())
            kept.row = row
            self.kept.move_to_end(id)
        for ref, id in change.refs.items():
            self.unpoint(ref)
            self.kept[id].refs.add(ref)
            self.refs[ref] = id
        for id, docs in change.docs.items():
            self.kept[id].docs.update(docs)

    def unpoint(self, ref: Ref) -> None:
        """Delete a ref, if there is such."""
        id = self.refs.pop(ref, None)
        if id is not None:
            self.kept[id].refs.discard(ref)

    def drop(self, id: str) -> None:
        """Delete a conversation, if there is such, and the refs to it."""
        kept = self.kept.get(id)
        if kept is not None:  # its refs first: an interrupt may end this anywhere, and none is to lead nowhere
            for ref in kept.refs:
                if self.refs.get(ref) == id:
                    del self.refs[ref]
            del self.kept[id]

    def sweep(self, now: float, most: int) -> None:
        """Drop what has expired among the longest unused, and what is too much."""
        for id in list(islice(self.kept, SWEPT)):
            if self.kept[id].row.expires <= now:
                self.drop(id)
        while len(self.kept) > most:
            self.drop(next(iter(self.kept)))


@final
class MemoryStore:
    """Keep conversations in memory, the last used ones: bounded, of one process, and gone with it.

    A forked child has a copy of its own from then on.

    Args:
        max_conversations: how many are kept in each namespace; the longest unused ones are pushed out.
        clock: returns seconds since the epoch.
    """

    blocks: ClassVar[bool] = False

    def __init__(self, max_conversations: int = 10_000, *, clock: Callable[[], float] = time.time) -> None:
        if max_conversations < 1:
            raise ValueError("max_conversations is at least 1")
        self._max: Final = max_conversations
        self._clock: Final = clock
        self._spaces: Final[dict[str, _Space]] = {}
        self._lock: RLock
        self.renew_lock()
        with _forking:
            _STORES.add(self)

    def look(self, namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
        """See `base.Store`."""
        now = self._clock()
        found: dict[Ref, str] = {}
        rows: dict[str, Row] = {}
        lock = self._lock
        lock.acquire()  # `with` would cost a quarter of a look-up
        try:
            space = self._spaces.get(namespace) or self._spaces.setdefault(namespace, _Space())
            for ref in refs:
                id = space.refs.get(ref)
                if id is not None:
                    row = space.kept[id].row
                    if row.expires > now:
                        found[ref] = id
                        rows[id] = row
                        space.kept.move_to_end(id)
            for id in ids:
                alive = space.alive(id, now)
                if alive is not None:
                    rows[id] = alive.row
        finally:
            lock.release()
        return now, found, rows

    def commit(self, namespace: str, change: Change) -> bool:
        """See `base.Store`."""
        now = self._clock()
        with self._lock:
            space = self._spaces.setdefault(namespace, _Space())
            if not space.is_unchanged(change, now):
                return False
            space.write(change)
            space.sweep(now, self._max)
        return True

    def get_doc(self, namespace: str, conversation: str, name: str) -> Doc | None:
        """See `base.Store`."""
        with self._lock:
            kept = self._alive(namespace, conversation)
            return None if kept is None else kept.docs.get(name, NO_DOC)

    def put_doc(self, namespace: str, conversation: str, name: str, doc: Doc, was: bytes | None) -> bool | None:
        """See `base.Store`."""
        with self._lock:
            kept = self._alive(namespace, conversation)
            if kept is None:
                return None
            if kept.docs.get(name, NO_DOC).version not in (was, doc.version):
                return False
            kept.docs[name] = doc
            return True

    def docs(self, namespace: str, conversation: str) -> Mapping[str, Doc]:
        """See `base.Store`."""
        with self._lock:
            kept = self._alive(namespace, conversation)
            return {} if kept is None else dict(kept.docs)

    def _alive(self, namespace: str, conversation: str) -> _Kept | None:
        space = self._spaces.get(namespace)
        return None if space is None else space.alive(conversation, self._clock())

    def rows(self, namespace: str) -> Iterator[tuple[str, Row]]:
        """See `base.Store`."""
        now = self._clock()
        with self._lock:
            space = self._spaces.get(namespace, _Space())
            found = [(id, kept.row) for id, kept in space.kept.items() if kept.row.expires > now]
        return iter(found)

    def before_fork(self) -> None:
        """Wait until no other thread is in the middle of a change: a child has no half of one."""
        self._lock.acquire()

    def after_in_parent(self) -> None:
        """Let it be used again."""
        self._lock.release()

    def renew_lock(self) -> None:
        """Make the lock anew, as in a forked child, where nobody else is that could release it."""
        self._lock = RLock()

    def close(self) -> None:
        """Do nothing: there is nothing to let go of, and what is kept stays."""


_STORES: Final[WeakSet[MemoryStore]] = WeakSet()
_HELD: Final[list[MemoryStore]] = []
_forking = RLock()


def _before_fork() -> None:
    _forking.acquire()
    _HELD[:] = _STORES
    for store in _HELD:
        store.before_fork()


def _after_in_parent() -> None:
    for store in _HELD:
        store.after_in_parent()
    _HELD.clear()
    _forking.release()


def _after_in_child() -> None:
    global _forking
    for store in _HELD:
        store.renew_lock()
    _HELD.clear()
    _forking = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
