"""What the memory store has to do beyond the contract of all stores: live on after an interrupt."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from ctxruntime.conversation.stores import MemoryStore, memory
from ctxruntime.conversation.stores.base import FOREVER, Change, Ref, Row

REFS: list[Ref] = [("k", "chat"), ("i", "s1"), ("i", "s2")]


def change(id: str, *gone: str) -> Change:
    """Return the change that makes a conversation, and deletes others."""
    return Change({}, {}, {}, {id: Row(b"version1", FOREVER, "{}")}, gone, dict.fromkeys(REFS, id), [], {})


@pytest.mark.parametrize("line", range(1, 60, 2))
def test_an_interrupt_leaves_no_ref_that_leads_nowhere(line: int) -> None:
    """Wherever Ctrl-C falls within a commit, later calls work: no ref leads to what is not there."""
    store, left = MemoryStore(), [line]
    assert store.commit("n", change("c1"))

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename != memory.__file__:
            return None
        left[0] -= event == "line"
        if left[0] == 0:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        store.commit("n", change("c2", "c1"))
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)

    store.look("n", REFS)
    assert store.commit("n", change("c3", "c2", "c1"))
    assert store.look("n", REFS)[1] == dict.fromkeys(REFS, "c3")
