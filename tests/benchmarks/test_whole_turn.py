"""What a whole turn costs: a scope with five keys, a span that shows them, a handler that is handed two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NewType

import pytest
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

import ctxruntime as ctx
from ctxruntime.telemetry import SessionSpanProcessor

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

Keeps = Callable[..., None]
Turn = Callable[[str, str, str, str, str], None]

FIVE = ("20261130_0911_ab12", "agent:main:discord:dm:7", "20261130_0801_99ff", "user-7", "gateway")
ATTRIBUTES = {
    "session.id": FIVE[0],
    "gen_ai.conversation.id": FIVE[0],
    "session.previous_id": FIVE[2],
    "user.id": FIVE[3],
    "gateway.session_key": FIVE[1],
    "frontend": FIVE[4],
}

seen: list[object] = []
"""What handlers are asked to tell, while somebody asks."""
asked: list[Callable[[], object]] = []


def block(raw: str, session_id: str = "", gateway_session_key: str = "") -> str:
    if asked:
        seen.append((session_id, gateway_session_key, asked[0]()))
    return raw


def ours(tracer: Any) -> Turn:
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


AMBIENT: ContextVar[dict[str, str]] = ContextVar("ambient")


def by_hand(tracer: Any) -> Turn:
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


def with_baggage_and_dishka(tracer: Any) -> Turn:
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


class Last(SpanProcessor):
    """Keeps the attributes of the last span that ended, while somebody asks."""

    def on_end(self, span: Any) -> None:
        if asked:
            seen.append(dict(span.attributes))


AMBIENTLY: dict[str, Callable[[], object]] = {
    "ours": lambda: ctx.USER_ID.get(),
    "by_hand": lambda: AMBIENT.get()["user_id"],
    "with_baggage_and_dishka": lambda: baggage.get_baggage("user.id"),
}


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    from opentelemetry.processor.baggage import ALLOW_ALL_BAGGAGE_KEYS, BaggageSpanProcessor

    processor = SessionSpanProcessor()
    ways = {
        "ours": (ours, processor),
        "by_hand": (by_hand, None),
        "with_baggage_and_dishka": (with_baggage_and_dishka, BaggageSpanProcessor(ALLOW_ALL_BAGGAGE_KEYS)),
    }
    turns: dict[str, Any] = {"five": FIVE}
    for name, (way, adds) in ways.items():
        checked, measured = TracerProvider(shutdown_on_exit=False), TracerProvider(shutdown_on_exit=False)
        for provider in (checked, measured) if adds is not None else ():
            provider.add_span_processor(adds)
        checked.add_span_processor(Last())
        asked.append(AMBIENTLY[name])
        way(checked.get_tracer("bench"))(*FIVE)
        asked.clear()
        assert seen == [(*FIVE[:2], FIVE[3]), ATTRIBUTES], name
        seen.clear()
        turns[name] = way(measured.get_tracer("bench"))
    yield turns
    processor.shutdown()


@pytest.mark.parametrize(
    ("promise", "base"),
    [pytest.param(1.3, "by_hand", id="by-hand"), pytest.param(0.75, "with_baggage_and_dishka", id="baggage-dishka")],
)
def test_a_whole_turn(keeps: Keeps, names: dict[str, Any], promise: float, base: str) -> None:
    """Entering, showing and handing on costs at most the promised multiple of the same by hand, or put together."""
    keeps(promise, "ours(*five)", f"{base}(*five)", names, number=200)
