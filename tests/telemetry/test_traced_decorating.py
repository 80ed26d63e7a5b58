"""What `traced` and `handler` leave of a handler: its identity, its copies, its binding, its signature."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ctxruntime as ctx
from ctxruntime.telemetry.traced import handler, traced

WAYS = pytest.mark.parametrize("way", [traced, handler], ids=["traced", "handler"])
TENANT = ctx.Key("traced_tenant", str, inject="marked")


@pytest.fixture(params=["without", "with"])
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Run with a provider of the SDK, and without one; return what was exported."""
    exporter = InMemorySpanExporter()
    if request.param == "with":
        made = TracerProvider()
        made.add_span_processor(SimpleSpanProcessor(exporter))
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", made)
    return exporter


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Return how to read the names of the spans of a provider that is the global one."""
    exporter, made = InMemorySpanExporter(), TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", made)
    return lambda: [span.name for span in exporter.get_finished_spans()]


@traced
def module_level(raw: str, session_id: str = "none") -> tuple[str, str]:
    """Say what arrived."""
    return raw, session_id


@handler
def module_handler(raw: str, session_id: str = "none") -> tuple[str, str]:
    return raw, session_id


class Callee:
    attribute = "kept"

    def __call__(self, raw: str, session_id: str = "none") -> tuple[str, str]:
        return raw, session_id


module_object = traced(Callee())
module_object.__qualname__ = "module_object"  # type: ignore[attr-defined]


class Plugin:
    @traced
    def method(self, raw: str) -> tuple[object, str]:
        return self, raw

    @traced
    @staticmethod
    def static(raw: str) -> tuple[object, str]:
        return None, raw

    @classmethod
    @traced
    def above(cls, raw: str) -> tuple[object, str]:
        return cls, raw

    @handler
    @classmethod
    def below(cls, raw: str, session_id: str = "none") -> tuple[object, str]:
        return cls, raw + session_id

    @handler
    def handle(self, raw: str, session_id: str = "none") -> tuple[object, str]:
        return self, raw + session_id

    callee = traced(Callee())
    part = traced(staticmethod(functools.partial(Callee(), "part")))  # from 3.14 on a partial binds


def test_methods_of_each_kind_bind_as_before(provider: InMemorySpanExporter) -> None:
    """Methods, static and class methods, callable objects and partials get what they would get untraced."""
    plugin = Plugin()

    assert plugin.method("x") == (plugin, "x")
    assert plugin.static("x") == Plugin.static("x") == (None, "x")
    assert plugin.above("x") == Plugin.above("x") == (Plugin, "x")
    assert plugin.callee("x") == ("x", "none")
    assert plugin.part() == ("part", "none")
    with ctx.session(session_id="s1"):
        assert plugin.below("x") == (Plugin, "xs1")
        assert plugin.handle("x") == (plugin, "xs1")


def test_each_kind_has_one_span_a_call(exported: Callable[[], list[str]]) -> None:
    """Whatever the handler is, one call is one span, named after it."""
    plugin = Plugin()
    plugin.method("x")
    plugin.static("x")
    plugin.above("x")
    plugin.below("x")
    plugin.handle("x")
    plugin.callee("x")
    plugin.part()
    traced(plugin.method)("x")
    handler(plugin.handle)("x")
    traced(Callee)()
    traced(len)("x")

    assert exported() == [
        *("Plugin.method", "Plugin.static", "Plugin.above", "Plugin.below", "Plugin.handle"),
        *("Callee", "Callee", "Plugin.method", "Plugin.handle", "Callee", "len"),
    ]


def test_signatures_of_all_kinds_are_called_as_before(provider: InMemorySpanExporter) -> None:
    """Positional-only, defaulted, variadic and keyword-only parameters arrive as they were given."""

    def all_kinds(a: Any, /, _b: Any, __c: Any = 3, *rest: Any, d: Any, e: Any = 5, **more: Any) -> Any:
        return a, _b, __c, rest, d, e, more

    def keywords(*, a: Any, _b: Any = 2) -> Any:
        return a, _b

    def our_names(_fn: Any, _run: Any, _trace: Any, _tracing: Any, __fn: Any = 1) -> Any:
        return _fn, _run, _trace, _tracing, __fn

    for fn, given, named in (
        (all_kinds, (1, 2), {"d": 4}),
        (all_kinds, (1, 2, 3, 4, 5), {"d": 4, "e": 6, "a": 7}),
        (keywords, (), {"a": 1}),
        (our_names, (1, 2, 3, 4), {}),
        (lambda *args, **kwargs: (args, kwargs), (1,), {"x": 2}),
        (lambda: None, (), {}),
    ):
        assert traced(fn)(*given, **named) == fn(*given, **named)
        assert str(inspect.signature(traced(fn))) == str(inspect.signature(fn))


@WAYS
def test_a_call_that_does_not_fit_is_the_callers_error(way: Any, provider: InMemorySpanExporter) -> None:
    """A missing or unexpected argument is a TypeError at the call, and no span."""

    @way
    async def fetch(raw: str) -> None: ...

    with pytest.raises(TypeError, match="raw"):
        fetch()
    with pytest.raises(TypeError, match="other"):
        fetch("x", other=1)
    assert provider.get_finished_spans() == ()


def function() -> None: ...


async def coroutine() -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@WAYS
@pytest.mark.parametrize(
    "fn", [function, coroutine, generator, async_generator], ids=["function", "coroutine", "generator", "agen"]
)
def test_the_kind_of_a_handler_is_still_seen(way: Any, fn: Any) -> None:
    """`iscoroutinefunction` and its kin answer as they do for the handler, for methods too."""

    class Holder:
        bound = way(fn)

    for ask in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        assert ask(way(fn)) is ask(fn)
        assert ask(Holder().bound) is ask(fn)


@pytest.mark.parametrize("fn", [coroutine, generator, async_generator], ids=["coroutine", "generator", "agen"])
def test_a_call_makes_what_the_handler_makes(exported: Callable[[], list[str]], fn: Any) -> None:
    """With a provider, a call still returns a coroutine, generator or async generator of the handler's name."""
    made, plain = traced(fn)(), fn()

    assert type(made) is type(plain)
    assert (made.__name__, made.__qualname__) == (plain.__name__, plain.__qualname__)
    for each in (made, plain):
        if fn is not async_generator:
            each.close()


@pytest.mark.parametrize(
    "fn", [module_level, module_handler, module_object, Plugin.method], ids=["traced", "handler", "object", "method"]
)
def test_it_pickles_by_reference_and_copies_to_itself(fn: Any) -> None:
    """Pickle finds the decorated handler under its name, and copies are the handler itself."""
    assert pickle.loads(pickle.dumps(fn)) is fn
    assert copy.copy(fn) is copy.deepcopy(fn) is fn


def test_a_traced_function_is_known_by_what_it_was() -> None:
    """Name, module, docstring, annotations and the wrapped function are the handler's."""
    assert module_level.__name__ == "module_level"
    assert module_level.__module__ == __name__
    assert module_level.__doc__ == "Say what arrived."
    assert module_level.__annotations__ == inspect.unwrap(module_level).__annotations__
    assert module_object.attribute == "kept"


def test_the_handler_itself_is_never_written_to() -> None:
    """Decorating leaves the plugin's own function as it was."""

    def fn(raw: str, session_id: str = "none") -> None: ...

    before = dict(vars(fn)), fn.__defaults__, fn.__code__
    handler("name", record_input=True)(fn)

    assert (dict(vars(fn)), fn.__defaults__, fn.__code__) == before


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param((traced, traced), id="traced-traced"),
        pytest.param((handler, handler), id="handler-handler"),
        pytest.param((traced, handler), id="traced-handler"),
        pytest.param((handler, traced), id="handler-traced"),
        pytest.param((traced, ctx.inject), id="traced-inject"),
        pytest.param((ctx.inject, traced), id="inject-traced"),
        pytest.param((handler, ctx.inject, traced), id="handler-inject-traced"),
        pytest.param((ctx.inject(var_keyword="none"), handler), id="inject-with-options-handler"),
        pytest.param((ctx.adapt, handler), id="adapt-handler"),
        pytest.param((handler, ctx.adapt), id="handler-adapt"),
        pytest.param((traced, ctx.adapt), id="traced-adapt"),
        pytest.param((functools.partial(ctx.adapt, missing=("",)), handler), id="adapt-with-options-handler"),
    ],
)
@pytest.mark.parametrize("of", ["function", "object"])
def test_decorated_twice_is_one_span_and_one_injection(
    exported: Callable[[], list[str]], stack: tuple[Any, ...], of: str
) -> None:
    """In whatever order, and how often, the decorators are stacked: keys arrive, and a call is one span."""

    def fn(raw: str, session_id: str = "none") -> tuple[str, str]:
        return raw, session_id

    decorated: Any = fn if of == "function" else Callee()
    for decorator in reversed(stack):
        decorated = decorator(decorated)

    injects = stack not in [(traced, traced)]
    with ctx.session(session_id="s1"):
        assert decorated("x") == ("x", "s1" if injects else "none")
        assert decorated("x", "mine") == decorated(raw="x", session_id="mine") == ("x", "mine")
    assert exported() == ["fn" if of == "function" else "Callee"] * 3


@WAYS
@pytest.mark.parametrize("of", [module_level.__wrapped__, Callee()], ids=["function", "object"])  # type: ignore[attr-defined]
def test_decorating_again_returns_the_same(way: Any, of: Any) -> None:
    """A second decoration that says nothing new changes nothing."""
    once = way(of)

    assert way(once) is once
    assert traced(once) is once


def test_the_name_that_was_given_last_counts(exported: Callable[[], list[str]]) -> None:
    """A further decoration without a name keeps the one that was given."""
    handler(traced("first")(function))()
    traced("second")(handler("first")(function))()

    assert exported() == ["first", "second"]


def test_an_adapting_host_keeps_its_options_through_traced(exported: Callable[[], list[str]]) -> None:
    """What a host said of missing values and of keys holds when the adapted handler is traced later."""

    def fn(session_id: str = "none", gateway_session_key: str = "none") -> tuple[str, str]:
        return session_id, gateway_session_key

    adapted = ctx.adapt(fn, missing=("",), keys=[ctx.SESSION_ID])
    with ctx.session(session_id="s1", gateway_session_key="k1"):
        assert traced(adapted)("") == ("s1", "none")
        assert traced(ctx.inject(adapted))("") == ("s1", "none")
    assert exported() == ["fn", "fn"]


def test_options_of_inject_work_with_handler(exported: Callable[[], list[str]]) -> None:
    """Aliases, `var_keyword` and `hide` mean for `handler` what they mean for `inject`."""

    @handler("tool", aliases={"sid": ctx.SESSION_ID}, var_keyword="none", hide=True)
    def fn(raw: str, sid: str = "none", **more: object) -> tuple[str, str, dict[str, object]]:
        return raw, sid, more

    with ctx.session(session_id="s1", gateway_session_key="k1"):
        assert fn("x") == ("x", "s1", {})
    assert list(inspect.signature(fn).parameters) == ["raw", "more"]
    with pytest.raises(ctx.UnknownKeyError, match="sidd"):
        handler(aliases={"sidd": ctx.SESSION_ID})(function)


@pytest.mark.parametrize("how", ["handler", "inject-traced", "call", "adapt"])
def test_markers_are_seen_through_a_span(how: str) -> None:
    """A parameter that is marked with a key gets it, though annotations are text in the handler's own module."""

    def fn(tenant: Annotated[str, TENANT] = "none") -> str:
        return tenant

    ways: dict[str, Callable[[], str]] = {
        "handler": lambda: handler(fn)(),
        "inject-traced": lambda: ctx.inject(traced(fn))(),
        "call": lambda: ctx.call(traced(fn)),
        "adapt": lambda: ctx.adapt(traced(fn))(),
    }
    with ctx.session({TENANT: "t1"}):
        assert ways[how]() == "t1"


def test_a_traced_handler_dies_with_its_last_holder() -> None:
    """Nothing of ours keeps a handler alive, also after calls by a host."""

    def fn(session_id: str = "none") -> None: ...

    decorated: Any = handler(fn)
    ctx.call(decorated)
    ctx.call(traced(fn))
    gone = weakref.ref(fn)
    del fn, decorated
    gc.collect()

    assert gone() is None


@WAYS
def test_what_cannot_be_called_is_refused(way: Any) -> None:
    """Decorating what is no callable is a TypeError that names its type."""
    with pytest.raises(TypeError, match="int"):
        way(42)
