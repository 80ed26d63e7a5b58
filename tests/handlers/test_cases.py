"""What people reported of handlers, and what is right: 02, 14, 16, 21, 23, 24, E09."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import traceback
from typing import Any

import pytest

import ctxruntime as ctx


@ctx.inject
def shout(raw: str) -> str:
    return raw.upper()


def test_case_02_each_handler_gets_what_it_takes(give: Any) -> None:
    """Legacy handlers are called with the arguments only, others with the keys that they take, once each."""

    def legacy(args: object) -> str:
        return "legacy"

    def named(args: object, *, session_id: str | None = None) -> str | None:
        return session_id

    def catch_all(args: object, **kw: object) -> list[str]:
        return sorted(kw)

    with ctx.session(session_id="s1", gateway_session_key="g1", user_id="u1"):
        got = [give(handler)({}) for handler in (legacy, named, catch_all, lambda args: "lam")]

    assert got == ["legacy", "s1", ["gateway_session_key", "session_id"], "lam"]


def test_case_14_a_failing_handler_is_called_once(give: Any) -> None:
    """The handler's own TypeError reaches the caller unchained, with the last frame in the plugin."""
    calls: list[str | None] = []

    def handler(raw: Any, session_id: str | None = None) -> Any:
        calls.append(session_id)
        return raw + 1

    with ctx.session(session_id="s1"), pytest.raises(TypeError, match="concatenate str") as caught:
        give(handler)("x")

    assert calls == ["s1"]
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "handler"


def test_case_16_every_layer_must_let_a_key_through(give: Any) -> None:
    """A narrow layer of an older decorator means no injection, not a crash."""

    def old_timer(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(raw: str) -> Any:
            return fn(raw)

        return inner

    def modern(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(*a: Any, **k: Any) -> Any:
            return fn(*a, **k)

        return inner

    def cmd(raw: str, session_id: str = "none") -> str:
        return session_id

    with ctx.session(session_id="s1"):
        assert [give(old_timer(cmd))("x"), give(modern(cmd))("x")] == ["none", "s1"]


def test_case_21_no_signature_means_no_injection(give: Any) -> None:
    """Callables without a signature, or with a broken one, are called as they are."""

    class Broken:
        __signature__ = "not a signature"

        def __call__(self, raw: str) -> str:
            return "called"

    with ctx.session(session_id="s1"):
        assert [give(int)("42"), give(max)("42"), give(Broken())("42")] == [42, "4", "called"]


@pytest.mark.parametrize("builtin", [print, iter, dict.fromkeys, "".join, type, [].append], ids=repr)
def test_case_21_builtins_are_taken_as_handlers(give: Any, builtin: Any) -> None:
    """Registering any builtin is harmless."""
    give(builtin)
    ctx.explain(builtin)


def test_case_23_pickles_copies_and_leaves_the_function_alone() -> None:
    """A decorated handler pickles by reference and deep-copies, and our bookkeeping is not on the function."""

    def original(raw: str) -> str:
        return raw.upper()

    ctx.inject(original)

    assert pickle.loads(pickle.dumps(shout))("x") == "X"
    assert copy.deepcopy({"cmd": shout})["cmd"]("x") == "X"
    assert vars(original) == {}


def test_case_24_pluggy_hooks_are_filled() -> None:
    """Wrapped by the injector, hooks get keys that pluggy does not pass: defaulted, keyword-only and in **kw."""
    import pluggy

    spec, impl = pluggy.HookspecMarker("app"), pluggy.HookimplMarker("app")

    class Spec:
        @spec
        def pre_tool_call(self, tool: str) -> None: ...

    class Defaulted:
        @impl
        @ctx.inject
        def pre_tool_call(self, tool: str, session_id: str = "") -> str:
            return session_id

    class KeywordOnly:
        @impl
        @ctx.inject
        def pre_tool_call(self, tool: str, *, session_id: str = "") -> str:
            return session_id

    class CatchAll:
        @impl
        @ctx.inject
        def pre_tool_call(self, tool: str, **kw: str) -> str:
            return kw.get("session_id", "")

    manager = pluggy.PluginManager("app")
    manager.add_hookspecs(Spec)
    for plugin in (CatchAll(), KeywordOnly(), Defaulted()):
        manager.register(plugin)

    with ctx.session(session_id="s1"):
        assert manager.hook.pre_tool_call(tool="read") == ["s1", "s1", "s1"]


def test_case_e09_injected_parameters_are_out_of_the_schema() -> None:
    """`hide=True` shows a schema builder only what the model is to give."""

    @ctx.inject(hide=True)
    def tool(query: str, session_id: str = "") -> str:
        return session_id

    assert list(inspect.signature(tool).parameters) == ["query"]
    with ctx.session(session_id="s1"):
        assert tool("x") == "s1"
