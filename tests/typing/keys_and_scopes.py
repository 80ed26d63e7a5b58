"""What type checkers see of keys and scopes: read by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from typing import assert_type
from uuid import UUID

import ctxruntime as ctx
from ctxruntime.layers import Unset

TENANT = ctx.Key("typing_tenant", str)
ATTEMPT = ctx.Key("typing_attempt", int, default=1)
PLAIN: ctx.Key[str] = ctx.Key("typing_plain")

assert_type(TENANT, ctx.Key[str])
assert_type(ATTEMPT, ctx.Key[int])
assert_type(PLAIN, ctx.Key[str])
assert_type(ctx.Key("typing_bare"), ctx.Key[str])
assert_type(ctx.Key("typing_uuid", UUID, redact="hash", wire=True, inject="any"), ctx.Key[UUID])
assert_type(ctx.Key("typing_when", datetime, attributes=("a", "b")), ctx.Key[datetime])

BAD: ctx.Key[int] = ctx.Key("typing_bad", int, default="one")  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
ctx.Key("typing_bad", str, inject="all")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
ctx.Key("typing_bad", str, "an.attribute")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def reading() -> None:
    assert_type(ctx.SESSION_ID.get(), str)
    assert_type(ctx.SESSION_ID.get(None), str | None)
    assert_type(ctx.SESSION_ID.get(3), str | int)
    assert_type(ATTEMPT.get(), int)
    assert_type(ATTEMPT.get(None), int | None)
    assert_type(TENANT.is_bound(), bool)
    assert_type(ctx.current(), Mapping[str, object])
    assert_type(ctx.current_turn(), ctx.Turn | None)
    assert_type(ctx.USER_ID, ctx.Key[str])

    ctx.SESSION_ID.get(default="x")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    ctx.current()["session_id"] = "s2"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]


def entering() -> None:
    with ctx.session(session_id="s1", gateway_session_key=None, typing_tenant="t1") as turn:
        assert_type(turn, ctx.Turn)
    with ctx.session({TENANT: "t1"}, take=(ctx.USER_ID,)) as taken:
        assert_type(taken, ctx.Turn)
    with ctx.session.join(session_id="s1") as joined:
        assert_type(joined, ctx.Turn)
    with ctx.bind({TENANT: "t2"}, session_id="child") as bound:
        assert_type(bound, None)
    with ctx.cleared() as nothing:
        assert_type(nothing, None)

    ctx.session(session_id=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.session("s1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.session(take="user_id")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.cleared(session_id="s1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def entering_async() -> None:
    async with ctx.session(session_id="s1") as turn:
        assert_type(turn, ctx.Turn)
    async with ctx.session.join(session_id="s1") as joined:
        assert_type(joined, ctx.Turn)
    async with ctx.bind(session_id="child") as bound:
        assert_type(bound, None)
    async with ctx.cleared() as nothing:
        assert_type(nothing, None)


def opening() -> None:
    scope = ctx.session(session_id="s1")
    assert_type(scope.open(), ctx.Turn)
    scope.close()
    assert_type(ctx.bind(session_id="child").open(), None)


def amending(turn: ctx.Turn) -> None:
    ctx.amend(session_id="s2")
    ctx.amend({TENANT: "t2"})
    turn.amend(session_id="s2")
    ctx.amend("s2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def reading_a_turn(turn: ctx.Turn) -> None:
    assert_type(turn.get(ctx.SESSION_ID, None), str | None)
    assert_type(turn.get(ATTEMPT), int)
    assert_type(turn.get(ATTEMPT, "none"), int | str)
    assert_type(turn.ended, bool)
    assert_type(turn.started_at, float)

    turn.get("session_id", None)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def id_of(update: int) -> str:
    return str(update)


@ctx.session(session_id=id_of)
def on_update(update: int, *, times: int = 1) -> bytes:
    return b"" * times


@ctx.session.join(session_id="s1")
async def on_update_async(update: int) -> bytes:
    return b""


@ctx.bind(session_id="child")
def steps(count: int) -> Iterator[int]:
    yield from range(count)


@ctx.cleared()
async def stream(count: int) -> AsyncIterator[int]:
    yield count


async def decorated() -> None:
    assert_type(on_update(1, times=2), bytes)
    assert_type(await on_update_async(1), bytes)
    assert_type(steps(3), Iterator[int])
    assert_type(stream(3), AsyncIterator[int])

    on_update("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    on_update(1, 2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    steps()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def narrowing(given: str | Unset) -> str:
    if given is ctx.UNSET:
        return "not given"
    return assert_type(given, str)


def catching() -> None:
    try:
        ctx.SESSION_ID.get()
    except ctx.UnboundKeyError as error:
        assert_type(error.key, str)
        assert_type(error.handler, str | None)
        assert_type(error.location, str | None)
    except ctx.CtxRuntimeError:
        pass
