"""A small persistent mapping for each conversation, in the bridge's store.

notes = ConversationState("notes")

@ctx.handler
def remember(text: str) -> None:
    notes.update(lambda kept: kept.setdefault("lines", []).append(text))
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar, final, overload

from ctxruntime.conversation.blocking import off_loop
from ctxruntime.conversation.bridge import PATIENCE, Bridge
from ctxruntime.conversation.errors import (
    ConversationGoneError,
    NoConversationError,
    StateTooLargeError,
    StoreBusyError,
)
from ctxruntime.conversation.names import check_name
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores.base import Doc
from ctxruntime.conversation.turns import conversation_id, follow, in_use
from ctxruntime.conversation.values import Json, body_of, items_of

__all__ = ["ConversationState"]

MAX_BYTES: Final = 256 * 1024
D = TypeVar("D")
R = TypeVar("R")


@final
class ConversationState:
    """A mapping of its own for each conversation: what is set in one is seen in that one alone, wherever it goes on.

    It is the conversation's in effect: by its gateway key alone, by its session id, after a rotation, after a restart
    and in another process. It lives and dies with the conversation. Values are JSON, and come back equal; what is
    returned is a copy. Each call is one atomic step. The twins with an `a` are for event loops.

    Args:
        name: whose state it is, such as the plugin's name; each name has a state of its own.
        bridge: the bridge to ask; the one in use (`conversation.use`) unless given.
        max_bytes: the most that it may take in a conversation, in bytes of JSON. Where two conversations that became
            one have more, it can shrink.

    Raises, from every call:
        NoConversationError: no conversation is in effect.
        ConversationGoneError: it was forgotten, or has expired.
        StoreError: the store failed. A call that failed may have been done.
    """

    def __init__(self, name: str, *, bridge: Bridge | None = None, max_bytes: int = MAX_BYTES) -> None:
        if max_bytes < 2:
            raise ValueError("max_bytes is at least 2: an empty state takes as much")
        self.name: Final = check_name("state", name)
        self._bridge: Final = bridge
        self._max_bytes: Final = max_bytes
        self._at: str | None = None

    def at(self, conversation: Conversation | str) -> ConversationState:
        """Return the same state of another conversation: a parent's, or outside any turn; also by its id.

        Raises:
            InvalidValueError: this is no id: a conversation without a parent has None there.
        """
        there = ConversationState(self.name, bridge=self._bridge, max_bytes=self._max_bytes)
        there._at = conversation.id if isinstance(conversation, Conversation) else check_name("at()", conversation)
        return there

    @overload
    def get(self, name: str) -> Any | None: ...
    @overload
    def get(self, name: str, default: D) -> Any | D: ...
    def get(self, name: str, default: object = None) -> Any:  # a value is whatever was set
        """Return a value, or the default."""
        return self._items().get(name, default)

    def __getitem__(self, name: str) -> Any:
        return self._items()[name]

    def set(self, name: str, value: Json) -> None:
        """Set a value.

        Raises:
            InvalidValueError: it would not come back equal: a tuple, NaN, a name that is not text.
            StateTooLargeError: the state would take more than `max_bytes`.
        """
        self.update(lambda items: items.__setitem__(name, value))

    def __setitem__(self, name: str, value: Json) -> None:
        self.set(name, value)

    def __contains__(self, name: object) -> bool:
        return name in self._items()

    def __iter__(self) -> Iterator[str]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    def __delitem__(self, name: str) -> None:
        self.update(lambda items: items.__delitem__(name))

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a value and return it; the default if there is none, or a `KeyError`."""
        return self.update(lambda items: items.pop(name, *default))

    def items(self) -> list[tuple[str, Any]]:
        """Return the names and values, as of one moment."""
        return list(self._items().items())

    def clear(self) -> None:
        """Remove all values."""
        self.update(lambda items: items.clear())

    def update(self, fn: Callable[[dict[str, Any]], R]) -> R:
        """Call `fn` with the items as a dict, which it changes, and write them in one atomic step.

        `fn` may be called again, with what others have written meanwhile: it should do nothing else. If it raises,
        nothing is changed.

        Returns:
            what `fn` returned.

        Raises:
            InvalidValueError: a value would not come back equal.
            StateTooLargeError: the state would take more than `max_bytes`.
        """
        return self._there(partial(self._update, fn=fn))

    async def aget(self, name: str, default: object = None) -> Any:  # as `get`
        """Do what `get` does, without blocking the event loop."""
        return (await self._awaited(self._items)).get(name, default)

    async def aset(self, name: str, value: Json) -> None:
        """Do what `set` does, without blocking the event loop."""
        await self._awaited(lambda: self.set(name, value))

    async def aitems(self) -> list[tuple[str, Any]]:
        """Do what `items` does, without blocking the event loop."""
        return await self._awaited(self.items)

    async def aupdate(self, fn: Callable[[dict[str, Any]], R]) -> R:
        """Do what `update` does, without blocking the event loop: `fn` may be called in another thread."""
        return await self._awaited(lambda: self.update(fn))

    async def _awaited(self, call: Callable[[], R]) -> R:
        return await off_loop(self._the_bridge().store, call)

    def __repr__(self) -> str:
        return f"<ConversationState {self.name!r}{'' if self._at is None else f' at {self._at}'}>"

    def _the_bridge(self) -> Bridge:
        using = in_use()
        if self._bridge is None and using is None:
            raise NoConversationError(f"state {self.name!r}")
        return self._bridge or using.bridge  # type: ignore[union-attr]  # one of the two is there

    def _items(self) -> dict[str, Any]:
        return self._there(self._read)

    def _there(self, do: Callable[[Bridge, str], R]) -> R:
        """Do something with the conversation that is meant, followed once if it became part of another."""
        bridge = self._the_bridge()
        if self._at is not None:
            return do(bridge, self._at)
        id = conversation_id(bridge, f"state {self.name!r}")
        try:
            return do(bridge, id)
        except ConversationGoneError:
            followed = follow(bridge)
            if followed is None or followed == id:
                raise
            return do(bridge, followed)

    def _read(self, bridge: Bridge, id: str) -> dict[str, Any]:
        return self._kept(bridge, id)[1]

    def _kept(self, bridge: Bridge, id: str) -> tuple[Doc, dict[str, Any]]:
        doc = bridge.store.get_doc(bridge.namespace, id, self.name)
        if doc is None:
            raise ConversationGoneError(id)
        return doc, items_of(doc.body, state=self.name, conversation=id)

    def _update(self, bridge: Bridge, id: str, *, fn: Callable[[dict[str, Any]], R]) -> R:
        give_up = time.monotonic() + PATIENCE
        pause = 0.0005
        while True:
            doc, items = self._kept(bridge, id)
            result = fn(items)
            body = body_of(items)
            if len(body) > max(self._max_bytes, len(doc.body)):
                raise StateTooLargeError(self.name, len(body), self._max_bytes)
            if body == doc.body:
                return result
            written = bridge.store.put_doc(bridge.namespace, id, self.name, Doc(os.urandom(8), body), doc.version)
            if written is None:
                raise ConversationGoneError(id)
            if written:
                bridge.prolong(id)
                return result
            if time.monotonic() > give_up:
                raise StoreBusyError(
                    f"state {self.name!r}", "was changed by others again and again", "try again, with fewer at once"
                )
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, 0.05)
