"""What `inject` and `adapt` leave of a handler: its identity, its copies, its binding, its signature."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import multiprocessing
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import wrapt

import ctxruntime as ctx

WAYS = pytest.mark.parametrize("way", [ctx.inject, ctx.adapt], ids=["inject", "adapt"])


@ctx.inject
def decorated(raw: str, session_id: str = "none") -> tuple[str, str]:
    """Say what arrived."""
    return raw, session_id


class Base:
    @ctx.inject
    def handle(self, raw: str, session_id: str = "none") -> tuple[object, ...]:
        return self, raw, session_id

    @classmethod
    @ctx.inject
    def above(cls, session_id: str = "none") -> tuple[object, ...]:
        return cls, session_id

    @ctx.inject
    @classmethod
    def below(cls, session_id: str = "none") -> tuple[object, ...]:
        return cls, session_id

    @staticmethod
    @ctx.inject
    def static_above(session_id: str = "none") -> tuple[object, ...]:
        return None, session_id

    @ctx.inject
    @staticmethod
    def static_below(session_id: str = "none") -> tuple[object, ...]:
        return None, session_id


class Child(Base):
    @ctx.inject
    def handle(self, raw: str, session_id: str = "none") -> tuple[object, ...]:
        return ("child", *super().handle(raw), session_id)


# Twice, and by both


def test_inject_twice_is_once() -> None:
    """Decorating twice gives the decorated handler itself."""
    assert ctx.inject(decorated) is decorated


def test_adapt_of_an_injected_handler_is_itself() -> None:
    """A handler that injects by itself needs no adapter."""
    assert ctx.adapt(decorated) is decorated


def test_adapt_twice_is_once() -> None:
    """Adapting twice gives the adapted handler itself."""
    adapted = ctx.adapt(lambda session_id="none": session_id)

    assert ctx.adapt(adapted) is adapted


def test_inject_of_an_adapted_handler_fills_once() -> None:
    """An adapted handler can be decorated, and gets its key."""
    handler = ctx.inject(ctx.adapt(lambda raw, session_id="none": (raw, session_id)))

    assert isinstance(handler, wrapt.FunctionWrapper)
    with ctx.session(session_id="s1"):
        assert handler("x") == ("x", "s1")
    assert handler("x") == ("x", "none")


@pytest.mark.parametrize("way", [ctx.inject, ctx.adapt], ids=["injected", "adapted"])
def test_call_of_a_handler_that_injects_by_itself(way: Any) -> None:
    """`call` leaves it to the handler, and to what its author said."""
    handler = way(lambda sid="none", **kw: (sid, kw), aliases={"sid": ctx.SESSION_ID}, var_keyword="none")

    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert ctx.call(handler) == ("s1", {})


def test_options_add_up() -> None:
    """What an author said once is not forgotten when it is decorated again."""
    first = ctx.inject(lambda sid, chat, **kw: (sid, chat, kw), aliases={"sid": ctx.SESSION_ID}, var_keyword="none")
    second = ctx.inject(first, aliases={"chat": ctx.GATEWAY_SESSION_KEY})

    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert second() == ("s1", "g1", {})


def test_hide_is_not_forgotten() -> None:
    """A hidden parameter stays hidden when it is decorated again."""
    handler = ctx.inject(ctx.inject(lambda raw, session_id="none": session_id, hide=True), var_keyword="none")

    assert list(inspect.signature(handler).parameters) == ["raw"]


def test_adapt_of_an_injected_handler_takes_the_hosts_options() -> None:
    """A host's `missing`, `keys` and `aliases` hold for handlers that inject by themselves."""
    handler = ctx.inject(lambda session_id="none", sid="none": (session_id, sid))

    with ctx.session(session_id="s1"):
        assert ctx.adapt(handler, missing=("",))(session_id="") == ("s1", "none")
        assert ctx.adapt(handler, keys=[])() == ("none", "none")
        assert ctx.adapt(handler, aliases={"sid": ctx.SESSION_ID})() == ("s1", "s1")


def test_adapt_of_an_injected_method_takes_the_hosts_options() -> None:
    """A bound method of an injected handler is adapted as it is bound."""
    plugin = Base()

    with ctx.session(session_id="s1"):
        assert ctx.adapt(plugin.handle, missing=("",))("x", session_id="") == (plugin, "x", "s1")


@pytest.mark.parametrize("again", [ctx.inject, ctx.adapt, lambda fn: functools.partial(ctx.call, fn)])
@WAYS
def test_layer_around_an_injected_handler_is_kept(way: Any, again: Any) -> None:
    """`functools.wraps` around such a handler makes another one: its layer is called too."""
    seen: list[str] = []
    inner = way(lambda raw, session_id="none": session_id)

    @functools.wraps(inner)
    def logged(*args: Any, **kwargs: Any) -> Any:
        seen.append("logged")
        return inner(*args, **kwargs)

    with ctx.session(session_id="s1"):
        assert again(logged)("x") == "s1"
    assert again(logged)("x") == "none"
    assert seen == ["logged", "logged"]


@WAYS
def test_layer_around_an_injected_handler_is_kept_with_missing(way: Any) -> None:
    """A host's options do not reach past a layer of somebody else's."""
    inner = way(lambda raw, session_id="none": session_id)
    logged = functools.wraps(inner)(lambda *args, **kwargs: ("logged", inner(*args, **kwargs)))

    with ctx.session(session_id="s1"):
        assert ctx.adapt(logged, missing=("",))("x", session_id="") == ("logged", "s1")


def test_author_who_wants_no_keywords_gets_none_through_a_partial() -> None:
    """`var_keyword="none"` holds inside a partial and a wrapping too."""
    inner = ctx.inject(lambda **kw: kw, var_keyword="none")
    wide = functools.wraps(inner)(lambda *args, **kwargs: inner(*args, **kwargs))

    with ctx.session(session_id="s1"):
        assert ctx.call(functools.partial(inner)) == {}
        assert ctx.call(wide) == {}


@WAYS
def test_partial_of_an_injected_handler_keeps_its_default(way: Any) -> None:
    """The default behind an injected handler is the handler's own."""
    inner = way(lambda raw, session_id="own": session_id)

    assert ctx.call(functools.partial(inner, "x")) == "own"
    assert ctx.inject(functools.partial(inner, "x"))() == "own"


def test_adapt_of_a_legacy_handler_is_itself() -> None:
    """A handler that accepts no key is returned itself."""

    def legacy(raw: str) -> str:
        return raw

    assert ctx.adapt(legacy) is legacy
    assert ctx.adapt(int) is int
    assert ctx.adapt(lambda_ := lambda *args: args) is lambda_


# Identity


def test_injected_handler_is_a_function_wrapper() -> None:
    """`@inject` gives a `wrapt.FunctionWrapper` around the handler."""
    assert isinstance(decorated, wrapt.FunctionWrapper)
    assert inspect.isfunction(decorated.__wrapped__)


@WAYS
def test_names_and_documentation_are_kept(way: Any) -> None:
    """Name, module, documentation and signature are the handler's."""
    plain = decorated.__wrapped__
    made = way(plain)

    assert (made.__name__, made.__qualname__, made.__module__) == ("decorated", "decorated", __name__)
    assert made.__doc__ == "Say what arrived."
    assert inspect.signature(made) == inspect.signature(plain)
    assert get_type_hints(made) == get_type_hints(plain)


@WAYS
def test_plugins_function_is_never_written_to(way: Any) -> None:
    """The plugin's own function is as it was."""

    def handler(raw: str, session_id: str = "none") -> str:
        return session_id

    before = dict(vars(handler)), handler.__code__, handler.__defaults__, handler.__kwdefaults__
    with ctx.session(session_id="s1"):
        way(handler)("x")
        ctx.call(handler, "x")
    ctx.explain(handler)
    assert (dict(vars(handler)), handler.__code__, handler.__defaults__, handler.__kwdefaults__) == before


def test_callable_object_is_never_written_to(give: Any) -> None:
    """A plugin's callable object is as it was."""

    class Plugin:
        def __call__(self, session_id: str = "none") -> str:
            return session_id

    plugin = Plugin()
    give(plugin)()

    assert vars(plugin) == {}


# Copies


def test_injected_handler_pickles_by_reference() -> None:
    """A decorated handler comes back from pickling as itself."""
    assert pickle.loads(pickle.dumps(decorated)) is decorated


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_injected_handler_pickles_by_every_protocol(protocol: int) -> None:
    """Every protocol of pickle knows it by reference."""
    assert pickle.loads(pickle.dumps({"cmd": decorated}, protocol))["cmd"] is decorated


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_injected_handler_copies_to_itself(copied: Any) -> None:
    """Copying a registry copies no handler, as with functions."""
    assert copied(decorated) is decorated
    assert copied([decorated]) == [decorated]


def test_adapted_handler_copies_to_itself() -> None:
    """An adapted handler is a function: it copies as one."""
    adapted = ctx.adapt(lambda session_id="none": session_id)

    assert copy.deepcopy({"cmd": adapted})["cmd"] is adapted


def test_injected_bound_method_pickles() -> None:
    """A bound method of a decorated handler is pickled as any bound method."""
    again = pickle.loads(pickle.dumps(Base().handle))

    assert again("x")[1:] == ("x", "none")


PLUGIN = """
import ctxruntime as ctx

@ctx.inject
def handler(raw, session_id="none"):
    return raw.upper(), session_id
"""


def test_injected_handler_runs_in_a_spawned_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decorated handler goes to a process pool by reference."""
    (tmp_path / "plugin_for_a_pool.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    import plugin_for_a_pool  # type: ignore[import-not-found]

    monkeypatch.setattr(sys.modules["__main__"], "__file__", None, raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None, raising=False)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(plugin_for_a_pool.handler, "x", session_id="s1").result(60) == ("X", "s1")


# Binding


def test_bound_method_gets_its_key() -> None:
    """A decorated method gets its instance and its key."""
    plugin = Base()

    with ctx.session(session_id="s1"):
        assert plugin.handle("x") == (plugin, "x", "s1")
        assert plugin.handle("x", "mine") == (plugin, "x", "mine")


def test_class_access_takes_the_instance() -> None:
    """A decorated method that is reached through the class takes the instance as first argument."""
    plugin = Base()

    with ctx.session(session_id="s1"):
        assert Base.handle(plugin, "x") == (plugin, "x", "s1")


def test_super_reaches_the_decorated_method() -> None:
    """`super()` finds the parent's decorated method, bound to the instance."""
    child = Child()

    with ctx.session(session_id="s1"):
        assert child.handle("x") == ("child", child, "x", "s1", "s1")


def test_method_is_inherited() -> None:
    """A subclass inherits decorated methods of each kind."""
    heir = type("Heir", (Base,), {})

    with ctx.session(session_id="s1"):
        assert heir().handle("x")[1:] == ("x", "s1")
        assert heir.above() == heir.below() == heir().above() == heir().below() == (heir, "s1")


@pytest.mark.parametrize("name", ["above", "below", "static_above", "static_below"])
@pytest.mark.parametrize("of", [Base, Base()], ids=["class", "instance"])
def test_class_and_static_methods_on_either_side(of: Any, name: str) -> None:
    """`@inject` may stand above or below classmethod and staticmethod."""
    with ctx.session(session_id="s1"):
        assert getattr(of, name)() == (None if "static" in name else Base, "s1")


def test_class_method_below_stays_a_class_method() -> None:
    """Decorating a classmethod or staticmethod gives one."""
    assert isinstance(inspect.getattr_static(Base, "below"), classmethod)
    assert isinstance(inspect.getattr_static(Base, "static_below"), staticmethod)


def test_property_around_an_injected_method() -> None:
    """A property whose function is decorated gets its key."""

    class Plugin:
        session = property(ctx.inject(lambda self, session_id="none": session_id))

    with ctx.session(session_id="s1"):
        assert Plugin().session == "s1"


UNBOUND = ["callable object", "class"]
if sys.version_info < (3, 13):
    UNBOUND.append("partial")  # from 3.14 on partials do bind, and 3.13 warns of it


@pytest.mark.parametrize("kind", UNBOUND)
def test_what_does_not_bind_does_not_bind(kind: str) -> None:
    """A decorated partial, callable object or class in a class body is not bound, as without us."""

    class Handler:
        def __call__(self, session_id: str = "none") -> str:
            return session_id

    class Made(str):
        __slots__ = ()

        def __new__(cls, session_id: str = "none") -> Any:
            return str.__new__(cls, session_id)

    handlers = {
        "partial": functools.partial(Handler()),
        "callable object": Handler(),
        "class": Made,
    }
    plugin = type("Plugin", (), {"handle": ctx.inject(handlers[kind])})()
    with ctx.session(session_id="s1"):
        assert plugin.handle() == "s1"


def test_two_instances_do_not_mix() -> None:
    """Each bound method keeps its own instance."""
    one, two = Base(), Base()
    first, second = one.handle, two.handle

    assert first("x")[0] is one
    assert second("x")[0] is two


def test_injected_method_equals_itself() -> None:
    """Two bound methods of one instance are equal, as without us: registries unsubscribe by that."""
    plugin = Base()

    assert plugin.handle == plugin.handle
    assert plugin.handle != Base().handle


@pytest.mark.asyncio
async def test_async_method_gets_its_key() -> None:
    """A decorated coroutine method is awaited as before."""

    class Plugin:
        @ctx.inject
        async def handle(self, raw: str, session_id: str = "none") -> tuple[str, str]:
            await asyncio.sleep(0)
            return raw, session_id

    with ctx.session(session_id="s1"):
        assert await Plugin().handle("x") == ("x", "s1")


# hide=True


@pytest.mark.parametrize("fixed", [{}, {"var_keyword": "none"}], ids=["alone", "with another option"])
def test_hide_takes_injected_parameters_out_of_sight(fixed: Any) -> None:
    """Schema and command line builders do not see what is injected."""

    @ctx.inject(hide=True, **fixed)
    def tool(query: str, session_id: str = ctx.INJECTED, *, limit: int = 3) -> str:
        return session_id

    assert list(inspect.signature(tool).parameters) == ["query", "limit"]
    assert get_type_hints(tool) == {"query": str, "limit": int, "return": str}
    assert list(tool.__annotations__) == ["query", "limit", "return"]


def test_hide_changes_only_what_is_seen() -> None:
    """A hidden parameter is injected, can be given, and is still there on the handler itself."""
    plain = decorated.__wrapped__
    tool: Any = ctx.inject(plain, hide=True)

    with ctx.session(session_id="s1"):
        assert tool("x") == ("x", "s1")
        assert tool("x", session_id="mine") == ("x", "mine")
    assert "session_id" in inspect.signature(plain).parameters
    assert "session_id" in plain.__annotations__


def test_hide_on_a_method() -> None:
    """A hidden parameter of a method is hidden on the bound method too."""

    class Plugin:
        @ctx.inject(hide=True)
        def tool(self, query: str, session_id: str = "none") -> str:
            return session_id

    assert list(inspect.signature(Plugin.tool).parameters) == ["self", "query"]
    assert list(inspect.signature(Plugin().tool).parameters) == ["query"]
    assert get_type_hints(Plugin().tool) == {"query": str, "return": str}


@pytest.mark.asyncio
async def test_hide_keeps_the_kind() -> None:
    """A hidden coroutine function is one."""

    @ctx.inject(hide=True)
    async def tool(query: str, session_id: str = "none") -> str:
        return session_id

    assert inspect.iscoroutinefunction(tool)
    with ctx.session(session_id="s1"):
        assert await tool("x") == "s1"
