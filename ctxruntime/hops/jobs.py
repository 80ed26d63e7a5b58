"""What a job, or a callback, that was handed over is wrapped in: it takes the state of the hand-over along."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Final, final

from ctxruntime.guarding import guard
from ctxruntime.layers import (
    CURRENT,
    ELSEWHERE,
    LINKED,
    NOTHING,
    Derived,
    Layer,
    current,
    derive,
    enter,
    leave,
    settle,
    write_links,
)

_get, _set = CURRENT.get, CURRENT.set

_capturing: Final = guard("hops: a job")
_calling: Final = guard("hops: a call with keys")


def copied_context() -> Context:
    """Return a copy of the whole context of this flow, without what was left from elsewhere."""
    if _get().token is ELSEWHERE:
        settle()
    return copy_context()


def keys_alone(layer: Layer, context: Context) -> Context:
    """Put a captured layer in effect in a context that nobody has entered yet; return the context."""
    context.run(_take_over, layer)
    return context


def _take_over(layer: Layer) -> None:
    if layer is not _get():
        _set(layer)
        write_links(layer, LINKED)


@final
class WholeJob:
    """Calls `fn` in a copy of the whole context in which this was made; by many at once, and again."""

    __slots__ = ("context", "fn")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn: Callable[..., Any] = fn
        self.context: Context = copied_context()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it, in a copy of its own."""
        return self.context.copy().run(self.fn, *args, **kwargs)


@final
class KeysJob:
    """Calls `fn` with the keys in effect that were so where this was made; by many at once, and again."""

    __slots__ = ("fn", "layer")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn: Callable[..., Any] = fn
        self.layer: Layer = current()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it, and give the caller its own state back."""
        # Not the captured layer itself: where it was entered, perhaps below others, leaving it would end it twice.
        layer: Derived | None = None
        with _calling:
            current()  # what was left elsewhere is settled before something stands on top of it
            layer = derive(self.layer)
            enter(layer)
        try:
            return self.fn(*args, **kwargs)
        finally:
            if layer is not None:
                _end(layer)


def _end(layer: Derived) -> None:
    """Leave a layer that a call had, and whatever the call left open on top of it."""
    if _get() is not layer:
        _set(layer)
    leave(layer)
    current()  # the call may have left what this uncovers


def whole_job(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fn` as a `WholeJob`; as it is, if it cannot be called or that fails."""
    if callable(fn):
        with _capturing:
            return WholeJob(fn)
    return fn


def keys_job(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fn` as a `KeysJob`; as it is, if it cannot be called or that fails."""
    if callable(fn):
        with _capturing:
            return KeysJob(fn)
    return fn


def without_keys(context: Context) -> Context:
    """Put nothing in effect in a context that nobody has entered yet; return the context."""
    return keys_alone(NOTHING, context)
