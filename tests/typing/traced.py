"""What type checkers see of traced handlers: read by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

import ctxruntime as ctx
from ctxruntime.telemetry.traced import handler, traced


@traced
def read(path: str, *, limit: int = 3) -> bytes:
    return path.encode() * limit


@traced("named", record_input=True)
async def fetch(path: str) -> bytes:
    return path.encode()


@traced()
def steps(count: int) -> Iterator[int]:
    yield count


@handler
async def stream(raw: str, session_id: str = ctx.INJECTED) -> AsyncIterator[str]:
    yield raw + session_id


@handler("tool", aliases={"sid": ctx.SESSION_ID}, var_keyword="none", hide=True, record_output=True)
def block(raw: str, sid: str = ctx.INJECTED) -> int:
    return len(raw + sid)


@handler(record_input=True)
def unnamed(raw: str, session_id: str = ctx.INJECTED) -> int:
    return len(raw + session_id)


class Plugin:
    @handler
    def handle(self, raw: str, session_id: str = ctx.INJECTED) -> bytes:
        return (raw + session_id).encode()

    @handler("made")
    @classmethod
    def make(cls, session_id: str = ctx.INJECTED) -> Plugin:
        return cls()

    @staticmethod
    @traced
    def static(raw: str) -> int:
        return len(raw)


async def calls() -> None:
    assert_type(read("x", limit=1), bytes)
    assert_type(await fetch("x"), bytes)
    assert_type(steps(1), Iterator[int])
    assert_type(block("x"), int)
    assert_type(unnamed("x", session_id="mine"), int)
    assert_type(Plugin().handle("x"), bytes)
    assert_type(Plugin.static("x"), int)
    async for item in stream("x"):
        assert_type(item, str)
    assert_type(traced(len)([]), int)


async def mistakes() -> None:
    read(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    block()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    traced(1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
