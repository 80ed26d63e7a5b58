"""The host and its frontends, with ctxruntime, without it, and with what people try in its place."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import ctxruntime as ctx
from ctxruntime.demo.plugins import Handler, legacy
from ctxruntime.demo.run import Outcome, play
from ctxruntime.demo.script import COMMANDS, CONVERSATIONS, TAKES, Call, right_answers
from ctxruntime.demo.wiring import NOT_INJECTED, WITH, WITHOUT, Wiring

KEYLESS = {command for command, keys in TAKES.items() if not keys}
FRONTENDS = {conversation.session_id: conversation.frontend for conversation in CONVERSATIONS}


def nothing() -> None: ...


def wrong(outcome: Outcome) -> set[Call]:
    return {call for call, answer in right_answers().items() if outcome.answers[call] != answer}


def wrong_frontends(outcome: Outcome) -> set[str]:
    """The frontends in which some handler that got a session got another's."""
    return {
        FRONTENDS[session_id]
        for session_id, command in wrong(outcome)
        if "session_id=" in outcome.answers[session_id, command]
    }


def test_with_ctxruntime_every_answer_is_right() -> None:
    """Each handler, of each kind, in each frontend, receives its own session, once."""
    outcome = play(WITH, nothing)

    assert outcome.answers == right_answers()


def test_without_ctxruntime_only_handlers_that_take_nothing_are_right() -> None:
    """A host that calls `handler(raw_args)` leaves every handler that wants a session without one."""
    outcome = play(WITHOUT, nothing)

    assert wrong(outcome) == {call for call in right_answers() if call[1] not in KEYLESS}


def test_without_injection_only_ambient_reading_is_right() -> None:
    """Entering sessions gives nobody a parameter: the adapt step is what does."""
    outcome = play(NOT_INJECTED, nothing)

    # The alias is injected by the plugin itself, which needs the session and no host.
    assert wrong(outcome) == {call for call in right_answers() if call[1] not in KEYLESS | {"ambient", "alias"}}


def test_notes_meet_without_ctxruntime() -> None:
    """State kept per session falls into one bucket for all where the host passes no session."""
    outcome = play(WITHOUT, nothing)

    assert {bucket: sorted(notes) for bucket, notes in outcome.notes.items()} == {
        "_default": sorted(conversation.says for conversation in CONVERSATIONS)
    }


def test_notes_do_not_meet_with_ctxruntime() -> None:
    """State kept per session is the session's, and there is no bucket for those without one."""
    outcome = play(WITH, nothing)

    assert outcome.notes == {conversation.session_id: [conversation.says] for conversation in CONVERSATIONS}


def test_each_line_is_a_step() -> None:
    """Progress is told once for each line, when all conversations are at it."""
    steps: list[None] = []

    play(WITH, partial(steps.append, None))

    assert len(steps) == len(COMMANDS)


def test_a_turn_leaves_nothing_behind() -> None:
    """After the run nothing is in effect, and the environment is as it was."""
    before = dict(os.environ)

    play(WITH, nothing)

    assert (ctx.current(), dict(os.environ)) == ({}, before)


# What people try


def giving(keys: Callable[[], Mapping[str, Any]], handler: Handler) -> Handler:
    """Pass a handler what it names."""
    try:
        names = inspect.signature(handler, follow_wrapped=False).parameters
    except ValueError:
        return handler
    passed = {name for name, parameter in names.items() if parameter.kind is not parameter.POSITIONAL_ONLY}
    return lambda raw_args: handler(raw_args, **{k: v for k, v in keys().items() if k in passed})


def one_for_all() -> Wiring:
    """Keep the session in one variable of the process, as in `os.environ`."""
    current: dict[str, Any] = {}

    @contextmanager
    def session(**keys: Any) -> Generator[None]:
        current.update(keys)
        yield

    return Wiring(session, lambda handler: giving(lambda: current, handler))


def one_per_thread() -> Wiring:
    """Keep the session in a thread-local variable."""
    current = threading.local()

    @contextmanager
    def session(**keys: Any) -> Generator[None]:
        current.keys = keys
        yield

    return Wiring(session, lambda handler: giving(lambda: getattr(current, "keys", {}), handler))


def test_one_session_for_all_is_seen_to_be_wrong() -> None:
    """All turns are open at once, so one variable for all is some other session's in every frontend."""
    outcome = play(one_for_all(), nothing)

    assert wrong_frontends(outcome) == {"cli", "gateway", "tui"}


def test_one_session_per_thread_is_seen_to_be_wrong() -> None:
    """Chats take turns in one thread, so a thread-local variable is some other chat's."""
    outcome = play(one_per_thread(), nothing)

    assert wrong_frontends(outcome) == {"gateway"}


def test_a_handler_that_is_called_twice_is_seen() -> None:
    """An answer that came of two calls is wrong, even if it is the same."""

    def called_twice(raw_args: str) -> str:
        legacy(raw_args)
        return legacy(raw_args)

    wiring = Wiring(ctx.session, lambda handler: called_twice if handler is legacy else ctx.adapt(handler))

    outcome = play(wiring, nothing)

    assert outcome.answers["c1", "legacy"] == "line 0 of c1 -> called 2 times"


def test_a_fault_of_a_plugin_is_an_answer() -> None:
    """A handler that requires a session is an error where there is none, and the host goes on."""
    answers = play(WITHOUT, nothing).answers

    assert answers["t1", "named"] == "line 1 of t1 -> plugin error: TypeError"
