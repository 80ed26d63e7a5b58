"""How a call that may block is made from an event loop: in another thread."""

from __future__ import annotations

from asyncio import get_running_loop, to_thread
from collections.abc import Callable
from typing import TypeVar

from ctxruntime.conversation.stores.base import Store

__all__ = ["off_loop", "would_block_loop"]

R = TypeVar("R")


def would_block_loop(store: Store) -> bool:
    """Tell whether calls of this store are not to be made here: on an event loop of asyncio, whose threads we use."""
    if not store.blocks:
        return False
    try:
        get_running_loop()
    except RuntimeError:
        return False
    return True


async def off_loop(store: Store, call: Callable[[], R]) -> R:
    """Make a call that uses a store, without blocking an event loop of asyncio; under trio it blocks."""
    return await to_thread(call) if would_block_loop(store) else call()
