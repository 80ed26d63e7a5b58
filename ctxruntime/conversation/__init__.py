"""Which ids are one conversation, and what is kept for it.

    from ctxruntime import conversation

    bridge = conversation.Bridge("sqlite:conversations.db")
    with conversation.use(bridge):      # turns consult and teach it from now on
        ...

A *conversation* is what stays the same while session ids rotate; a *bridge* knows which gateway key and session ids
are one. `ConversationState` keeps a small mapping for each, in the bridge's store; `ConversationLocal` an object for
each, in this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxruntime.conversation.bridge import Bridge
    from ctxruntime.conversation.errors import (
        ConversationGoneError,
        NoConversationError,
        StateTooLargeError,
        StoreBusyError,
        StoreCorruptError,
        StoreError,
        StoreFullError,
        StoreReadOnlyError,
        StoreUnavailableError,
        StoreVersionError,
    )
    from ctxruntime.conversation.keys import CONVERSATION_ID
    from ctxruntime.conversation.local import ConversationLocal
    from ctxruntime.conversation.records import Conversation
    from ctxruntime.conversation.state import ConversationState
    from ctxruntime.conversation.stores import MemoryStore, PostgresStore, RedisStore, SQLiteStore, open_store
    from ctxruntime.conversation.turns import Use, current, use

__all__ = [
    "CONVERSATION_ID",
    "Bridge",
    "Conversation",
    "ConversationGoneError",
    "ConversationLocal",
    "ConversationState",
    "MemoryStore",
    "NoConversationError",
    "PostgresStore",
    "RedisStore",
    "SQLiteStore",
    "StateTooLargeError",
    "StoreBusyError",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "StoreVersionError",
    "Use",
    "current",
    "open_store",
    "use",
]

_LATER = {
    "bridge": ("Bridge",),
    "errors": (
        *("ConversationGoneError", "NoConversationError", "StateTooLargeError", "StoreBusyError", "StoreCorruptError"),
        *("StoreError", "StoreFullError", "StoreReadOnlyError", "StoreUnavailableError", "StoreVersionError"),
    ),
    "keys": ("CONVERSATION_ID",),
    "local": ("ConversationLocal",),
    "records": ("Conversation",),
    "state": ("ConversationState",),
    "stores": ("MemoryStore", "PostgresStore", "RedisStore", "SQLiteStore", "open_store"),
    "turns": ("Use", "current", "use"),
}


def __getattr__(name: str) -> object:
    """Load upon first use: a store brings its client with it."""
    for module, names in _LATER.items():
        if name in names:
            from importlib import import_module

            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
