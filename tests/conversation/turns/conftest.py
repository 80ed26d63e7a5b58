"""Bridges in use, stores that are slow or down, and what turns have to leave behind: nothing."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest

from ctxruntime import guarding
from ctxruntime.conversation import (
    Bridge,
    ConversationState,
    MemoryStore,
    StoreUnavailableError,
    turns,
    use,
)
from ctxruntime.conversation.stores.base import Look, Ref
from ctxruntime.layers import SUBSCRIBERS


@pytest.fixture(autouse=True)
def nothing_is_left_in_use() -> Iterator[None]:
    before = SUBSCRIBERS.copy()
    yield
    assert before == SUBSCRIBERS
    assert turns.in_use() is None
    gc.collect()
    assert turns._HELD == {}


@pytest.fixture
def faults() -> Iterator[dict[str, int]]:
    """Return the faults of ours that were caught before, and have none be new at the end."""
    before = guarding.fault_counts()
    yield before
    assert guarding.fault_counts() == before


@pytest.fixture
def chat(faults: dict[str, int]) -> Iterator[Bridge]:
    """Return a bridge over memory that is in use."""
    bridge = Bridge()
    with use(bridge):
        yield bridge


class Slow:
    """A store that blocks: each look takes a while, in which `looking` is set."""

    blocks: ClassVar[bool] = True

    def __init__(self, seconds: float = 0.05) -> None:
        self.memory = MemoryStore()
        self.seconds = seconds
        self.looking = threading.Event()
        self.threads: set[int] = set()
        self.error: Exception | None = None
        self.calls = 0

    def look(self, namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
        self.calls += 1
        self.threads.add(threading.get_ident())
        self.looking.set()
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return self.memory.look(namespace, refs, ids)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)


class Down(Slow):
    """A store that does not block, and is down while it has an error."""

    blocks: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(0)
        self.error = StoreUnavailableError("the store", "did not answer", "start it")


@pytest.fixture
def slow() -> type[Slow]:
    """Return the stores that block."""
    return Slow


@pytest.fixture
def down() -> type[Down]:
    """Return the stores that are down."""
    return Down


@pytest.fixture
def in_threads() -> Callable[[int, Callable[[int], object]], None]:
    """Return what does some work in many threads, and raises what one of them raised."""
    return run_in_threads


def run_in_threads(many: int, work: Callable[[int], object]) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001  # it is raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.fixture
def notes_in() -> Callable[[Bridge, str], list[tuple[str, Any]]]:
    """Return what finds the notes of a session."""
    return find_notes


def find_notes(bridge: Bridge, session_id: str) -> list[tuple[str, Any]]:
    found = bridge.find(session_id=session_id)
    assert found is not None
    return ConversationState("notes", bridge=bridge).at(found).items()
