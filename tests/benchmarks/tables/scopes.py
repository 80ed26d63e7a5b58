"""Facts of a conversation are put in effect, and out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from measuring import Names, Promise, Table, Way

import ctxruntime as ctx
from tables.shared import CHAT, FIVE, SESSION

AMBIENT: ContextVar[dict[str, str]] = ContextVar("ambient")
EACH: Final[dict[str, ContextVar[str]]] = {name: ContextVar(name) for name in FIVE}


def one_variable() -> None:
    token = AMBIENT.set(
        {
            "session_id": "20261130_0911_ab12",
            "gateway_session_key": "agent:main:discord:dm:7",
            "previous_session_id": "20261130_0801_99ff",
            "user_id": "user-7",
            "frontend": "gateway",
        }
    )
    try:
        pass
    finally:
        AMBIENT.reset(token)


def five_variables() -> None:
    tokens = [(EACH[name], EACH[name].set(value)) for name, value in FIVE.items()]
    try:
        pass
    finally:
        for variable, token in tokens:
            variable.reset(token)


def ours() -> None:
    with ctx.session(
        session_id="20261130_0911_ab12",
        gateway_session_key="agent:main:discord:dm:7",
        previous_session_id="20261130_0801_99ff",
        user_id="user-7",
        frontend="gateway",
    ):
        pass


def using(make: Callable[[], Callable[[], Any]]) -> Callable[[], Any]:
    """Return a setting of what makes a context manager."""

    @contextmanager
    def setting() -> Iterator[Names]:
        scope = make()

        def enter() -> None:
            with scope():
                pass

        yield {"enter": enter}

    return setting


def calling(fn: Callable[[], None]) -> Callable[[], Any]:
    """Return a setting of what enters and leaves by itself."""

    @contextmanager
    def setting() -> Iterator[Names]:
        yield {"enter": fn}

    return setting


@contextmanager
def baggage() -> Iterator[Names]:
    from opentelemetry import baggage as bags
    from opentelemetry import context

    def enter() -> None:
        current = None
        for name, value in FIVE.items():
            current = bags.set_baggage(name, value, current)
        assert current is not None
        context.detach(context.attach(current))

    yield {"enter": enter}


def structlog() -> Callable[[], Any]:
    from structlog.contextvars import bound_contextvars

    return lambda: bound_contextvars(**FIVE)


@contextmanager
def sentry() -> Iterator[Names]:
    import sentry_sdk

    def enter() -> None:
        with sentry_sdk.new_scope() as scope:
            for name, value in FIVE.items():
                scope.set_tag(name, value)

    yield {"enter": enter}


def logfire() -> Callable[[], Any]:
    import logfire as fire

    return lambda: fire.set_baggage(**FIVE)


def openinference() -> Callable[[], Any]:
    from openinference.instrumentation import using_attributes

    rest = {name: value for name, value in FIVE.items() if name not in ("session_id", "user_id")}
    return lambda: using_attributes(session_id=SESSION, user_id=FIVE["user_id"], metadata=rest)


def langfuse() -> Callable[[], Any]:
    from langfuse import propagate_attributes

    rest = {name: value for name, value in FIVE.items() if name not in ("session_id", "user_id")}
    return lambda: propagate_attributes(session_id=SESSION, user_id=FIVE["user_id"], metadata=rest)


OURS = "ctxruntime session, all checks made"
SCOPES: Final = Table(
    "scopes",
    "Put five facts in effect and out again",
    (
        Way("by hand: one ContextVar with a dict", "enter()", calling(one_variable)),
        Way("by hand: five ContextVars", "enter()", calling(five_variables)),
        Way(OURS, "enter()", calling(ours)),
        Way("OpenTelemetry baggage", "enter()", baggage),
        Way("structlog", "enter()", using(structlog), ("structlog",)),
        Way("openinference", "enter()", using(openinference), ("openinference-instrumentation",)),
        Way("langfuse", "enter()", using(langfuse), ("langfuse",)),
        Way("logfire", "enter()", using(logfire), ("logfire",)),
        Way("sentry", "enter()", sentry, ("sentry-sdk",)),
    ),
    (
        Promise(0.5, OURS, "OpenTelemetry baggage"),
        *(Promise(1.0, OURS, peer) for peer in ("structlog", "sentry", "logfire", "openinference", "langfuse")),
    ),
)


@contextmanager
def in_a_turn() -> Iterator[Names]:
    with ctx.session(session_id=SESSION, gateway_session_key=CHAT):
        yield {"session": ctx.session, "bind": ctx.bind, "amend": ctx.amend, "snapshot": ctx.capture()}


TWO = "a turn with two keys"
OTHER_SCOPES: Final = Table(
    "other-scopes",
    "What else puts facts in effect, beside a turn with two",
    (
        Way(TWO, "with session(session_id='s1', gateway_session_key='k1'): pass"),
        Way("ctxruntime bind", "with bind(session_id='child-1'): pass"),
        Way("ctxruntime amend", "amend(session_id='next-1')"),
        Way("ctxruntime snapshot", "with snapshot: pass"),
    ),
    tuple(Promise(2.0, f"ctxruntime {what}", TWO) for what in ("bind", "amend", "snapshot")),
    setting=in_a_turn,
)
