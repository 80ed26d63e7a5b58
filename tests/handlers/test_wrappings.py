"""Handlers that are wrapped already: a key passes only if every layer lets it through."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import wrapt

import ctxruntime as ctx


def command(raw: str, session_id: str = "none") -> str:
    return session_id


def narrow(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(raw: str) -> Any:
        return fn(raw)

    return inner


def wide(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return inner


def keywords(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(raw: str, **kwargs: Any) -> Any:
        return fn(raw, **kwargs)

    return inner


def positions(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(*args: Any) -> Any:
        return fn(*args)

    return inner


def names_it(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(raw: str, session_id: str = "outer default") -> Any:
        return fn(raw, session_id=session_id)

    return inner


@wrapt.decorator
def by_wrapt(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


class Wrapper:
    """A callable object that wraps, as older decorators do."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


class NarrowWrapper(Wrapper):
    def __call__(self, raw: str) -> Any:
        return self.fn(raw)


LET_THROUGH: dict[str, Any] = {
    "wide": wide(command),
    "keywords": keywords(command),
    "names it": names_it(command),
    "wrapt": by_wrapt(command),
    "wrapt twice": by_wrapt(by_wrapt(command)),
    "object": Wrapper(command),
    "lru_cache": functools.lru_cache(command),
    "wide, keywords, wrapt": wide(keywords(by_wrapt(command))),
    "wrapt, object, lru_cache": by_wrapt(Wrapper(functools.lru_cache(command))),
    "partial of wide": functools.partial(wide(command)),
}
HOLD_BACK: dict[str, Any] = {
    "narrow": narrow(command),
    "positions": positions(command),
    "wide, narrow": wide(narrow(command)),
    "narrow, wide": narrow(wide(command)),
    "wrapt, narrow": by_wrapt(narrow(command)),
    "narrow object": NarrowWrapper(command),
    "object, narrow": Wrapper(narrow(command)),
    "partial of narrow": functools.partial(narrow(command)),
}


@pytest.mark.parametrize("handler", LET_THROUGH.values(), ids=LET_THROUGH)
def test_key_passes_where_every_layer_lets_it(give: Any, handler: Any) -> None:
    """A key reaches the inner function through layers that all let it through."""
    with ctx.session(session_id="s1"):
        assert give(handler)("x") == "s1"


@pytest.mark.parametrize("handler", HOLD_BACK.values(), ids=HOLD_BACK)
def test_key_stays_outside_a_narrow_layer(give: Any, handler: Any) -> None:
    """A narrow layer means no injection, not a crash."""
    with ctx.session(session_id="s1"):
        assert give(handler)("x") == "none"


@pytest.mark.parametrize("handler", LET_THROUGH.values(), ids=LET_THROUGH)
def test_callers_keyword_wins_through_layers(give: Any, handler: Any) -> None:
    """What the caller passed by keyword wins behind any wrapping."""
    with ctx.session(session_id="s1"):
        assert give(handler)("x", session_id="mine") == "mine"


@pytest.mark.parametrize("layer", [wide, by_wrapt, Wrapper, functools.lru_cache])
def test_callers_position_wins_through_layers_that_take_anything(give: Any, layer: Any) -> None:
    """What the caller passed by position wins where a layer passes positions on as they are."""
    with ctx.session(session_id="s1"):
        assert give(layer(command))("x", "mine") == "mine"


@pytest.mark.parametrize("handler", LET_THROUGH.values(), ids=LET_THROUGH)
def test_unbound_key_keeps_the_default_through_layers(give: Any, handler: Any) -> None:
    """Where the key is unbound, the default of the outermost layer that has one is in effect."""
    assert give(handler)("x") in ("none", "outer default")


def test_unbound_required_key_behind_a_layer_raises(give: Any) -> None:
    """A required key behind a wrapping is named as ever."""

    def required(raw: str, session_id: str) -> str:
        return session_id

    with pytest.raises(ctx.UnboundKeyError, match="requires key 'session_id'"):
        give(wide(required))("x")


def test_var_keyword_of_a_layer_alone_gets_nothing(give: Any) -> None:
    """A wrapper that takes anything around a handler that does not gets only what the handler names."""
    seen: list[dict[str, Any]] = []

    def legacy(raw: str, **_: object) -> str:
        return raw

    def spy(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            seen.append(kwargs)
            return fn(*args, **kwargs)

        return inner

    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert give(spy(command))("x") == "s1"
        assert give(spy(legacy))("x") == "x"
    assert seen == [{"session_id": "s1"}, {"session_id": "s1", "gateway_session_key": "g1"}]


def test_layer_that_adds_a_leading_argument_passes_the_key_by_keyword(give: Any) -> None:
    """A layer that gives the handler an argument of its own still lets the key through."""

    def with_client(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return fn("client", *args, **kwargs)

        return inner

    def handler(client: str, raw: str, session_id: str) -> tuple[str, str, str]:
        return client, raw, session_id

    with ctx.session(session_id="s1"):
        assert give(with_client(handler))("x") == ("client", "x", "s1")


def test_positional_only_behind_a_layer_gets_nothing(give: Any) -> None:
    """A positional-only parameter cannot be reached by keyword through a layer."""

    def handler(raw: str, session_id: str = "none", /) -> str:
        return session_id

    with ctx.session(session_id="s1"):
        assert give(wide(handler))("x") == "none"


def test_cycle_of_wrapped_ends(give: Any) -> None:
    """A `__wrapped__` that leads in a circle neither hangs nor crashes."""

    def handler(*args: Any, **kwargs: Any) -> str:
        return "called"

    handler.__wrapped__ = handler  # type: ignore[attr-defined]
    with ctx.session(session_id="s1"):
        assert give(handler)("x") == "called"


def test_marker_behind_a_layer_is_seen(give: Any) -> None:
    """A marker of the inner function counts through a wide layer."""
    from typing import Annotated

    def handler(raw: str, sid: Annotated[str, ctx.SESSION_ID]) -> str:
        return sid

    handler.__annotations__["sid"] = Annotated[str, ctx.SESSION_ID]
    with ctx.session(session_id="s1"):
        assert give(wide(handler))("x") == "s1"


def test_wrapt_method_is_filled(give: Any) -> None:
    """A method that wrapt decorated gets its key, bound or not."""

    class Plugin:
        @by_wrapt
        def handle(self, raw: str, session_id: str = "none") -> str:
            return session_id

    with ctx.session(session_id="s1"):
        assert give(Plugin().handle)("x") == "s1"
        assert give(Plugin.handle)(Plugin(), "x") == "s1"


def test_layer_that_keeps_a_name_for_itself_holds_the_key_back(give: Any) -> None:
    """A layer that names a parameter and gets no key for it is not passed one for the inner function."""

    def command(raw: str, user_id: str = ctx.INJECTED) -> str:
        return user_id

    @functools.wraps(command)
    def layer(raw: str, user_id: str = "the layer's", **kwargs: Any) -> str:
        return user_id

    with ctx.session(user_id="u1"):
        assert give(layer)("x") == "the layer's"


def test_injected_wrapt_method_is_reached_through_the_class() -> None:
    """A decorated method in a wrapping of wrapt's binds to no class."""

    class Plugin:
        @ctx.inject
        @by_wrapt
        def handle(self, raw: str, session_id: str = "none") -> tuple[object, str]:
            return self, session_id

    plugin = Plugin()
    assert Plugin.handle is vars(Plugin)["handle"]
    with ctx.session(session_id="s1"):
        assert plugin.handle("x") == Plugin.handle(plugin, "x") == (plugin, "s1")
