"""A lock that threads and tasks queue for together, first come first served."""

from __future__ import annotations

import asyncio
import threading
from _thread import RLock
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, final

from ctxruntime.layers import renew_in_child

__all__ = ["Owner", "Turnstile", "owner_here"]

Owner: TypeAlias = tuple[int, "asyncio.Task[object] | None"]
"""The thread, and the task in it, that holds the lock or waits for it."""

# Re-entrant: the collector may close a coroutine that waits while this thread is within.
_guard = RLock()
renew_in_child(globals(), "_guard")


@final
class Turnstile:
    """A lock for threads and for tasks of any asyncio loop: it is handed to whoever has waited longest.

    Not re-entrant. It may be released by another thread, or another task, than took it.
    """

    __slots__ = ("_owner", "_waiting")

    def __init__(self) -> None:
        self._owner: Owner | None = None
        self._waiting: Final[deque[_Waiter]] = deque()

    @property
    def is_free(self) -> bool:
        """Whether nobody holds it or waits for it."""
        return self._owner is None

    def try_acquire(self) -> bool:
        """Take the lock if it is free; tell whether it was."""
        me = owner_here()
        with _guard:
            if self._owner is not None:
                return False
            self._owner = me
            return True

    def acquire(self) -> None:
        """Wait for the lock, and take it.

        Raises:
            RuntimeError: it would wait for ever: this thread, or a task of the loop that runs in it, holds the lock
                or is to have it first.
        """
        ready = threading.Event()
        waiter = _Waiter(owner_here(), ready.set)
        with _guard:
            if self._owner is None:
                self._owner = waiter.owner
                return
            if self._owner[0] == waiter.owner[0] or any(_runs_here(ahead.owner[1]) for ahead in self._waiting):
                raise RuntimeError(
                    "this thread would wait for itself: it holds the conversation's lock, which is not re-entrant, or "
                    "a task of its event loop does or will: between tasks of one loop use `async with`"
                )
            self._waiting.append(waiter)
        try:
            ready.wait()
        except BaseException:
            self._withdraw(waiter)
            raise

    async def acquire_async(self) -> None:
        """Wait for the lock without blocking the event loop, and take it.

        Raises:
            RuntimeError: this task holds it, or this thread took it before its event loop ran; or there is no event
                loop of asyncio here.
        """
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        waiter = _Waiter(owner_here(), lambda: loop.call_soon_threadsafe(_wake, ready))
        with _guard:
            if self._owner is None:
                self._owner = waiter.owner
                return
            if self._owner in (waiter.owner, (waiter.owner[0], None)):
                raise RuntimeError(
                    "this task would wait for itself: it, or what runs its event loop, holds the conversation's lock, "
                    "which is not re-entrant"
                )
            self._waiting.append(waiter)
        try:
            await ready
        except BaseException:
            self._withdraw(waiter)
            raise

    def release(self) -> None:
        """Hand the lock to whoever has waited longest, from any thread."""
        while True:
            with _guard:
                waiter = self._waiting.popleft() if self._waiting else None
                self._owner = None if waiter is None else waiter.owner
            if waiter is None:
                return
            try:
                waiter.wake()
            except RuntimeError:  # its event loop is closed
                continue
            return

    def _withdraw(self, waiter: _Waiter) -> None:
        """Wait no more; who was handed the lock in the same moment passes it on."""
        with _guard:
            handed = self._owner is waiter.owner
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        if handed:
            self.release()


@final
class _Waiter:
    """Who waits, and how it is woken."""

    __slots__ = ("owner", "wake")

    def __init__(self, owner: Owner, wake: Callable[[], object]) -> None:
        self.owner: Final = owner
        self.wake: Final = wake


def owner_here() -> Owner:
    """Return the thread and the task in which this is called."""
    try:
        return threading.get_ident(), asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return threading.get_ident(), None


def _runs_here(task: asyncio.Task[object] | None) -> bool:
    """Tell whether a task is of the event loop that runs in this thread."""
    try:
        return task is not None and task.get_loop() is asyncio.get_running_loop()
    except RuntimeError:  # none runs here
        return False


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
