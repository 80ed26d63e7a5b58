"""What telemetry keeps for a layer: its attributes, and for a turn the open spans and the pins of its traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ctxruntime.keys import KEYS
from ctxruntime.layers import UNSET, Layer, amending

if TYPE_CHECKING:
    from weakref import ref

    from opentelemetry.sdk.trace import Span

    from ctxruntime.telemetry.values import Attribute

__all__ = ["CONVERSATION_KEY", "Pin", "RootView", "View", "conversation_of", "root_of", "view_of"]

Pin: TypeAlias = tuple[object, object, object]
"""The session id that a trace shows, the one before it, and the conversation; UNSET for what is not known yet."""

CONVERSATION_KEY: Final = "conversation_id"
FEWEST_SPANS: Final = 64
"""How many spans of one turn are looked through at most for nothing."""
KEPT_TRACES: Final = 128
"""How many traces of one turn are remembered at least, whether spans of them are open or not."""


class View:
    """What one processor keeps for a layer that derives from a turn's."""

    __slots__ = ("built", "by", "next", "root")

    root: RootView | None
    """The view of the turn's own layer; None in that view itself, where it would be a cycle."""
    built: tuple[Pin | None, dict[str, Attribute]] | None
    """The attributes of a trace with this pin; None until they are built, and after an amend."""

    def __init__(self, by: object, root: RootView | None) -> None:
        self.by: object = by
        self.root = root
        self.built = None
        self.next: View | None = None
        """The view of another processor."""

    def outdate(self) -> None:
        """Forget what was built, in the views of all processors: a key was amended."""
        view: View | None = self
        while view is not None:
            view.built = None
            if view.root is None:
                cast("RootView", view).latest = None
            view = view.next


class RootView(View):
    """What one processor keeps for a turn, or for the outermost bind where there is none."""

    __slots__ = ("latest", "limit", "pins", "room", "spans")

    latest: Pin | None
    """The pin of a trace that starts now; None until it is asked for, and after an amend."""

    def __init__(self, by: object) -> None:
        view: Any = self  # as in the base class, whose call would cost a hundredth of a turn; and typed there
        view.by = by
        view.root = view.built = view.next = None
        self.spans: Final[list[ref[Span]]] = []
        """The spans that were taken in and are not over, and some that are. A span holds its layer, nothing a span."""
        self.room: int = FEWEST_SPANS
        """How many of them there are before those that are over are dropped."""
        self.pins: Final[dict[int, Pin]] = {}
        """What each trace shows, by trace id."""
        self.latest = None
        self.limit: int = 2 * KEPT_TRACES
        """How many pins there are at most before those of traces that have ended are forgotten."""

    def learn(self, root: Layer | None) -> Pin | None:
        """Return the pin of a trace that starts now; None while the turn knows neither session nor conversation."""
        with amending():
            if root is not None:
                session, conversation = _peek_session(root) or UNSET, conversation_of(root)
                if session is not UNSET or conversation is not UNSET:
                    previous = UNSET if session is UNSET else _peek_previous(root)
                    self.latest = (session, previous, conversation)
            return self.latest

    def repin(self, root: Layer, *, previous: bool) -> None:
        """Add to the pins what was learned after the rest of them; `previous` is, if it came without a session id."""
        with amending():
            latest = self.latest or self.learn(root)
            if latest is None:
                return
            for trace, pin in self.pins.copy().items():  # other threads begin traces meanwhile
                session, before, conversation = pin
                if session is UNSET:
                    session, before = latest[:2]
                elif previous and session == latest[0]:
                    before = before or latest[1]
                fuller = (session, before, latest[2] if conversation is UNSET else conversation)
                if fuller != pin:
                    self.pins[trace] = fuller

    def open_spans(self) -> list[Span]:
        """Return the spans of the turn that are open."""
        spans = {reference() for reference in self.spans.copy()}
        return [span for span in spans if span is not None and span.is_recording()]

    def tidy(self) -> None:
        """Drop the spans that are over; those that other threads take in meanwhile stay."""
        with amending():
            count = len(self.spans)
            self.spans[:count] = kept = [
                reference
                for reference in self.spans[:count]
                if (span := reference()) is not None and span.is_recording()
            ]
            self.room = max(FEWEST_SPANS, 2 * len(kept))
            if len(self.pins) > self.limit:
                self._drop_pins()

    def _drop_pins(self) -> None:
        """Forget traces that have no open span, but for the newest: a turn may go on for weeks."""
        spans: list[Any] = self.open_spans()
        kept = {span.context.trace_id for span in spans}
        traces = list(self.pins.copy())  # other threads begin some meanwhile
        kept.update(traces[-KEPT_TRACES:])
        for trace in traces:
            if trace not in kept:
                del self.pins[trace]
        self.limit = 2 * max(KEPT_TRACES, len(self.pins))


_peek_session: Any = cast("Any", Layer).session_id.__get__
_peek_previous: Any = cast("Any", Layer).previous_session_id.__get__


def conversation_of(layer: Layer) -> object:
    """Return the conversation's id in a layer; UNSET where no bridge is in use."""
    key = KEYS.get(CONVERSATION_KEY)  # defined by whoever uses conversations
    return UNSET if key is None else key.peek(layer) or UNSET


def root_of(layer: Layer) -> Layer | None:
    """Return the turn, or the outermost bind where there is none; None where nothing is bound."""
    if layer.turn is not None:
        return cast("Layer", layer.turn)
    root, at = None, cast("Layer | None", layer)
    while at is not None:
        if at.binds:
            root = at
        at = at.parent
    return root


def find_view(layer: Layer, by: object) -> View | None:
    """Return what a processor keeps for a layer, if there is such a thing yet."""
    view: View | None = layer.mirrored
    while view is not None and view.by is not by:
        view = view.next
    return view


def view_of(layer: Layer, by: object) -> View | None:
    """Return what a processor keeps for a layer, made at the first need; None where nothing is bound."""
    with amending():
        view = find_view(layer, by)
        root = root_of(layer) if view is None else None
        if root is not None:
            view = RootView(by) if root is layer else View(by, cast("RootView", view_of(root, by)))
            view.next = layer.mirrored
            layer.mirrored = view
        return view
