"""Stores by their URLs: what is checked before anything is opened."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ctxruntime.conversation.stores import MemoryStore, open_store

SERVERS = [  # they need their clients
    pytest.param("redis://127.0.0.1:1/0", marks=pytest.mark.server),
    pytest.param("postgresql://bot@127.0.0.1:1/bots", marks=pytest.mark.server),
]


@pytest.mark.parametrize("timeout", [0, -1.0, math.nan, math.inf, 1e12], ids=str)
@pytest.mark.parametrize("url", ["sqlite:", *SERVERS])
def test_a_timeout_is_checked_before_the_first_call(tmp_path: Path, url: str, timeout: float) -> None:
    """A time that no call can wait is refused where it is given, and the message says what it can be."""
    place = f"{url}{tmp_path}/store.db" if url == "sqlite:" else url

    with pytest.raises(ValueError, match="timeout is a number of seconds above 0, and a day at most"):
        open_store(place, timeout=timeout)


@pytest.mark.parametrize("timeout", [0.001, 86_400.0])
def test_a_timeout_may_be_short_and_long(tmp_path: Path, timeout: float) -> None:
    """A millisecond and a day are times that a call can wait."""
    store = open_store(f"sqlite:{tmp_path}/store.db", timeout=timeout)

    assert store.look("n", [("k", "chat")])[1] == {}
    store.close()


def test_a_url_without_a_kind_is_not_shown() -> None:
    """What is no URL of ours, such as a libpq connection string, may hold a password anywhere."""
    with pytest.raises(ValueError, match=r"^no store has such a URL: give 'memory:'") as caught:
        open_store("password=hunter2 host=127.0.0.1")

    assert "hunter2" not in str(caught.value)


def test_memory_has_no_place() -> None:
    """`memory:` is a store of its own each time, and nothing may follow it."""
    assert isinstance(open_store("memory:"), MemoryStore)
    with pytest.raises(ValueError, match="no store has a URL of the kind 'memory'"):
        open_store("memory:conversations")
