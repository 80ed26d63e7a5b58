"""Spans around handlers, in a program that makes none: opentelemetry-api has no provider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from measuring import Names, Promise, Table, Way
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

import ctxruntime as ctx
from tables.handlers import drive
from tables.shared import async_handler, handler, in_a_session


class Plugin:
    injected = ctx.inject(handler)
    handler = ctx.handler(handler)
    traced = ctx.traced(handler)


@contextmanager
def untraced() -> Iterator[Names]:
    """Yield what is called, where nobody makes spans."""
    assert isinstance(get_tracer_provider(), ProxyTracerProvider)
    with in_a_session():
        yield {
            "finished": (item for item in ()),  # what is left of an awaited call without the call
            "drive": drive,
            "plugin": Plugin(),
            "injected": ctx.inject(handler),
            "handler": ctx.handler(handler),
            "traced": ctx.traced(handler),
            "ainjected": ctx.inject(async_handler),
            "ahandler": ctx.handler(async_handler),
            "atraced": ctx.traced(async_handler),
        }


INJECTED = "ctxruntime inject"
WAYS: Final = {INJECTED: "injected", "ctxruntime handler": "handler", "ctxruntime traced": "traced"}


def table(name: str, title: str, call: str, less: str = "") -> Table:
    return Table(
        name,
        title,
        tuple(Way(way, call % what) for way, what in WAYS.items()),
        tuple(Promise(1.3, way, INJECTED) for way in WAYS if way != INJECTED),
        less,
        untraced,
    )


UNTRACED: Final = (
    table("untraced", "Call a handler with a span around it, where nobody makes spans", "%s('x')"),
    table("untraced-methods", "Call a bound method with a span around it, where nobody makes spans", "plugin.%s()"),
    table(
        "untraced-async", "Await a handler with a span around it, where nobody makes spans", "drive(a%s('x'))",
        "drive(finished)",
    ),
)  # fmt: skip
