"""Which conversations this process has seen, parsed once, and when each is due to be gone."""

from __future__ import annotations

import os
from _thread import RLock
from collections import OrderedDict
from itertools import islice
from typing import Final, final
from weakref import WeakSet

from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores.base import Row
from ctxruntime.layers import renew_in_child

__all__ = ["Lifetimes"]

KEPT: Final = 10_000
"""How many conversations are remembered, the last written ones."""
BURIED: Final = 4
"""How many are looked at, at a time."""


@final
class Lifetimes:
    """What one process remembers of a bridge's rows. A version names one content, so nothing here is ever stale."""

    __slots__ = ("__weakref__", "_ids", "_lock", "known")

    def __init__(self) -> None:
        self._lock: RLock
        self.renew_lock()
        self.known: Final[dict[bytes, Conversation]] = {}
        """What is parsed already, by version."""
        self._ids: Final[OrderedDict[str, tuple[Row, Conversation]]] = OrderedDict()
        """The newest row seen of each conversation; the longest unchanged first."""
        with _listing:
            _ALL.add(self)

    def parsed(self, id: str, row: Row) -> Conversation:
        """Return what a row says.

        Raises:
            ValueError, LookupError, TypeError: it is no record of ours.
        """
        conversation = self.known.get(row.version)
        if conversation is None:
            conversation = Conversation.from_record(id, row.record)
            self.note(id, row, conversation)
        return conversation

    def note(self, id: str, row: Row, conversation: Conversation) -> None:
        """Remember what a row says that was read, or written."""
        with self._lock:
            before = self._ids.pop(id, None)
            if before is not None:
                self.known.pop(before[0].version, None)
            self._ids[id] = row, conversation
            self.known[row.version] = conversation
            if len(self._ids) > KEPT:
                self._forget(next(iter(self._ids)))

    def overdue(self, now: float) -> dict[str, Conversation]:
        """Return a few that should be gone by now, if no other process has prolonged them."""
        with self._lock:
            oldest = list(islice(self._ids.items(), BURIED))
        return {id: conversation for id, (row, conversation) in oldest if row.expires <= now}

    def end(self, id: str) -> bool:
        """Forget a conversation; tell whether it was remembered."""
        with self._lock:
            return self._forget(id)

    def renew_lock(self) -> None:
        """Make the lock anew in a forked child: a thread of the parent may have held it."""
        self._lock = RLock()

    def _forget(self, id: str) -> bool:
        before = self._ids.pop(id, None)
        if before is not None:
            self.known.pop(before[0].version, None)
        return before is not None


_ALL: Final[WeakSet[Lifetimes]] = WeakSet()
_listing = RLock()
renew_in_child(globals(), "_listing")


def _renew_in_child() -> None:
    for lifetimes in list(_ALL):
        lifetimes.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)
