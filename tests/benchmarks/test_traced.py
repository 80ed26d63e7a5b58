"""What a span around a handler costs where there is none, as ratios inside one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace

import ctxruntime as ctx
from ctxruntime.telemetry.traced import handler, traced

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

Keeps = Callable[..., None]


def function(raw: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
    return raw


async def coroutine(raw: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
    return raw


class Plugin:
    injected = ctx.inject(function)
    handler = handler(function)
    traced = traced(function)


def drive(made: Any) -> None:
    try:
        made.send(None)
    except StopIteration:
        return


NAMES: dict[str, Any] = {
    "finished": (item for item in ()),  # what is left of an awaited call without the call: the driver's cost
    "injected": ctx.inject(function),
    "handler": handler(function),
    "traced": traced(function),
    "injected_async": ctx.inject(coroutine),
    "handler_async": handler(coroutine),
    "traced_async": traced(coroutine),
    "plugin": Plugin(),
    "drive": drive,
}


@pytest.mark.parametrize("way", ["handler", "traced"])
@pytest.mark.parametrize(
    "call",
    [
        pytest.param("%s('x')", id="function"),
        pytest.param("plugin.%s()", id="method"),
        pytest.param("drive(%s_async('x'))", id="coroutine"),
    ],
)
def test_without_a_provider_a_span_costs_next_to_nothing(keeps: Keeps, way: str, call: str) -> None:
    """With opentelemetry-api alone a call costs at most 1.3 times the injected call."""
    assert trace._TRACER_PROVIDER is None

    with ctx.session(session_id="20261130_0911_ab12", gateway_session_key="agent:main:discord:dm:7"):
        keeps(1.3, call % way, call % "injected", NAMES, "drive(finished)" if "drive" in call else None)
