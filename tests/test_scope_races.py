"""What another thread does at any moment, between whichever two instructions, is neither lost nor seen by half."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from types import FrameType
from typing import Any, TypeAlias

import pytest

import ctxruntime as ctx
from ctxruntime import layers

OWN = [ctx.Key(f"races_own{number}", str) for number in range(6)]
"""More than there are spare slots."""
KINDS = pytest.mark.parametrize(
    "key", [ctx.USER_ID, OWN[0], OWN[5]], ids=["built-in key", "own key", "key without a slot"]
)
Meanwhile: TypeAlias = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""Has another thread, which took over what is in effect, do something at the moment that is tried."""


def try_each_moment(of: Callable[..., object], scene: Callable[[Meanwhile], None]) -> int:
    """Play a scene again for each instruction of a function, and have the other thread act before it; return how many.

    While the lock is held there is no such moment: other threads are kept out.
    """
    lock: Any = layers.amending()
    for moment in itertools.count(-1):  # CPython 3.12 tells of no instruction until a second trace
        came = False

        @contextmanager
        def meanwhile(act: Callable[[], object]) -> Iterator[None]:
            numbers = itertools.count()
            other = threading.Thread(target=copy_context().run, args=(act,))

            def tracing(frame: FrameType, event: str, _: object) -> Any:
                nonlocal came
                if frame.f_code is of.__code__:
                    frame.f_trace_opcodes = True
                    if event == "opcode" and not lock._is_owned() and next(numbers) == moment:  # noqa: B023
                        came = True
                        other.start()
                        other.join()
                return tracing

            traced = sys.gettrace()
            sys.settrace(tracing)
            try:
                yield
            finally:
                sys.settrace(traced)

        scene(meanwhile)
        if moment >= 0 and not came:
            return moment
    raise AssertionError


def a_bind() -> Any:
    return ctx.bind(frontend="f")


@KINDS
@pytest.mark.parametrize("earlier", [0, 16], ids=["the first", "where the list of earlier ones is tidied"])
@pytest.mark.parametrize("scope_of", [a_bind, ctx.capture], ids=["bind", "snapshot"])
def test_amend_is_seen_in_the_scope_that_is_being_entered(
    scope_of: Callable[[], Any], earlier: int, key: ctx.Key[str]
) -> None:
    """A scope that inherits while another thread amends has what was amended."""

    def scene(meanwhile: Meanwhile) -> None:
        with ctx.session({key: "before"}) as turn:
            for _ in range(earlier):
                with a_bind():
                    pass
            scope = scope_of()
            with meanwhile(lambda: ctx.amend({key: "after"})):
                scope.__enter__()
            assert key.get() == turn.get(key)
            scope.__exit__(None, None, None)

    assert try_each_moment(layers.inherit, scene) > 50


def test_without_the_gil_values_are_copied_under_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where threads run at once an amend may not show in the count yet: what counts is copied under the lock."""
    with ctx.session(user_id="before") as turn:
        with a_bind():
            pass

        class Lock:
            def __enter__(self) -> None:
                ctx.USER_ID.put(turn, "after")  # as by an amend that held it until now

            def __exit__(self, *error: object) -> None: ...

        with monkeypatch.context() as patched:
            patched.setattr(layers, "NO_GIL", True)
            patched.setattr(layers, "_lock", Lock())
            bound = a_bind()
            bound.__enter__()
        assert ctx.USER_ID.get() == "after"
        bound.__exit__(None, None, None)


@pytest.mark.parametrize("step", [layers.inherit, layers._derived_of], ids=["inheriting", "making the list of them"])
def test_two_scopes_that_are_entered_at_once_are_both_amended(step: Callable[..., object]) -> None:
    """Two threads that enter the first scopes inside a turn at once are both told what is amended later."""
    tried = 0

    def scene(meanwhile: Meanwhile) -> None:
        nonlocal tried
        with ctx.session(user_id="before") as turn:
            here, there = a_bind(), a_bind()
            with meanwhile(there.__enter__):
                here.__enter__()
            turn.amend(user_id="after")
            assert ctx.USER_ID.get() == "after"
            if there.token is not None:
                tried += 1
                assert ctx.USER_ID.peek(there) == "after"
            here.__exit__(None, None, None)

    assert try_each_moment(step, scene) == tried > 3


def test_amend_of_one_key_keeps_what_is_bound_by_another() -> None:
    """A bind puts a key that has no slot while another thread amends such a key: both have their values."""

    def scene(meanwhile: Meanwhile) -> None:
        with ctx.session({OWN[4]: "before"}) as turn, ctx.bind(user_id="u"):
            scope = ctx.bind({OWN[5]: "bound"})
            with meanwhile(lambda: ctx.amend({OWN[4]: "after"})):
                scope.__enter__()
            assert (OWN[4].get(), OWN[5].get()) == (turn.get(OWN[4]), "bound")
            scope.__exit__(None, None, None)

    assert try_each_moment(OWN[5].put, scene) > 3
