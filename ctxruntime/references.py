"""Weak references to what comes and goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _weakref import ref
    from typing import Final

T = TypeVar("T")

FEWEST: Final = 16
"""How many references are looked through at most for nothing."""


class References(list["ref[T]"]):
    """References to what is in use, and to some that is gone: a callback of each would cost its owner more.

    Whoever appends calls `tidy` when there are more than `room`.
    """

    __slots__ = ("room",)

    def __init__(self) -> None:
        self.room: int = FEWEST

    def tidy(self) -> None:
        """Drop those to what is gone. Its caller holds a lock; what a finalizer appends meanwhile stays."""
        count = len(self)
        self[:count] = kept = [reference for reference in self[:count] if reference() is not None]
        self.room = max(FEWEST, 2 * len(kept))
