"""What type checkers see of snapshots and carry: read by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, assert_type

import ctxruntime as ctx


def job(raw: str, *, times: int = 1) -> bytes:
    return raw.encode() * times


async def coroutine(raw: str) -> bytes:
    return raw.encode()


def steps(count: int) -> Generator[int, str, bytes]:
    yield count
    return b""


async def stream(count: int) -> AsyncGenerator[int, str]:
    yield count


async def snapshots() -> None:
    snapshot = ctx.capture()
    assert_type(snapshot, ctx.Snapshot)
    assert_type(snapshot.run(job, "x", times=2), bytes)
    assert_type(snapshot.wrap(job)("x", times=2), bytes)
    assert_type(await snapshot.run(coroutine, "x"), bytes)
    assert_type(await snapshot.wrap(coroutine)("x"), bytes)
    with snapshot as entered:
        assert_type(entered, None)
    async with snapshot as entered:
        assert_type(entered, None)

    snapshot.run(job)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    snapshot.run(job, "x", time=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    snapshot.wrap(job)(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    snapshot.wrap(3)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


def carrying_a_coroutine() -> Coroutine[Any, Any, bytes]:
    return ctx.carry(coroutine("x"))


async def carrying(thunk: Callable[[], int]) -> None:
    assert_type(ctx.carry(job)("x", times=2), bytes)
    assert_type(ctx.carry(thunk)(), int)
    assert_type(await ctx.carry(coroutine)("x"), bytes)
    assert_type(ctx.carry(steps)(3), Generator[int, str, bytes])
    assert_type(ctx.carry(steps(3)), Generator[int, str, bytes])
    assert_type(ctx.carry(stream(3)), AsyncGenerator[int, str])
    assert_type(await ctx.carry(coroutine("x")), bytes)

    ctx.carry(job)(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.carry(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
