"""How a store that fails is left alone: the turns that come go on without it, and do not wait for it one by one."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Final, final

from ctxruntime.conversation.errors import StoreError
from ctxruntime.layers import amending

__all__ = ["FIRST_PAUSE", "LONGEST_PAUSE", "Outage"]

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
"""Seconds for which a store that failed is left alone: doubled each time it fails again."""

_LOG: Final = logging.getLogger("ctxruntime")


@final
class Outage:
    """Whether a store is failing, and until when it is left alone.

    Of those who come after a pause one tries, and until it has an answer the others go on without.
    """

    __slots__ = ("_failures", "_pause", "_until")

    def __init__(self) -> None:
        self._pause: float = 0.0
        self._until: float = 0.0
        self._failures: int = 0

    @property
    def failures(self) -> int:
        """How often it failed: to be told to `failed` by whoever asks it now."""
        return self._failures

    @property
    def left_alone(self) -> bool:
        """Whether the store is left alone now."""
        return time.monotonic() < self._until

    def may_try(self) -> bool:
        """Tell whether to ask the store now; who is told so says then how it went."""
        with amending():
            now = time.monotonic()
            if now < self._until:
                return False
            if self._pause:
                self._until = now + LONGEST_PAUSE
            return True

    def answered(self) -> None:
        """Take note that the store does what it is asked."""
        self._pause = self._until = 0.0

    def failed(self, error: StoreError, before: int) -> None:
        """Take note that it failed; of calls that began at one time, after `before` failures, the first one counts."""
        with amending():
            if before != self._failures:
                return
            self._failures += 1
            first = self._pause == 0.0
            self._pause = FIRST_PAUSE if first else min(2 * self._pause, LONGEST_PAUSE)
            self._until = time.monotonic() + self._pause
        if first:
            with suppress(Exception):  # a handler or filter of the host's may raise
                _LOG.warning(
                    "the store of conversations failed, and turns go on without a conversation until it answers "
                    "(logged once): %s",
                    str(error),  # not the error: who keeps the record would keep the turn
                )
