"""The spans that are open when a turn is entered, and those that are when it learns something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, final
from weakref import WeakSet, ref

from opentelemetry.trace import get_current_span

from ctxruntime.guarding import guard
from ctxruntime.keys import PREVIOUS_SESSION_ID, SESSION_ID
from ctxruntime.layers import amending
from ctxruntime.subscriptions import defer_behind, subscribe
from ctxruntime.telemetry.views import RootView, root_of, view_of

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

    from ctxruntime.keys import Key
    from ctxruntime.layers import Layer
    from ctxruntime.telemetry.spans import SessionSpanProcessor

__all__ = ["LAYER", "mark_outside", "started_watching", "stopped_watching"]

LAYER: Final = "_ctxruntime_layer"
"""Where a span keeps the layer that it serves. The exporters' copy of it has none."""
_OUTSIDE: Final = "_ctxruntime_outside"


@final
class _Outside:
    """A span that was started outside any turn, and will serve the first one that is entered in it."""

    __slots__ = ("__weakref__", "by", "parent", "span")

    def __init__(self, span: ref[Span], parent: ref[Span] | None) -> None:
        self.span: Final = span
        self.parent: Final = parent
        self.by: Final[list[SessionSpanProcessor]] = []
        _marks.add(ref(self, _marks.discard))


_marks: Final[set[ref[_Outside]]] = set()
"""Those that are alive: while there are none, no entering needs to look for its span, which costs a fiftieth of it."""


def mark_outside(span: Span, parent_context: Context | None, by: SessionSpanProcessor) -> None:
    """Remember that a span was started outside any turn, and under which one."""
    mark: _Outside | None = getattr(span, _OUTSIDE, None)
    if mark is None:
        above: _Outside | None = getattr(get_current_span(parent_context), _OUTSIDE, None)
        mark = _Outside(ref(span), None if above is None else above.span)
        setattr(span, _OUTSIDE, mark)
    mark.by.append(by)


@final
class _Watcher:
    """The one subscriber of all processors."""

    def entered(self, layer: Layer) -> None:
        """Take the current span, and those above it, into the turn if they are in none."""
        if not _marks:
            return
        try:
            mark: _Outside | None = getattr(get_current_span(), _OUTSIDE, None)
            if mark is None or root_of(layer) is not layer:
                return
            if not defer_behind(lambda: self._take_in_later(mark, layer)):
                self._take_in(mark, layer)
        except Exception as error:  # noqa: BLE001  # the guard's, without the cost of its `with`
            _entering.caught(error)

    async def _take_in_later(self, mark: _Outside, layer: Layer) -> None:
        """Do so when it is known which conversation it is: a span shows what it was given first."""
        with _entering:
            self._take_in(mark, layer)

    def _take_in(self, mark: _Outside | None, layer: Layer) -> None:
        while mark is not None:
            span = mark.span()
            if span is None or hasattr(span, LAYER):
                return
            if span.is_recording():
                if not _claimed(span, layer):
                    return
                for processor in mark.by:
                    view = view_of(layer, processor)
                    if view is not None:
                        processor.take(span, layer, view)
            above = None if mark.parent is None else mark.parent()
            mark = getattr(above, _OUTSIDE, None)

    def amended(self, layer: Layer, keys: Sequence[Key[Any]]) -> None:
        """Have the turn's open spans told."""
        with _amending:
            root = root_of(layer)
            view: Any = None if root is None else root.mirrored
            while view is not None:
                if isinstance(view, RootView) and root is not None:
                    # With a session id, the one before it belongs to a rotation.
                    view.repin(root, previous=PREVIOUS_SESSION_ID in keys and SESSION_ID not in keys)
                    processor: Any = view.by
                    processor.add_late(view)
                view = view.next


def _claimed(span: Span, layer: Layer) -> bool:
    """Have a span serve a turn; False if it serves one already: another thread may have entered it just now."""
    with amending():
        if hasattr(span, LAYER):
            return False
        setattr(span, LAYER, layer)
        return True


_entering: Final = guard("telemetry: a turn is entered")
_amending: Final = guard("telemetry: open spans are told what is new")
_watcher: Final = _Watcher()
_processors: Final[WeakSet[SessionSpanProcessor]] = WeakSet()
_stop: Final[list[Callable[[], None]]] = []


def started_watching(processor: SessionSpanProcessor) -> None:
    """Have a processor told of enterings and amends."""
    with amending():
        _processors.add(processor)
        if not _stop:
            _stop.append(subscribe(_watcher))


def stopped_watching(processor: SessionSpanProcessor) -> None:
    """Have the processor told no more; with the last of them the core has nobody to tell."""
    with amending():
        _processors.discard(processor)
        if not _processors and _stop:
            _stop.pop()()
