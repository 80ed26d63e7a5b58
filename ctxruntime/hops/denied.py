"""The deny list: threads that live as long as the process, and must be born with nothing.

Such a thread serves everybody. Were it born with the state of whoever happened to need it first, it would show
that session for the work of all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from threading import Thread
from typing import Any, Final

SHIPPED: Final = frozenset(
    {
        # The standard library: pool workers, listeners, feeders, event loops.
        "concurrent.futures.thread._worker",
        "concurrent.futures.process._ExecutorManagerThread",
        "multiprocessing.pool.Pool._handle_results",
        "multiprocessing.pool.Pool._handle_tasks",
        "multiprocessing.pool.Pool._handle_workers",
        "multiprocessing.pool.worker",
        "multiprocessing.queues.Queue._feed",
        "logging.handlers.QueueListener._monitor",
        "asyncio.base_events.BaseEventLoop.run_forever",
        "uvloop.loop.Loop.run_forever",
    }
)
"""What no program wants otherwise."""

_extra: set[str] = set()


def extend(names: Iterable[str]) -> None:
    """Deny further targets and classes, by qualified name."""
    _extra.update(names)


def reset() -> None:
    """Deny what ships, and nothing else."""
    _extra.clear()


def is_denied(thread: Thread) -> bool:
    """Tell whether a thread must be born with nothing."""
    cls = type(thread)
    if cls is not Thread and any(_is_listed(f"{base.__module__}.{base.__qualname__}") for base in cls.__mro__):
        return True
    return is_denied_target(getattr(thread, "_target", None))


def is_denied_target(target: Any) -> bool:
    """Tell whether what a thread runs names one that must be born with nothing."""
    while isinstance(target, partial):
        target = target.func
    target = getattr(target, "__func__", target)
    return _is_listed(f"{getattr(target, '__module__', None)}.{getattr(target, '__qualname__', None)}")


def _is_listed(name: str) -> bool:
    return name in SHIPPED or name in _extra
