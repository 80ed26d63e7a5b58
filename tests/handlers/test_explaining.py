"""`explain`: what would be passed, from where, and why not, for people to read."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import pytest

import ctxruntime as ctx

SECRET = ctx.Key("explain_secret", str, inject="marked", redact="drop")
NEVER = ctx.Key("explain_never", str, inject="never")


def lines(fn: Any, **options: Any) -> list[str]:
    first, *rest = str(ctx.explain(fn, **options)).splitlines()
    assert first.endswith(")")
    return [line.strip() for line in rest]


def test_explain_says_whose_handler_it_is() -> None:
    """The first line names the handler, its file and its line."""

    def block(raw: str) -> None: ...

    line = block.__code__.co_firstlineno
    name = f"{__name__}.{block.__qualname__}"
    assert str(ctx.explain(block)).splitlines()[0] == f"{name} ({__file__}:{line})"


def test_explain_by_name() -> None:
    """A parameter that is named after a key says so, and what else it may end up with."""
    assert lines(lambda session_id, gateway_session_key=None: None) == [
        "session_id: key 'session_id', by name, required",
        "gateway_session_key: key 'gateway_session_key', by name, else its default",
    ]


def test_explain_by_marker_and_alias() -> None:
    """Markers and aliases are told apart from names."""

    def handler(sid: Annotated[str, ctx.SESSION_ID], chat: str, user_id: str = ctx.INJECTED) -> None: ...

    assert lines(handler, aliases={"chat": ctx.GATEWAY_SESSION_KEY}) == [
        "sid: key 'session_id', by marker, required",
        "chat: key 'gateway_session_key', by alias, required",
        "user_id: key 'user_id', by marker, required",
    ]


def test_explain_var_keyword() -> None:
    """`**kwargs` lists the keys that go there where bound."""
    (line,) = lines(lambda **kw: None)

    assert line.startswith("**kwargs: session_id, gateway_session_key")
    assert line.endswith(", where bound")


def test_explain_var_keyword_narrowed() -> None:
    """`**kwargs` lists only what the host gives."""
    assert lines(lambda **kw: None, keys=[ctx.SESSION_ID]) == ["**kwargs: session_id, where bound"]


def test_explain_legacy() -> None:
    """A handler that accepts no key says so."""
    assert lines(lambda raw: None) == ["nothing: no parameter names a key"]
    assert lines(max) == ["nothing: no parameter names a key"]


def test_explain_levels() -> None:
    """Why a key is kept back is said."""

    def handler(explain_secret: str = "", explain_never: Annotated[str, NEVER] = "") -> None: ...

    assert lines(handler) == [
        "explain_secret: nothing, because key 'explain_secret' goes only where it is marked",
        "explain_never: nothing, because key 'explain_never' is never injected",
    ]


def test_explain_narrowed() -> None:
    """What the host keeps back is said."""
    assert lines(lambda session_id="": None, keys=[]) == [
        "session_id: nothing, because the host does not give key 'session_id' to parameters without a marker"
    ]


def test_explain_narrow_layer() -> None:
    """Which wrapping holds a key back is said."""

    def command(raw: str, session_id: str = "none") -> None: ...

    @functools.wraps(command)
    def narrow(raw: str) -> None: ...

    (line,) = lines(narrow)
    assert line.startswith("session_id: nothing, because ")
    assert line.endswith("narrow around it does not let it through")


def test_explain_positional_only_behind_a_layer() -> None:
    """A positional-only parameter behind a wrapping cannot be reached."""

    def command(session_id: str = "none", /) -> None: ...

    wide = functools.wraps(command)(lambda *args, **kwargs: None)
    assert "session_id: nothing, because it is positional-only behind another wrapping" in lines(wide)


def test_explain_partial() -> None:
    """A partial is named as one, and what it binds is not passed."""
    plan = str(ctx.explain(functools.partial(lambda raw, session_id: None, session_id="mine")))

    assert plan.startswith("partial of ")
    assert "mine" not in plan


@pytest.mark.parametrize("fn", [ctx.inject, ctx.adapt], ids=["injected", "adapted"])
def test_explain_of_an_injected_handler(fn: Any) -> None:
    """A handler that injects by itself is explained as its author made it."""
    made = fn(lambda sid, **kw: None, aliases={"sid": ctx.SESSION_ID}, var_keyword="none")

    assert lines(made) == ["sid: key 'session_id', by alias, required"]


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        (dict, "builtins.dict"),
        (len, "builtins.len"),
        (functools.lru_cache(lambda raw: raw), "<lambda>"),
        (type("Handler", (), {"__call__": lambda self: None})(), "Handler"),
    ],
    ids=["class", "builtin", "lru_cache", "callable object"],
)
def test_explain_names_handlers_of_every_kind(handler: Any, name: str) -> None:
    """Whatever a handler is, people can tell which it is."""
    assert name in str(ctx.explain(handler)).splitlines()[0]


def test_explain_shows_no_value() -> None:
    """No value of a key is in the plan, whatever is bound."""
    with ctx.session(explain_secret="s3cret", session_id="s1-visible"):
        plan = ctx.explain(lambda session_id, x=1, **kw: None, aliases={"x": SECRET})

        assert "s3cret" not in str(plan) + repr(plan)
        assert "s1-visible" not in str(plan) + repr(plan)


def test_plan_repr_is_short() -> None:
    """`repr` of a plan names the handler and the parameters."""
    assert repr(ctx.explain(lambda session_id: None)).endswith("<lambda>: session_id>")
    assert repr(ctx.explain(max)) == "<Plan builtins.max: nothing>"
