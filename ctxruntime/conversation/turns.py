"""A bridge in use: turns consult it and teach it, and each knows its conversation.

with use(bridge):
    with session(gateway_session_key="chat-7"):
        current()                           # the conversation of this chat
        amend(session_id="s1")              # the bridge learns it
"""

from __future__ import annotations

import logging
import time
from asyncio import get_running_loop, to_thread
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, final
from weakref import ref

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import NoConversationError, StoreError
from ctxruntime.conversation.keys import CONVERSATION_ID
from ctxruntime.conversation.notices import watch
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores.base import KEY, SESSION, Ref
from ctxruntime.guarding import guard
from ctxruntime.keys import GATEWAY_SESSION_KEY, SESSION_ID, Key
from ctxruntime.layers import UNSET, Layer, Unset, amending, scope_of, tell_amended, write
from ctxruntime.layers import current as current_layer
from ctxruntime.subscriptions import defer, subscribe

__all__ = ["Use", "conversation_id", "current", "follow", "in_use", "use"]

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
"""Seconds for which a store that failed is left alone by the turns that come: doubled each time it fails again."""

_IDENTITIES: Final = SESSION_ID.bit | GATEWAY_SESSION_KEY.bit
_guarded: Final = guard("conversation: the conversation of a turn")
_LOG: Final = logging.getLogger("ctxruntime")


class Identity(NamedTuple):
    """What a scope says of who is served in it; None is not known."""

    key: str | None
    session: str | None
    parent: Ref | None = None
    """The session, else the chat, in which a sub-agent was started."""

    @classmethod
    def of(cls, layer: Layer) -> Identity:
        """Read it from the layer of a turn or of a bind."""
        key, session = _known(layer, GATEWAY_SESSION_KEY), _known(layer, SESSION_ID)
        if layer is layer.turn:
            # Work with an id of its own, for a chat whose key it took over: the chat has not moved to that session.
            apart = layer.taken & _IDENTITIES == GATEWAY_SESSION_KEY.bit and session is not None
            return cls(None if apart else key, session)
        if layer.turn is None or layer.binds & GATEWAY_SESSION_KEY.bit:
            return cls(
                key if layer.binds & GATEWAY_SESSION_KEY.bit else None,
                session if layer.binds & SESSION_ID.bit else None,
            )
        return cls(None, session, None if layer.parent is None else _nearest(layer.parent))

    def resolved(self, bridge: Bridge) -> Conversation | None:
        """Return the conversation, found or made; None if nothing is known.

        Raises:
            StoreError: the store failed.
        """
        if self.session is not None and self.parent is not None:
            return bridge.resolve_child(self.session, self.parent)
        if self.session is None and self.key is None:
            return None
        return bridge.resolve(gateway_session_key=self.key, session_id=self.session)

    def found(self, bridge: Bridge) -> Conversation | None:
        """Return the conversation, if there is one; see `resolved`."""
        if self.session is None and self.key is None:
            return None
        return bridge.find(gateway_session_key=self.key, session_id=self.session)


def _nearest(layer: Layer) -> Ref | None:
    session, key = _known(layer, SESSION_ID), _known(layer, GATEWAY_SESSION_KEY)
    if session is not None:
        return SESSION, session
    return None if key is None else (KEY, key)


def _known(layer: Layer, key: Key[str]) -> str | None:
    value = key.peek(layer)
    return None if value is UNSET or value == "" else str(value)


def _in_event_loop() -> bool:
    """Tell whether an event loop of asyncio runs here: trio has no threads of asyncio's."""
    try:
        get_running_loop()
    except RuntimeError:
        return False
    return True


@final
class Use:
    """A bridge in use; `use` makes it, and `stop()` ends it. As a context manager it ends with the block."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge: Final = bridge
        self._turns: Final[dict[int, ref[Layer]]] = {}
        """The layers that have a conversation, by `id`, as long as somebody holds them."""
        self._pause: float = 0.0
        self._left_alone_until: float = 0.0
        self._endings: Final = (subscribe(self), watch(self))

    def stop(self) -> None:
        """Consult the bridge no more; turns keep the conversation that they have. Again is harmless."""
        for end in self._endings:
            end()
        if self in _IN_USE:
            _IN_USE.remove(self)

    def __enter__(self) -> Use:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.stop()

    def entered(self, layer: Layer) -> None:
        """Resolve what a turn, or a bind, says of who is served."""
        if in_use() is self and (layer is layer.turn or layer.binds & _IDENTITIES):
            with _guarded:
                self._consult(layer)

    def amended(self, layer: Layer, keys: Sequence[Key[Any]]) -> None:
        """Resolve again, where an identity was learned or changed."""
        if in_use() is self and (SESSION_ID in keys or GATEWAY_SESSION_KEY in keys):
            with _guarded:
                self._consult(layer)

    def merged(self, kept: Conversation, other: Conversation) -> None:
        """Have the turns of a conversation that became part of another follow it."""
        for reference in list(self._turns.values()):
            layer = reference()
            if layer is not None and CONVERSATION_ID.peek(layer) == other.id:
                self._put(layer, kept.id)

    def ended(self, conversation: Conversation) -> None:
        """Do nothing: a turn keeps its conversation, also one that is gone."""

    def ask(self, layer: Layer) -> str | None:
        """Resolve a scope now, whatever happened before; return the conversation's id, None if it says of none.

        Raises:
            StoreError: the store failed.
        """
        found = Identity.of(layer).resolved(self.bridge)
        self._pause = 0.0
        return self._take(layer, found)

    def follow(self, layer: Layer) -> str | None:
        """Find a scope's conversation again, after another process made it part of another; None if it is gone.

        Raises:
            StoreError: the store failed.
        """
        return self._take(layer, Identity.of(layer).found(self.bridge))

    def _take(self, layer: Layer, found: Conversation | None) -> str | None:
        if found is None:
            return None
        self._put(layer, found.id)
        return found.id

    def _consult(self, layer: Layer) -> None:
        """Resolve a scope, at once or before the door lets in; a store that failed is left alone for a while."""
        identity = Identity.of(layer)
        if identity.session is None and identity.key is None:
            if layer is not layer.turn or CONVERSATION_ID.peek(layer) is not UNSET:
                self._put(layer, UNSET)
        elif time.monotonic() < self._left_alone_until:
            self._put(layer, UNSET)
        elif not (self.bridge.store.blocks and _in_event_loop() and defer(partial(self._off_loop, layer, identity))):
            self._resolve(layer, identity)

    async def _off_loop(self, layer: Layer, identity: Identity) -> None:
        with _guarded:
            await to_thread(self._resolve, layer, identity)

    def _resolve(self, layer: Layer, identity: Identity) -> None:
        found: Conversation | None = None
        with _guarded:
            try:
                found = identity.resolved(self.bridge)
                self._pause = 0.0
            except StoreError as error:
                self._failed(error)
        self._put(layer, UNSET if found is None else found.id)

    def _failed(self, error: StoreError) -> None:
        first = self._pause == 0.0
        self._pause = FIRST_PAUSE if first else min(2 * self._pause, LONGEST_PAUSE)
        self._left_alone_until = time.monotonic() + self._pause
        if first:
            _LOG.warning(
                "the store of conversations failed, and turns go on without a conversation until it answers "
                "(logged once): %s",
                error,
            )

    def _put(self, layer: Layer, conversation: str | Unset) -> None:
        """Bind a conversation in the scope that says whose it is."""
        with amending():
            if layer is not layer.turn:
                layer.binds |= CONVERSATION_ID.bit
            if CONVERSATION_ID.peek(layer) == conversation:
                return
            write(layer, CONVERSATION_ID, conversation)
        place = id(layer)
        if conversation is not UNSET and place not in self._turns:
            self._turns[place] = ref(layer, lambda _: self._turns.pop(place, None))
        tell_amended([(layer, CONVERSATION_ID, conversation)])


_IN_USE: Final[list[Use]] = []


def use(bridge: Bridge) -> Use:
    """Have turns consult a bridge and teach it, from now on; return what ends that.

    Entering a turn, and amending an identity in it, resolve what is bound, and bind `conversation_id` in the same
    scope; a `bind(session_id=...)` in a turn is a sub-agent's. Of several bridges in use the turns have the one that
    was put to use last. A store that fails never breaks a turn: it is logged once, and left alone for a while. `async
    with session(...)` and decorated coroutine functions wait for their store without blocking the event loop.

    A turn that took its gateway key over (`take=`) and has a session id of its own is of that id's conversation: the
    chat has not moved.
    """
    _IN_USE.append(Use(bridge))
    return _IN_USE[-1]


def in_use() -> Use | None:
    """Return the bridge in use, if there is one."""
    return _IN_USE[-1] if _IN_USE else None


def current() -> Conversation | None:
    """Return the conversation in effect here, as it is now; None where there is none, or it is gone.

    Raises:
        StoreError: the store failed.
    """
    using, id = in_use(), CONVERSATION_ID.get(None)
    if using is None or id is None:
        return None
    found = using.bridge.get(id)
    if found is None and (followed := follow(using.bridge)) is not None:
        return using.bridge.get(followed)
    return found


def conversation_id(bridge: Bridge, wanted_by: str) -> str:
    """Return the id of the conversation in effect, which is asked for now if it is not known.

    Raises:
        NoConversationError: there is none; the message names what `wanted_by` says.
        StoreError: the store failed.
    """
    using, scope = in_use(), _deciding()
    id: str | None = None
    if using is not None and using.bridge is bridge:
        id = CONVERSATION_ID.get(None)
        if id is None and scope is not None:
            id = using.ask(scope)
    elif scope is not None:
        found = Identity.of(scope).resolved(bridge)
        id = None if found is None else found.id
    if id is None:
        raise NoConversationError(wanted_by)
    return id


def follow(bridge: Bridge) -> str | None:
    """Return what the conversation in effect, which is gone, became part of; None if it was nothing.

    In this process turns follow by themselves; this is for what another process did.

    Raises:
        StoreError: the store failed.
    """
    using, scope = in_use(), _deciding()
    return using.follow(scope) if using is not None and using.bridge is bridge and scope is not None else None


def _deciding() -> Layer | None:
    """Return the scope that decides which conversation is in effect here."""
    return scope_of(current_layer(), CONVERSATION_ID.bit | _IDENTITIES)
