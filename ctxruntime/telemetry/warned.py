"""Warnings that wait until no lock of ours is held.

Attributes are built under the lock of the layers. A handler of the host's has a lock too, and what it does may
need ours: a thread in such a handler, and one that warns, would wait for each other for ever.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Final, cast

from ctxruntime.layers import amending

__all__ = ["WAITING", "tell", "warn"]

WAITING: Final[deque[tuple[str, tuple[object, ...]]]] = deque()
"""The warnings that are to be told; who releases the lock does so."""


def warn(message: str, *args: object) -> None:
    """Log a warning, or keep it for `tell` where the lock is held."""
    WAITING.append((message, args))
    if not cast("Any", amending())._is_owned():  # what threading.Condition asks; typeshed does not know it
        tell()


def tell() -> None:
    """Log what waits. The lock is not to be held."""
    while WAITING:
        try:
            message, args = WAITING.popleft()
        except IndexError:  # another thread tells it
            return
        logging.getLogger("ctxruntime").warning(message, *args)
