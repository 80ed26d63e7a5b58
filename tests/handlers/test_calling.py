"""The host's side: `call` and `acall`, first calls from many threads, and nothing kept alive."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime.handlers import calling


class Plugin:
    """A plugin that can be referred to weakly."""

    def method(self, raw: str, session_id: str = "none") -> str:
        return session_id

    def catch_all(self, raw: str, **kw: object) -> object:
        return kw.get("session_id")

    def __call__(self, raw: str, session_id: str = "none") -> str:
        return session_id


class Later:
    """An awaitable that is no coroutine."""

    def __await__(self) -> Generator[Any, None, str]:
        yield from asyncio.sleep(0).__await__()
        return "later"


def named() -> Any:
    def handler(raw: str, session_id: str = "none") -> str:
        return session_id

    return handler


def catch_all() -> Any:
    def handler(raw: str, **kw: object) -> object:
        return kw.get("session_id")

    return handler


def required() -> Any:
    def handler(raw: str, *, session_id: str) -> str:
        return session_id

    return handler


def wrapped() -> Any:
    return functools.wraps(inner := named())(lambda *args, **kwargs: inner(*args, **kwargs))


def legacy() -> Any:
    def handler(raw: str) -> str:
        return raw

    return handler


def own_default() -> Any:
    def handler(raw: str, session_id: object = Plugin()) -> object:
        return session_id

    return handler


def made_class() -> Any:
    class Made:
        def __init__(self, raw: str, session_id: str = "none") -> None:
            self.session_id = session_id

    return Made


MAKERS: dict[str, Callable[[], Any]] = {
    "named": named,
    "catch-all": catch_all,
    "required": required,
    "wrapped": wrapped,
    "legacy": legacy,
    "its own default": own_default,
    "partial": lambda: functools.partial(named()),
    "partial of a catch-all": lambda: functools.partial(catch_all()),
    "callable object": Plugin,
    "class": made_class,
    "injected": lambda: ctx.inject(named()),
    "lru_cache": lambda: functools.lru_cache(named()),
}
MAKERS_OF_FUNCTIONS = {name: MAKERS[name] for name in ("named", "catch-all", "required", "wrapped", "legacy")}


def collected(ref: weakref.ref[Any]) -> bool:
    gc.collect()
    return ref() is None


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_call_keeps_no_handler_alive(make: Any) -> None:
    """A handler that was called is free when its plugin lets it go."""
    handler = make()
    with ctx.session(session_id="s1"):
        ctx.call(handler, "x")
    ref = weakref.ref(handler)

    del handler
    assert collected(ref)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_explain_keeps_no_handler_alive(make: Any) -> None:
    """Explaining a handler keeps nothing once the plan is gone."""
    handler = make()
    str(ctx.explain(handler))
    ref = weakref.ref(handler)

    del handler
    assert collected(ref)


@pytest.mark.asyncio
async def test_acall_keeps_no_handler_alive() -> None:
    """A coroutine handler that was called is free when its plugin lets it go."""

    def make() -> Any:
        async def handler(raw: str, **kw: object) -> str:
            return raw

        return handler

    handler = make()
    await ctx.acall(handler, "x")
    ref = weakref.ref(handler)

    del handler
    assert collected(ref)


@pytest.mark.parametrize("name", ["method", "catch_all", "__call__"])
def test_call_of_a_method_keeps_no_owner_alive(name: str) -> None:
    """The instance behind a bound method is free when its plugin lets it go."""
    plugin = Plugin()
    with ctx.session(session_id="s1"):
        assert ctx.call(getattr(plugin, name), "x") == "s1"
    ref = weakref.ref(plugin)

    del plugin
    assert collected(ref)


def test_call_of_a_method_keeps_no_class_alive() -> None:
    """A plugin's class is free after it was unloaded."""
    cls = type("Unloaded", (), {"handle": named(), "__call__": catch_all()})
    ctx.call(cls().handle)
    ctx.call(cls())
    ref = weakref.ref(cls)

    del cls
    assert collected(ref)


@pytest.mark.parametrize("way", [ctx.inject, ctx.adapt], ids=["inject", "adapt"])
@pytest.mark.parametrize("make", MAKERS_OF_FUNCTIONS.values(), ids=MAKERS_OF_FUNCTIONS)
def test_dropped_wrapper_frees_the_handler(way: Any, make: Any) -> None:
    """A host that drops an injected or adapted handler drops the handler."""
    handler = make()
    made = way(handler)
    with ctx.session(session_id="s1"):
        made("x")
    ref = weakref.ref(handler)

    del handler, made
    assert collected(ref)


def test_one_adapter_per_method_function() -> None:
    """All instances of a plugin share one adapter."""
    size = len(calling._methods)
    for _ in range(10):
        ctx.call(Plugin().catch_all, "x")

    assert len(calling._methods) <= size + 1


def test_call_tells_equal_handlers_apart() -> None:
    """Handlers that claim to be equal are not confused."""

    class Same:
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            return True

    class One(Same):
        def __hash__(self) -> int:
            return 1

        @classmethod
        def __call__(cls, session_id: str = "none") -> tuple[str, str]:
            return "one", session_id

    class Two(Same):
        def __hash__(self) -> int:
            return 1

        @classmethod
        def __call__(cls, raw: str = "raw") -> tuple[str, str]:
            return "two", raw

    one, two = One(), Two()
    with ctx.session(session_id="s1"):
        assert ctx.call(one) == ("one", "s1")
        assert ctx.call(two) == ("two", "raw")


def test_call_is_not_fooled_by_a_changed_handler() -> None:
    """Two functions that share code are two handlers."""
    first, second = named(), named()

    with ctx.session(session_id="s1"):
        assert ctx.call(first, "x") == ctx.call(second, "x") == "s1"
    second.__defaults__ = ("other",)
    assert ctx.call(first, "x") == "none"


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_first_call_from_many_threads(make: Any) -> None:
    """Eight threads that call a handler first at once each get their own session."""
    handler = make()
    ready = threading.Barrier(8)
    got: dict[str, Any] = {}

    def serve(session_id: str) -> None:
        with ctx.session(session_id=session_id):
            ready.wait(10)
            got[session_id] = ctx.call(handler, "x")

    threads = [threading.Thread(target=serve, args=(f"s{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(got) == 8
    if make is not legacy:
        assert {getattr(value, "session_id", value) for value in got.values()} == set(got)


@pytest.mark.asyncio
async def test_concurrent_tasks_get_their_own_keys(give: Any) -> None:
    """One handler that serves many tasks gives each its own session."""

    async def handler(raw: str, session_id: str) -> str:
        await asyncio.sleep(0)
        return session_id

    given = give(handler)

    async def serve(session_id: str) -> str:
        with ctx.session(session_id=session_id):
            await asyncio.sleep(0)
            return await given("x")

    assert await asyncio.gather(*(serve(f"s{n}") for n in range(20))) == [f"s{n}" for n in range(20)]


# acall


async def coroutine(raw: str, session_id: str) -> str:
    await asyncio.sleep(0)
    return session_id


def plain(raw: str, session_id: str) -> str:
    return session_id


def gives_awaitable(raw: str, session_id: str) -> Awaitable[str]:
    return coroutine(raw, session_id)


async def shout(raw: str, session_id: str) -> str:
    return session_id


class AsyncObject:
    async def __call__(self, raw: str, session_id: str) -> str:
        return session_id


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "handler",
    [coroutine, plain, gives_awaitable, AsyncObject(), functools.partial(coroutine), ctx.inject(shout)],
    ids=["coroutine", "plain", "gives an awaitable", "async object", "partial", "injected"],
)
async def test_acall_awaits_what_is_awaitable(handler: Any) -> None:
    """`acall` serves registries that mix kinds of handlers."""
    with ctx.session(session_id="s1"):
        assert await ctx.acall(handler, "x") == "s1"
        assert await ctx.acall(handler, "x", session_id="mine") == "mine"


@pytest.mark.asyncio
async def test_acall_awaits_any_awaitable() -> None:
    """An awaitable that is no coroutine is awaited."""
    assert await ctx.acall(lambda: Later()) == "later"


@pytest.mark.asyncio
async def test_acall_leaves_async_generators() -> None:
    """An async generator is no awaitable: the caller iterates it."""

    async def handler(session_id: str) -> Any:
        yield session_id

    with ctx.session(session_id="s1"):
        made = await ctx.acall(handler)
    assert [item async for item in made] == ["s1"]


@pytest.mark.asyncio
async def test_acall_raises_the_handlers_error() -> None:
    """A handler's own error reaches who awaits, as the very object."""
    error = TypeError("mine")

    async def handler(session_id: str = "none") -> None:
        raise error

    with pytest.raises(TypeError) as caught:
        await ctx.acall(handler)
    assert caught.value is error


def test_call_tells_a_function_from_its_bound_method() -> None:
    """A method that is called through the class and through an instance is two handlers."""

    class Owner:
        def handle(self, raw: str, session_id: str = "none") -> tuple[object, str, str]:
            return self, raw, session_id

    owner = Owner()
    with ctx.session(session_id="s1"):
        assert ctx.call(Owner.handle, owner, "x") == (owner, "x", "s1")
        assert ctx.call(owner.handle, "x") == (owner, "x", "s1")
        assert ctx.call(Owner.handle, owner, "x") == (owner, "x", "s1")
