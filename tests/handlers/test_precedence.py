"""What a parameter ends up with: the caller's value, the key's, the default, or an error; in this order."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

import ctxruntime as ctx

WITH_DEFAULT = ctx.Key("precedence_default", str, default="of the key")
NAMED = ctx.Key("precedence_named", str)
MARKED = ctx.Key("precedence_marked", str, inject="marked")
ANY = ctx.Key("precedence_any", str, inject="any")
NEVER = ctx.Key("precedence_never", str, inject="never")
LEVELS = {"precedence_any": "a", "precedence_named": "b", "precedence_marked": "c", "precedence_never": "d"}


class Numpyish:
    """Compares to something that has no truth, and cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        raise ValueError("the truth value of an array is ambiguous")

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


@pytest.mark.parametrize("default", [[], {}, set(), Numpyish(), None, "", object(), float("nan")], ids=repr)
def test_unbound_key_keeps_the_default_by_identity(give: Any, default: Any) -> None:
    """An unbound key leaves the very object that is the default; it is never compared or copied."""

    def handler(raw: str, session_id: Any = default, *, gateway_session_key: Any = default) -> tuple[Any, Any]:
        return session_id, gateway_session_key

    got = give(handler)("x")

    assert got[0] is default
    assert got[1] is default


def test_unbound_required_key_names_key_handler_file_and_line(give: Any) -> None:
    """A required key that is unbound raises an error that says everything."""

    def block(raw: str, session_id: str) -> str:
        return session_id

    line = block.__code__.co_firstlineno
    with pytest.raises(ctx.UnboundKeyError) as caught:
        give(block)("x")

    assert caught.value.key == "session_id"
    assert caught.value.handler == f"{__name__}.{block.__qualname__}"
    assert caught.value.location == f"{__file__}:{line}"
    assert f"{__file__}:{line}" in str(caught.value)


def test_unbound_required_key_means_no_call(give: Any) -> None:
    """The handler is not called without a key that it requires."""
    calls: list[str] = []

    def handler(*, session_id: str) -> None:
        calls.append(session_id)

    with pytest.raises(ctx.UnboundKeyError):
        give(handler)()
    assert calls == []


def test_none_given_to_session_is_unbound_for_handlers(give: Any) -> None:
    """A session that does not know the id leaves the parameter's default."""
    with ctx.session(session_id=None):
        assert give(lambda session_id="none": session_id)() == "none"


def test_key_default_fills_a_required_parameter(give: Any) -> None:
    """An unbound key with a default gives it to a parameter that has none."""
    assert give(lambda precedence_default: precedence_default)() == "of the key"


def test_parameter_default_outranks_the_key_default(give: Any) -> None:
    """A parameter's own default is kept before the key's."""
    assert give(lambda precedence_default="own": precedence_default)() == "own"


def test_key_default_never_goes_into_var_keyword(give: Any) -> None:
    """Only what is bound goes into `**kwargs`."""
    ctx.Key("precedence_any_default", str, default="d", inject="any")

    assert give(lambda **kw: kw)() == {}


@pytest.mark.parametrize("value", ["mine", "", None, 0, ctx.INJECTED], ids=repr)
def test_caller_wins_by_keyword(give: Any, value: Any) -> None:
    """What the caller passes by keyword is passed, whatever it is."""
    with ctx.session(session_id="s1"):
        assert give(lambda raw, session_id="none": session_id)("x", session_id=value) is value


@pytest.mark.parametrize("value", ["mine", "", None, 0, Numpyish()], ids=repr)
def test_caller_wins_by_position(give: Any, value: Any) -> None:
    """What the caller passes by position is passed, whatever it is."""
    with ctx.session(session_id="s1"):
        assert give(lambda raw, session_id="none": session_id)("x", value) is value


def test_caller_wins_with_none_for_a_required_keyword(give: Any) -> None:
    """An explicit None wins, also for a required keyword-only parameter."""

    def handler(*, session_id: str | None) -> str | None:
        return session_id

    with ctx.session(session_id="s1"):
        assert give(handler)(session_id=None) is None


@pytest.mark.parametrize("value", ["mine", "", None])
def test_caller_wins_in_var_keyword(give: Any, value: Any) -> None:
    """What the caller passes is not replaced in `**kwargs`."""
    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert give(lambda **kw: kw)(session_id=value) == {"session_id": value, "gateway_session_key": "g1"}


def test_callers_keywords_are_not_written_to(give: Any) -> None:
    """A mapping that the caller spreads is left as it is."""
    keywords = {"a": 1}

    with ctx.session(session_id="s1"):
        give(lambda **kw: kw.update(b=2))(**keywords)
    assert keywords == {"a": 1}


def test_unset_from_the_caller_is_not_given(give: Any) -> None:
    """UNSET alone means "not given"."""
    with ctx.session(session_id="s1"):
        assert give(lambda session_id="none": session_id)(session_id=ctx.UNSET) == "s1"


# missing=


def take(raw: str, session_id: str = "none") -> str:
    return session_id


def test_missing_is_replaced_by_a_bound_key() -> None:
    """What the host passes for "unknown" gives way to a key that is bound."""
    adapted = ctx.adapt(take, missing=("", None))

    with ctx.session(session_id="s1"):
        assert adapted("x", session_id="") == "s1"
        assert adapted("x", None) == "s1"
        assert adapted("x") == "s1"


def test_missing_stays_where_the_key_is_unbound() -> None:
    """An unbound key keeps what the caller gave, and the default where nothing was given."""
    adapted = ctx.adapt(take, missing=("",))

    assert adapted("x", session_id="") == ""
    assert adapted("x") == "none"


def test_missing_leaves_other_values() -> None:
    """What is not in `missing` wins, even if it is falsy or cannot be compared."""
    adapted: Any = ctx.adapt(take, missing=("",))
    array = Numpyish()

    with ctx.session(session_id="s1"):
        assert adapted("x", session_id="mine") == "mine"
        assert adapted("x", session_id=None) is None
        assert adapted("x", session_id=array) is array


def test_missing_is_replaced_in_var_keyword() -> None:
    """`**kwargs` are looked through too: bound keys replace "unknown", unbound ones leave it."""
    adapted = ctx.adapt(lambda **kw: kw, missing=("",))

    with ctx.session(session_id="s1"):
        assert adapted(session_id="", gateway_session_key="", other="") == {
            "session_id": "s1", "gateway_session_key": "", "other": "",
        }  # fmt: skip


def test_missing_for_a_required_parameter_that_is_unbound() -> None:
    """What the host gave is passed, though it stands for "unknown": the parameter was given."""
    adapted = ctx.adapt(lambda session_id: session_id, missing=("",))

    assert adapted(session_id="") == ""
    with pytest.raises(ctx.UnboundKeyError):
        adapted()


def test_missing_behind_a_layer() -> None:
    """ "Unknown" is replaced behind a wrapping as well."""
    from functools import wraps

    @wraps(take)
    def wide(*args: Any, **kwargs: Any) -> Any:
        return take(*args, **kwargs)

    adapted: Any = ctx.adapt(wide, missing=("",))
    with ctx.session(session_id="s1"):
        assert adapted("x", session_id="") == "s1"
    assert adapted("x", session_id="") == ""


# Levels, and keys=


def test_level_any_goes_everywhere(give: Any) -> None:
    """A key with `inject="any"` goes to its name and into `**kwargs`."""
    with ctx.session(**LEVELS):
        assert give(lambda precedence_any="none": precedence_any)() == "a"
        assert give(lambda **kw: kw)() == {"precedence_any": "a"}


def test_level_named_goes_to_its_name_only(give: Any) -> None:
    """A key with `inject="named"`, which is what a key is by default, goes to a parameter of its name."""
    with ctx.session(**LEVELS):
        assert give(lambda precedence_named="none": precedence_named)() == "b"


@pytest.mark.parametrize("name", ["precedence_marked", "precedence_never"])
def test_levels_marked_and_never_do_not_go_to_a_name(give: Any, name: str) -> None:
    """Keys with `inject="marked"` and `"never"` leave a parameter of their name alone."""
    handler = eval(f"lambda {name}='none': {name}")

    with ctx.session(**LEVELS):
        assert give(handler)() == "none"


@pytest.mark.parametrize("name", ["user_id", "frontend", "previous_session_id"])
def test_built_in_facts_go_to_markers_only(give: Any, name: str) -> None:
    """Foreign handlers own names like `user_id`: these keys are not passed by name."""
    handler = eval(f"lambda {name}='own': {name}")

    with ctx.session({ctx.USER_ID: "u", ctx.FRONTEND: "f", ctx.PREVIOUS_SESSION_ID: "p"}):
        assert give(handler)() == "own"


@pytest.mark.parametrize("way", [ctx.inject, ctx.adapt], ids=["inject", "adapt"])
def test_never_does_not_go_to_an_alias_or_injected(way: Any) -> None:
    """A key with `inject="never"` is not passed to an alias either."""
    handler = way(lambda x="none": x, aliases={"x": NEVER})

    with ctx.session(**LEVELS):
        assert handler() == "none"


def test_keys_narrows_what_goes_to_names() -> None:
    """A host may narrow the keys: others go to no parameter of their name."""

    def handler(session_id: str = "none", gateway_session_key: str = "none") -> tuple[str, str]:
        return session_id, gateway_session_key

    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert ctx.adapt(handler, keys=[ctx.SESSION_ID])() == ("s1", "none")
        assert ctx.adapt(handler, keys=[])() == ("none", "none")


def test_keys_narrows_var_keyword() -> None:
    """A host's narrowing holds for `**kwargs` too."""
    with ctx.session(session_id="s1", gateway_session_key="g1"):
        assert ctx.adapt(lambda **kw: kw, keys=[ctx.SESSION_ID])() == {"session_id": "s1"}
        assert ctx.adapt(lambda **kw: kw, keys=[])() == {}


def test_keys_does_not_narrow_markers() -> None:
    """A key outside `keys` goes to a marker: the handler asks for it by name of the key."""
    from typing import Annotated

    def handler(sid: str = "none", user_id: str = ctx.INJECTED) -> tuple[str, str]:
        return sid, user_id

    handler.__annotations__["sid"] = Annotated[str, ctx.SESSION_ID]
    with ctx.session(session_id="s1", user_id="u1"):
        assert ctx.adapt(handler, keys=[])() == ("s1", "u1")


# Errors of the handler


def test_handler_is_called_once(give: Any) -> None:
    """A handler is called exactly once, also when it fails."""
    calls: list[str] = []

    def handler(raw: Any, session_id: str = "none") -> Any:
        calls.append(session_id)
        return raw + 1

    with ctx.session(session_id="s1"), pytest.raises(TypeError):
        give(handler)("x")
    assert calls == ["s1"]


def test_handlers_type_error_is_unchanged(give: Any) -> None:
    """A handler's own TypeError reaches the caller as the very object, unchained, last frame in the handler."""
    error = TypeError("mine")

    def handler(raw: Any, session_id: str = "none") -> Any:
        raise error

    with ctx.session(session_id="s1"), pytest.raises(TypeError) as caught:
        give(handler)("x")
    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None
    assert traceback.extract_tb(error.__traceback__)[-1].name == "handler"


@pytest.mark.parametrize("args", [(), ("x", "y", "z")], ids=["too few", "too many"])
def test_call_that_does_not_fit_is_a_type_error(give: Any, args: tuple[str, ...]) -> None:
    """What the caller gives must fit the handler as ever."""
    with ctx.session(session_id="s1"), pytest.raises(TypeError):
        give(take)(*args)


def test_unknown_keyword_is_a_type_error(give: Any) -> None:
    """A keyword that the handler does not take is not swallowed."""
    with ctx.session(session_id="s1"), pytest.raises(TypeError, match="other"):
        give(take)("x", other=1)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration])
def test_errors_of_any_kind_pass(give: Any, error: type[BaseException]) -> None:
    """Whatever a handler raises, it raises."""

    def handler(session_id: str = "none") -> None:
        raise error

    with pytest.raises(error):
        give(handler)()
