from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import ctxruntime as ctx

Give = Callable[[Any], Callable[..., Any]]

WAYS: dict[str, Give] = {
    "inject": ctx.inject,
    "call": lambda fn: partial(ctx.call, fn),
    "adapt": ctx.adapt,
}


@pytest.fixture(params=WAYS)
def give(request: pytest.FixtureRequest) -> Give:
    """One of the three ways in which a handler gets its keys."""
    return WAYS[request.param]
