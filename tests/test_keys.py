"""Keys: their definitions, their values, and how they are copied."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import pytest

import ctxruntime as ctx

OWN = [ctx.Key(f"keys_own{number}", str) for number in range(8)]
"""More than there are spare slots."""


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Subclass(str):
    pass


def test_built_in_keys_have_their_names() -> None:
    """The five built-in keys are called what handlers call their parameters."""
    keys = [ctx.SESSION_ID, ctx.GATEWAY_SESSION_KEY, ctx.PREVIOUS_SESSION_ID, ctx.USER_ID, ctx.FRONTEND]
    names = ["session_id", "gateway_session_key", "previous_session_id", "user_id", "frontend"]
    assert [key.name for key in keys] == names


def test_built_in_keys_are_injected_with_least_privilege() -> None:
    """Only the two ids go anywhere; the other built-in keys need a marker; own keys go by name."""
    assert [key.inject for key in (ctx.SESSION_ID, ctx.GATEWAY_SESSION_KEY)] == ["any", "any"]
    assert [key.inject for key in (ctx.PREVIOUS_SESSION_ID, ctx.USER_ID, ctx.FRONTEND)] == ["marked"] * 3
    assert OWN[0].inject == "named"


def test_no_built_in_key_leaves_the_program() -> None:
    """No built-in key goes into headers or child environments."""
    assert not any(key.wire for key in (ctx.SESSION_ID, ctx.GATEWAY_SESSION_KEY, ctx.USER_ID, ctx.FRONTEND))


@pytest.mark.parametrize("key", OWN, ids=lambda key: key.name)
def test_keys_beyond_the_spare_slots_behave_alike(key: ctx.Key[str]) -> None:
    """A key that found no slot is bound, shadowed, amended and left like any other."""
    with ctx.session({key: "turn"}, session_id="s1") as turn:
        with ctx.bind({key: "bind"}):
            ctx.amend({key: "amended"})
            assert key.get() == "amended"
        with ctx.bind(user_id="u1"):
            turn.amend({key: "late"})
            assert key.get() == "late"
        ctx.amend({key: None})
        assert dict(ctx.current()) == {"session_id": "s1"}
    assert not key.is_bound()


def test_all_own_keys_at_once_keep_their_values_apart() -> None:
    """No two keys share a place."""
    with ctx.session({key: key.name for key in OWN}):
        assert dict(ctx.current()) == {key.name: key.name for key in OWN}


def test_key_defined_alike_is_the_same_key() -> None:
    """Defining a key alike again returns the one that is there."""
    first = ctx.Key("keys_alike", int, attributes="a.b", default=1, redact="drop", wire=True, inject="any")
    again = ctx.Key("keys_alike", int, attributes=("a.b",), default=1, redact="drop", wire=True, inject="any")
    assert again is first


DIFFERENCES: dict[str, dict[str, Any]] = {
    "type": {"type": int},
    "attributes": {"attributes": "other"},
    "default": {"default": "other"},
    "redact": {"redact": "hash"},
    "wire": {"wire": True},
    "inject": {"inject": "never"},
}


@pytest.mark.parametrize("aspect", DIFFERENCES)
def test_key_defined_otherwise_is_an_error(aspect: str) -> None:
    """Two keys of one name that are not alike are an error that says what differs."""
    with pytest.raises(ctx.DuplicateKeyError, match=f"'keys_own0' is defined already, with another {aspect}"):
        ctx.Key("keys_own0", **DIFFERENCES[aspect])


def test_default_that_only_compares_equal_is_not_alike() -> None:
    """A default of 1 is not one of True: the type is another, and so is the key."""
    ctx.Key("keys_flag", bool, default=True)
    with pytest.raises(ctx.DuplicateKeyError):
        ctx.Key("keys_flag", int, default=1)


def test_tuples_of_other_items_are_not_alike() -> None:
    """Keys of tuples are alike only with the same items."""
    ctx.Key("keys_tuple", tuple[str, ...])
    with pytest.raises(ctx.DuplicateKeyError, match="another type"):
        ctx.Key("keys_tuple", tuple[int, ...])


@pytest.mark.parametrize("name", ["", "two words", "a-b", "1st", "class", "take", "None", 7, "a\n"])
def test_bad_name_is_refused(name: Any) -> None:
    """A key's name is an identifier that can be a parameter, and not `take`."""
    with pytest.raises(ctx.InvalidValueError, match="cannot be defined by this name"):
        ctx.Key(name)


@pytest.mark.parametrize("kind", [dict, list, object, set, tuple[list], Any, "str", None, int | str])
def test_bad_type_is_refused(kind: Any) -> None:
    """A key holds small immutable values: other types are refused when it is defined."""
    with pytest.raises(ctx.InvalidValueError, match="cannot be of this type"):
        ctx.Key("keys_bad_type", kind)


@pytest.mark.parametrize("options", [{"inject": "always"}, {"redact": "mask"}, {"inject": None}])
def test_bad_option_is_refused(options: dict[str, Any]) -> None:
    """An option that is none of those there are is refused."""
    with pytest.raises(ctx.InvalidValueError, match="choose one of"):
        ctx.Key("keys_bad_option", **options)


def test_bad_default_is_refused() -> None:
    """A default is checked as a value is, and the key is not defined."""
    with pytest.raises(ctx.InvalidValueError, match="takes int, not str"):
        ctx.Key("keys_bad_default", int, default="1")  # type: ignore[arg-type]
    assert ctx.Key("keys_bad_default", str).name == "keys_bad_default"


VALUES: list[tuple[Any, Any]] = [
    (str, "text"),
    (str, ""),
    (str, "naïve 文字 🙂"),
    (str, "x" * 1024),
    (int, 7),
    (int, -1),
    (float, 0.5),
    (bool, False),
    (bytes, b"\x00\xff"),
    (UUID, UUID(int=7)),
    (datetime, datetime(2026, 11, 30, tzinfo=UTC)),
    (Colour, Colour.RED),
    (Level, Level.LOW),
    (tuple, ()),
    (tuple, ("a", 1, Colour.RED)),
    (tuple[str, ...], ("a", "b")),
    (tuple[str, int], ("a", 1)),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=repr)
def test_good_value_is_held_as_it_is(kind: Any, value: Any) -> None:
    """A value of the key's type comes back, the same object."""
    key = ctx.Key(f"keys_good_{kind!r}".translate({ord(c): "_" for c in "<>' .[],"}), kind)
    with ctx.session({key: value}):
        assert key.get() is value
    assert key.check(value) is value


WRONG: list[tuple[Any, Any, str]] = [
    (str, b"bytes", "takes str, not bytes"),
    (str, Subclass("x"), "takes str, not Subclass"),
    (str, "x" * 1025, "at most 1024 characters"),
    (str, "tab\t", "control characters"),
    (str, "\x7f", "control characters"),
    (str, "\x85", "control characters"),
    (int, True, "takes int, not bool"),
    (int, "1", "takes int, not str"),
    (int, 1.0, "takes int, not float"),
    (int, 1 << 5000, "at most 1024 bits"),
    (float, 1, "takes float, not int"),
    (bool, 1, "takes bool, not int"),
    (bytes, b"x" * 1025, "at most 1024 bytes"),
    (UUID, str(UUID(int=7)), "takes UUID, not str"),
    (Colour, "red", "takes Colour, not str"),
    (tuple, ["a"], "takes tuple, not list"),
    (tuple, (["a"],), "no tuple with list in it"),
    (tuple, ({},), "no tuple with dict in it"),
    (tuple, ("a\nb",), "control characters"),
    (tuple, (None,), "no tuple with NoneType in it"),
    (tuple[str, ...], ("a", 1), "takes str, not int"),
    (tuple[str, int], ("a",), "tuples of 2 items"),
    (tuple, ("a",) * 129, "at most 128 items"),
]


@pytest.mark.parametrize(("kind", "value", "reason"), WRONG, ids=[reason for _, _, reason in WRONG])
def test_wrong_value_is_refused(kind: Any, value: Any, reason: str) -> None:
    """Values are checked against the key's type and never coerced; they are small, immutable and clean."""
    key = ctx.Key(f"keys_good_{kind!r}".translate({ord(c): "_" for c in "<>' .[],"}), kind)
    with pytest.raises(ctx.InvalidValueError, match=reason) as caught:
        key.check(value)

    assert caught.value.key == key.name
    assert caught.value.advice


DOORS: list[Any] = [ctx.session, ctx.session.join, ctx.bind, ctx.amend]


@pytest.mark.parametrize("door", DOORS, ids=["session", "join", "bind", "amend"])
@pytest.mark.parametrize(("kind", "value", "reason"), WRONG, ids=[reason for _, _, reason in WRONG])
def test_wrong_value_is_refused_at_every_door(kind: Any, value: Any, reason: str, door: Any) -> None:
    """Every way in checks what the key itself would refuse."""
    key = ctx.Key(f"keys_good_{kind!r}".translate({ord(c): "_" for c in "<>' .[],"}), kind)
    with ctx.session(session_id="s1"):
        with pytest.raises(ctx.InvalidValueError, match=reason):
            door({key: value})
        assert dict(ctx.current()) == {"session_id": "s1"}


def test_tuple_in_a_tuple_is_checked_through() -> None:
    """What a tuple holds is checked at any depth."""
    key = ctx.Key("keys_nested", tuple)
    assert key.check((("a",), 1)) == (("a",), 1)
    with pytest.raises(ctx.InvalidValueError, match="no tuple with list in it"):
        key.check(((["a"],),))


def test_default_is_read_and_not_bound() -> None:
    """A key's default serves reading; nothing is bound by it."""
    key = ctx.Key("keys_default", str, default="d")
    assert key.get() == "d"
    assert not key.is_bound()
    assert dict(ctx.current()) == {}


@pytest.mark.parametrize("key", [ctx.SESSION_ID, OWN[7]], ids=lambda key: key.name)
def test_keys_pickle_and_copy_as_themselves(key: ctx.Key[str]) -> None:
    """A pickled, copied or deep-copied key is the key."""
    assert pickle.loads(pickle.dumps(key)) is key
    assert copy.copy(key) is key
    assert copy.deepcopy([key])[0] is key


def test_unset_pickles_and_copies_as_itself() -> None:
    """UNSET is one object, in whichever way it travels."""
    assert pickle.loads(pickle.dumps(ctx.UNSET)) is ctx.UNSET
    assert copy.deepcopy(ctx.UNSET) is ctx.UNSET
    assert not ctx.UNSET
    assert repr(ctx.UNSET) == "UNSET"


def test_key_repr_shows_name_and_type() -> None:
    """A key shows what it is, and no value."""
    assert repr(ctx.SESSION_ID) == "<Key session_id: str>"
