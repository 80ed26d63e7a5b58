"""A lock that threads and tasks queue for together, first come first served."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, final

__all__ = ["Turnstile"]

Owner: TypeAlias = tuple[int, "asyncio.Task[object] | None"]
"""The thread, and the task in it, that holds the lock."""


@final
class Turnstile:
    """A lock for threads and for tasks of any loop: it is handed to whoever has waited longest. Not re-entrant."""

    __slots__ = ("_guard", "_owner", "_waiting")

    def __init__(self) -> None:
        self._guard: Final = threading.Lock()
        self._owner: Owner | None = None
        self._waiting: Final[deque[_Waiter]] = deque()

    @property
    def is_free(self) -> bool:
        """Whether nobody holds it or waits for it."""
        return self._owner is None

    def acquire(self) -> None:
        """Wait for the lock, and take it.

        Raises:
            RuntimeError: this thread holds it already, so that it would wait for itself.
        """
        me = threading.get_ident(), _task()
        with self._guard:
            if self._owner is None:
                self._owner = me
                return
            if self._owner[0] == me[0]:
                raise RuntimeError(
                    "this thread would wait for itself: it holds the conversation's lock, which is not re-entrant; "
                    "between tasks of one loop use `async with`"
                )
            ready = threading.Event()
            waiter = _Waiter(me, ready.set)
            self._waiting.append(waiter)
        try:
            ready.wait()
        except BaseException:
            self._withdraw(waiter)
            raise

    async def acquire_async(self) -> None:
        """Wait for the lock without blocking the event loop, and take it; see `acquire`."""
        me = threading.get_ident(), _task()
        with self._guard:
            if self._owner is None:
                self._owner = me
                return
            if self._owner == me:
                raise RuntimeError("this task holds the conversation's lock already, which is not re-entrant")
            loop = asyncio.get_running_loop()
            ready: asyncio.Future[None] = loop.create_future()

            waiter = _Waiter(me, lambda: loop.call_soon_threadsafe(_wake, ready))
            self._waiting.append(waiter)
        try:
            await ready
        except BaseException:
            self._withdraw(waiter)
            raise

    def release(self) -> None:
        """Hand the lock to whoever has waited longest, from any thread."""
        while True:
            with self._guard:
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
        with self._guard:
            handed = waiter not in self._waiting
            if not handed:
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


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return None
