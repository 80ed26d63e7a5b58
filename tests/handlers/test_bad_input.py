"""Mistakes of our caller: refused where they are made, and told what to do instead."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import ctxruntime as ctx


@pytest.mark.parametrize("verb", ["inject", "adapt", "call", "explain"])
@pytest.mark.parametrize("thing", [3, "handler", object()], ids=["int", "str", "object"])
def test_what_cannot_be_called_is_refused(verb: str, thing: Any) -> None:
    """A handler that cannot be called is refused by name of its type."""
    with pytest.raises(TypeError, match=f"^{verb} takes a callable handler, not {type(thing).__name__}: "):
        getattr(ctx, verb)(thing)


@pytest.mark.asyncio
async def test_acall_refuses_what_cannot_be_called() -> None:
    """`acall` refuses as `call` does."""
    with pytest.raises(TypeError, match="takes a callable handler, not int"):
        await ctx.acall(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", ["inject", "adapt", "explain"])
def test_alias_to_no_key_is_refused(verb: str) -> None:
    """An alias is for a Key object."""
    with pytest.raises(ctx.UnknownKeyError, match="a Key object is expected here, such as SESSION_ID"):
        getattr(ctx, verb)(lambda sid: sid, aliases={"sid": "session_id"})


def test_alias_for_no_parameter_is_refused_by_inject() -> None:
    """An author's alias for a parameter that is not there is a misspelling."""

    def handler(sid: str) -> str:
        return sid

    with pytest.raises(ctx.UnknownKeyError, match=r"handler \(.*test_bad_input\.py:\d+\) has no parameter") as caught:
        ctx.inject(handler, aliases={"sdi": ctx.SESSION_ID})
    assert caught.value.name == "sdi"


@pytest.mark.parametrize("way", [ctx.adapt, ctx.explain], ids=["adapt", "explain"])
def test_alias_for_no_parameter_is_fine_for_a_host(way: Any) -> None:
    """A host gives the same aliases to all its handlers."""
    way(lambda raw: raw, aliases={"sid": ctx.SESSION_ID})


@pytest.mark.parametrize("verb", ["inject", "adapt", "call", "explain"])
def test_injected_misspelt_is_refused(verb: str) -> None:
    """A parameter that is marked INJECTED and names no key is refused, with the key that may be meant."""

    def handler(sesion_id: str = ctx.INJECTED) -> str:
        return sesion_id

    with pytest.raises(ctx.UnknownKeyError, match=r"'sesion_id': did you mean 'session_id'\? \(.*handler,") as caught:
        getattr(ctx, verb)(handler)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("verb", ["inject", "adapt", "explain"])
def test_var_keyword_of_another_kind_is_refused(verb: str) -> None:
    """`var_keyword` is one of two words."""
    with pytest.raises(ValueError, match="var_keyword is 'any' or 'none', not 'all'"):
        getattr(ctx, verb)(lambda raw: raw, var_keyword="all")


def test_keys_that_are_no_keys_are_refused() -> None:
    """A host's narrowing is by Key objects."""
    with pytest.raises(ctx.UnknownKeyError, match="a Key object is expected"):
        ctx.adapt(lambda raw: raw, keys=["session_id"])  # type: ignore[list-item]


def test_inject_with_a_wrong_alias_leaves_the_class_as_it_is() -> None:
    """A decorated class method is checked as functions are."""
    with pytest.raises(ctx.UnknownKeyError):
        ctx.inject(classmethod(lambda cls, raw: raw), aliases={"nope": ctx.SESSION_ID})


def test_injected_is_one_object() -> None:
    """INJECTED stays itself through copies and pickling, and says its name."""
    assert pickle.loads(pickle.dumps(ctx.INJECTED)) is ctx.INJECTED
    assert copy.deepcopy(ctx.INJECTED) is ctx.INJECTED
    assert repr(ctx.INJECTED) == "INJECTED"
