"""The hop contract for queues, and for whatever was born in one session and serves another.

A consumer that outlives its first item belongs to nobody: what it shows is the item's session, or none.
"""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime.hops.install import install

Item = tuple[ctx.Snapshot, Callable[[], Any]]


def seen(*_: object) -> Any:
    return ctx.SESSION_ID.get(None)


def consume_snapshots(items: queue.Queue[Item | None], answers: list[Any]) -> None:
    """Serve items that came with the snapshot of whoever put them."""
    while (item := items.get()) is not None:
        snapshot, job = item
        with snapshot:
            answers.append(job())
        answers.append(seen())


def consume_jobs(items: queue.Queue[Callable[[], Any] | None], answers: list[Any]) -> None:
    """Serve items that are called, and carry whatever they carry."""
    while (job := items.get()) is not None:
        answers.append(job())
        answers.append(seen())


@pytest.fixture(params=["installed", "explicit"])
def either(request: pytest.FixtureRequest) -> str:
    """Run once with everything patched and once with nothing."""
    if request.param == "installed":
        request.getfixturevalue("installed")
    return str(request.param)


def serving(consume: Callable[..., None], items: queue.Queue[Any], answers: list[Any]) -> threading.Thread:
    with ctx.cleared():  # it outlives the turn that happens to start it
        thread = threading.Thread(target=consume, args=(items, answers))
        thread.start()
    return thread


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("kind", [queue.Queue, queue.LifoQueue, queue.SimpleQueue])
def test_queue_item_with_its_snapshot(kind: Callable[[], Any]) -> None:
    """An item that rides with `capture()` is served under the state of who put it, and between items nobody's."""
    items, answers = kind(), []
    with ctx.session(session_id="first"):
        thread = serving(consume_snapshots, items, answers)
        items.put((ctx.capture(), seen))
        while len(answers) < 2:
            threading.Event().wait(0.001)
    with ctx.session(session_id="second"):
        items.put((ctx.capture(), seen))
        while len(answers) < 4:
            threading.Event().wait(0.001)
    items.put(None)
    thread.join(10)

    assert answers == ["first", None, "second", None]


@pytest.mark.usefixtures("either")
def test_queue_item_carried() -> None:
    """A job that was carried when it was put is served under the state of who put it, once its turn ended, too."""
    items: queue.Queue[Any] = queue.Queue()
    answers: list[Any] = []
    for session in ("first", "second"):
        with ctx.session(session_id=session):
            items.put(ctx.carry(seen))
    items.put(None)
    with ctx.session(session_id="third"):
        serving(consume_jobs, items, answers).join(10)

    assert answers == ["first", None, "second", None]


@pytest.mark.usefixtures("either")
def test_item_that_fails_leaves_nothing_in_effect() -> None:
    """A job that raises under its snapshot gives the consumer its own state back."""
    with ctx.session(session_id="first"):
        snapshot = ctx.capture()
    with pytest.raises(LookupError), snapshot:
        raise LookupError

    assert seen() is None


@pytest.mark.usefixtures("either")
def test_completion_after_its_spawner_was_replaced() -> None:
    """A completion that somebody else drains goes to who started the work, also after a new session took over."""
    done: queue.Queue[Callable[[], Any]] = queue.Queue()

    def background(on_done: Callable[[], Any]) -> None:
        done.put(on_done)

    with ctx.session(session_id="A", gateway_session_key="chat") as turn:
        job = threading.Thread(target=background, args=(ctx.carry(seen),))
        job.start()
    job.join(10)
    with ctx.session(session_id="B", gateway_session_key="chat"):
        assert done.get()() == "A"
        assert seen() == "B"
    assert turn.ended


@pytest.mark.asyncio
@pytest.mark.usefixtures("either")
async def test_asyncio_consumer_started_lazily_in_a_session() -> None:
    """A consumer task that the first request starts under `cleared()` serves each item under its own session."""
    items: asyncio.Queue[tuple[ctx.Snapshot, asyncio.Future[Any]]] = asyncio.Queue()
    idle: list[Any] = []

    async def consume() -> None:
        while True:
            idle.append(seen())
            snapshot, answer = await items.get()
            async with snapshot:
                await asyncio.sleep(0)
                answer.set_result(seen())

    consumer: asyncio.Task[None] | None = None
    answers: list[Any] = []
    for user in ("alice", "bob"):
        with ctx.session(session_id=user):
            if consumer is None:
                with ctx.cleared():
                    consumer = asyncio.create_task(consume())
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            items.put_nowait((ctx.capture(), answer))
            answers.append((user, await answer))
    assert consumer is not None
    consumer.cancel()

    assert answers == [("alice", "alice"), ("bob", "bob")]
    assert set(idle) == {None}


# What was born in session A, and serves B or nobody


@contextmanager
def born_in(session_id: str) -> Iterator[None]:
    with install(), ctx.session(session_id=session_id):
        yield


def test_born_in_a_done_callback() -> None:
    """A callback of session B that runs on a pool's worker born in A has B's keys."""
    answers: list[Any] = []
    go = threading.Event()
    with born_in("A"), ThreadPoolExecutor(1) as pool:
        pool.submit(seen).result(10)
        with ctx.session(session_id="B"):
            future = pool.submit(go.wait, 10)
            future.add_done_callback(lambda _: answers.append(seen()))
        go.set()

    assert answers == ["B"]


def test_born_in_a_foreign_callback_added_before_installing() -> None:
    """A callback that was added before runs with whatever the worker has, and that is nothing."""
    answers: list[Any] = []
    go = threading.Event()
    future: Future[Any] = Future()
    future.add_done_callback(lambda _: answers.append(seen()))
    with born_in("A"), ThreadPoolExecutor(1) as pool:
        pool.submit(go.wait, 10).add_done_callback(lambda _: None)
        with ctx.cleared():
            pool.submit(future.set_result, 1)
        go.set()

    assert answers == [None]


@pytest.mark.parametrize("job_from", ["B", None])
def test_born_in_a_pool_of_threads(job_from: str | None) -> None:
    """A pool of either kind that was born in A shows B's job B, and the job of nobody nothing."""
    with born_in("A"), ThreadPool(1) as workers, ThreadPoolExecutor(1) as pool:
        assert (workers.apply(seen), pool.submit(seen).result(10)) == ("A", "A")
        with ctx.session(session_id=job_from):
            assert (workers.apply(seen), pool.submit(seen).result(10)) == (job_from, job_from)


def poll(items: queue.Queue[Any], answers: list[Any]) -> None:
    while items.get() is not None:
        answers.append(seen())


def test_born_in_a_queue_worker() -> None:
    """A worker that was started in A and named in the deny list shows nobody's session for a bare item."""
    items: queue.Queue[Any] = queue.Queue()
    answers: list[Any] = []
    with install(deny=[f"{__name__}.poll"]), ctx.session(session_id="A"):
        worker = threading.Thread(target=poll, args=(items, answers))
        worker.start()
        with ctx.session(session_id="B"):
            items.put("bare item")
        items.put(None)
        worker.join(10)

    assert answers == [None]


def test_born_in_a_queue_listener() -> None:
    """logging's listener thread, which serves all sessions, shows none, whoever starts it."""
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    answers: list[Any] = []

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            answers.append((record.msg, seen()))

    with born_in("A"):
        listener = logging.handlers.QueueListener(records, Noting())
        listener.start()
        with ctx.session(session_id="B"):
            logging.handlers.QueueHandler(records).handle(logging.LogRecord("n", 20, "p", 1, "of B", None, None))
        listener.stop()

    assert answers == [("of B", None)]


def test_born_in_a_loop_thread() -> None:
    """A loop that a thread born in A runs for ever serves B's coroutines under B, and bare callbacks under none."""
    loop = asyncio.new_event_loop()
    try:
        with born_in("A"):
            thread = threading.Thread(target=loop.run_forever)
            thread.start()

            async def work() -> Any:
                await asyncio.sleep(0)
                return seen()

            with ctx.session(session_id="B"):
                assert asyncio.run_coroutine_threadsafe(work(), loop).result(10) == "B"
            with ctx.cleared():
                assert asyncio.run_coroutine_threadsafe(work(), loop).result(10) is None
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
    finally:
        loop.close()


def test_finalizer() -> None:
    """A finalizer carries nothing: it reads the flow that it happens to run in, unless it was carried."""

    class Thing:
        pass

    answers: list[Any] = []
    bare, carried = Thing(), Thing()
    with born_in("A"):
        weakref.finalize(bare, lambda: answers.append(seen()))
        weakref.finalize(carried, ctx.carry(lambda: answers.append(seen())))
    with ctx.session(session_id="B"):
        del bare
    del carried

    assert answers == ["B", "A"]
