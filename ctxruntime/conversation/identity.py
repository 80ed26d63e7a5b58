"""What a scope says of who is served in it, and the conversation that this is."""

from __future__ import annotations

from typing import NamedTuple

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores.base import KEY, SESSION, Ref
from ctxruntime.keys import GATEWAY_SESSION_KEY, SESSION_ID, Key
from ctxruntime.layers import UNSET, Layer

__all__ = ["Identity"]


class Identity(NamedTuple):
    """What the layer of a turn, or of a bind, says by itself; None is not known."""

    key: str | None
    session: str | None
    parent: Ref | None = None
    """The session, else the chat, in which a sub-agent was started."""

    @classmethod
    def of(cls, layer: Layer) -> Identity:
        """Read it from a layer."""
        key, session = _known(layer, GATEWAY_SESSION_KEY), _known(layer, SESSION_ID)
        if layer is layer.turn:
            # What was taken over is no news of the chat: it may have moved on, or never was in this session.
            return cls(None if layer.taken & GATEWAY_SESSION_KEY.bit and session is not None else key, session)
        if not layer.binds & GATEWAY_SESSION_KEY.bit:
            key = None
        elif key is None and not layer.binds & SESSION_ID.bit:
            return cls(None, session)  # the chat is not known here; the session is as in effect
        if not layer.binds & SESSION_ID.bit:
            return cls(key, None)
        above = None if layer.turn is None else layer.parent
        if above is None or session is None or key not in (None, _known(above, GATEWAY_SESSION_KEY)):
            return cls(key, session)
        return cls(None, session, _nearest(above))

    @property
    def is_known(self) -> bool:
        """Whether it says anything."""
        return self.key is not None or self.session is not None

    def is_of(self, layer: Layer) -> bool:
        """Tell whether the layer says the same still; what is known of a parent may have changed."""
        return Identity.of(layer)[:2] == self[:2]

    def resolved(self, bridge: Bridge) -> Conversation | None:
        """Return the conversation, found or made; None if nothing is known.

        Raises:
            StoreError: the store failed.
        """
        if self.session is not None and self.parent is not None:
            return bridge.resolve_child(self.session, self.parent)
        return bridge.resolve(gateway_session_key=self.key, session_id=self.session) if self.is_known else None

    def found(self, bridge: Bridge) -> Conversation | None:
        """Return the conversation, if there is one; see `resolved`."""
        return bridge.find(gateway_session_key=self.key, session_id=self.session) if self.is_known else None


def _nearest(layer: Layer) -> Ref | None:
    session, key = _known(layer, SESSION_ID), _known(layer, GATEWAY_SESSION_KEY)
    if session is not None:
        return SESSION, session
    return None if key is None else (KEY, key)


def _known(layer: Layer, key: Key[str]) -> str | None:
    value = key.peek(layer)
    return None if value is UNSET or value == "" else str(value)
