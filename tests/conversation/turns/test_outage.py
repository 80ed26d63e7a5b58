"""What a store that fails does to turns: nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime import guarding
from ctxruntime.conversation import (
    CONVERSATION_ID,
    Bridge,
    ConversationState,
    StoreUnavailableError,
    current,
    outage,
    use,
)
from ctxruntime.conversation.stores.base import Look, Ref

notes = ConversationState("notes")


def here() -> str:
    found = current()
    assert found is not None
    assert CONVERSATION_ID.get() == found.id
    return found.id


# A store that fails


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(outage, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def turn_of_everything() -> None:
    """Enter, amend and leave in many ways; nothing of it may raise."""
    with ctx.session(gateway_session_key="chat"):
        ctx.amend(session_id="s1")
        with ctx.bind(session_id="child"):
            ctx.amend(session_id="child-2")
        with ctx.session.join(gateway_session_key="chat", session_id="s2") as turn:
            turn.amend(session_id=None)
            assert current() is None
    asyncio.run(turn_of_a_coroutine())


@ctx.session(session_id="s3")
async def turn_of_a_coroutine() -> None:
    async with ctx.session(session_id="s4"):
        assert current() is None


def test_a_store_that_fails_never_breaks_a_turn(
    faults: dict[str, int], clock: Clock, caplog: pytest.LogCaptureFixture, down: Any
) -> None:
    """Entering, amending and leaving work without a conversation, the store is asked once, and one line is logged."""
    store = down()
    with caplog.at_level(logging.WARNING), use(Bridge(store)):
        turn_of_everything()

    assert store.calls == 1
    (record,) = caplog.records
    assert "conversation" in record.getMessage()
    assert "did not answer" in record.getMessage()
    assert record.name == "ctxruntime"


def test_a_store_with_a_bug_never_breaks_a_turn(caplog: pytest.LogCaptureFixture, down: Any) -> None:
    """A plain error out of a store is caught by the guard, which logs it once, with its site."""
    store, site = down(), "conversation: the conversation of a turn"
    store.error = ZeroDivisionError("a bug")
    before = guarding.fault_counts().get(site, 0)
    with use(Bridge(store)):
        turn_of_everything()

    assert guarding.fault_counts()[site] - before == store.calls > 5


def test_a_store_that_blocks_and_fails_breaks_no_turn_either(faults: dict[str, int], clock: Clock, slow: Any) -> None:
    """Doors that wait for their store let in when it fails."""
    store = slow(0)
    store.error = StoreUnavailableError("the store", "did not answer", "start it")
    with use(Bridge(store)):
        asyncio.run(turn_of_a_coroutine())
        turn_of_everything()

    assert store.calls == 1


def test_a_store_that_failed_is_left_alone_for_longer_and_longer(
    faults: dict[str, int], clock: Clock, caplog: pytest.LogCaptureFixture, down: Any
) -> None:
    """The pause is half a second, doubled to 30 with each failure; then the store is asked once, whoever comes."""
    store, began = down(), clock.now
    asked: list[float] = []
    with caplog.at_level(logging.WARNING), use(Bridge(store)):
        while clock.now < began + 100:
            before = store.calls
            for _ in range(3):
                with ctx.session(session_id="s1"):
                    pass
            asked += [clock.now - began] * (store.calls - before)
            clock.now += 0.25

    assert asked == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5, 91.5]
    assert len(caplog.records) == 1


def test_a_store_that_answers_again_is_asked_again(
    faults: dict[str, int], clock: Clock, caplog: pytest.LogCaptureFixture, down: Any
) -> None:
    """After the pause turns have conversations again; the next failure is logged, and begins with a short pause."""
    store = down()
    error, bridge = store.error, Bridge(store)
    with caplog.at_level(logging.WARNING), use(bridge):
        for _ in range(4):
            with ctx.session(session_id="s1"):
                assert current() is None
            clock.now += 31
        store.error = None
        with ctx.session(session_id="s1"):
            assert here()
        store.error = error
        with ctx.session(session_id="s2"):
            assert not CONVERSATION_ID.is_bound()
        store.error = None
        clock.now += 0.5
        with ctx.session(session_id="s2"):
            assert here()

    assert len(caplog.records) == 2


def test_an_answer_to_anybody_ends_the_pause(faults: dict[str, int], clock: Clock, down: Any) -> None:
    """Where a state is asked for while the store is left alone, and it answers, turns have conversations again."""
    store = down()
    with use(Bridge(store)):
        with ctx.session(session_id="s1"):
            store.error = None
            notes["a"] = 1
            assert here()
        with ctx.session(session_id="s1"):
            assert here()


def test_state_raises_the_stores_error(faults: dict[str, int], clock: Clock, down: Any) -> None:
    """In a turn whose conversation is not known as the store fails, `ConversationState` raises what the store does."""
    store = down()
    with use(Bridge(store)), ctx.session(session_id="s1"):
        with pytest.raises(StoreUnavailableError, match="did not answer"):
            notes.items()
        assert current() is None


def enter_and_leave(session_id: str) -> None:
    with ctx.session(session_id=session_id):
        pass


def test_turns_that_come_at_once_wait_once(faults: dict[str, int], clock: Clock, down: Any, in_threads: Any) -> None:
    """Failures of calls that were made at one time are one failure: the pause is not doubled for each."""
    store, together = down(), threading.Barrier(8)
    look = store.look

    def looking(namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
        together.wait(10)
        return look(namespace, refs, ids)

    store.look = looking  # type: ignore[method-assign]  # one that fails for all at once
    with use(Bridge(store)):
        in_threads(8, lambda number: enter_and_leave(f"s{number}"))
        assert store.calls == 8
        store.look, store.error = look, None  # type: ignore[method-assign]  # as above
        clock.now += 0.5
        with ctx.session(session_id="s1"):
            assert here()


def test_one_of_those_who_come_after_a_pause_tries_the_store(faults: dict[str, int], clock: Clock, down: Any) -> None:
    """While one turn waits for a store that failed before, the others go on without it."""
    store = down()
    with use(Bridge(store)):
        with ctx.session(session_id="s1"):
            pass
        clock.now += 5
        look, tried = store.look, list[str]()

        def looking(namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
            if not tried:
                tried.append("once")
                clock.now += 5  # as long as a dead server takes
                with ctx.session(session_id="s2"):
                    assert not CONVERSATION_ID.is_bound()
            return look(namespace, refs, ids)

        store.look = looking  # type: ignore[method-assign]  # one that others come by while it is asked
        with ctx.session(session_id="s3"):
            pass

    assert store.calls == 2
