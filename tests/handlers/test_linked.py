"""Linked keys reach handlers as they reach readers."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import ctxruntime as ctx
from ctxruntime.keys import Link

VAR: ContextVar[str] = ContextVar("host_chat", default="")
CHAT = ctx.Key("linked_chat", str, inject="any", link=Link(VAR, unset=""))


def test_linked_key_outside_a_turn_comes_from_the_variable(give: Any) -> None:
    """Outside any turn, the host's variable gives the value, also into `**kwargs`."""
    token = VAR.set("c1")
    try:
        assert give(lambda linked_chat="none": linked_chat)() == "c1"
        assert give(lambda **kw: kw)() == {"linked_chat": "c1"}
    finally:
        VAR.reset(token)


def test_linked_key_in_a_turn_comes_from_the_turn(give: Any) -> None:
    """In a turn the layer decides, also that a key is not known."""
    token = VAR.set("stale")
    try:
        with ctx.session(linked_chat="c2"):
            assert give(lambda linked_chat="none": linked_chat)() == "c2"
        with ctx.session(session_id="s1"):
            assert give(lambda linked_chat="none": linked_chat)() == "none"
            assert give(lambda **kw: kw)() == {"session_id": "s1"}
    finally:
        VAR.reset(token)


def test_linked_variable_that_holds_unset_is_unbound(give: Any) -> None:
    """A variable that holds what stands for "none" gives nothing."""
    assert give(lambda linked_chat="none": linked_chat)() == "none"
