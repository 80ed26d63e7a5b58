"""Stores of every kind, each empty, and bridges over them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.stores import MemoryStore, Store, open_store

KINDS = [
    "memory",
    "sqlite",
    pytest.param("redis", marks=pytest.mark.server),
    pytest.param("postgres", marks=pytest.mark.server),
]
NAMESPACES = (f"tests-{number}" for number in itertools.count())


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the name of a kind of store: the test runs once for each."""
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a store of this kind; those with a server are started for the session."""
    if kind == "memory":
        return "memory:"
    if kind == "sqlite":
        return f"sqlite:{tmp_path}/conversations.db"
    return str(request.getfixturevalue(f"{kind}_url"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Return a store of this kind; use the `namespace` fixture to be alone in it."""
    store = open_store(url)
    yield store
    store.close()


@pytest.fixture
def namespace() -> str:
    """Return a namespace that no other test uses."""
    return next(NAMESPACES)


@pytest.fixture
def bridge(store: Store, namespace: str) -> Bridge:
    """Return a bridge over a store of this kind, alone in its namespace."""
    return Bridge(store, namespace)


@pytest.fixture
def memory() -> Callable[[], tuple[MemoryStore, list[float]]]:
    """Return what makes a memory store with a clock that stands, and the clock: a list of one time."""

    def make() -> tuple[MemoryStore, list[float]]:
        clock = [1_000_000.0]
        return MemoryStore(clock=lambda: clock[0]), clock

    return make
