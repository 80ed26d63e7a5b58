"""What adopting ctxruntime costs, as ratios inside one run."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context

import ctxruntime as ctx

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

Keeps = Callable[..., None]
FIVE = {
    "session_id": "20261130_0911_ab12",
    "gateway_session_key": "agent:main:discord:dm:7",
    "previous_session_id": "20261130_0801_99ff",
    "user_id": "user-7",
    "frontend": "gateway",
}
TENANT = ctx.Key("bench_tenant", str)


def handler(raw: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
    return raw


async def async_handler(raw: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
    return raw


def legacy(raw: str) -> str:
    return raw


class Plugin:
    def direct(self, raw: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
        return raw

    @ctx.inject
    def injected(self, raw: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
        return raw


def drive(coroutine: Any) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return


NAMES: dict[str, Any] = {
    "finished": (item for item in ()),  # what is left of an awaited call without the call: the driver's cost
    "direct": handler,
    "adapted": ctx.adapt(handler),
    "injected": ctx.inject(handler),
    "legacy": legacy,
    "adapted_legacy": ctx.adapt(legacy),
    "direct_async": async_handler,
    "adapted_async": ctx.adapt(async_handler),
    "injected_async": ctx.inject(async_handler),
    "plugin": Plugin(),
    "drive": drive,
    "s": FIVE["session_id"],
    "k": FIVE["gateway_session_key"],
}
BY_HAND = "(%s)('x', session_id=s, gateway_session_key=k)"


@pytest.mark.parametrize(
    ("promise", "case", "base"),
    [
        pytest.param(3.0, "adapted('x')", BY_HAND % "direct", id="adapt"),
        pytest.param(4.2, "injected('x')", BY_HAND % "direct", id="inject"),
        pytest.param(7.4, "plugin.injected('x')", BY_HAND % "plugin.direct", id="inject-method"),
        pytest.param(1.05, "adapted_legacy('x')", "legacy('x')", id="adapt-legacy"),
        pytest.param(1.9, "drive(adapted_async('x'))", f"drive({BY_HAND % 'direct_async'})", id="adapt-async"),
        pytest.param(2.4, "drive(injected_async('x'))", f"drive({BY_HAND % 'direct_async'})", id="inject-async"),
    ],
)
def test_an_injected_call_costs_little_more_than_the_call_by_hand(
    keeps: Keeps, promise: float, case: str, base: str
) -> None:
    """Handing two keys to a handler costs no more than the promised multiple of passing them by hand."""
    less = "drive(finished)" if "drive" in case else None
    with ctx.session(session_id=FIVE["session_id"], gateway_session_key=FIVE["gateway_session_key"]):
        keeps(promise, case, base, NAMES, less)


def enter_with_baggage() -> None:
    current = None
    for name, value in FIVE.items():
        current = baggage.set_baggage(name, value, current)
    context.detach(context.attach(current))  # type: ignore[arg-type]


def enter_a_session() -> None:
    with ctx.session(
        session_id="20261130_0911_ab12",
        gateway_session_key="agent:main:discord:dm:7",
        previous_session_id="20261130_0801_99ff",
        user_id="user-7",
        frontend="gateway",
    ):
        pass


def test_a_scope_of_five_keys_costs_half_of_baggage(keeps: Keeps) -> None:
    """Entering and leaving with five checked keys costs at most half of OpenTelemetry baggage with five."""
    names = {"enter_a_session": enter_a_session, "enter_with_baggage": enter_with_baggage}

    keeps(0.50, "enter_a_session()", "enter_with_baggage()", names)


@pytest.mark.parametrize(
    ("limit", "more"), [pytest.param(265, {}, id="built-in keys"), pytest.param(330, {TENANT: "t"}, id="one own")]
)
def test_a_live_turn_is_small(limit: int, more: dict[Any, object]) -> None:
    """A live turn with its five keys takes at most 265 bytes, with one key of one's own besides 330."""
    count = 10_000
    turns = [ctx.session(more, **FIVE) for _ in range(count)]
    for turn in turns[:100]:
        turn.open()
        turn.close()
    turns.clear()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]

    for _ in range(count):
        turns.append(ctx.session(more, **FIVE))
        turns[-1].open()
    taken = tracemalloc.get_traced_memory()[0] - before - sys.getsizeof(turns)
    tracemalloc.stop()
    for turn in reversed(turns):
        turn.close()

    assert taken / count <= limit


def test_turns_leave_nothing_behind() -> None:
    """Turns in sequence, amended and with a bind inside, grow nothing while the collector is off."""

    def run(turns: int) -> None:
        for number in range(turns):
            with ctx.session(gateway_session_key="k"), ctx.bind(session_id="child"):
                ctx.amend(user_id=str(number % 7))

    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        run(5000)  # fills the interpreter's free lists
        before = tracemalloc.get_traced_memory()[0]
        run(20_000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.enable()

    assert grown < 1000
    assert gc.collect() < 20  # no cycle per turn


def test_importing_costs_little_beside_asyncio(tmp_path: Path) -> None:
    """`import ctxruntime` costs at most a twelfth of what importing asyncio costs: 2 ms where that takes 24."""
    program = """if True:
        import time
        start = time.perf_counter()
        import asyncio
        between = time.perf_counter()
        import ctxruntime
        print((time.perf_counter() - between) / (between - start))
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    shares = [
        float(
            subprocess.run(
                [sys.executable, "-c", program], capture_output=True, check=True, text=True, env=environment
            ).stdout
        )
        for _ in range(15)
    ]

    assert min(shares) <= 1 / 12
