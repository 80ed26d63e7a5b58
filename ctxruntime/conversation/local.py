"""An object for each conversation, in this process.

browsers = ConversationLocal(Browser, cleanup=Browser.close)

async with browsers.locked() as browser:        # this conversation's, and nobody else's meanwhile
    ...
"""

from __future__ import annotations

import logging
import os
import threading
import time
from _thread import RLock
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice, takewhile
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, cast, final
from weakref import WeakSet

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import NoConversationError
from ctxruntime.conversation.notices import kept_of, watch
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.turns import aconversation_id, conversation_id, in_use
from ctxruntime.conversation.turnstile import Owner, Turnstile, owner_here
from ctxruntime.guarding import guard
from ctxruntime.layers import UNSET, Unset, renew_in_child
from ctxruntime.scope import cleared

__all__ = ["ConversationLocal"]

HOUR: Final = 3600.0
WANTED_BY: Final = "a ConversationLocal"
T = TypeVar("T")
_LOG: Final = logging.getLogger("ctxruntime")
_guarded: Final = guard("conversation: the cleanup of an object")


@final
class _Kept(Generic[T]):
    """The object of one conversation."""

    __slots__ = ("building", "gone", "id", "lock", "object", "used")

    def __init__(self, id: str) -> None:
        self.id: str = id
        self.lock: Final = Turnstile()
        self.building: Final = threading.RLock()
        self.object: T | Unset = UNSET
        self.used: float = 0.0
        self.gone: bool = False
        """Whether it is no longer its conversation's; it is cleaned up when nobody has it locked."""


@final
class ConversationLocal(Generic[T]):
    """An object for each conversation, built at its first use, kept in this process, and cleaned up.

    It follows the conversation over rotations, and where two become one. A forked child starts with none.

    Args:
        factory: makes the object, called with nothing, once per conversation.
        ttl: seconds after which an object that nobody used is dropped, at the next use of any.
        max_size: how many are kept; the longest unused are dropped. What is locked is never dropped for either.
        cleanup: called with each object once, when it is dropped: forgotten or expired, unused for too long, pushed
            out, discarded, or the loser where two conversations became one; when nobody has it locked. No turn is
            in effect then: it may run in another's. Its errors are logged.

    Raises, from every call:
        NoConversationError: no conversation is in effect, and none was given.
        StoreError: the conversation in effect had to be asked for, and the store failed.
    """

    def __init__(
        self,
        factory: Callable[[], T],
        *,
        ttl: float = HOUR,
        max_size: int = 1000,
        cleanup: Callable[[T], object] | None = None,
    ) -> None:
        if not ttl > 0 or max_size < 1:
            raise ValueError("ttl is a number of seconds above 0; max_size is at least 1")
        self._factory: Final = factory
        self._ttl: Final = ttl
        self._max_size: Final = max_size
        self._cleanup: Final = cleanup
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()
        """By conversation; the longest unused first."""
        self._registry = RLock()
        with _listing:
            _LOCALS.add(self)

    def get(self, conversation: Conversation | str | None = None) -> T:
        """Return the object of the conversation in effect, or of this one; it is built once, whoever asks at once."""
        while True:
            kept = self.entry(conversation)
            with kept.building:
                if not kept.gone:
                    found = self._built(kept)
                    if not kept.gone:
                        return found
            self.settle(kept)

    def locked(self, conversation: Conversation | str | None = None) -> Locked[T]:
        """Return what `with` and `async with` take for the object, to be alone with it: first come first served.

        The lock is one for threads and tasks of asyncio, and not re-entrant.

        Raises:
            RuntimeError: upon entering, where this thread, or this task, would wait for itself.
        """
        return Locked(self, conversation)

    def discard(self, conversation: Conversation | str | None = None) -> None:
        """Drop the object, if there is one; it is cleaned up when nobody has it locked."""
        self._drop(self._id(conversation))

    def __len__(self) -> int:
        with self._registry:
            return sum(kept.object is not UNSET for kept in self._kept.values())

    def merged(self, kept: Conversation, other: Conversation) -> None:
        """Follow: the object of what became part of another goes over, where that has none."""
        with self._registry:
            moving, staying = self._kept.get(other.id), self._kept.get(kept.id)
            if moving is None:
                return
            goes_over = staying is None or staying.object is UNSET
            loser = staying if goes_over else moving
            if loser is not None:
                self._remove(loser)
            if goes_over:
                del self._kept[other.id]
                moving.id = kept.id
                self._kept[kept.id] = moving
                self._touch(moving)
        if loser is not None:
            self.settle(loser)

    def ended(self, conversation: Conversation) -> None:
        """Drop the object of a conversation that was forgotten, or has expired."""
        self._drop(conversation.id)

    def entry(self, conversation: Conversation | str | None) -> _Kept[T]:
        """Return what is kept for a conversation, made at the first need; drop what is idle or too much."""
        id = self._id(conversation)
        with self._registry:
            id = kept_of(id)
            dropped = self._idle()
            kept = self._kept.get(id)
            if kept is None:
                kept = self._kept[id] = _Kept(id)
            self._touch(kept)
            dropped += self._surplus(kept)
        if dropped:
            with ExitStack() as stack:  # every one, also if a cleanup is interrupted
                for one in reversed(dropped):
                    stack.callback(self._clean_up_and_release, one)
        return kept

    async def aentry(self, conversation: Conversation | str | None) -> _Kept[T]:
        """Do what `entry` does, without blocking the event loop."""
        if conversation is None:
            conversation = await aconversation_id(_bridge_in_use(), WANTED_BY)
        return self.entry(conversation)

    def taken(self, kept: _Kept[T]) -> bool:
        """Take note that the lock of an object is held; False, and released, if it was dropped meanwhile."""
        try:
            if not kept.gone:
                self._built(kept)
                return True
        except BaseException:
            self.release(kept)
            raise
        self.release(kept)
        return False

    def release(self, kept: _Kept[T]) -> None:
        """Let go of the lock of an object; what was dropped meanwhile is cleaned up before the next in the queue."""
        with self._registry:
            if self._kept.get(kept.id) is kept:
                self._touch(kept)
        if kept.gone:
            self._clean_up_and_release(kept)
        else:
            kept.lock.release()
            self.settle(kept)

    def settle(self, kept: _Kept[T]) -> None:
        """Clean up what is gone, unless somebody has it locked: who will do it then."""
        if kept.gone and kept.lock.try_acquire():
            self._clean_up_and_release(kept)

    def forget_all(self) -> None:
        """Start anew in a forked child: the objects are the parent's, and so are their locks."""
        self._kept = OrderedDict()
        self._registry = RLock()

    def _id(self, conversation: Conversation | str | None) -> str:
        if conversation is None:
            return conversation_id(_bridge_in_use(), WANTED_BY)
        return conversation.id if isinstance(conversation, Conversation) else conversation

    def _built(self, kept: _Kept[T]) -> T:
        with kept.building:
            if kept.object is UNSET:
                try:
                    kept.object = self._factory()
                except BaseException:
                    self._remove(kept)  # whoever waits for it tries anew
                    raise
            return kept.object

    def _touch(self, kept: _Kept[T]) -> None:
        """Take note that it is used. The registry is held."""
        self._kept.move_to_end(kept.id)
        kept.used = time.monotonic()

    def _idle(self) -> list[_Kept[T]]:
        """Remove and lock what nobody used for too long. The registry is held."""
        now = time.monotonic()
        unused = list(takewhile(lambda kept: kept.used + self._ttl <= now, self._kept.values()))
        return [kept for kept in unused if self._seize(kept)]

    def _surplus(self, but: _Kept[T]) -> list[_Kept[T]]:
        """Remove and lock the longest unused that are too much, but for one. The registry is held."""
        most = max(0, len(self._kept) - self._max_size)
        seized = (kept for kept in list(self._kept.values()) if kept is not but and self._seize(kept)) if most else ()
        return list(islice(seized, most))

    def _seize(self, kept: _Kept[T]) -> bool:
        """Remove and lock an object that nobody uses; what is just being built is used."""
        if kept.object is UNSET or not kept.lock.try_acquire():
            return False
        self._remove(kept)
        return True

    def _drop(self, id: str) -> None:
        with self._registry:
            kept = self._kept.get(kept_of(id))
            if kept is not None:
                self._remove(kept)
        if kept is not None:
            self.settle(kept)

    def _remove(self, kept: _Kept[T]) -> None:
        with self._registry:
            if self._kept.get(kept.id) is kept:
                del self._kept[kept.id]
            kept.gone = True

    def _clean_up_and_release(self, kept: _Kept[T]) -> None:
        """Clean up what is gone, and let go of its lock, which is held."""
        try:
            with kept.building:
                dropped, kept.object = kept.object, UNSET
            if dropped is not UNSET and self._cleanup is not None:
                self._call_cleanup(self._cleanup, dropped)
        finally:
            kept.lock.release()

    def _call_cleanup(self, cleanup: Callable[[T], object], dropped: T) -> None:
        with _guarded, cleared():
            try:
                cleanup(dropped)
            except Exception:  # noqa: BLE001  # the host's own, whatever it is
                _LOG.warning("conversation: the cleanup of an object failed, which is dropped", exc_info=True)


@final
class Locked(Generic[T]):
    """The object of one conversation, for one `with` or `async with`, or many; `ConversationLocal.locked` makes it."""

    __slots__ = ("_conversation", "_held", "_local")

    def __init__(self, local: ConversationLocal[T], conversation: Conversation | str | None) -> None:
        self._local: Final = local
        self._conversation: Final = conversation
        self._held: Final[list[tuple[Owner, _Kept[T]]]] = []

    def __enter__(self) -> T:
        while True:
            kept = self._local.entry(self._conversation)
            try:
                kept.lock.acquire()
            except BaseException:
                self._local.settle(kept)  # it may have been handed over in the same moment, and passed on
                raise
            if self._local.taken(kept):
                return self._entered(kept)

    async def __aenter__(self) -> T:
        while True:
            kept = await self._local.aentry(self._conversation)
            try:
                await kept.lock.acquire_async()
            except BaseException:
                self._local.settle(kept)
                raise
            if self._local.taken(kept):
                return self._entered(kept)

    def _entered(self, kept: _Kept[T]) -> T:
        self._held.append((owner_here(), kept))
        return cast("T", kept.object)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        here, held = owner_here(), self._held.copy()
        entry = next((entry for entry in reversed(held) if entry[0] == here), held[-1] if held else None)
        if entry is not None:
            self._held.remove(entry)
            self._local.release(entry[1])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.__exit__(kind, error, trace)


def _bridge_in_use() -> Bridge:
    using = in_use()
    if using is None:
        raise NoConversationError(WANTED_BY)
    return using.bridge


_LOCALS: Final[WeakSet[ConversationLocal[Any]]] = WeakSet()
_listing = RLock()
renew_in_child(globals(), "_listing")


def _locals() -> list[ConversationLocal[Any]]:
    with _listing:
        return list(_LOCALS)


@final
class _All:
    """Tells every local."""

    def merged(self, kept: Conversation, other: Conversation) -> None:
        """Tell that `other` is part of `kept` from now on."""
        for local in _locals():
            local.merged(kept, other)

    def ended(self, conversation: Conversation) -> None:
        """Tell that a conversation is no more."""
        for local in _locals():
            local.ended(conversation)


watch(_All())


def _forget_in_child() -> None:
    for local in _locals():
        local.forget_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
