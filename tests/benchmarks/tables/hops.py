"""Work goes on elsewhere: in a pool, a thread, a task, a callback, a queue's consumer, another process."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Final

from measuring import Names, Promise, Setting, Table, Way

import ctxruntime as ctx
from tables.shared import CHAT, SESSION

PLAIN_SUBMIT, PLAIN_START = ThreadPoolExecutor.submit, threading.Thread.start


def nothing() -> None:
    """Cost as little as possible."""


# What patches Python, each in a process of its own


@contextmanager
def plain() -> Iterator[None]:
    yield


@contextmanager
def ours() -> Iterator[None]:
    with ctx.install(), ctx.session(session_id=SESSION, gateway_session_key=CHAT):
        yield


@contextmanager
def otel_threading() -> Iterator[None]:
    from opentelemetry import baggage, context
    from opentelemetry.instrumentation.threading import ThreadingInstrumentor

    ThreadingInstrumentor().instrument()
    token = context.attach(baggage.set_baggage("session.id", SESSION))
    yield
    context.detach(token)
    ThreadingInstrumentor().uninstrument()


@contextmanager
def ddtrace() -> Iterator[None]:
    import ddtrace as dd

    dd.patch(futures=True, asyncio=True)
    dd.tracer.enabled = False
    yield


@contextmanager
def sentry() -> Iterator[None]:
    import sentry_sdk

    sentry_sdk.init(dsn="http://key@127.0.0.1:9/1", transport=lambda event: None)
    sentry_sdk.get_isolation_scope().set_tag("session.id", SESSION)
    yield


PATCHES: Final[dict[str, tuple[Callable[[], Any], tuple[str, ...]]]] = {
    "plain Python": (plain, ()),
    "ctxruntime install()": (ours, ()),
    "OpenTelemetry threading": (otel_threading, ("opentelemetry-instrumentation-threading",)),
    "ddtrace": (ddtrace, ("ddtrace",)),
    "sentry": (sentry, ("sentry-sdk",)),
}


def patched(patch: Callable[[], Any], inner: Setting) -> Setting:
    @contextmanager
    def setting() -> Iterator[Names]:
        with patch(), inner() as names:
            yield names

    return setting


def hop(name: str, title: str, statement: str, inner: Setting, *more: Way, most: float = 0) -> Table:
    """Return the table of a hop, as it is and under each patch."""
    ways = tuple(
        Way(what, statement, patched(patch, inner), needs, process=what) for what, (patch, needs) in PATCHES.items()
    )
    promises = (Promise(most, more[1].name, more[0].name),) if most else ()
    return Table(name, title, ways + more, promises)


# The hops


@contextmanager
def pool() -> Iterator[Names]:
    with ThreadPoolExecutor(1) as pool:
        yield {"pool": pool, "hundred_jobs": hundred_jobs, "submit": ThreadPoolExecutor.submit, "plain": PLAIN_SUBMIT}


def hundred_jobs(submit: Callable[..., Future[None]], pool: ThreadPoolExecutor) -> None:
    for job in [submit(pool, nothing) for _ in range(100)]:
        job.result()


@contextmanager
def threads() -> Iterator[Names]:
    yield {"ten_threads": ten_threads, "start": threading.Thread.start, "plain": PLAIN_START}


def ten_threads(start: Callable[[threading.Thread], None]) -> None:
    for _ in range(10):
        thread = threading.Thread(target=nothing)
        start(thread)
        thread.join()


def hundred_callbacks() -> None:
    for _ in range(100):
        future: Future[None] = Future()
        future.add_done_callback(lambda _: None)
        future.set_result(None)


def thousand_items() -> None:
    line: queue.SimpleQueue[object] | queue.Queue[object] = queue.Queue()
    for number in range(1000):
        line.put(number)
        line.get()


@contextmanager
def callbacks() -> Iterator[Names]:
    yield {"hundred_callbacks": hundred_callbacks}


@contextmanager
def items() -> Iterator[Names]:
    yield {"thousand_items": thousand_items}


@contextmanager
def loop() -> Iterator[Names]:
    with asyncio.Runner() as runner:
        yield {"run": runner.run, "hundred_tasks": hundred_tasks, "hundred_in_executor": hundred_in_executor}


async def anothing() -> None:
    """Cost as little as possible."""


async def hundred_tasks() -> None:
    for task in [asyncio.create_task(anothing()) for _ in range(100)]:
        await task


async def hundred_in_executor() -> None:
    running = asyncio.get_running_loop()
    await asyncio.gather(*(running.run_in_executor(None, nothing) for _ in range(100)))


@contextmanager
def asgiref() -> Iterator[Names]:
    from asgiref.sync import sync_to_async

    call = sync_to_async(nothing, thread_sensitive=False)

    async def hundred_in_executor() -> None:
        await asyncio.gather(*(call() for _ in range(100)))

    with asyncio.Runner() as runner:
        yield {"run": runner.run, "hundred_in_executor": hundred_in_executor}


@contextmanager
def processes() -> Iterator[Names]:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield {"pool": pool, "ten_process_jobs": ten_process_jobs}


def ten_process_jobs(pool: ProcessPoolExecutor) -> None:
    for job in [pool.submit(abs, 1) for _ in range(10)]:
        job.result()


def same_process(statement: str, inner: Setting, name: str) -> tuple[Way, Way]:
    """Return plain and ours in one process: ratios between two processes are not exact enough for a promise."""
    setting = patched(ours, inner)
    return (
        Way("plain, in the same process", statement % "plain", setting, process="both"),
        Way("ctxruntime, in the same process", statement % name, setting, process="both"),
    )


HOPS: Final = (
    hop(
        "pool-jobs", "A hundred jobs for a pool of threads", "hundred_jobs(submit, pool)", pool,
        *same_process("hundred_jobs(%s, pool)", pool, "submit"), most=1.15,
    ),
    hop(
        "threads", "Ten threads, from start to join", "ten_threads(start)", threads,
        *same_process("ten_threads(%s)", threads, "start"), most=1.1,
    ),
    hop("tasks", "A hundred tasks of a loop", "run(hundred_tasks())", loop),
    hop(
        "executor-calls", "A hundred calls of run_in_executor", "run(hundred_in_executor())", loop,
        Way("asgiref sync_to_async", "run(hundred_in_executor())", asgiref, ("asgiref",), process="asgiref"),
    ),
    hop("done-callbacks", "A hundred callbacks of a future", "hundred_callbacks()", callbacks),
    hop("queue-items", "A thousand items through a queue", "thousand_items()", items),
    hop("process-jobs", "Ten jobs for a pool of processes", "ten_process_jobs(pool)", processes),
)  # fmt: skip
