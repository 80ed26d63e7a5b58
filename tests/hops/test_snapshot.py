"""Snapshots and `carry`: the state of one flow, put in effect in others."""

from __future__ import annotations

import asyncio
import decimal
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

import ctxruntime as ctx

HOSTS: ContextVar[str] = ContextVar("snapshot_hosts", default="unset")
FAR = [ctx.Key(f"snapshot_own{number}") for number in range(5)][-1]


def here() -> Any:
    return ctx.SESSION_ID.get(None)


async def ahere() -> Any:
    await asyncio.sleep(0)
    return ctx.SESSION_ID.get(None)


def in_thread(fn: Any, *args: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(fn, *args).result()


@pytest.fixture
def snapshot() -> ctx.Snapshot:
    with ctx.session({FAR: "far"}, session_id="s1"), ctx.bind(user_id="u1"):
        return ctx.capture()


CAPTURED = {"session_id": "s1", "user_id": "u1", "snapshot_own4": "far"}


def test_with_puts_the_captured_keys_in_effect(snapshot: ctx.Snapshot) -> None:
    """Inside `with snapshot` the keys that were captured are in effect, all and only those."""
    with ctx.session(session_id="s2", frontend="cli"):
        with snapshot:
            assert dict(ctx.current()) == CAPTURED
        assert dict(ctx.current()) == {"session_id": "s2", "frontend": "cli"}


@pytest.mark.asyncio
async def test_async_with_does_the_same(snapshot: ctx.Snapshot) -> None:
    """`async with` is `with`."""
    async with snapshot:
        assert dict(ctx.current()) == CAPTURED
    assert dict(ctx.current()) == {}


def test_with_takes_nothing_but_keys() -> None:
    """`with` leaves every other context variable as it is."""
    token = HOSTS.set("captured")
    snapshot = ctx.capture()
    HOSTS.reset(token)
    with snapshot:
        assert HOSTS.get() == "unset"


def test_run_takes_the_whole_context() -> None:
    """`run` runs in a copy of the whole context that was captured."""
    token = HOSTS.set("captured")
    snapshot = ctx.capture()
    HOSTS.reset(token)
    assert snapshot.run(HOSTS.get) == "captured"
    assert HOSTS.get() == "unset"


def test_what_run_sets_is_thrown_away() -> None:
    """A context variable that is set inside `run` is not there at the next `run`."""
    snapshot = ctx.capture()
    snapshot.run(HOSTS.set, "inside")
    assert snapshot.run(HOSTS.get) == "unset"


def test_run_hands_over_arguments_and_result(snapshot: ctx.Snapshot) -> None:
    """`run` passes what it is given and returns what the function returns."""
    assert snapshot.run(lambda *args, **kwargs: (args, kwargs, here()), 1, a=2) == ((1,), {"a": 2}, "s1")


def test_run_lets_errors_through(snapshot: ctx.Snapshot) -> None:
    """An error of the function reaches the caller unchanged."""
    error = KeyError("its own")

    def failing() -> None:
        raise error

    with pytest.raises(KeyError) as caught:
        snapshot.run(failing)
    assert caught.value is error


def test_snapshot_of_nothing_puts_nothing_in_effect() -> None:
    """What was captured outside any scope clears."""
    snapshot = ctx.capture()
    with ctx.session(session_id="s1"):
        with snapshot:
            assert dict(ctx.current()) == {}
            assert ctx.current_turn() is None
        assert snapshot.run(here) is None


@pytest.mark.parametrize("way", ["with", "run"])
def test_many_threads_use_one_snapshot_at_once(snapshot: ctx.Snapshot, way: str) -> None:
    """One snapshot is in effect in many threads at once, nested in each."""
    together = threading.Barrier(8)

    def inside() -> Any:
        together.wait()
        with snapshot, ctx.bind(frontend="nested"), snapshot:
            together.wait()
            return dict(ctx.current())

    def job() -> Any:
        if way == "run":
            return snapshot.run(inside)
        with snapshot:
            return inside()

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(job) for _ in range(8)]
        assert [future.result() for future in futures] == [CAPTURED] * 8


@pytest.mark.asyncio
async def test_tasks_that_overlap_in_one_snapshot_each_leave_their_own(snapshot: ctx.Snapshot) -> None:
    """Tasks that are inside one snapshot together are each back in their own state afterwards."""
    all_inside = asyncio.Barrier(3)

    async def serve(name: str) -> tuple[Any, Any]:
        with ctx.session(session_id=name):
            async with snapshot:
                await all_inside.wait()
                inside = here()
            return inside, here()

    assert await asyncio.gather(*map(serve, "abc")) == [("s1", name) for name in "abc"]


def test_snapshot_nests_in_itself(snapshot: ctx.Snapshot) -> None:
    """A snapshot can be entered within itself, and within its own `run`."""
    with ctx.session(session_id="outer"):
        with snapshot:
            with snapshot:
                assert here() == "s1"
            assert here() == "s1"
        assert here() == "outer"
    assert snapshot.run(snapshot.run, here) == "s1"


@pytest.mark.parametrize("when", ["before", "inside"])
def test_amend_of_the_turn_is_seen_in_its_snapshots(when: str) -> None:
    """What the captured turn learns later is seen through the snapshot."""
    with ctx.session(gateway_session_key="k1") as turn:
        snapshot = ctx.capture()
    if when == "before":
        turn.amend(session_id="late")
    with snapshot:
        if when == "inside":
            turn.amend(session_id="late")
        assert here() == "late"
    assert snapshot.run(here) == "late"


@pytest.mark.parametrize("way", ["with", "run"])
def test_amend_inside_a_snapshot_reaches_the_captured_turn(way: str) -> None:
    """An amend inside a snapshot changes the turn that was captured, and not the one around."""
    with ctx.session(gateway_session_key="k1") as turn:
        snapshot = ctx.capture()
    with ctx.session(gateway_session_key="k2") as other:
        if way == "run":
            snapshot.run(ctx.amend, None, session_id="found")
        else:
            with snapshot:
                ctx.amend(session_id="found")

    assert turn.get(ctx.SESSION_ID) == "found"
    assert other.get(ctx.SESSION_ID, None) is None


def test_amend_inside_a_snapshot_of_a_bind_stays_in_it() -> None:
    """What a captured bind binds is amended there."""
    with ctx.session(session_id="s1") as turn, ctx.bind(session_id="child"):
        snapshot = ctx.capture()
    with snapshot:
        ctx.amend(session_id="child-2")
    assert snapshot.run(here) == "child-2"
    assert turn.get(ctx.SESSION_ID) == "s1"


def test_turn_in_a_snapshot_is_ended_when_it_is() -> None:
    """A snapshot keeps no turn alive: `ended` says what became of it."""
    with ctx.session(session_id="s1") as turn:
        snapshot = ctx.capture()
        assert snapshot.run(ctx.current_turn) is turn
        assert not turn.ended
    with snapshot:
        assert ctx.current_turn() is turn
        assert turn.ended


def test_snapshot_left_under_an_open_scope() -> None:
    """Leaving a snapshot while a scope that was opened in it is open leaves that one in effect."""
    with ctx.session(session_id="s1"):
        snapshot = ctx.capture()
    late = ctx.session(session_id="late")
    with ctx.session(session_id="outer"):
        with snapshot:
            late.open()
        assert here() == "late"
        late.close()
        assert here() == "outer"


def test_wrapped_function_runs_in_the_snapshot(snapshot: ctx.Snapshot) -> None:
    """`wrap` gives a function that runs as by `run`, wherever it is called."""
    wrapped = snapshot.wrap(here)
    with ctx.session(session_id="other"):
        assert wrapped() == "s1"
    assert in_thread(wrapped) == "s1"
    assert wrapped.__name__ == "here"


@pytest.mark.asyncio
async def test_run_holds_over_a_coroutine() -> None:
    """A coroutine that `run` returns runs in the captured context, to its end, and sets nothing in the caller's."""

    async def job() -> tuple[Any, str]:
        await asyncio.sleep(0)
        HOSTS.set("inside")
        await asyncio.sleep(0)
        return here(), HOSTS.get()

    with ctx.session(session_id="s1"):
        snapshot = ctx.capture()
    assert await snapshot.run(job) == ("s1", "inside")
    assert (here(), HOSTS.get()) == (None, "unset")


def test_run_holds_over_a_generator(snapshot: ctx.Snapshot) -> None:
    """A generator that `run` returns has the keys at each step, and its consumer has its own."""

    def body() -> Iterator[Any]:
        yield here()
        yield here()

    with ctx.session(session_id="outer"):
        assert [(step, here()) for step in snapshot.run(body)] == [("s1", "outer")] * 2


def test_wrap_keeps_the_kind_of_function(snapshot: ctx.Snapshot) -> None:
    """A wrapped function answers `inspect` as before."""
    assert inspect.iscoroutinefunction(snapshot.wrap(ahere))
    assert not inspect.iscoroutinefunction(snapshot.wrap(here))


def test_carried_function_has_the_keys_of_now() -> None:
    """`carry` captures when it is called, not when the function runs."""
    with ctx.session(session_id="now"):
        job = ctx.carry(here)
    with ctx.session(session_id="later"):
        assert job() == "now"
        assert here() == "later"
    assert in_thread(job) == "now"


@pytest.mark.asyncio
async def test_carry_takes_every_kind() -> None:
    """Functions, coroutine functions, partials, coroutines, generators and async generators are carried."""

    def generator() -> Iterator[Any]:
        yield here()

    async def async_generator() -> AsyncIterator[Any]:
        yield await ahere()

    with ctx.session(session_id="s1"):
        carried: tuple[Any, ...] = (
            ctx.carry(here),
            ctx.carry(functools.partial(here)),
            ctx.carry(ahere),
            ctx.carry(ahere()),
            ctx.carry(generator()),
            ctx.carry(async_generator()),
        )
    function, partial, coroutine_function, coroutine, made, amade = carried

    assert [function(), partial(), await coroutine_function(), await coroutine] == ["s1"] * 4
    assert [list(made), [item async for item in amade]] == [["s1"], ["s1"]]


@pytest.mark.parametrize("thing", [None, 3, "text", [1], iter(())])
def test_carry_refuses_what_cannot_be_carried(thing: Any) -> None:
    """What is no piece of work is refused by its type."""
    with pytest.raises(TypeError, match=f"not {type(thing).__name__}"):
        ctx.carry(thing)


def test_carried_generator_has_the_keys_at_each_step() -> None:
    """A carried generator is in the captured state in its steps, whoever iterates it."""

    def body() -> Iterator[Any]:
        yield here()
        yield here()

    with ctx.session(session_id="s1"):
        carried = ctx.carry(body())
    with ctx.session(session_id="outer"):
        assert [next(carried), here(), in_thread(next, carried), here()] == ["s1", "outer", "s1", "outer"]
    carried.close()  # type: ignore[attr-defined]


def test_carry_takes_nothing_but_keys() -> None:
    """Other context variables are those of whoever calls."""
    with ctx.session(session_id="s1"), decimal.localcontext(prec=3):
        job = ctx.carry(lambda: (here(), decimal.getcontext().prec))
    assert job() == ("s1", decimal.getcontext().prec)


def test_carried_function_serves_many_threads_at_once() -> None:
    """One carried function is called by many threads at once."""
    together = threading.Barrier(6)

    def job() -> Any:
        together.wait()
        return here()

    with ctx.session(session_id="s1"):
        carried = ctx.carry(job)
    with ThreadPoolExecutor(6) as pool:
        assert [future.result() for future in [pool.submit(carried) for _ in range(6)]] == ["s1"] * 6


def test_amend_in_carried_work_reaches_the_turn() -> None:
    """What carried work finds out is seen by the turn that it was carried from."""
    with ctx.session(gateway_session_key="k1") as turn:
        in_thread(ctx.carry(ctx.amend), {ctx.SESSION_ID: "found"})
        assert here() == "found"
    assert turn.get(ctx.SESSION_ID) == "found"
