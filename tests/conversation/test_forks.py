"""What a forked child has of its parent's conversations, whatever the parent's threads were about to do."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from ctxruntime.conversation import Bridge
from ctxruntime.conversation.stores import MemoryStore
from ctxruntime.conversation.stores.base import FOREVER, KEY, NO_DOC, SESSION, Change, Ref, Row

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]


def in_child(work: Callable[[], bool]) -> bool:
    """Tell whether it is so in a forked child, which has ten seconds."""
    child = os.fork()
    if child == 0:  # pragma: no cover  # another process
        signal.alarm(10)
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Slow(dict[Any, Any]):
    """A mapping that takes its time between two of its items."""

    def __init__(self, items: Mapping[Any, Any], half: threading.Event, go_on: threading.Event) -> None:
        super().__init__(items)
        self.half = half
        self.go_on = go_on

    def items(self) -> Iterator[Any]:  # type: ignore[override]  # all that is asked of it
        for number, item in enumerate(super().items()):
            if number:
                self.half.set()
                self.go_on.wait(10)
            yield item


def test_a_fork_waits_for_a_change_in_memory() -> None:
    """A child that is forked while another thread commits has all of the change, or none of it."""
    store = MemoryStore()
    half, go_on = threading.Event(), threading.Event()
    refs: list[Ref] = [(KEY, "chat"), (SESSION, "s1")]
    change = Change({}, {}, {}, {"c": Row(b"version1", FOREVER, "{}")}, [], Slow(dict.fromkeys(refs, "c"), half, go_on),
                    [], {})  # fmt: skip
    thread = threading.Thread(target=store.commit, args=("n", change), daemon=True)
    thread.start()
    assert half.wait(10)
    threading.Timer(0.2, go_on.set).start()

    assert in_child(lambda: len(store.look("n", refs)[1]) in (0, 2))

    thread.join(10)
    assert store.look("n", refs)[1] == dict.fromkeys(refs, "c")


def test_a_thread_that_takes_note_of_a_conversation_blocks_no_child() -> None:
    """A child's bridge works, although a thread that is not in it remembered a conversation as it was forked."""
    bridge = Bridge()
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with bridge._lifetimes._lock:
            held.set()
            let_go.wait(30)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert held.wait(10)

    assert in_child(lambda: bridge.resolve(session_id="s1").current == "s1")

    let_go.set()
    thread.join(10)


def test_who_forks_within_a_call_of_its_own_is_not_in_its_own_way() -> None:
    """A clock that forks, in the middle of a call of the store: the parent goes on, and so does the child."""
    seen: list[bool] = []

    def clock() -> float:
        if forks:
            forks.clear()
            seen.append(in_child(lambda: store.get_doc("n", "c", "notes") == NO_DOC))
        return 1.0

    forks: list[bool] = []
    store = MemoryStore(clock=clock)
    assert store.commit("n", Change({}, {}, {}, {"c": Row(b"version1", FOREVER, "{}")}, [], {}, [], {}))
    forks.append(True)

    assert store.get_doc("n", "c", "notes") == NO_DOC

    assert seen == [True]
