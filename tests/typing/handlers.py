"""What type checkers see of handlers: read by mypy and pyright, never run."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Annotated, assert_type

import ctxruntime as ctx


@ctx.inject
def block(raw: str, limit: int = 3, *, session_id: str = ctx.INJECTED) -> bytes:
    return f"{raw}{session_id}".encode() * limit


@ctx.inject()
def with_nothing(raw: str, session_id: str = ctx.INJECTED) -> bytes:
    return b""


@ctx.inject(aliases={"sid": ctx.SESSION_ID}, var_keyword="none", hide=True)
def with_options(raw: str, sid: Annotated[str, ctx.SESSION_ID] = ctx.INJECTED, **kw: object) -> int:
    return len(raw)


@ctx.inject
async def fetch(raw: str, session_id: str | None = None) -> bytes:
    return raw.encode()


@ctx.inject
def steps(session_id: str = ctx.INJECTED) -> Iterator[int]:
    yield len(session_id)


@ctx.inject
async def stream(session_id: str = ctx.INJECTED) -> AsyncIterator[int]:
    yield len(session_id)


def explicit(raw: str, session_id: str = ctx.INJECTED) -> bytes:
    return b""


class Plugin:
    @ctx.inject
    def handle(self, raw: str, session_id: str = ctx.INJECTED) -> bytes:
        return b""

    @ctx.inject
    async def fetch(self, raw: str, session_id: str = ctx.INJECTED) -> bytes:
        return b""

    @classmethod
    @ctx.inject
    def above(cls, raw: str, session_id: str = ctx.INJECTED) -> bytes:
        return b""

    @staticmethod
    @ctx.inject
    def static(raw: str, session_id: str = ctx.INJECTED) -> bytes:
        return b""

    def __call__(self, raw: str, session_id: str = ctx.INJECTED) -> bytes:
        return b""


async def injected(plugin: Plugin) -> None:
    assert_type(block("x"), bytes)
    assert_type(block("x", 3, session_id="mine"), bytes)
    assert_type(with_nothing("x"), bytes)
    assert_type(with_options("x", other=1), int)
    assert_type(await fetch("x"), bytes)
    assert_type(steps(), Iterator[int])
    assert_type(stream(), AsyncIterator[int])
    assert_type(ctx.inject(explicit)("x"), bytes)
    assert_type(ctx.inject(explicit, var_keyword="none")("x"), bytes)
    assert_type(ctx.inject(functools.partial(explicit, "x"))(), bytes)
    assert_type(plugin.handle("x"), bytes)
    assert_type(plugin.handle("x", session_id="mine"), bytes)
    assert_type(Plugin.handle(plugin, "x"), bytes)
    assert_type(await plugin.fetch("x"), bytes)
    assert_type(Plugin.above("x"), bytes)
    assert_type(plugin.static("x"), bytes)
    assert_type(ctx.inject(plugin)("x"), bytes)
    assert_type(ctx.inject(Plugin)(), Plugin)

    block()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    block(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    block("x", sesion_id="s1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    plugin.handle(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.inject(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    ctx.inject(explicit, var_keyword="all")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    ctx.inject(explicit, aliases={"sid": "session_id"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]


def adapted(plugin: Plugin) -> None:
    assert_type(ctx.adapt(explicit)("x"), bytes)
    assert_type(ctx.adapt(explicit, missing=("",), keys=[ctx.SESSION_ID], var_keyword="none")("x"), bytes)
    assert_type(ctx.adapt(explicit, aliases={"sid": ctx.USER_ID})("x", session_id="mine"), bytes)
    assert_type(ctx.adapt(plugin.handle)("x"), bytes)
    assert_type(ctx.adapt(plugin), Plugin)

    ctx.adapt(explicit)(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.adapt(3)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    ctx.adapt(explicit, keys=["session_id"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    ctx.adapt(explicit, hide=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def coroutine(raw: str, session_id: str = ctx.INJECTED) -> bytes:
    return b""


def gives_awaitable(raw: str) -> Awaitable[bytes]:
    return coroutine(raw)


async def called(plugin: Plugin) -> None:
    assert_type(ctx.call(explicit, "x"), bytes)
    assert_type(ctx.call(plugin.handle, "x", session_id="mine"), bytes)
    assert_type(await ctx.call(coroutine, "x"), bytes)
    assert_type(await ctx.acall(coroutine, "x"), bytes)
    assert_type(await ctx.acall(gives_awaitable, "x"), bytes)
    assert_type(await ctx.acall(explicit, "x"), bytes)
    assert_type(await ctx.acall(plugin.fetch, "x"), bytes)
    assert_type(ctx.explain(explicit), ctx.Plan)
    assert_type(ctx.explain(explicit, aliases={"sid": ctx.SESSION_ID}, missing=("",)), ctx.Plan)
    assert_type(str(ctx.explain(explicit)), str)

    ctx.call(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ctx.acall(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    ctx.explain(explicit, hide=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
