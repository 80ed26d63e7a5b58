"""Who is told what the core does: telemetry and conversations, of which the core knows nothing else."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from ctxruntime.layers import SUBSCRIBERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any, TypeAlias, TypeVar

    from ctxruntime.keys import Key
    from ctxruntime.layers import Layer

    R = TypeVar("R")
    Work: TypeAlias = Callable[[], Awaitable[object]]

__all__ = ["Subscriber", "defer", "defer_behind", "entered_async", "subscribe"]


class Subscriber(Protocol):
    """What is told of every entering and every amend, in the flow that does it.

    Both are called inside a host's `with session(...)` or `amend(...)`: they must be quick, and an exception of
    theirs reaches the host. A subscriber therefore guards itself (`guarding.guard`), and what would block it may
    `defer`.
    """

    def entered(self, layer: Layer) -> None:
        """Take note that a turn, a bind, a joined door or a cleared scope was entered.

        What changed is everything for a turn, else what `layer.binds`. The layer is in effect; that of a decorated
        generator or coroutine will be at its first step. What was only carried here (snapshots, pool jobs) is
        not told.
        """
        ...

    def amended(self, layer: Layer, keys: Sequence[Key[Any]]) -> None:
        """Take note that these keys have other values where `layer`, a turn's or a bind's own, binds them.

        Every layer that derives from it has the values already, and no lock is held.
        """
        ...


def subscribe(subscriber: Subscriber, *, first: bool = False) -> Callable[[], None]:
    """Have `subscriber` told from now on; return what ends that, which can be called twice.

    Subscribing twice is subscribing once. While nobody subscribes, the core does nothing for it. Who is to bind
    something for the others to see is told `first`.
    """
    if subscriber not in SUBSCRIBERS:
        SUBSCRIBERS.insert(0 if first else len(SUBSCRIBERS), subscriber)

    def unsubscribe() -> None:
        if subscriber in SUBSCRIBERS:
            SUBSCRIBERS.remove(subscriber)

    return unsubscribe


_waiting: ContextVar[list[Work] | None] = ContextVar("ctxruntime_waiting", default=None)


def defer(work: Work) -> bool:
    """Have the door that is being entered await some work before it lets in; False if this door cannot wait."""
    waiting = _waiting.get()
    if waiting is None:
        return False
    waiting.append(work)
    return True


def defer_behind(work: Work) -> bool:
    """Have some work awaited after what others deferred already; False if nobody has."""
    return bool(_waiting.get()) and defer(work)


async def entered_async(enter: Callable[[], R], leave: Callable[[Any], object]) -> R:
    """Call what enters a scope, and await what its subscribers deferred; leave it again if that is cancelled.

    `leave` is called with what `enter` returned.
    """
    waiting: list[Work] = []
    token = _waiting.set(waiting)
    try:
        entered = enter()
    finally:
        _waiting.reset(token)
    try:
        for work in waiting:
            await work()
    except BaseException:
        leave(entered)
        raise
    return entered
