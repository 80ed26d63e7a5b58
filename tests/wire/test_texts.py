"""The text form of each kind of value, and what is read back."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum, Flag, IntEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxruntime as ctx
from ctxruntime import wire


class Colour(Enum):
    RED = 1
    DARK_RED = "dark red"


class Level(IntEnum):
    LOW = 1


class Rights(Flag):
    READ = 1
    WRITE = 2


class Text(str, Enum):  # noqa: UP042  # a mixed-in str is the case that is tested
    ONE = "1"


KINDS: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "bytes": bytes,
    "uuid": UUID,
    "datetime": datetime,
    "colour": Colour,
    "level": Level,
    "rights": Rights,
    "text": Text,
    "bare": tuple,
    "ints": tuple[int, ...],
    "uuids": tuple[UUID, ...],
    "mixed": tuple[str, UUID, datetime, bytes, Colour, bool, float, tuple],
}
KEYS: dict[str, ctx.Key[Any]] = {name: ctx.Key(f"texts_{name}", kind, wire=True) for name, kind in KINDS.items()}

clean = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=100)
floats = st.floats(allow_nan=False)
zones = st.none() | st.just(UTC) | st.just(timezone(timedelta(minutes=-205)))
stamps = st.datetimes(timezones=zones).map(lambda stamp: stamp.replace(fold=0))
plain = st.recursive(
    clean | st.integers() | floats | st.booleans(), lambda items: st.lists(items, max_size=4).map(tuple), max_leaves=8
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": clean,
    "int": st.integers(-(2**1024) + 1, 2**1024 - 1),
    "float": floats,
    "bool": st.booleans(),
    "bytes": st.binary(max_size=1024),
    "uuid": st.uuids(),
    "datetime": stamps,
    "colour": st.sampled_from(Colour),
    "level": st.sampled_from(Level),
    "rights": st.sampled_from(Rights) | st.just(Rights.READ | Rights.WRITE) | st.just(Rights(0)),
    "text": st.sampled_from(Text),
    "bare": st.lists(plain, max_size=6).map(tuple),
    "ints": st.lists(st.integers(), max_size=20).map(tuple),
    "uuids": st.lists(st.uuids(), max_size=20).map(tuple),
    "mixed": st.tuples(
        clean, st.uuids(), stamps, st.binary(max_size=20), st.sampled_from(Colour), st.booleans(), floats, st.just((1,))
    ),
}


def there_and_back(key: ctx.Key[Any], value: object) -> object:
    with ctx.session({key: value}):
        headers = wire.inject()
    return wire.extract(headers, trust=(key,))[key]


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_a_value_arrives_as_it_was(name: str, data: st.DataObject) -> None:
    """What a key can hold, and the limits of baggage let through, comes back equal and of the same type."""
    value = data.draw(VALUES[name])

    back = there_and_back(KEYS[name], value)

    assert (repr(back), type(back)) == (repr(value), type(value))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_float_that_is_no_number_arrives(value: float) -> None:
    """Infinities and NaN have a text form too."""
    assert repr(there_and_back(KEYS["float"], value)) == repr(value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("str", "agent:main/ü +%", "agent%3Amain%2F%C3%BC%20%2B%25"),
        ("str", "", ""),
        ("int", -7, "-7"),
        ("float", 0.1, "0.1"),
        ("bool", True, "true"),
        ("bytes", b"\x00\xff", "00ff"),
        ("uuid", UUID(int=10), "00000000-0000-0000-0000-00000000000a"),
        ("datetime", datetime(2026, 11, 30, 9, tzinfo=UTC), "2026-11-30T09%3A00%3A00%2B00%3A00"),
        ("colour", Colour.DARK_RED, "DARK_RED"),
        ("rights", Rights.READ | Rights.WRITE, "3"),
        ("ints", (1, 2), "%5B1%2C2%5D"),
    ],
)
def test_each_kind_has_one_text_form(name: str, value: object, text: str) -> None:
    """The form on the wire is fixed: the other side may be an older or newer version of the program."""
    with ctx.session({KEYS[name]: value}):
        assert wire.inject() == {"baggage": f"texts_{name}={text}"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("int", "1_000"),
        ("int", "%D9%A3"),
        ("int", "%201"),
        ("int", ""),
        ("int", "9" * 310),
        ("float", "0x1p3"),
        ("float", "1%2C5"),
        ("bool", "True"),
        ("bool", "1"),
        ("bytes", "0"),
        ("bytes", "00%20ff"),
        ("bytes", "00" * 1025),
        ("uuid", "%7B00000000-0000-0000-0000-00000000000a%7D"),
        ("datetime", "yesterday"),
        ("datetime", "20261130"),
        ("datetime", "2026-W48-1"),
        ("colour", "1"),
        ("colour", "__class__"),
        ("level", "1"),
        ("rights", "4"),
        ("rights", "-1"),
        ("text", "1"),
        ("bare", "1"),
        ("bare", "%22ab%22"),
        ("bare", "%7B%22a%22%3A1%7D"),
        ("bare", "%5Bnull%5D"),
        ("bare", "%5B%7B%7D%5D"),
        ("bare", "%5B" * 1300),
        ("bare", "%5B" + "1%2C" * 200 + "1%5D"),
        ("bare", "%5B%22%5Cu0000%22%5D"),
        ("bare", "%5B%22%5Cud800%22%5D"),
        ("ints", "%5B1.0%5D"),
        ("ints", "%5Btrue%5D"),
        ("ints", "%5B%221%22%5D"),
        ("mixed", "%5B%5D"),
        ("uuids", "%5B10%5D"),
        ("uuids", "%5Bnull%5D"),
        ("uuids", "%5B%5B%5D%5D"),
        ("str", "x" * 1025),
        ("str", "a%0Ab"),
        ("str", "%ED%A0%80"),
    ],
)
def test_what_is_no_value_of_the_key_is_dropped(name: str, text: str) -> None:
    """Only the one text form is read, and the key checks what comes of it."""
    assert wire.extract({"baggage": f"texts_{name}={text}"}, trust=(KEYS[name],)) == {}


def test_a_type_that_raises_what_it_likes_breaks_nothing() -> None:
    """The type of a key can be a class of the host's: what it raises means that the value is dropped."""

    class Peculiar(UUID):
        def __init__(self, text: str) -> None:
            raise NotImplementedError(text)

    key = ctx.Key("texts_peculiar", Peculiar, wire=True)

    assert wire.extract({"baggage": "texts_peculiar=00000000-0000-0000-0000-00000000000a"}, trust=(key,)) == {}


def test_an_untyped_tuple_takes_what_the_other_side_can_know(caplog: pytest.LogCaptureFixture) -> None:
    """A UUID in a bare tuple would arrive as text: it is left out, with a warning that shows no value."""
    with ctx.session({KEYS["bare"]: (UUID(int=10),)}):
        assert wire.inject() == {}

    expected = "baggage left out of what goes out: texts_bare (has no text form)"
    assert [record.getMessage() for record in caplog.records] == [expected]
