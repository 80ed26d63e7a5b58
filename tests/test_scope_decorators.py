"""Scopes as decorators: in effect during the whole body of functions of every kind."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import ctxruntime as ctx

VERBS: dict[str, Callable[..., Any]] = {"session": ctx.session, "join": ctx.session.join, "bind": ctx.bind}
EACH_VERB = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())


def function() -> Any:
    return ctx.SESSION_ID.get(None)


def generator() -> Iterator[Any]:
    yield ctx.SESSION_ID.get(None)


async def coroutine() -> Any:
    await asyncio.sleep(0)
    return ctx.SESSION_ID.get(None)


async def async_generator() -> AsyncIterator[Any]:
    await asyncio.sleep(0)
    yield ctx.SESSION_ID.get(None)


KINDS = [function, generator, coroutine, async_generator]
EACH_KIND = pytest.mark.parametrize("fn", KINDS, ids=lambda fn: fn.__name__)


async def result_of(made: Any) -> Any:
    if inspect.isawaitable(made):
        return await made
    if inspect.isgenerator(made):
        return next(made)
    if inspect.isasyncgen(made):
        return await anext(made)
    return made


@pytest.mark.asyncio
@EACH_KIND
@EACH_VERB
async def test_scope_is_in_effect_in_the_whole_body(fn: Any, verb: Any) -> None:
    """The body of a function of any kind runs in the scope, and the caller does not."""
    decorated = verb(session_id="s1")(fn)

    assert await result_of(decorated()) == "s1"
    assert ctx.SESSION_ID.get(None) is None


@pytest.mark.asyncio
@EACH_KIND
async def test_cleared_decorates(fn: Any) -> None:
    """`cleared()` decorates as the others do."""
    with ctx.session(session_id="s1"):
        assert await result_of(ctx.cleared()(fn)()) is None
        assert ctx.SESSION_ID.get() == "s1"


@EACH_KIND
@pytest.mark.parametrize(
    "question",
    [inspect.isfunction, inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction],
    ids=lambda question: question.__name__,
)
def test_decorated_function_answers_inspect_as_before(fn: Any, question: Any) -> None:
    """What `inspect` says of a function does not change with the decoration."""
    assert question(ctx.session(session_id="s1")(fn)) is question(fn)


@EACH_KIND
def test_decorated_function_keeps_name_and_signature(fn: Any) -> None:
    """Name, doc, module and signature are those of the function."""
    decorated = ctx.bind(session_id="s1")(fn)

    assert (decorated.__name__, decorated.__module__) == (fn.__name__, fn.__module__)
    assert inspect.signature(decorated) == inspect.signature(fn)
    assert decorated.__wrapped__ is fn


class Plugin:
    @ctx.session(session_id=lambda sid: sid)
    def method(self, sid: str) -> tuple[Any, ...]:
        return self, ctx.SESSION_ID.get()

    @staticmethod
    @ctx.session(session_id=lambda sid: sid)
    def under_static(sid: str) -> Any:
        return ctx.SESSION_ID.get()

    @ctx.session(session_id=lambda sid: sid)
    @staticmethod
    def over_static(sid: str) -> Any:
        return ctx.SESSION_ID.get()

    @classmethod
    @ctx.session(session_id=lambda sid: sid)
    def under_class(cls, sid: str) -> Any:
        return cls, ctx.SESSION_ID.get()

    @ctx.session(session_id=lambda sid: sid)
    @classmethod
    def over_class(cls, sid: str) -> Any:
        return cls, ctx.SESSION_ID.get()

    @ctx.session(session_id="s1")
    def __call__(self) -> Any:
        return ctx.SESSION_ID.get()


def test_methods_are_decorated() -> None:
    """A decorated method is bound as any, and `self` is not taken for an argument."""
    plugin = Plugin()
    assert plugin.method("s1") == (plugin, "s1")
    assert plugin() == "s1"


def test_static_and_class_methods_are_decorated() -> None:
    """Static and class methods can be decorated from either side, on the class and on an instance."""
    for owner in (Plugin, Plugin()):
        assert owner.under_static("a") == "a"
        assert owner.over_static("b") == "b"
        assert owner.under_class("c") == (Plugin, "c")
        assert owner.over_class("d") == (Plugin, "d")


def test_partials_and_callable_objects_are_decorated() -> None:
    """What is callable can be decorated, though it is no function."""
    assert ctx.bind(session_id="s2")(functools.partial(function))() == "s2"
    assert ctx.bind(user_id="u1")(Plugin())() == "s1"


@pytest.mark.parametrize("thing", [None, "name", 3])
def test_only_callables_are_decorated(thing: Any) -> None:
    """Decorating what is not callable says what to write instead."""
    with pytest.raises(TypeError, match=r"a scope decorates a function, not .*: write `with`"):
        ctx.session(session_id="s1")(thing)


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("positional", ("chat",), {}),
    ("keyword", (), {"event": "chat"}),
    ("default", (), {}),
]


@pytest.mark.parametrize(("_kind", "args", "kwargs"), CALLS, ids=[call[0] for call in CALLS])
def test_value_is_computed_from_the_arguments_it_names(_kind: str, args: Any, kwargs: Any) -> None:
    """A function that is given for a value is called with the arguments that it names."""

    @ctx.session(gateway_session_key=lambda event: f"key:{event}", frontend="gateway")
    def serve(event: str = "chat", other: int = 0) -> dict[str, object]:
        return dict(ctx.current())

    assert serve(*args, **kwargs) == {"gateway_session_key": "key:chat", "frontend": "gateway"}


@pytest.mark.asyncio
@EACH_VERB
async def test_value_is_computed_for_each_kind_of_function(verb: Any) -> None:
    """Computing works over every kind of function, and each call has its own value."""
    scope = verb(session_id=lambda sid: sid)

    async def coroutine_of(sid: str) -> Any:
        return await coroutine()

    async def async_generator_of(sid: str) -> AsyncIterator[Any]:
        yield ctx.SESSION_ID.get()

    def generator_of(sid: str) -> Iterator[Any]:
        yield ctx.SESSION_ID.get()

    for fn in (coroutine_of, async_generator_of, generator_of, lambda sid: ctx.SESSION_ID.get()):
        decorated = scope(fn)
        made = [decorated("a"), decorated("b")]
        assert [await result_of(each) for each in made] == ["a", "b"]


def test_value_is_computed_from_several_arguments() -> None:
    """The arguments are given by name, in the order of the function that asks, `self` included."""

    class Host:
        name = "host"

        @ctx.bind(session_id=lambda chat, self: f"{self.name}:{chat}")
        def serve(self, chat: str) -> Any:
            return ctx.SESSION_ID.get()

    assert Host().serve("c1") == "host:c1"


def test_value_is_computed_from_var_keywords() -> None:
    """An argument that arrives in `**kwargs` can be named, too."""

    @ctx.session(session_id=lambda sid: sid)
    def serve(**kwargs: Any) -> Any:
        return ctx.SESSION_ID.get()

    assert serve(sid="s1", other=1) == "s1"


@pytest.mark.parametrize("nothing", [None, ctx.UNSET])
def test_computed_none_is_not_known(nothing: Any) -> None:
    """A computed None leaves the key unbound."""
    assert ctx.session(session_id=lambda: nothing)(function)() is None


def test_computed_value_is_checked() -> None:
    """A computed value is checked as any other, before the body runs."""
    ran = []

    @ctx.session(session_id=lambda event: event, user_id="u1")
    def serve(event: Any) -> None:
        ran.append(event)

    with pytest.raises(ctx.InvalidValueError, match="'session_id' takes str, not dict"):
        serve({"id": 1})
    assert ran == []
    assert dict(ctx.current()) == {}


def test_argument_that_the_function_does_not_take_is_refused_at_once() -> None:
    """A computed value that names no argument of the function is refused when decorating."""
    with pytest.raises(
        ctx.InvalidValueError,
        match=r"'session_id' is computed from argument 'evnt', which .*serve does not take: name one of event",
    ):

        @ctx.session(session_id=lambda evnt: evnt)
        def serve(event: str) -> None: ...


def test_error_of_the_computing_function_reaches_the_caller() -> None:
    """An error in computing is the caller's, and nothing is in effect after it."""
    with pytest.raises(ZeroDivisionError):
        ctx.session(session_id=lambda: str(1 / 0))(function)()
    assert dict(ctx.current()) == {}


def test_wrong_call_is_the_functions_own_error() -> None:
    """A call with wrong arguments raises what the function itself would."""

    @ctx.session(session_id=lambda event: event)
    def serve(event: str) -> None: ...

    with pytest.raises(TypeError, match=r"serve\(\) missing 1 required positional argument: 'event'"):
        serve()  # type: ignore[call-arg]


def test_error_in_the_body_leaves_the_scope() -> None:
    """An error in the body reaches the caller unchanged, and the scope is left."""

    @ctx.session(session_id="s1")
    def serve() -> None:
        turns.append(ctx.current_turn())
        raise ZeroDivisionError

    turns: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        serve()
    assert turns[0].ended
    assert dict(ctx.current()) == {}


def test_recursion_enters_each_call() -> None:
    """A function that calls itself is in a turn of its own each time."""

    @ctx.session(session_id=lambda depth: str(depth))
    def serve(depth: int) -> list[Any]:
        inner = serve(depth - 1) if depth else []
        return [*inner, ctx.SESSION_ID.get()]

    assert serve(2) == ["0", "1", "2"]


@pytest.mark.asyncio
async def test_calls_at_once_have_turns_of_their_own() -> None:
    """One decorator serves many calls that overlap."""
    all_inside = asyncio.Barrier(4)

    @ctx.session(session_id=lambda sid: sid)
    async def serve(sid: str) -> Any:
        await all_inside.wait()
        ctx.amend(user_id=sid)
        await all_inside.wait()
        return ctx.USER_ID.get()

    assert await asyncio.gather(*map(serve, "abcd")) == list("abcd")


def test_decorated_plain_function_that_returns_a_coroutine_is_a_plain_function() -> None:
    """Only the body of a plain function is in the scope: what it returns is handed on as it is."""
    made = ctx.session(session_id="s1")(lambda: coroutine())()
    assert inspect.iscoroutine(made)
    made.close()


def test_session_object_is_not_spent_by_decorating() -> None:
    """A scope object that decorated a function can still be entered."""
    scope = ctx.session(session_id="s1")
    decorated = scope(function)
    with scope:
        assert decorated() == "s1"
    assert decorated() == "s1"


@pytest.mark.parametrize(
    "scope", [ctx.session(session_id="s1"), ctx.bind(session_id="s1"), ctx.session.join(session_id="s1")]
)
def test_what_a_decorated_function_of_any_kind_is_given_is_of_its_own_scope(scope: Any) -> None:
    """A scope over an injected function gives it the scope's keys, though a coroutine's body begins later."""

    def plain(session_id: str = "none") -> Any:
        return session_id

    async def coroutine(session_id: str = "none") -> Any:
        return session_id

    def generator(session_id: str = "none") -> Iterator[Any]:
        yield session_id

    async def async_generator(session_id: str = "none") -> AsyncIterator[Any]:
        yield session_id

    async def first() -> Any:
        return [item async for item in scope(ctx.inject(async_generator))()]

    with ctx.session(session_id="outer"):
        assert scope(ctx.inject(plain))() == "s1"
        assert asyncio.run(scope(ctx.inject(coroutine))()) == "s1"
        assert list(scope(ctx.inject(generator))()) == ["s1"]
        assert asyncio.run(first()) == ["s1"]
        assert ctx.SESSION_ID.get() == "outer"


def test_a_decorated_body_that_cannot_be_made_leaves_its_turn() -> None:
    """A call with the wrong arguments is the error that it is, and its door is left."""

    @ctx.session.join(session_id="s1")
    async def strict(one: int) -> None: ...

    with ctx.session(session_id="s1") as turn:
        with pytest.raises(TypeError):
            asyncio.run(strict())  # type: ignore[call-arg]
        gc.collect()
        assert turn.joined == 0
    assert turn.ended
