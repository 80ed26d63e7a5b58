"""Run by test_composition: ours and others' patches, put in place and undone in the order that the arguments say.

composing.py OTHERS ORDER UNDONE      otel,sentry,ddtrace  before|after  ours|theirs
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ctxruntime as ctx

PATCHED: list[tuple[Any, str]] = [
    (threading.Thread, "start"),
    (threading.Thread, "run"),
    (ThreadPoolExecutor, "submit"),
]


def in_thread(read: Callable[[], Any]) -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(read()))
    thread.start()
    thread.join(10)
    return answers[0]


def in_timer(read: Callable[[], Any]) -> Any:
    answers: list[Any] = []
    timer = threading.Timer(0, lambda: answers.append(read()))
    timer.start()
    timer.join(10)
    return answers[0]


def in_pool(read: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(read).result(10)


class Otel:
    """OpenTelemetry's ThreadingInstrumentor."""

    hops = (in_thread, in_timer, in_pool)

    def __init__(self) -> None:
        from opentelemetry.instrumentation.threading import ThreadingInstrumentor

        self.instrumentor = ThreadingInstrumentor()
        self.put_in_place = self.instrumentor.instrument
        self.undo = self.instrumentor.uninstrument

    def carries(self, hop: Callable[[Callable[[], Any]], Any]) -> bool:
        from opentelemetry import context

        token = context.attach(context.set_value("composing", "theirs"))
        try:
            return bool(hop(lambda: context.get_value("composing")) == "theirs")
        finally:
            context.detach(token)


class Sentry:
    """Sentry's ThreadingIntegration, which has no undo of its own."""

    hops = (in_thread, in_timer, in_pool)

    def put_in_place(self) -> None:
        import sentry_sdk
        from sentry_sdk.integrations.threading import ThreadingIntegration

        sentry_sdk.init(default_integrations=False, integrations=[ThreadingIntegration()])

    def carries(self, hop: Callable[[Callable[[], Any]], Any]) -> bool:
        import sentry_sdk

        with sentry_sdk.new_scope() as scope:
            scope.set_tag("composing", "theirs")
            return bool(hop(lambda: sentry_sdk.get_current_scope()._tags.get("composing")) == "theirs")

    def undo(self) -> None:
        import sentry_sdk

        sentry_sdk.init(default_integrations=False, integrations=[])


class Ddtrace:
    """ddtrace's patch of futures, which changes the code of the function in place."""

    hops = (in_pool,)

    def __init__(self) -> None:
        futures = importlib.import_module("ddtrace.contrib.internal.futures.patch")
        self.put_in_place: Callable[[], None] = futures.patch
        self.undo: Callable[[], None] = futures.unpatch

    def carries(self, hop: Callable[[Callable[[], Any]], Any]) -> bool:
        tracer = importlib.import_module("ddtrace.trace").tracer
        with tracer.trace("composing") as span:

            def read() -> Any:
                context = tracer.current_trace_context()
                return context and context.trace_id

            return bool(hop(read) == span.trace_id)


OTHERS = {"otel": Otel, "sentry": Sentry, "ddtrace": Ddtrace}


def check(what: str, ours: bool | None, others: list[Any]) -> None:
    for hop in (in_thread, in_timer, in_pool):
        if ours is not None:
            assert_equal(ours_carries(hop), ours, f"{what}: ours in {hop.__name__}")
    for other in others:
        for hop in other.hops:
            if len(others) > 1 and (hop is in_timer or (hop is in_thread and not ours)):
                continue  # without ours, OpenTelemetry's and Sentry's lose one another there
            assert_equal(other.carries(hop), True, f"{what}: {type(other).__name__} in {hop.__name__}")


def ours_carries(hop: Callable[[Callable[[], Any]], Any]) -> bool:
    with ctx.session(session_id="a"):
        return bool(hop(lambda: ctx.SESSION_ID.get(None)) == "a")


def assert_equal(got: object, wanted: object, what: str) -> None:
    if got != wanted:
        sys.exit(f"{what}: {got}, and should be {wanted}")


def standing() -> list[object]:
    return [vars(owner).get(name) for owner, name in PATCHED]


def main(names: str, order: str, undone: str) -> None:
    others = [OTHERS[name]() for name in names.split(",")]
    native = getattr(sys.flags, "thread_inherit_context", False)
    off: bool | None = None if native else False
    before = standing()
    check("at first", off, [])
    if order == "before":
        installation = ctx.install()
    for other in others:
        other.put_in_place()
    if order == "after":
        installation = ctx.install()
    during = standing()
    check("all in place", True, others)
    ctx.install()
    assert_equal(standing(), during, "installed twice")
    if undone == "ours":
        installation.uninstall()
        check("ours undone", off, others)
    for other in reversed(others):
        other.undo()
    if undone == "theirs":
        check("theirs undone", True, [])
        installation.uninstall()
    check("all undone", off, [])
    if names == "otel" and (order, undone) != ("after", "theirs"):  # who is below cannot undo what is above it
        assert_equal(standing(), before, "what stands there in the end")
    with ctx.install():
        check("installed again", True, [])
    check("and undone again", off, [])


if __name__ == "__main__":
    main(*sys.argv[1:])
