"""What grows with a program must not make its steps dearer: turns, keys, other variables, handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

from measuring import Names, Promise, Setting, Table, Way

import ctxruntime as ctx
from tables.shared import CHAT, SESSION, handler

ENTER, READ, CALL, SPAN = "enter and leave", "read", "call a handler", "start a span"
STATEMENTS: Final = {
    ENTER: "with session(session_id=s, gateway_session_key=k): pass",
    READ: "get()",
    CALL: "adapted('x')",
    SPAN: "with session(session_id=s, gateway_session_key=k): start('s')",
}
SAME: Final = 1.5
"""How many times dearer a step may be in the largest program than in the smallest: caches are finite,
and CPython finds a variable in a tree that is deeper then."""


@contextmanager
def live_turns(count: int) -> Iterator[dict[Any, str]]:
    """Have so many turns open, each in a context of its own, as tasks have."""
    contexts: list[tuple[Context, Any]] = []
    for number in range(count - 1):
        context = copy_context()
        contexts.append((context, context.run(ctx.session(session_id=f"s{number}", gateway_session_key="k").open)))
    yield {}
    del contexts


@contextmanager
def registered_keys(count: int) -> Iterator[dict[Any, str]]:
    """Have so many keys defined, and not bound."""
    keys = [ctx.Key(f"registered{number}", str) for number in range(count - 1)]
    yield {}
    del keys


@contextmanager
def bound_keys(count: int) -> Iterator[dict[Any, str]]:
    """Have so many keys bound in every turn."""
    yield {ctx.Key(f"bound{number}", str): "v" for number in range(count - 1)}


@contextmanager
def other_variables(count: int) -> Iterator[dict[Any, str]]:
    """Have so many variables of others set."""
    for number in range(count - 1):
        ContextVar[int](f"other{number}").set(number)
    yield {}


@contextmanager
def handlers(count: int) -> Iterator[dict[Any, str]]:
    """Have so many handlers adapted, each a function of its own."""
    source = "def made(raw, session_id=None, gateway_session_key=None): return raw"
    made: list[Any] = []
    for _ in range(count - 1):
        names: dict[str, Any] = {}
        exec(source, names)
        made.append(ctx.adapt(names["made"]))
    yield {}
    del made


def program(grown: Callable[[int], AbstractContextManager[dict[Any, str]]], size: int) -> Setting:
    """Return a setting of a program of that size, in a turn of its own."""

    @contextmanager
    def setting() -> Iterator[Names]:
        from opentelemetry.sdk.trace import TracerProvider

        from ctxruntime.telemetry import SessionSpanProcessor

        adapted = ctx.adapt(handler)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SessionSpanProcessor())
        with grown(size) as more, ctx.session(more, session_id=SESSION, gateway_session_key=CHAT):
            yield {
                "session": (lambda **known: ctx.session(more, **known)) if more else ctx.session,
                "get": ctx.SESSION_ID.get,
                "adapted": adapted,
                "start": provider.get_tracer("bench").start_span,
                "s": SESSION,
                "k": CHAT,
            }

    return setting


def scale(
    name: str,
    grown: Callable[[int], AbstractContextManager[dict[Any, str]]],
    sizes: tuple[int, ...],
    constant: tuple[str, ...] = (ENTER, READ, CALL),
) -> Table:
    """Return the table of what one step costs in programs of these sizes; the constant ones shall not grow."""
    ways = tuple(
        Way(at(step, size), statement, program(grown, size), ("opentelemetry-sdk",), process=str(size))
        for step, statement in STATEMENTS.items()
        for size in sizes
    )
    promises = tuple(Promise(SAME, at(step, sizes[-1]), at(step, sizes[0])) for step in constant)
    return Table(f"more-{name.replace(' ', '-')}", f"With more {name}", ways, promises, sizes=sizes)


def at(step: str, size: int) -> str:
    return f"{step}, {size:,}"


SCALES: Final = (
    scale("live turns", live_turns, (1, 100, 10_000, 100_000)),
    scale("bound keys", bound_keys, (1, 10, 100), (READ, CALL)),
    scale("registered keys", registered_keys, (1, 10, 100, 1_000)),
    scale("other variables", other_variables, (1, 100, 10_000)),
    scale("handlers", handlers, (1, 100, 10_000)),
)
