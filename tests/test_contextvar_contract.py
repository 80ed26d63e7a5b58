"""One suite over a real ContextVar and over a Key: to its readers, a key is a context variable."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, NamedTuple

import pytest

import ctxruntime as ctx

VAR: ContextVar[str] = ContextVar("contract")
VAR_WITH_DEFAULT: ContextVar[str] = ContextVar("contract_default", default="default")
KEY = ctx.Key("contract", str)
KEY_WITH_DEFAULT = ctx.Key("contract_default", str, default="default")


class Subject(NamedTuple):
    get: Callable[..., Any]
    get_with_default: Callable[..., Any]
    holding: Callable[[str], AbstractContextManager[None]]
    holding_with_default: Callable[[str], AbstractContextManager[None]]


def setting(var: ContextVar[str]) -> Callable[[str], AbstractContextManager[None]]:
    @contextmanager
    def holding(value: str) -> Iterator[None]:
        token = var.set(value)
        yield
        var.reset(token)

    return holding


def entering(verb: Callable[..., Any], key: ctx.Key[str]) -> Callable[[str], AbstractContextManager[None]]:
    return lambda value: verb({key: value})


SUBJECTS = {
    "ContextVar": Subject(VAR.get, VAR_WITH_DEFAULT.get, setting(VAR), setting(VAR_WITH_DEFAULT)),
    **{
        f"Key-{verb}": Subject(
            KEY.get,
            KEY_WITH_DEFAULT.get,
            entering(getattr(ctx, verb), KEY),
            entering(getattr(ctx, verb), KEY_WITH_DEFAULT),
        )
        for verb in ("session", "bind")
    },
}


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]


def in_thread(fn: Callable[[], Any]) -> Any:
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(fn()))
    thread.start()
    thread.join()
    return seen[0]


def test_get_returns_the_value(subject: Subject) -> None:
    """`get()` returns the value in effect."""
    with subject.holding("s1"):
        assert subject.get() == "s1"


def test_get_without_value_raises_lookup_error(subject: Subject) -> None:
    """`get()` where nothing is in effect is a LookupError."""
    with pytest.raises(LookupError):
        subject.get()


def test_get_returns_the_given_default(subject: Subject) -> None:
    """`get(default)` returns the default where nothing is in effect."""
    assert subject.get("given") == "given"


@pytest.mark.parametrize("default", [None, "", 0, ()])
def test_an_empty_default_is_a_default(subject: Subject, default: object) -> None:
    """A default that is falsy, None included, is returned as it is."""
    assert subject.get(default) is default


def test_own_default_is_returned(subject: Subject) -> None:
    """What was defined with a default never raises."""
    assert subject.get_with_default() == "default"


def test_explicit_default_wins_over_own(subject: Subject) -> None:
    """The default given to `get` goes before the one of the definition."""
    assert subject.get_with_default("given") == "given"
    assert subject.get_with_default(None) is None


def test_value_wins_over_defaults(subject: Subject) -> None:
    """A value in effect goes before every default."""
    with subject.holding_with_default("s1"):
        assert subject.get_with_default("given") == "s1"


def test_empty_value_is_a_value(subject: Subject) -> None:
    """An empty text in effect is no reason to fall back to a default."""
    with subject.holding_with_default(""):
        assert subject.get_with_default("given") == ""


def test_nesting_restores(subject: Subject) -> None:
    """Leaving brings the outer value back."""
    with subject.holding("outer"):
        with subject.holding("inner"):
            assert subject.get() == "inner"

        assert subject.get() == "outer"
    assert subject.get(None) is None


@pytest.mark.asyncio
async def test_task_takes_the_value_along(subject: Subject) -> None:
    """A task sees what was in effect where it was created, also after that was left."""

    async def read() -> Any:
        return subject.get()

    with subject.holding("s1"):
        task = asyncio.create_task(read())

    assert await task == "s1"
    assert subject.get(None) is None


@pytest.mark.asyncio
async def test_to_thread_takes_the_value_along(subject: Subject) -> None:
    """`asyncio.to_thread` runs in a copy of the caller's context."""
    with subject.holding("s1"):
        assert await asyncio.to_thread(subject.get) == "s1"


@pytest.mark.asyncio
async def test_call_soon_takes_the_value_along(subject: Subject) -> None:
    """A callback sees what was in effect where it was scheduled."""
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[Any] = loop.create_future()

    with subject.holding("s1"):
        loop.call_soon(lambda: seen.set_result(subject.get()))

    assert await seen == "s1"


def test_copied_context_keeps_the_value(subject: Subject) -> None:
    """A context that was copied keeps what was in effect, as often as it is read."""
    with subject.holding("s1"):
        context = copy_context()

    assert [context.run(subject.get), context.run(subject.get)] == ["s1", "s1"]


def test_bare_thread_is_born_as_the_interpreter_says(subject: Subject) -> None:
    """A bare thread has nothing in effect, unless the interpreter makes threads inherit."""
    inherits = bool(getattr(sys.flags, "thread_inherit_context", 0))

    with subject.holding("s1"):
        assert in_thread(lambda: subject.get(None)) == ("s1" if inherits else None)


@pytest.mark.asyncio
async def test_tasks_are_isolated(subject: Subject) -> None:
    """Two tasks that are inside at the same time each see their own value."""
    both_inside = asyncio.Barrier(2)

    async def serve(value: str) -> tuple[Any, Any]:
        with subject.holding(value):
            await both_inside.wait()
            seen = subject.get()
            await both_inside.wait()
        return seen, subject.get(None)

    assert await asyncio.gather(serve("a"), serve("b")) == [("a", None), ("b", None)]


@pytest.mark.asyncio
async def test_task_does_not_change_its_parent(subject: Subject) -> None:
    """What a task puts in effect is not seen by the task that awaits it."""

    async def child() -> Any:
        with subject.holding("child"):
            return subject.get()

    with subject.holding("parent"):
        assert await asyncio.create_task(child()) == "child"
        assert subject.get() == "parent"
