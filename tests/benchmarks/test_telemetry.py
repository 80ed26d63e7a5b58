"""What mirroring costs a span, as ratios inside one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider

import ctxruntime as ctx
from ctxruntime.telemetry import SessionSpanProcessor

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

Keeps = Callable[..., None]
KEYS = {
    "session_id": "20261130_0911_ab12",
    "gateway_session_key": "agent:main:discord:dm:7",
    "user_id": "user-7",
    "frontend": "gateway",
}
ATTRIBUTES = {
    "session.id": KEYS["session_id"],
    "gen_ai.conversation.id": KEYS["session_id"],
    "gateway.session_key": KEYS["gateway_session_key"],
    "user.id": KEYS["user_id"],
    "frontend": KEYS["frontend"],
}


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    from opentelemetry.processor.baggage import ALLOW_ALL_BAGGAGE_KEYS, BaggageSpanProcessor

    plain, mirrored, copied = (TracerProvider(shutdown_on_exit=False) for _ in range(3))
    processor = SessionSpanProcessor()
    mirrored.add_span_processor(processor)
    copied.add_span_processor(BaggageSpanProcessor(ALLOW_ALL_BAGGAGE_KEYS))
    with_baggage = None
    for name, value in ATTRIBUTES.items():
        with_baggage = baggage.set_baggage(name, value, with_baggage)
    assert with_baggage is not None
    token = context.attach(with_baggage)
    start = {"plain": plain, "mirrored": mirrored, "copied": copied}
    with ctx.session(**KEYS):
        starts = {name: provider.get_tracer("bench").start_span for name, provider in start.items()}
        for name in ("mirrored", "copied"):
            assert dict(starts[name]("s").attributes) == ATTRIBUTES
        yield {**starts, "attributes": ATTRIBUTES}
    context.detach(token)
    processor.shutdown()


@pytest.mark.parametrize(
    ("promise", "base"),
    [
        pytest.param(1.3, "plain('s', attributes=attributes)", id="by-hand"),
        pytest.param(0.63, "copied('s')", id="baggage"),
    ],
)
def test_what_five_attributes_add_to_a_span(keeps: Keeps, names: dict[str, Any], promise: float, base: str) -> None:
    """Mirroring five attributes adds at most the promised multiple of what giving them, or baggage, adds."""
    keeps(promise, "mirrored('s')", base, names, less="plain('s')", number=200)
