"""What a key's value looks like as an attribute."""

from __future__ import annotations

import enum
import logging
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

import ctxruntime as ctx
from ctxruntime.telemetry.values import attribute_of


class Plan(enum.Enum):
    FREE = "free"
    PAID = 2
    ODD = object()


class Level(enum.IntEnum):
    LOW = 1


CASES: list[tuple[object, object]] = [
    ("text", "text"),
    ("", None),
    (0, 0),
    (False, False),
    (1.5, 1.5),
    ((1 << 63) - 1, (1 << 63) - 1),
    (-(1 << 63), -(1 << 63)),
    (1 << 63, str(1 << 63)),
    (b"\x00\xff", "00ff"),
    (b"", None),
    (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (datetime(2026, 11, 30, 9, 11, tzinfo=UTC), "2026-11-30T09:11:00+00:00"),
    (Plan.FREE, "free"),
    (Plan.PAID, 2),
    (Plan.ODD, "ODD"),
    (Level.LOW, 1),
    (("a", "b"), ("a", "b")),
    ((1, 2), (1, 2)),
    ((1, "a"), ("1", "a")),
    ((True, 1), ("True", "1")),
    (("a", ("b", "c")), ("a", "b", "c")),
    ((), None),
]


@pytest.mark.parametrize(("value", "shown"), CASES, ids=[repr(value)[:30] for value, _ in CASES])
def test_a_value_is_shown_as_what_opentelemetry_takes(value: object, shown: object) -> None:
    """Whatever a key can hold becomes text, a boolean, a 64-bit integer, a float or a tuple of one of them."""
    assert attribute_of(value) == shown
    assert type(attribute_of(value)) is type(shown)


def test_what_is_shown_reaches_the_exporter_unchanged(spans: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The SDK takes every kind of value as it is shown, without a warning."""
    kinds = {
        "number": (int, 1 << 63),
        "flag": (bool, False),
        "ratio": (float, 0.5),
        "raw": (bytes, b"\x01"),
        "uuid": (UUID, UUID(int=7)),
        "when": (datetime, datetime(2026, 11, 30, tzinfo=UTC)),
        "plan": (Plan, Plan.FREE),
        "mixed": (tuple, (1, "a")),
    }
    keys = {ctx.Key(f"shown_{name}", kind, attributes=name): value for name, (kind, value) in kinds.items()}  # type: ignore[call-overload]
    with caplog.at_level(logging.DEBUG), ctx.session(keys):
        spans.start("work").end()

    assert spans.attributes("work") == {name: attribute_of(value) for name, (_, value) in kinds.items()}
    assert caplog.records == []
