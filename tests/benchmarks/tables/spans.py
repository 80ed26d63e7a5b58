"""Spans carry the facts of the conversation; and a whole turn, from its entry to its handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NewType
from weakref import ref

from measuring import Names, Promise, Table, Way
from opentelemetry import baggage, context

import ctxruntime as ctx
from tables.shared import CHAT, FIVE, SESSION

FOUR: Final = {name: value for name, value in FIVE.items() if name != "previous_session_id"}
ATTRIBUTES_OF_FOUR: Final = {
    "session.id": SESSION,
    "gen_ai.conversation.id": SESSION,
    "gateway.session_key": CHAT,
    "user.id": FIVE["user_id"],
    "frontend": FIVE["frontend"],
}
ATTRIBUTES_OF_FIVE: Final = ATTRIBUTES_OF_FOUR | {"session.previous_id": FIVE["previous_session_id"]}

BAGGAGE: Final = ("opentelemetry-processor-baggage",)
Turn = Callable[[str, str, str, str, str], None]


@contextmanager
def provider(make: Callable[[], Any] | None = None) -> Iterator[Any]:
    """Yield a provider without exporters, and with the processor that `make` returns."""
    from opentelemetry.sdk.trace import TracerProvider

    made = TracerProvider(shutdown_on_exit=False)
    if make is not None:
        made.add_span_processor(make())
    yield made
    made.shutdown()


def ours_mirrored() -> Any:
    from ctxruntime.telemetry import SessionSpanProcessor

    return SessionSpanProcessor()


def baggage_copied() -> Any:
    from opentelemetry.processor.baggage import ALLOW_ALL_BAGGAGE_KEYS, BaggageSpanProcessor

    return BaggageSpanProcessor(ALLOW_ALL_BAGGAGE_KEYS)


AMBIENT: ContextVar[dict[str, str]] = ContextVar("ambient")


def set_by_hand() -> Any:
    """Return the least of a processor: it sets a dict that is at hand, checks nothing and remembers nothing."""
    from opentelemetry.sdk.trace import SpanProcessor

    class Setting(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            span.set_attributes(AMBIENT.get())

    return Setting()


class Facts:
    """What a turn by hand keeps, for facts that are learned late: its spans, and what each trace shows."""

    __slots__ = ("attributes", "spans", "traces")

    def __init__(self, attributes: dict[str, str]) -> None:
        self.attributes = attributes
        self.spans: list[ref[Any]] = []
        self.traces: dict[int, str] = {}


FACTS: ContextVar[Facts] = ContextVar("facts")


def remembered_by_hand() -> Any:
    """Return the least of a processor that keeps what ours promises: late facts find the span, a trace has one session.

    A list of spans that are over is emptied now and then, and what a span was given wins.
    """
    from opentelemetry.sdk.trace import SpanProcessor

    class Remembering(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            facts = FACTS.get()
            span.facts = facts
            spans, attributes = facts.spans, facts.attributes
            spans.append(ref(span))
            if len(spans) > 64:
                spans[:] = [reference for reference in spans if reference() is not None]
            shown = attributes["session.id"]
            if facts.traces.setdefault(span.context.trace_id, shown) == shown and not span._attributes:
                span.set_attributes(attributes)

    return Remembering()


def starting(make: Callable[[], Any] | None, shown: dict[str, str] | None = None) -> Any:
    """Return a setting of `start`, which was seen to give a span the attributes."""

    @contextmanager
    def setting() -> Iterator[Names]:
        with provider(make) as made:
            start = made.get_tracer("bench").start_span
            assert shown is None or dict(start("s").attributes) == shown
            yield {"start": start, "attributes": ATTRIBUTES_OF_FOUR}

    return setting


@contextmanager
def with_attributes() -> Iterator[Names]:
    """Have the facts in effect, and in baggage, and time a span without any."""
    carried = None
    for name, value in ATTRIBUTES_OF_FOUR.items():
        carried = baggage.set_baggage(name, value, carried)
    assert carried is not None
    token = context.attach(carried)
    ambient, facts = AMBIENT.set(ATTRIBUTES_OF_FOUR), FACTS.set(Facts(ATTRIBUTES_OF_FOUR))
    with ctx.session(**FOUR), provider() as bare:
        yield {"bare": bare.get_tracer("bench").start_span}
    FACTS.reset(facts)
    AMBIENT.reset(ambient)
    context.detach(token)


MIRRORED, BY_HAND, COPIED = "ctxruntime SessionSpanProcessor", "by hand: attributes=", "BaggageSpanProcessor"
SET = "by hand: a processor that sets them"
REMEMBERED = "by hand: a processor that sets them, and remembers the span"
ATTRIBUTES: Final = Table(
    "attributes",
    "What five attributes add to a span",
    (
        Way(BY_HAND, "start('s', attributes=attributes)", starting(None)),
        Way(SET, "start('s')", starting(set_by_hand, ATTRIBUTES_OF_FOUR)),
        Way(REMEMBERED, "start('s')", starting(remembered_by_hand, ATTRIBUTES_OF_FOUR)),
        Way(MIRRORED, "start('s')", starting(ours_mirrored, ATTRIBUTES_OF_FOUR)),
        Way(COPIED, "start('s')", starting(baggage_copied, ATTRIBUTES_OF_FOUR), BAGGAGE),
    ),
    (Promise(1.3, MIRRORED, BY_HAND), Promise(0.63, MIRRORED, COPIED)),
    less="bare('s')",
    setting=with_attributes,
)


# A whole turn


class Seen:
    """What handlers and spans were given, while somebody asks."""

    def __init__(self) -> None:
        self.asking: Callable[[], object] | None = None
        self.handed: list[object] = []


seen = Seen()


def block(raw: str, session_id: str = "", gateway_session_key: str = "") -> str:
    if seen.asking is not None:
        seen.handed.append((session_id, gateway_session_key, seen.asking()))
    return raw


def turn_of_ours(tracer: Any) -> Turn:
    handler = ctx.adapt(block)

    def turn(session_id: str, gateway_session_key: str, previous: str, user_id: str, frontend: str) -> None:
        with (
            ctx.session(
                session_id=session_id,
                gateway_session_key=gateway_session_key,
                previous_session_id=previous,
                user_id=user_id,
                frontend=frontend,
            ),
            tracer.start_as_current_span("turn"),
        ):
            handler("x")

    return turn


def turn_by_hand(tracer: Any) -> Turn:
    """Write what a careful programmer writes who knows every place that needs a key."""

    def turn(session_id: str, gateway_session_key: str, previous: str, user_id: str, frontend: str) -> None:
        token = AMBIENT.set(
            {
                "session_id": session_id,
                "gateway_session_key": gateway_session_key,
                "previous_session_id": previous,
                "user_id": user_id,
                "frontend": frontend,
            }
        )
        try:
            attributes = {
                "session.id": session_id,
                "gen_ai.conversation.id": session_id,
                "session.previous_id": previous,
                "user.id": user_id,
                "gateway.session_key": gateway_session_key,
                "frontend": frontend,
            }
            with tracer.start_as_current_span("turn", attributes=attributes):
                block("x", session_id=session_id, gateway_session_key=gateway_session_key)
        finally:
            AMBIENT.reset(token)

    return turn


SessionId = NewType("SessionId", str)
GatewaySessionKey = NewType("GatewaySessionKey", str)
REQUEST: ContextVar[Any] = ContextVar("request")


def turn_put_together(tracer: Any) -> Turn:
    """Put together what there is: baggage, which a span processor copies, and a container, which a handler asks."""
    from dishka import FromDishka, Provider, Scope, from_context, make_container
    from dishka.integrations.base import wrap_injection

    class Keys(Provider):
        session_id = from_context(SessionId, scope=Scope.REQUEST)
        gateway_session_key = from_context(GatewaySessionKey, scope=Scope.REQUEST)

    def asking(raw: str, session_id: Any, gateway_session_key: Any) -> str:
        return block(raw, session_id, gateway_session_key)

    asking.__annotations__ |= {
        "session_id": FromDishka[SessionId],
        "gateway_session_key": FromDishka[GatewaySessionKey],
    }
    container = make_container(Keys())
    handler: Any = wrap_injection(
        func=asking, container_getter=lambda args, kwargs: REQUEST.get(), is_async=False, remove_depends=True
    )

    def turn(session_id: str, gateway_session_key: str, previous: str, user_id: str, frontend: str) -> None:
        current = baggage.set_baggage("session.id", session_id)
        current = baggage.set_baggage("gen_ai.conversation.id", session_id, current)
        current = baggage.set_baggage("session.previous_id", previous, current)
        current = baggage.set_baggage("user.id", user_id, current)
        current = baggage.set_baggage("gateway.session_key", gateway_session_key, current)
        current = baggage.set_baggage("frontend", frontend, current)
        attached = context.attach(current)
        try:
            keys = {SessionId: session_id, GatewaySessionKey: gateway_session_key}
            with container(context=keys) as request, tracer.start_as_current_span("turn"):
                token = REQUEST.set(request)
                try:
                    handler("x")
                finally:
                    REQUEST.reset(token)
        finally:
            context.detach(attached)

    return turn


def clean(value: str) -> str:
    if type(value) is str and value.isprintable() and len(value) <= 1024:
        return value
    raise ValueError(value)


def turn_remembered_by_hand(tracer: Any) -> Turn:
    """Write what a careful programmer writes who also checks what comes in, and lets late facts find the spans."""

    def turn(session_id: str, gateway_session_key: str, previous: str, user_id: str, frontend: str) -> None:
        attributes = {
            "session.id": clean(session_id),
            "gen_ai.conversation.id": session_id,
            "session.previous_id": clean(previous),
            "user.id": clean(user_id),
            "gateway.session_key": clean(gateway_session_key),
            "frontend": clean(frontend),
        }
        token = FACTS.set(Facts(attributes))
        try:
            with tracer.start_as_current_span("turn"):
                known = FACTS.get().attributes
                block("x", session_id=known["session.id"], gateway_session_key=known["gateway.session_key"])
        finally:
            FACTS.reset(token)

    return turn


def turning(make: Callable[[Any], Turn], processor: Callable[[], Any] | None, reads: Callable[[], object]) -> Any:
    """Return a setting of `turn`, which was seen to hand on, to show and to keep at hand what it was given."""

    @contextmanager
    def setting() -> Iterator[Names]:
        from opentelemetry.sdk.trace import SpanProcessor

        class Last(SpanProcessor):
            def on_end(self, span: Any) -> None:
                seen.handed.append(dict(span.attributes))

        with provider(processor) as checked, provider(processor) as measured:
            checked.add_span_processor(Last())
            seen.asking = reads
            make(checked.get_tracer("bench"))(*FIVE.values())
            seen.asking = None
            assert seen.handed == [(SESSION, CHAT, FIVE["user_id"]), ATTRIBUTES_OF_FIVE], seen.handed
            seen.handed.clear()
            yield {"turn": make(measured.get_tracer("bench")), "five": tuple(FIVE.values())}

    return setting


WHOLE, CAREFUL, TOGETHER = "ctxruntime", "by hand", "baggage, BaggageSpanProcessor and dishka"
TURNS: Final = Table(
    "turns",
    "A whole turn: five facts, a span that shows them, a handler that gets two",
    (
        Way(CAREFUL, "turn(*five)", turning(turn_by_hand, None, lambda: AMBIENT.get()["user_id"])),
        Way(
            REMEMBERED,
            "turn(*five)",
            turning(turn_remembered_by_hand, remembered_by_hand, lambda: FACTS.get().attributes["user.id"]),
        ),
        Way(WHOLE, "turn(*five)", turning(turn_of_ours, ours_mirrored, ctx.USER_ID.get)),
        Way(
            TOGETHER,
            "turn(*five)",
            turning(turn_put_together, baggage_copied, lambda: baggage.get_baggage("user.id")),
            (*BAGGAGE, "dishka"),
        ),
    ),
    (Promise(1.3, WHOLE, CAREFUL), Promise(0.75, WHOLE, TOGETHER)),
)
