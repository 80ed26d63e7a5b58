"""Connections to a server, kept for the next call: a few, each used by one thread at a time, none by two processes."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable
from threading import Lock, Semaphore
from typing import Any, Final, Generic, Protocol, TypeVar, final
from weakref import WeakSet

__all__ = ["Link", "Pool", "is_readable"]

SIZE: Final = 8
"""How many connections a store has at most; more threads wait for one, within the store's timeout."""


class Link(Protocol):
    """What is asked of a connection."""

    def fileno(self) -> int:
        """Return the number of its socket."""
        ...

    def close(self) -> None:
        """Take leave of the server."""
        ...

    def abandon(self) -> None:
        """Let go of a parent's connection in its forked child, without a word to the server."""
        ...


L = TypeVar("L", bound=Link)


@final
class Pool(Generic[L]):
    """Hand out connections: an idle one if there is any that still stands, else a new one.

    Whoever takes one gives it back, or drops it, whatever happens.

    Args:
        connect: makes a connection before the given time of `time.monotonic`.
    """

    def __init__(self, connect: Callable[[float], L], size: int = SIZE) -> None:
        self._connect: Final = connect
        self._size: Final = size
        self._lock = Lock()
        self._free = Semaphore(size)
        self._idle: deque[L] = deque()
        self._open: set[L] = set()
        _POOLS.add(self)

    def take(self, deadline: float) -> L | None:
        """Return a connection for this thread alone; None if none became free before the deadline.

        Raises:
            Exception: what `connect` raises.
        """
        if not self._free.acquire(blocking=False) and not self._free.acquire(
            timeout=max(0.0, deadline - time.monotonic())
        ):
            return None
        try:
            while self._idle:
                try:
                    link = self._idle.pop()
                except IndexError:
                    break
                if not is_readable(link):
                    return link
                self._forget(link)  # nobody asked it anything: this is its end
            link = self._connect(deadline)
            with self._lock:
                self._open.add(link)
        except BaseException:
            self._free.release()
            raise
        return link

    def give(self, link: L) -> None:
        """Put back a connection that is ready for the next call."""
        if link in self._open:
            self._idle.append(link)
        else:
            link.close()  # the pool was closed meanwhile
        self._free.release()

    def drop(self, link: L) -> None:
        """Put back a connection that nobody shall use again."""
        self._forget(link)
        self._free.release()

    def close(self) -> None:
        """Close what is idle now, and what is in use as soon as it is given back."""
        with self._lock:
            self._open.clear()
        while self._idle:
            self._idle.pop().close()

    def _forget(self, link: L) -> None:
        with self._lock:
            self._open.discard(link)
        link.close()

    def renew_in_child(self) -> None:
        """Start anew in a forked child: the connections are its parent's, and its threads may have held the locks."""
        inherited = self._open
        self._lock = Lock()
        self._free = Semaphore(self._size)
        self._idle = deque()
        self._open = set()
        for link in inherited:
            link.abandon()


def is_readable(link: Link) -> bool:
    """Tell whether there is something to be read, be it the end."""
    number = link.fileno()
    if number < 0:
        return True
    if not hasattr(select, "poll"):
        return bool(select.select([number], [], [], 0)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


_POOLS: Final[WeakSet[Pool[Any]]] = WeakSet()


def _renew_in_child() -> None:
    for pool in _POOLS:
        pool.renew_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)
