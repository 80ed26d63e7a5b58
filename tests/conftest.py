from __future__ import annotations

from collections.abc import Iterator

import pytest

import ctxruntime as ctx


@pytest.fixture(autouse=True)
def nothing_is_left_in_effect() -> Iterator[None]:
    yield
    assert dict(ctx.current()) == {}
    assert ctx.current_turn() is None
