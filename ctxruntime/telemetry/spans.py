"""Every span that is started while keys are bound carries them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, final
from weakref import ref

from opentelemetry.trace import get_current_span

from ctxruntime.guarding import guard
from ctxruntime.keys import KEYS, REVISIONS
from ctxruntime.layers import CURRENT, ELSEWHERE, NOTHING, UNSET, Layer, amending, current
from ctxruntime.telemetry.building import Build, compile_build
from ctxruntime.telemetry.open_spans import LAYER, mark_outside, started_watching, stopped_watching
from ctxruntime.telemetry.presets import PREVIOUS, Preset, preset_named
from ctxruntime.telemetry.sdk import Span, SpanProcessor
from ctxruntime.telemetry.views import (
    CONVERSATION_KEY,
    Pin,
    RootView,
    View,
    conversation_of,
    find_view,
    root_of,
    view_of,
)
from ctxruntime.telemetry.warned import WAITING, tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.context import Context

    from ctxruntime.telemetry.values import Attribute

__all__ = ["SessionSpanProcessor"]

TRACE_ID: Final = 0
"""Where a span's context, a tuple, has the id of its trace; the property of that name costs a call."""
_here = CURRENT.get
_starting: Final = guard("telemetry: a span starts")


@final
class SessionSpanProcessor(SpanProcessor):
    """Mirror the keys in effect on every span of a provider; add it before the exporters (`add_to`).

    What a span carries, for each attribute: what its creator gave it at start; else, if it was given a parent that
    belongs to another turn, the keys of that parent; else the keys in effect. Keys that are not bound and empty
    text are not shown. Facts that are learned later reach the spans of the turn that are open, the one that was
    open when the turn was entered included: what is absent there is added, and nothing rewritten.

    A trace belongs to one session, as backends have it: all spans of a turn in one trace show the turn's session
    id as first known there. A rotation shows from the next trace on, with `session.previous_id`; the session id
    of a nested `bind`, a sub-agent's, is shown as `ctxruntime.session.id`.

    Spans that are not recorded cost nothing. With the SDK's ConcurrentMultiSpanProcessor, whose threads start
    the spans' processors, `ctxruntime.install()` is needed.

    Args:
        preset: whose attribute names to use; see `presets`.
        pin: `"trace"`, as above, or `"span"`: each span shows the session id in effect where it started.
        group_by: what `session.id` is: the `"session"`, or the `"conversation"` that goes on while session ids
            rotate. Where no conversation is known the latter is as the former.

    Raises:
        UnknownPresetError: there is no such preset.
        ValueError: `pin` or `group_by` is none of the above.

    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> from ctxruntime import session
    >>> provider = TracerProvider()
    >>> provider.add_span_processor(SessionSpanProcessor())
    >>> with session(session_id="s1"):
    ...     span = provider.get_tracer("docs").start_span("work")
    >>> span.attributes["session.id"]
    's1'
    """

    def __init__(
        self,
        preset: str | Preset = "otel",
        pin: Literal["trace", "span"] = "trace",
        group_by: Literal["session", "conversation"] = "session",
    ) -> None:
        if pin not in ("trace", "span"):
            raise ValueError(f"pin is 'trace' or 'span', not {pin!r}")
        if group_by not in ("session", "conversation"):
            raise ValueError(f"group_by is 'session' or 'conversation', not {group_by!r}")
        self.preset: Final[Preset] = preset_named(preset)
        self.pin: Final = pin
        self.group_by: Final = group_by
        self._pins: Final = pin == "trace"
        self._build: Any = None  # a Build, from the first span on
        self._built_for = -1
        self._has_conversations = False
        self._session_names: Final = frozenset(self.preset.names.get("session_id", ()))
        started_watching(self)

    def __repr__(self) -> str:
        return f"<SessionSpanProcessor preset={self.preset.name} pin={self.pin} group_by={self.group_by}>"

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Give a span that starts its attributes."""
        try:
            layer = _here()
            if parent_context is not None or layer.token is ELSEWHERE:
                layer = _meant(parent_context)
            if layer is not NOTHING:
                view = layer.mirrored
                if view is None and layer.is_root and self._begin(layer, span):
                    return
                if view is None or view.by is not self:
                    view = find_view(layer, self) or view_of(layer, self)
                if view is not None:
                    self.take(span, layer, view)
                    return
            mark_outside(span, parent_context, self)
        except Exception as error:  # noqa: BLE001  # the guard's, without the cost of its `with`
            _starting.caught(error)

    def take(self, span: Any, layer: Layer, view: View) -> None:
        """Add what is absent on a span that serves the turn of a layer from now on."""
        root: Any = view.root or view  # a view without a root is a RootView
        setattr(span, LAYER, layer)
        # Registered before it is read what to add: an amend meanwhile either shows in that, or finds the span.
        spans = root.spans
        spans.append(ref(span))
        if len(spans) > root.room:
            root.tidy()
        latest, built = root.latest, view.built
        # Most spans begin a trace of a turn that has learned nothing since the one before, and were given nothing.
        if (
            latest is None
            or built is None
            or root.pins.setdefault(span.context[TRACE_ID], latest) is not built[0]
            or getattr(getattr(span, "_attributes", None), "_dict", True)
        ):
            self.show(span, layer, view, root)
        else:
            span.set_attributes(built[1])

    def show(self, span: Span, layer: Layer, view: View, root: Any) -> None:
        """Add what is absent on a span of the turn."""
        built = view.built
        if self._pins:
            context: Any = span.context  # a span of the SDK's has one
            latest = root.latest
            if latest is None:
                latest = root.learn(root_of(layer))
            pin = root.pins.setdefault(context.trace_id, latest) if latest else root.pins.get(context.trace_id)
            if built is None or built[0] is not pin:
                built = self._built(layer, view, pin)
        elif built is None:
            built = self._built(layer, view, None)
        attributes: Mapping[str, Attribute] = built[1]
        # Only if something is there is it worth the proxy that the public attribute makes; so too above and below.
        if getattr(getattr(span, "_attributes", None), "_dict", True):
            attributes = self._absent(attributes, span.attributes or {})
        if len(attributes) > 2:
            span.set_attributes(attributes)
        else:
            for name, value in attributes.items():
                span.set_attribute(name, value)

    def add_late(self, view: RootView) -> None:
        """Add what a turn has learned to its spans that are open."""
        current()  # reads below take a layer that was left elsewhere as it stands, once it is not in effect here
        for span in view.open_spans():
            layer = getattr(span, LAYER)
            of = view_of(layer, self)
            if of is not None:
                self.show(span, layer, of, view)

    def _begin(self, turn: Layer, span: Any) -> bool:
        """Do at once, for the first span of a turn, what `show` would do bit by bit: most turns have few spans."""
        if getattr(getattr(span, "_attributes", None), "_dict", True):
            return False
        lock = amending()
        lock.acquire()  # `with` would cost a hundredth of a turn
        try:
            if turn.mirrored is not None:
                return False
            build = self._build if self._built_for == len(REVISIONS) else self._compile()
            session, previous = turn.session_id, turn.previous_session_id
            conversation = conversation_of(turn) if self._has_conversations else UNSET
            pin: Pin | None = None
            view = RootView(self)
            if self._pins:
                if not session:  # UNSET, or an empty text
                    session = previous = UNSET
                if session or conversation:
                    pin = view.latest = view.pins[span.context[TRACE_ID]] = (session, previous, conversation)
            attributes = build(turn, session, previous, UNSET, conversation)
            view.built = (pin, attributes)
            setattr(span, LAYER, turn)
            view.spans.append(ref(span))
            turn.mirrored = view
        finally:
            lock.release()
        span.set_attributes(attributes)
        if WAITING:
            tell()
        return True

    def _compile(self) -> Build:
        """Return what builds the attributes of the keys that are defined now."""
        count = len(REVISIONS)
        self._build = build = compile_build(self.preset, self.group_by)
        self._has_conversations = CONVERSATION_KEY in KEYS
        self._built_for = count
        return build

    def _built(self, layer: Layer, view: View, pin: Pin | None) -> tuple[Pin | None, dict[str, Attribute]]:
        with amending():  # an amend between the reading and the keeping would be forgotten
            build = self._build if self._built_for == len(REVISIONS) else self._compile()
            session, previous, conversation = layer.session_id, layer.previous_session_id, conversation_of(layer)
            own: object = UNSET
            if self._pins:
                turns = session if view.root is None else getattr(root_of(layer), "session_id", UNSET)
                own = session if session not in (turns, pin and pin[0]) else UNSET
                session, previous, conversation = pin or (UNSET, UNSET, UNSET)
            built = view.built = (pin, build(layer, session, previous, own, conversation))
        if WAITING:
            tell()
        return built

    def _absent(self, attributes: Mapping[str, Attribute], given: Mapping[str, object]) -> Mapping[str, Attribute]:
        """Return what a span lacks; the session before is that of another one if its session id is not ours."""
        if attributes.keys().isdisjoint(given):
            return attributes
        absent = {name: value for name, value in attributes.items() if name not in given}
        if PREVIOUS in absent and any(given.get(name, shown) != shown for name, shown in self._sessions(attributes)):
            del absent[PREVIOUS]
        return absent

    def _sessions(self, attributes: Mapping[str, Attribute]) -> Iterator[tuple[str, Attribute]]:
        return ((name, attributes[name]) for name in self._session_names if name in attributes)

    def shutdown(self) -> None:
        """Stop telling open spans what is learned."""
        stopped_watching(self)

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Return True: nothing is kept back."""
        return True


def _meant(parent_context: Context | None) -> Layer:
    """Return the layer in effect, or that of a parent of another turn if the span was given one."""
    layer = current()
    if parent_context is None:
        return layer
    parent = get_current_span(parent_context)
    theirs: Layer | None = getattr(parent, LAYER, None)
    if theirs is None or root_of(theirs) is root_of(layer) or parent is get_current_span():
        return layer
    return theirs
