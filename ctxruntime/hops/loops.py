"""Event loops: a loop's exception handler, and its log record, see the keys of the flow that failed.

Everything else that a loop hands over (tasks, callbacks, timers, `to_thread`) Python carries itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Any, Final

from ctxruntime.guarding import guard
from ctxruntime.hops.patching import Patch
from ctxruntime.hops.versions import context_of
from ctxruntime.layers import CURRENT, ELSEWHERE, NOTHING, Derived, Layer, current, derive, enter, leave

# What asyncio names in the handler's argument, and in which order it looks for the context (from 3.12 on).
_FLOWS: Final = ("task", "future", "handle")


def asyncio_patches() -> list[Patch]:
    """Return the patches of asyncio's own loops, and of those derived from them, not yet applied."""
    from asyncio.base_events import BaseEventLoop

    return [Patch(BaseEventLoop, "call_exception_handler", _in_the_failing_flow)]


def uvloop_patches() -> list[Patch]:
    """Return the patches of uvloop's loop, not yet applied.

    The loop itself is a C type; the class that everybody makes loops of is Python's, derived from it, and the
    C code calls by name.
    """
    from uvloop import Loop

    return [Patch(Loop, "call_exception_handler", _in_the_failing_flow)]


def _in_the_failing_flow(original: Callable[..., None]) -> Callable[..., None]:
    def call_exception_handler(self: object, context: Any) -> None:
        entered: Derived | None = None
        with guard("call_exception_handler"):
            here, failing = current(), _failing_layer(context)
            if failing is not None and failing is not here:
                entered = derive(failing)
                enter(entered)
        try:
            original(self, context)
        finally:
            if entered is not None:
                leave(entered)

    return call_exception_handler


def _failing_layer(context: Any) -> Layer | None:
    """Return what is in effect in the flow that failed; None where no flow is named."""
    for name in _FLOWS:
        thing = context.get(name)
        found = None if thing is None else context_of(thing)
        if found is not None:
            return _layer_in(found)
    return None


def _layer_in(context: Context) -> Layer:
    layer = context.get(CURRENT, NOTHING)
    if layer.token is ELSEWHERE:
        with suppress(RuntimeError):  # entered at this moment, by another thread: it may be read, not settled
            return context.run(current)
    return layer
