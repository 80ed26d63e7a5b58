"""Which parameters get a key, and how: one test for each kind of parameter."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import ctxruntime as ctx

OWN = [ctx.Key(f"param_own{number}", str) for number in range(6)]
"""More than there are spare slots."""
UNEQUAL = object()


def keywords_only(args: object, **kw: object) -> list[str]:
    return sorted(kw)


def test_named_parameter_gets_its_key(give: Any) -> None:
    """A parameter that is named after a key gets it."""

    def handler(raw: str, session_id: str) -> tuple[str, str]:
        return raw, session_id

    with ctx.session(session_id="s1"):
        assert give(handler)("x") == ("x", "s1")


def test_two_keys_arrive_each_at_its_own_parameter(give: Any) -> None:
    """Each parameter gets its own key, whatever the order."""

    def handler(gateway_session_key: str, session_id: str) -> tuple[str, str]:
        return gateway_session_key, session_id

    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert give(handler)() == ("g1", "s1")


def test_defaulted_parameter_gets_its_key(give: Any) -> None:
    """A bound key takes the place of the parameter's default."""

    def handler(raw: str, session_id: str = "none") -> str:
        return session_id

    with ctx.session(session_id="s1"):
        assert give(handler)("x") == "s1"


def test_keyword_only_parameter_gets_its_key(give: Any) -> None:
    """A keyword-only parameter gets its key, required or not."""

    def handler(raw: str, *, session_id: str, gateway_session_key: str = "none") -> tuple[str, str]:
        return session_id, gateway_session_key

    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert give(handler)("x") == ("s1", "g1")


def test_keyword_only_parameter_behind_var_positional_gets_its_key(give: Any) -> None:
    """What the caller gives by position goes to `*args`, the key to the keyword."""

    def handler(*args: str, session_id: str) -> tuple[tuple[str, ...], str]:
        return args, session_id

    with ctx.session(session_id="s1"):
        assert give(handler)("x", "y") == (("x", "y"), "s1")


def test_positional_only_parameter_is_filled_by_position(give: Any) -> None:
    """A positional-only parameter gets its key when all before it are given."""

    def handler(raw: str, session_id: str, /) -> tuple[str, str]:
        return raw, session_id

    with ctx.session(session_id="s1"):
        assert give(handler)("x") == ("x", "s1")


def test_positional_only_parameter_counts_defaults_as_filling(give: Any) -> None:
    """A default before a positional-only parameter fills its place."""
    default = object()

    def handler(raw: object = default, session_id: object = None, /, *, last: int = 1) -> tuple[object, ...]:
        return raw, session_id, last

    with ctx.session(session_id="s1"):
        assert give(handler)() == (default, "s1", 1)


def test_positional_only_parameter_is_given_as_any_other(give: Any) -> None:
    """What the caller gives to a positional-only parameter wins, and the name stays free for `**kwargs`."""

    def handler(raw: str, session_id: str | None = None, /, **kw: object) -> tuple[str | None, dict[str, object]]:
        return session_id, kw

    with ctx.session(session_id="s1"):
        assert give(handler)("x", "mine") == ("mine", {})


def test_parameter_before_required_ones_takes_its_position(give: Any) -> None:
    """Positions are the caller's: a required parameter that is left over is a TypeError that names it."""

    def handler(session_id: str, raw: str) -> tuple[str, str]:
        return session_id, raw

    with ctx.session(session_id="s1"):
        assert give(handler)(raw="x") == ("s1", "x")
        assert give(handler)("mine", "x") == ("mine", "x")
        with pytest.raises(TypeError, match=r"handler \(.*test_parameters\.py:\d+\) is missing .* 'raw'"):
            give(handler)("x")


def test_var_keyword_gets_the_bound_keys_for_anyone(give: Any) -> None:
    """`**kwargs` gets the bound keys with `inject="any"`, and no others."""
    with ctx.session(session_id="s1", gateway_session_key="g1", user_id="u1", frontend="cli"):
        assert give(keywords_only)({}) == ["gateway_session_key", "session_id"]


def test_var_keyword_gets_nothing_that_is_unbound(give: Any) -> None:
    """A key that is not bound is no keyword at all."""
    assert give(keywords_only)({}) == []
    with ctx.session(session_id="s1"):
        assert give(keywords_only)({}) == ["session_id"]


@pytest.mark.parametrize("way", [ctx.inject, ctx.adapt], ids=["inject", "adapt"])
def test_var_keyword_none_keeps_keywords_as_given(way: Any) -> None:
    """`var_keyword="none"` leaves `**kwargs` to the caller; named parameters get their keys as ever."""

    def handler(session_id: str, **kw: object) -> tuple[str, dict[str, object]]:
        return session_id, kw

    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert way(handler, var_keyword="none")(a=1) == ("s1", {"a": 1})


def test_var_keyword_does_not_repeat_a_named_parameter(give: Any) -> None:
    """A key that has a parameter of its own is not in `**kwargs` too."""

    def handler(session_id: str, **kw: object) -> tuple[str, dict[str, object]]:
        return session_id, kw

    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert give(handler)() == ("s1", {"gateway_session_key": "g1"})


def test_key_for_anyone_defined_later_reaches_var_keyword(give: Any) -> None:
    """A key with `inject="any"` that is defined after the handler was taken still reaches `**kwargs`."""
    given = give(keywords_only)
    given({})
    ctx.Key("param_later", str, inject="any")

    with ctx.session(param_later="x"):
        assert given({}) == ["param_later"]


@pytest.mark.parametrize("way", [ctx.inject, ctx.adapt], ids=["inject", "adapt"])
def test_alias_gives_a_key_to_another_name(way: Any) -> None:
    """An alias names the key of a parameter that is called otherwise."""

    def handler(raw: str, sid: str, *, chat: str = "none") -> tuple[str, str]:
        return sid, chat

    given = way(handler, aliases={"sid": ctx.SESSION_ID, "chat": ctx.GATEWAY_SESSION_KEY})
    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert given("x") == ("s1", "g1")


@pytest.mark.parametrize("way", [ctx.inject, ctx.adapt], ids=["inject", "adapt"])
def test_alias_outranks_the_name(way: Any) -> None:
    """An alias for a parameter that is named after a key decides."""
    given = way(lambda session_id: session_id, aliases={"session_id": ctx.USER_ID})

    with ctx.session(session_id="s1", user_id="u1"):
        assert given() == "u1"


def test_injected_default_is_replaced_by_the_key(give: Any) -> None:
    """INJECTED marks a parameter that the caller does not give."""

    def handler(raw: str, session_id: str = ctx.INJECTED, *, user_id: str = ctx.INJECTED) -> tuple[str, str]:
        return session_id, user_id

    with ctx.session(session_id="s1", user_id="u1"):
        assert give(handler)("x") == ("s1", "u1")


def test_injected_is_never_passed(give: Any) -> None:
    """A parameter that is marked INJECTED is required: an unbound key is an error, not the marker."""

    def handler(session_id: str = ctx.INJECTED) -> str:
        return session_id

    with pytest.raises(ctx.UnboundKeyError, match="requires key 'session_id'"):
        give(handler)()


def test_keys_beyond_the_spare_slots_are_injected(give: Any) -> None:
    """A program may have more keys than there are slots: each is injected."""

    def handler(param_own0: str, param_own5: str, param_own3: str = "none") -> tuple[str, str, str]:
        return param_own0, param_own5, param_own3

    with ctx.session({OWN[0]: "a", OWN[5]: "b"}):
        assert give(handler)() == ("a", "b", "none")


def test_bound_to_empty_is_bound(give: Any) -> None:
    """The empty text is a value: it is passed."""
    with ctx.session(session_id=""):
        assert give(lambda session_id="none": session_id)() == ""


def test_amended_key_is_passed_as_it_is_now(give: Any) -> None:
    """Each call passes what is in effect at that moment."""
    given = give(lambda session_id="none": session_id)

    with ctx.session(gateway_session_key="g1"):
        assert given() == "none"
        ctx.amend(session_id="s2")
        assert given() == "s2"
        with ctx.bind(session_id="child"):
            assert given() == "child"


def test_more_than_255_parameters(give: Any) -> None:
    """The number of parameters is not limited."""
    names = ", ".join(f"p{number}=0" for number in range(300))
    space: dict[str, Any] = {}
    exec(f"def handler(raw, {names}, *, session_id): return raw, p299, session_id", space)

    with ctx.session(session_id="s1"):
        assert give(space["handler"])("x") == ("x", 0, "s1")


@pytest.mark.parametrize(
    "names",
    [
        ("self",),
        ("_self",),
        ("fn",),
        ("_fn",),
        ("_adapter", "__layer"),
        ("_UNSET", "_here", "_layer", "_found"),
        ("___", "__fn", "_required"),
        ("layer", "handler", "default", "UNSET"),
    ],
    ids=" ".join,
)
def test_names_of_parameters_never_clash_with_ours(give: Any, names: tuple[str, ...]) -> None:
    """A handler may call its parameters as it likes, by position and by keyword."""
    space: dict[str, Any] = {}
    exec(f"def handler({', '.join(names)}, session_id, **kw): return [{', '.join(names)}], session_id, kw", space)
    given = give(space["handler"])

    with ctx.session(session_id="s1"):
        assert given(*names) == ([*names], "s1", {})
        assert given(**{name: name for name in names}) == ([*names], "s1", {})


@pytest.mark.parametrize("name", ["self", "fn", "wrapped", "instance", "_self", "_fn", "keywords"])
def test_keywords_of_any_name_reach_var_keyword(give: Any, name: str) -> None:
    """A keyword of whatever name the caller chooses arrives in `**kwargs`."""

    def handler(session_id: str, **kw: object) -> object:
        return kw[name]

    with ctx.session(session_id="s1"):
        assert give(handler)(**{name: 1}) == 1


def test_parameters_of_a_handler_called_like_its_varargs(give: Any) -> None:
    """`*args` and `**kwargs` are passed on under whatever name, in order."""

    def handler(first: int, *_rest: int, session_id: str, **_more: object) -> tuple[object, ...]:
        return first, _rest, session_id, _more

    with ctx.session(session_id="s1"):
        assert give(handler)(1, 2, 3, a=4) == (1, (2, 3), "s1", {"a": 4})


def test_keyword_order_is_the_callers(give: Any) -> None:
    """The caller's keywords keep their order; keys come after them."""
    with ctx.session(session_id="s1"):
        assert list(give(lambda **kw: kw)(z=1, a=2)) == ["z", "a", "session_id"]


def test_partial_keyword_counts_as_given(give: Any) -> None:
    """A key that a partial binds is given, for a parameter and for `**kwargs` alike."""

    def handler(raw: str, session_id: str = "none", **kw: object) -> tuple[str, dict[str, object]]:
        return session_id, kw

    given = give(partial(handler, session_id="mine", gateway_session_key="my chat"))
    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert given("x") == ("mine", {"gateway_session_key": "my chat"})
