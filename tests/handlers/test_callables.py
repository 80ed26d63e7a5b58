"""Which callables can be handlers: one test for each kind."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, partialmethod
from typing import Any

import pytest

import ctxruntime as ctx

WAYS = pytest.mark.parametrize("way", [ctx.inject, ctx.adapt], ids=["inject", "adapt"])


def function(raw: str, session_id: str) -> tuple[str, str]:
    return raw, session_id


class Plugin:
    def method(self, raw: str, session_id: str) -> tuple[str, str]:
        assert isinstance(self, Plugin)
        return raw, session_id

    @classmethod
    def class_method(cls, raw: str, session_id: str) -> tuple[str, str]:
        assert issubclass(cls, Plugin)
        return raw, session_id

    @staticmethod
    def static_method(raw: str, session_id: str) -> tuple[str, str]:
        return raw, session_id

    bound_late = partialmethod(method, "x")


class CallableObject:
    def __call__(self, raw: str, session_id: str) -> tuple[str, str]:
        assert isinstance(self, CallableObject)
        return raw, session_id


class Unhashable(CallableObject):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("never compared")


class WithSlots(CallableObject):
    __slots__ = ()


class OnlySlots:
    __slots__ = ("tag",)

    def __call__(self, raw: str, session_id: str) -> tuple[str, str]:
        return raw, session_id


class EqualsAll(CallableObject):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Answers(CallableObject):
    """A callable object that has every attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: name


class CallIsStatic:
    @staticmethod
    def __call__(raw: str, session_id: str) -> tuple[str, str]:
        return raw, session_id


class CallIsClassMethod:
    @classmethod
    def __call__(cls, raw: str, session_id: str) -> tuple[str, str]:
        return raw, session_id


class CallIsPartial:
    __call__ = partialmethod(CallableObject.__call__.__get__(CallableObject()))


class AsTuple(tuple):  # type: ignore[type-arg]
    __slots__ = ()

    def __new__(cls, raw: str, session_id: str) -> Any:
        return tuple.__new__(cls, (raw, session_id))


HANDLERS: dict[str, Any] = {
    "function": function,
    "lambda": lambda raw, session_id: (raw, session_id),
    "method": Plugin().method,
    "class method": Plugin.class_method,
    "class method of an instance": Plugin().class_method,
    "static method": Plugin.static_method,
    "partial": partial(function),
    "partial with a position": partial(lambda first, raw, session_id: (raw, session_id), 1),
    "partial with a keyword": partial(lambda raw, session_id, last: (raw, session_id), last=1),
    "partial of a partial": partial(partial(lambda a, raw, b, session_id: (raw, session_id), 1), b=2),
    "partial of a method": partial(Plugin().method),
    "partial method": partial(Plugin.method, Plugin()),
    "callable object": CallableObject(),
    "unhashable callable object": Unhashable(),
    "callable object with empty slots": WithSlots(),
    "callable object of slots only": OnlySlots(),
    "callable object that equals all": EqualsAll(),
    "callable object with every attribute": Answers(),
    "callable object whose call is static": CallIsStatic(),
    "callable object whose call is a class method": CallIsClassMethod(),
    "partial of a callable object": partial(CallableObject()),
    "bound __call__": CallableObject().__call__,
    "class with __new__": AsTuple,
}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_handler_of_every_kind_gets_its_key(give: Any, handler: Any) -> None:
    """Whatever kind of callable a handler is, it gets the key that it names."""
    given = give(handler)

    with ctx.session(session_id="s1"):
        assert given("x") == ("x", "s1")
    with ctx.session(session_id="s2"):
        assert given("y") == ("y", "s2")


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_handler_of_every_kind_takes_what_the_caller_gives(give: Any, handler: Any) -> None:
    """Whatever kind of callable a handler is, what the caller passed wins."""
    with ctx.session(session_id="s1"):
        assert give(handler)("x", session_id="mine") == ("x", "mine")


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_handler_of_every_kind_raises_where_a_required_key_is_unbound(give: Any, handler: Any) -> None:
    """Whatever kind of callable a handler is, an unbound required key is named."""
    with pytest.raises(ctx.UnboundKeyError, match="requires key 'session_id'"):
        give(handler)("x")


def test_class_with_init_gets_its_key(give: Any) -> None:
    """A class is called with what its `__init__` takes."""

    class Made:
        def __init__(self, raw: str, session_id: str) -> None:
            self.got = raw, session_id

    with ctx.session(session_id="s1"):
        assert give(Made)("x").got == ("x", "s1")


def test_class_gets_only_what_new_and_init_let_through(give: Any) -> None:
    """A key that `__new__` does not take cannot reach `__init__`."""

    class Narrow:
        def __new__(cls, raw: str) -> Any:
            return object.__new__(cls)

        def __init__(self, raw: str, session_id: str = "none") -> None:
            self.got = session_id

    with ctx.session(session_id="s1"):
        assert give(Narrow)("x").got == "none"


def test_class_whose_new_takes_anything_gets_its_key(give: Any) -> None:
    """A `__new__` that takes anything lets the key through to `__init__`."""

    class Wide:
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return object.__new__(cls)

        def __init__(self, raw: str, session_id: str = "none") -> None:
            self.got = session_id

    with ctx.session(session_id="s1"):
        assert give(Wide)("x").got == "s1"


def test_class_with_a_metaclass_call_gets_its_key(give: Any) -> None:
    """A metaclass's `__call__` is what a call of the class binds first."""

    class Meta(type):
        def __call__(cls, raw: str, *, session_id: str = "none") -> Any:
            return raw, session_id

    class Made(metaclass=Meta):
        pass

    with ctx.session(session_id="s1"):
        assert give(Made)("x") == ("x", "s1")


def test_class_without_parameters_is_called_bare(give: Any) -> None:
    """A class that names no key is called with what the caller gives."""

    class Legacy:
        pass

    with ctx.session(session_id="s1"):
        assert isinstance(give(Legacy)(), Legacy)


@pytest.mark.asyncio
async def test_coroutine_function_gets_its_key(give: Any) -> None:
    """A coroutine function gets its key, and is awaited by the caller."""

    async def handler(raw: str, session_id: str) -> tuple[str, str]:
        await asyncio.sleep(0)
        return raw, session_id

    with ctx.session(session_id="s1"):
        assert await give(handler)("x") == ("x", "s1")


def test_generator_function_gets_its_key(give: Any) -> None:
    """A generator function gives a real generator."""

    def handler(raw: str, session_id: str) -> Iterator[str]:
        yield raw
        yield session_id

    with ctx.session(session_id="s1"):
        made = give(handler)("x")

    assert inspect.isgenerator(made)
    assert list(made) == ["x", "s1"]


@pytest.mark.asyncio
async def test_async_generator_function_gets_its_key(give: Any) -> None:
    """An async generator function gives a real async generator."""

    async def handler(raw: str, session_id: str) -> AsyncIterator[str]:
        yield raw
        yield session_id

    with ctx.session(session_id="s1"):
        made = give(handler)("x")

    assert inspect.isasyncgen(made)
    assert [item async for item in made] == ["x", "s1"]


@pytest.mark.asyncio
async def test_async_callable_object_gets_its_key(give: Any) -> None:
    """A callable object with an async `__call__` gets its key."""

    class Handler:
        async def __call__(self, raw: str, session_id: str) -> tuple[str, str]:
            return raw, session_id

    with ctx.session(session_id="s1"):
        assert await give(Handler())("x") == ("x", "s1")


async def coroutine_handler(raw: str, session_id: str = "none") -> str:
    return session_id


def generator_handler(raw: str, session_id: str = "none") -> Iterator[str]:
    yield session_id


async def async_generator_handler(raw: str, session_id: str = "none") -> AsyncIterator[str]:
    yield session_id


class KindPlugin:
    async def coroutine(self, session_id: str = "none") -> str:
        return session_id

    def generator(self, session_id: str = "none") -> Iterator[str]:
        yield session_id


QUESTIONS = [inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction]


@WAYS
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
@pytest.mark.parametrize(
    "handler",
    [
        function,
        coroutine_handler,
        generator_handler,
        async_generator_handler,
        partial(coroutine_handler, "x"),
        partial(generator_handler, "x"),
        KindPlugin().coroutine,
        KindPlugin().generator,
    ],
    ids=[
        "function", "coroutine", "generator", "async generator", "partial coroutine", "partial generator",
        "coroutine method", "generator method",
    ],
)  # fmt: skip
def test_kind_is_answered_as_the_handler_answers(way: Any, question: Callable[[Any], bool], handler: Any) -> None:
    """What inspect says of a handler, it says of the injected and the adapted one."""
    assert question(way(handler)) is question(handler)


@WAYS
@pytest.mark.parametrize("method", ["coroutine", "generator"])
def test_kind_of_a_bound_method_is_kept(way: Any, method: str) -> None:
    """A method that was decorated in the class answers as before when it is bound."""
    plugin = type("P", (), {method: way(getattr(KindPlugin, method))})()

    for question in QUESTIONS:
        assert question(getattr(plugin, method)) is question(getattr(KindPlugin(), method))


@WAYS
def test_native_callables_are_called_bare(way: Any) -> None:
    """C callables with and without a signature are called with what the caller gives."""
    with ctx.session(session_id="s1"):
        assert way(int)("42") == 42
        assert way(max)("42") == "4"
        assert way("a-b".split)("-") == ["a", "b"]
        assert way(len)([1]) == 1
        assert way(dict)(a=1) == {"a": 1}


def test_signature_that_lies_is_not_believed(give: Any) -> None:
    """What the code binds decides, not `__signature__`."""

    def narrow(raw: str) -> str:
        return raw

    def wide(raw: str, session_id: str = "none") -> str:
        return session_id

    narrow.__signature__ = inspect.signature(wide)  # type: ignore[attr-defined]
    wide.__signature__ = inspect.signature(lambda raw: None)  # type: ignore[attr-defined]
    with ctx.session(session_id="s1"):
        assert give(narrow)("x") == "x"
        assert give(wide)("x") == "s1"


def test_lru_cache_is_filled_by_keyword(give: Any) -> None:
    """A C wrapper around a function lets everything through, and caches by session then."""
    calls = []

    @functools.lru_cache
    def handler(raw: str, session_id: str = "none") -> str:
        calls.append((raw, session_id))
        return session_id

    given = give(handler)
    for session_id in ("s1", "s2", "s1"):
        with ctx.session(session_id=session_id):
            assert given("x") == session_id
    assert calls == [("x", "s1"), ("x", "s2")]


def test_singledispatch_is_called_through(give: Any) -> None:
    """A dispatching wrapper passes the key on to the function it chooses."""

    @functools.singledispatch
    def handler(raw: object, session_id: str = "none") -> str:
        return session_id

    with ctx.session(session_id="s1"):
        assert give(handler)("x") == "s1"


def test_partial_position_fills_the_key(give: Any) -> None:
    """A key whose position a partial fills is not passed again."""
    given = give(partial(lambda session_id, raw: (session_id, raw), "mine"))

    with ctx.session(session_id="s1"):
        assert given("x") == ("mine", "x")
