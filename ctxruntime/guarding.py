"""Keep faults of ours from the host: `guard`, the one that the core and every integration use."""

from __future__ import annotations

from _thread import RLock  # threading would cost what `import ctxruntime` must not
from contextlib import suppress
from types import TracebackType
from typing import final

from ctxruntime.layers import renew_in_child

__all__ = ["fault_counts", "guard"]

_counting = RLock()
_counts: dict[str, int] = {}
renew_in_child(globals(), "_counting")


@final
class guard:
    """Run a block of ours in a host's path: an ``Exception`` of it ends here.

    It is logged once per site, to the logger ``ctxruntime`` with the traceback, counted each time, and the
    host's call goes on behind the block. What is no ``Exception`` (a cancellation, ``KeyboardInterrupt``)
    passes. The host's own call never belongs into the block: its errors are the host's.

    One object can be used by many threads at once, and again.

    >>> def read_chat_key(event: object) -> str | None:
    ...     with guard("example host: chat key"):
    ...         return str(event.chat_key)
    ...     return None
    >>> read_chat_key(None) is None, fault_counts()["example host: chat key"]
    (True, 1)
    """

    __slots__ = ("site",)

    def __init__(self, site: str) -> None:
        self.site: str = site

    def __enter__(self) -> None:
        """Do nothing: a guarded block that goes well costs next to nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.caught(error)
        return True

    def caught(self, error: Exception) -> None:
        """Log and count a fault: for an ``except`` where even a ``with`` that goes well would cost too much."""
        with _counting:
            count = _counts[self.site] = _counts.get(self.site, 0) + 1
        if count == 1:
            _log(self.site, error)


def fault_counts() -> dict[str, int]:
    """Return how often a block under ``guard`` failed in this process, by site."""
    with _counting:
        return dict(_counts)


def _log(site: str, error: Exception) -> None:
    import logging

    # A handler or filter of the host's may raise, and then there is nobody left to tell.
    with suppress(Exception):
        logging.getLogger("ctxruntime").warning(
            "%s: the call goes on without ctxruntime (logged once, counted from here on)",
            site,
            exc_info=error,
        )
