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

_listed: dict[str, set[str]] = {}
"""The names that are denied now, by their last part: hardly ever is there anything more to compare."""


def extend(names: Iterable[str]) -> None:
    """Deny further targets and classes, by qualified name."""
    for name in names:
        _listed.setdefault(name.rpartition(".")[2], set()).add(name)


def reset() -> None:
    """Deny what ships, and nothing else."""
    _listed.clear()
    extend(SHIPPED)


reset()


def is_denied(thread: Thread) -> bool:
    """Tell whether a thread must be born with nothing."""
    cls = type(thread)
    if cls is not Thread and any(map(_is_listed, cls.__mro__)):
        return True
    return is_denied_target(getattr(thread, "_target", None))


def is_denied_target(target: Any) -> bool:
    """Tell whether what a thread runs names one that must be born with nothing."""
    while isinstance(target, partial):
        target = target.func
    return _is_listed(getattr(target, "__func__", target))


def _is_listed(found: Any) -> bool:
    names = _listed.get(getattr(found, "__name__", ""))
    return names is not None and f"{found.__module__}.{found.__qualname__}" in names
