"""An object for each conversation, in this process.

browsers = ConversationLocal(Browser, cleanup=Browser.close)

async with browsers.locked() as browser:        # this conversation's, and nobody else's meanwhile
    ...
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, cast, final
from weakref import WeakSet

from ctxruntime.conversation.errors import NoConversationError
from ctxruntime.conversation.notices import watch
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.turns import conversation_id, in_use
from ctxruntime.conversation.turnstile import Turnstile
from ctxruntime.guarding import guard
from ctxruntime.layers import UNSET, Unset

__all__ = ["ConversationLocal"]

HOUR: Final = 3600.0
T = TypeVar("T")
_guarded: Final = guard("conversation: the cleanup of an object")


@final
class _Kept(Generic[T]):
    """The object of one conversation."""

    __slots__ = ("building", "gone", "lock", "object", "used")

    def __init__(self, now: float) -> None:
        self.lock: Final = Turnstile()
        self.building: Final = threading.RLock()
        self.object: T | Unset = UNSET
        self.used: float = now
        self.gone: bool = False
        """Whether it is no longer its conversation's; it is cleaned up when nobody has it in use."""


@final
class ConversationLocal(Generic[T]):
    """An object for each conversation, built at its first use, kept in this process, and cleaned up.

    It follows the conversation over rotations, and where two become one. A forked child starts with none.

    Args:
        factory: makes the object, called with nothing, once per conversation.
        ttl: seconds after which an object that nobody used is dropped, at the next use of any.
        max_size: how many are kept; the longest unused are dropped. What is locked is never dropped.
        cleanup: called with each object once, when it is dropped: forgotten or expired, unused for too long, pushed
            out, discarded, or the loser where two conversations became one. Its errors are logged.

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
        self._registry = threading.RLock()
        _LOCALS.add(self)

    def get(self, conversation: Conversation | str | None = None) -> T:
        """Return the object of the conversation in effect, or of this one; it is built once, whoever asks at once."""
        while True:
            kept = self.entry(conversation)
            self._sweep()
            with kept.building:
                if not kept.gone:
                    return self._built(kept)

    def locked(self, conversation: Conversation | str | None = None) -> Locked[T]:
        """Return what `with` and `async with` take for the object, to be alone with it: first come first served.

        The lock is one for threads and tasks, and not re-entrant.

        Raises:
            RuntimeError: upon entering, where this thread, or this task, would wait for itself.
        """
        return Locked(self, conversation)

    def discard(self, conversation: Conversation | str | None = None) -> None:
        """Drop the object, if there is one; it is cleaned up when nobody has it locked."""
        self._drop(self._id(conversation))

    def __len__(self) -> int:
        return len(self._kept)

    def merged(self, kept: Conversation, other: Conversation) -> None:
        """Follow: the object of what became part of another goes over, where that has none."""
        with self._registry:
            if kept.id not in self._kept and other.id in self._kept:
                self._kept[kept.id] = self._kept.pop(other.id)
                return
        self._drop(other.id)

    def ended(self, conversation: Conversation) -> None:
        """Drop the object of a conversation that was forgotten, or has expired."""
        self._drop(conversation.id)

    def _id(self, conversation: Conversation | str | None) -> str:
        if conversation is None:
            using = in_use()
            if using is None:
                raise NoConversationError("a ConversationLocal")
            return conversation_id(using.bridge, "a ConversationLocal")
        return conversation.id if isinstance(conversation, Conversation) else conversation

    def entry(self, conversation: Conversation | str | None) -> _Kept[T]:
        """Return what is kept for a conversation, made at the first need."""
        id = self._id(conversation)
        with self._registry:
            kept = self._kept.get(id)
            if kept is None:
                kept = self._kept[id] = _Kept(time.monotonic())
            self._kept.move_to_end(id)
            kept.used = time.monotonic()
            return kept

    def _built(self, kept: _Kept[T]) -> T:
        with kept.building:
            if kept.object is UNSET:
                kept.object = self._factory()
            return kept.object

    def taken(self, kept: _Kept[T]) -> bool:
        """Take note that the lock of an object is held; False, and released, if it was dropped meanwhile."""
        try:
            if not kept.gone:
                self._sweep()
                self._built(kept)
                return True
        except BaseException:
            self.release(kept)
            raise
        self.release(kept)
        return False

    def release(self, kept: _Kept[T]) -> None:
        """Let go of the lock of an object; what was dropped meanwhile is cleaned up."""
        kept.used = time.monotonic()
        kept.lock.release()
        if kept.gone:
            self._clean_up(kept)

    def _drop(self, id: str) -> None:
        with self._registry:
            kept = self._kept.pop(id, None)
            if kept is not None:
                kept.gone = True
        if kept is not None:
            self._clean_up(kept)

    def _clean_up(self, kept: _Kept[T]) -> None:
        """Clean up what is gone, once, when nobody has it locked or waits for it."""
        with kept.building:
            if not kept.lock.is_free or kept.object is UNSET:
                return
            dropped, kept.object = kept.object, UNSET
        if self._cleanup is not None:
            with _guarded:
                self._cleanup(dropped)

    def forget_all(self) -> None:
        """Start anew in a forked child: the objects are the parent's, and so are their locks."""
        self._kept = OrderedDict()
        self._registry = threading.RLock()

    def _sweep(self) -> None:
        """Drop what nobody used for too long, and what is too much; never what is locked."""
        now = time.monotonic()
        with self._registry:
            surplus = len(self._kept) - self._max_size
            idle: list[str] = []
            for id, kept in self._kept.items():
                if surplus <= len(idle) and kept.used + self._ttl > now:
                    break
                if kept.lock.is_free:
                    idle.append(id)
        for id in idle:
            self._drop(id)


@final
class Locked(Generic[T]):
    """The object of one conversation, for one `with` or `async with`; `ConversationLocal.locked` makes it."""

    __slots__ = ("_conversation", "_kept", "_local")

    def __init__(self, local: ConversationLocal[T], conversation: Conversation | str | None) -> None:
        self._local: Final = local
        self._conversation: Final = conversation
        self._kept: _Kept[T] | None = None

    def __enter__(self) -> T:
        while True:
            kept = self._local.entry(self._conversation)
            kept.lock.acquire()
            if self._local.taken(kept):
                self._kept = kept
                return cast("T", kept.object)

    async def __aenter__(self) -> T:
        while True:
            kept = self._local.entry(self._conversation)
            await kept.lock.acquire_async()
            if self._local.taken(kept):
                self._kept = kept
                return cast("T", kept.object)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            self._local.release(kept)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.__exit__(kind, error, trace)


_LOCALS: Final[WeakSet[ConversationLocal[Any]]] = WeakSet()


@final
class _All:
    """Tells every local."""

    def merged(self, kept: Conversation, other: Conversation) -> None:
        """Tell that `other` is part of `kept` from now on."""
        for local in list(_LOCALS):
            local.merged(kept, other)

    def ended(self, conversation: Conversation) -> None:
        """Tell that a conversation is no more."""
        for local in list(_LOCALS):
            local.ended(conversation)


watch(_All())


def _forget_in_child() -> None:
    for local in list(_LOCALS):
        local.forget_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
