"""What adopting ctxruntime costs, as ratios inside one run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context

import ctxruntime as ctx
from ctxruntime.hops.install import install

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


SCOPES: dict[str, Any] = {"session": ctx.session, "bind": ctx.bind, "amend": ctx.amend}


@pytest.mark.parametrize(
    "case",
    ["with bind(session_id='child-1'): pass", "amend(session_id='next-1')", "with snapshot: pass"],
    ids=["bind", "amend", "snapshot"],
)
def test_other_scopes_cost_no_more_than_two_turns(keeps: Keeps, case: str) -> None:
    """A bind, an amend and a snapshot put in effect each cost at most twice entering a turn with two keys."""
    with ctx.session(session_id=FIVE["session_id"], gateway_session_key=FIVE["gateway_session_key"]):
        names = SCOPES | {"snapshot": ctx.capture()}
        keeps(2.0, case, "with session(session_id='s1', gateway_session_key='k1'): pass", names)


PLAIN_SUBMIT, PLAIN_START = ThreadPoolExecutor.submit, threading.Thread.start


def nothing() -> None:
    """Cost as little as possible."""


def hundred_jobs(submit: Callable[..., Any], pool: ThreadPoolExecutor) -> None:
    for job in [submit(pool, nothing) for _ in range(100)]:
        job.result()


def ten_threads(start: Callable[[threading.Thread], None]) -> None:
    for _ in range(10):
        thread = threading.Thread(target=nothing)
        start(thread)
        thread.join()


@pytest.mark.parametrize(
    ("promise", "case"), [(1.15, "hundred_jobs({}submit, pool)"), (1.1, "ten_threads({}start)")], ids=["pool", "thread"]
)
def test_a_hop_costs_little_more_than_without(keeps: Keeps, promise: float, case: str) -> None:
    """A job for a pool, and a thread from start to join, cost hardly more with `install()` than they do plain."""
    with (
        install(),
        ThreadPoolExecutor(1) as pool,
        ctx.session(session_id=FIVE["session_id"], gateway_session_key=FIVE["gateway_session_key"]),
    ):
        names = {
            "hundred_jobs": hundred_jobs,
            "ten_threads": ten_threads,
            "pool": pool,
            "plain_submit": PLAIN_SUBMIT,
            "plain_start": PLAIN_START,
            "ours_submit": ThreadPoolExecutor.submit,
            "ours_start": threading.Thread.start,
        }
        keeps(promise, case.format("ours_"), case.format("plain_"), names, number=10)


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
    """Each of 100,000 live turns takes at most 265 bytes with the five keys, with one of one's own besides 330."""
    count = 100_000
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


IMPORT = """
import asyncio, gc, time
gc.disable()  # on some versions a collection of what asyncio made falls due just now
start = time.perf_counter()
import {name}
print(time.perf_counter() - start)
"""
STARTS = 25
EMPTY_MODULES = 10


def test_importing_costs_two_milliseconds_beside_asyncio(tmp_path: Path) -> None:
    """With asyncio imported, importing costs at most 2 ms; on a slow machine, what 12 empty modules cost there."""
    empty = tmp_path / "empty"
    empty.mkdir()
    names = [f"m{number}" for number in range(1, EMPTY_MODULES)]
    (empty / "__init__.py").write_text("".join(f"import empty.{name}\n" for name in names))
    for name in names:
        (empty / f"{name}.py").write_text("from __future__ import annotations\n")
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled"), "PYTHONPATH": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def start(name: str) -> float:
        command = [sys.executable, "-c", IMPORT.format(name=name)]
        return float(subprocess.run(command, capture_output=True, check=True, text=True, env=environment).stdout)

    starts = [(start("empty"), start("ctxruntime")) for _ in range(STARTS)]
    module = min(first for first, _ in starts) / EMPTY_MODULES
    least = min(second for _, second in starts)
    print(f"import ctxruntime: {least * 1000:.2f} ms; {least / module:.1f} times an empty module")

    assert least <= max(0.002, 12 * module)
