"""Where conversations are kept: a store for every need, behind one small protocol (`base.Store`).

open_store("memory:")                          # this process, bounded
open_store("sqlite:conversations.db")          # every process of this machine, over restarts
open_store("redis://127.0.0.1:6379/0")         # several machines
open_store("postgresql://bot@127.0.0.1/bots")  # several machines
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxruntime.conversation.stores.opening import open_store

if TYPE_CHECKING:
    from ctxruntime.conversation.stores.base import Store
    from ctxruntime.conversation.stores.memory import MemoryStore
    from ctxruntime.conversation.stores.postgres import PostgresStore
    from ctxruntime.conversation.stores.redis import RedisStore
    from ctxruntime.conversation.stores.sqlite import SQLiteStore

__all__ = ["MemoryStore", "PostgresStore", "RedisStore", "SQLiteStore", "Store", "open_store"]

_LATER = {
    "base": "Store",
    "memory": "MemoryStore",
    "postgres": "PostgresStore",
    "redis": "RedisStore",
    "sqlite": "SQLiteStore",
}


def __getattr__(name: str) -> object:
    """Load a store upon first use: each brings its client with it."""
    for module, cls in _LATER.items():
        if cls == name:
            from importlib import import_module

            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
