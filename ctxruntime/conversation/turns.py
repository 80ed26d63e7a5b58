"""A bridge in use: turns consult it and teach it, and each knows its conversation.

with use(bridge):
    with session(gateway_session_key="chat-7"):
        current()                           # the conversation of this chat
        amend(session_id="s1")              # the bridge learns it
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, final
from weakref import ref

from ctxruntime.conversation.blocking import off_loop, would_block_loop
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import NoConversationError, StoreError
from ctxruntime.conversation.identity import Identity
from ctxruntime.conversation.keys import CONVERSATION_ID
from ctxruntime.conversation.notices import kept_of, watch
from ctxruntime.conversation.outage import Outage
from ctxruntime.conversation.records import Conversation
from ctxruntime.guarding import guard
from ctxruntime.keys import GATEWAY_SESSION_KEY, SESSION_ID, Key
from ctxruntime.layers import UNSET, Layer, Unset, amending, scope_of, tell_amended, write
from ctxruntime.layers import current as current_layer
from ctxruntime.subscriptions import defer, subscribe

__all__ = ["Use", "aconversation_id", "conversation_id", "current", "follow", "in_use", "use"]

_IDENTITIES: Final = SESSION_ID.bit | GATEWAY_SESSION_KEY.bit
_guarded: Final = guard("conversation: the conversation of a turn")

_HELD: Final[dict[int, tuple[ref[Layer], ref[Bridge]]]] = {}
"""The layers that have a conversation, and the bridge that it is from, by `id`, as long as somebody holds them."""


@final
class Use:
    """A bridge in use; `use` makes it, and `stop()` ends it. As a context manager it ends with the block."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge: Final = bridge
        self._outage: Final = Outage()
        self._endings: Final = (subscribe(self, first=True), watch(self))

    @property
    def left_alone(self) -> bool:
        """Whether the store failed, and is not asked now."""
        return self._outage.left_alone

    def stop(self) -> None:
        """Consult the bridge no more; turns keep the conversation that they have. Again is harmless."""
        for end in self._endings:
            end()
        with suppress(ValueError):  # it was stopped already
            _IN_USE.remove(self)

    def __enter__(self) -> Use:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.stop()

    def entered(self, layer: Layer) -> None:
        """Resolve what a turn, or a bind, says of who is served."""
        if in_use() is not self:
            return
        with _guarded:
            if layer is not layer.turn and not layer.binds & _IDENTITIES:
                return
            # Nobody served yet is what a turn starts from; a bind would go on with the conversation around it.
            identity = Identity.of(layer)
            if identity.is_known or layer is not layer.turn:
                self._consult(layer, identity)

    def amended(self, layer: Layer, keys: Sequence[Key[Any]]) -> None:
        """Resolve again, where an identity was learned or changed."""
        if in_use() is not self or not (SESSION_ID in keys or GATEWAY_SESSION_KEY in keys):
            return
        with _guarded:
            if GATEWAY_SESSION_KEY in keys and layer.taken:
                layer.taken &= ~GATEWAY_SESSION_KEY.bit  # its own from now on
            self._consult(layer, Identity.of(layer))

    def merged(self, kept: Conversation, other: Conversation) -> None:
        """Have the turns of a conversation that became part of another follow it."""
        with amending():  # what is just being bound is there, or sees the merge by itself
            held = list(_HELD.values())
        for reference, bridge in held:
            layer = reference()
            if layer is not None and bridge() is self.bridge:
                self._put(layer, kept.id, instead_of=other.id)

    def ended(self, conversation: Conversation) -> None:
        """Do nothing: a turn keeps its conversation, also one that is gone."""

    def of(self, scope: Layer | None) -> str | None:
        """Return the id of the conversation that a scope has by itself, in this bridge; None if it is not known."""
        if scope is None or not (scope is scope.turn or scope.binds & CONVERSATION_ID.bit):
            return None
        held, bound = _HELD.get(id(scope)), CONVERSATION_ID.peek(scope)
        is_foreign = held is not None and held[1]() is not self.bridge
        return None if bound is UNSET or is_foreign else str(bound)

    def ask(self, scope: Layer) -> str | None:
        """Resolve a scope now, whatever happened before; return the conversation's id, None if it says of none.

        Raises:
            StoreError: the store failed.
        """
        while True:
            identity, failures = Identity.of(scope), self._outage.failures
            try:
                found = identity.resolved(self.bridge)
            except StoreError as error:
                self._outage.failed(error, failures)
                raise
            if found is None:
                return None
            self._outage.answered()
            if self._put(scope, found.id, identity):
                return found.id

    def follow(self, scope: Layer) -> str | None:
        """Find a scope's conversation again, after another process made it part of another; None if it is gone.

        Raises:
            StoreError: the store failed.
        """
        identity = Identity.of(scope)
        found = identity.found(self.bridge)
        if found is None:
            return None
        self._put(scope, found.id, identity)
        return found.id

    def _consult(self, layer: Layer, identity: Identity) -> None:
        """Resolve a scope, at once or before the door lets in."""
        waits = would_block_loop(self.bridge.store) and identity.is_known and not self._outage.left_alone
        if not (waits and defer(partial(self._off_loop, layer, identity))):
            self._resolve(layer, identity)

    async def _off_loop(self, layer: Layer, identity: Identity) -> None:
        with _guarded:
            try:
                await to_thread(self._resolve, layer, identity)
            except BaseException:
                self._put(layer, UNSET)  # what it had is another's, if it was amended
                raise

    def _resolve(self, layer: Layer, identity: Identity) -> None:
        """Bind the conversation of what a scope says; again if it says something else by then."""
        while True:
            found = self._found(identity)
            if self._put(layer, UNSET if found is None else found.id, identity):
                return
            identity = Identity.of(layer)

    def _found(self, identity: Identity) -> Conversation | None:
        """Return a conversation, found or made; None if nothing is known, or the store fails or is left alone."""
        found: Conversation | None = None
        with _guarded:
            if identity.is_known and self._outage.may_try():
                failures = self._outage.failures
                try:
                    found = identity.resolved(self.bridge)
                except StoreError as error:
                    self._outage.failed(error, failures)
                else:
                    self._outage.answered()
        return found

    def _put(
        self,
        layer: Layer,
        conversation: str | Unset,
        identity: Identity | None = None,
        *,
        instead_of: str | None = None,
    ) -> bool:
        """Bind a conversation in the scope that says whose it is; False if it says, or has, another one by now."""
        with amending():
            if identity is not None and not identity.is_of(layer):
                return False
            if instead_of is not None and CONVERSATION_ID.peek(layer) != instead_of:
                return False
            if layer is not layer.turn:
                layer.binds |= CONVERSATION_ID.bit
            if conversation is not UNSET:
                conversation = kept_of(conversation)
                self._hold(layer)
            if CONVERSATION_ID.peek(layer) == conversation:
                return True
            write(layer, CONVERSATION_ID, conversation)
        tell_amended([(layer, CONVERSATION_ID, conversation)])
        return True

    def _hold(self, layer: Layer) -> None:
        place = id(layer)
        held = _HELD.get(place)
        if held is None or held[1]() is not self.bridge:
            _HELD[place] = ref(layer, lambda _: _HELD.pop(place, None)), ref(self.bridge)


_IN_USE: Final[list[Use]] = []


def use(bridge: Bridge) -> Use:
    """Have turns consult a bridge and teach it, from now on; return what ends that.

    Entering a turn, and amending an identity in it, resolve what is bound, and bind `conversation_id` in the same
    scope; a `bind(session_id=...)` in a turn is a sub-agent's. Of several bridges in use the turns have the one that
    was put to use last. A store that fails never breaks a turn: it is logged once, and left alone for a while. `async
    with session(...)` and decorated coroutine functions wait for their store without blocking the event loop.

    A turn that took its gateway key over (`take=`) and knows its session id is of that id's conversation: what is
    taken over moves no chat.
    """
    using = Use(bridge)
    _IN_USE.append(using)
    return using


def in_use() -> Use | None:
    """Return the bridge in use, if there is one."""
    last = _IN_USE[-1:]  # in one step: another thread may stop it
    return last[0] if last else None


def current() -> Conversation | None:
    """Return the conversation in effect here, as it is now; None where none was bound, or it is gone.

    Raises:
        StoreError: the store failed.
    """
    using, scope = in_use(), _deciding()
    id = None if using is None else using.of(scope)
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
        id = using.of(scope)
        if id is None and scope is not None:
            id = using.ask(scope)
    elif scope is not None:
        found = Identity.of(scope).resolved(bridge)
        id = None if found is None else found.id
    if id is None:
        raise NoConversationError(wanted_by)
    return id


async def aconversation_id(bridge: Bridge, wanted_by: str) -> str:
    """Do what `conversation_id` does, without blocking the event loop."""
    using = in_use()
    known = None if using is None or using.bridge is not bridge else using.of(_deciding())
    if known is not None:
        return known
    return await off_loop(bridge.store, lambda: conversation_id(bridge, wanted_by))


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
