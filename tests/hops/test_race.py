"""A thousand turns at once over every kind of hop, with everything that can go wrong going wrong."""

from __future__ import annotations

import _thread
import asyncio
import gc
import itertools
import os
import queue
import random
import signal
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from contextvars import Context
from multiprocessing.pool import ThreadPool
from typing import Any, NoReturn

import pytest

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.hops.install import install
from ctxruntime.layers import CURRENT, NOTHING, Layer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # a child that is forked while threads run is what is tested
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

SEED = 20261130
WARM_UP, SECONDS = 4.0, 30.0
TASKS, THREADS = 970, 40
FORKS = 3
AT_LEAST = 50
"""How often each hop has to have run in the long race."""
PATIENCE = 120
"""Seconds to wait for what was handed over, on a machine that has other things to do."""

MORE_LAYERS, MORE_CONTEXTS, MORE_BYTES = 0, 5, 256 * 1024
"""How much more than after the warm-up may be alive: what the interpreter and the runner cache of their own."""


class Fault(Exception):
    """What a job raises on purpose."""

    def __init__(self, work: Work) -> None:
        super().__init__(work.hop)
        self.work = work


class Work:
    """What is handed over: it knows whose it is, and looks whether that is in effect."""

    def __init__(self, race: Race, hop: str, own: str, begins: str, chance: random.Random) -> None:
        self.race, self.hop, self.own, self.begins = race, hop, own, begins
        self.rotates = f"{begins}.{chance.randrange(10**6)}" if chance.random() < 0.2 else None
        self.fails = hop not in NEVER_FAIL and chance.random() < 0.15
        self.done: Future[None] = Future()

    def check(self, hop: str) -> None:
        """Note a reading of a session other than one's own. What begins "t7" is "t7.0" or "t7.child.3"."""
        session, key = ctx.SESSION_ID.get(None), ctx.GATEWAY_SESSION_KEY.get(None)
        right = key == self.own and session is not None and session.rpartition(".")[0] == self.begins
        self.race.note(hop, None if right else f"{self.begins} read {session} of {key}")

    def __call__(self, *_: object) -> None:
        """Look, rotate the session and fail, as chance has it."""
        try:
            self.check(self.hop)
            if self.rotates:
                ctx.amend(session_id=self.rotates)
                self.race.inject("rotation")
                self.check(self.hop)
            if self.fails:
                self.race.inject("job raises")
                raise Fault(self)
        finally:
            self.finish()

    def finish(self, *_: object) -> None:
        with suppress(InvalidStateError):  # who waits was cancelled
            self.done.set_result(None)

    async def task(self) -> None:
        await asyncio.sleep(0)
        self()

    def generator(self) -> Iterator[None]:
        self.check(self.hop)
        yield
        self()

    async def async_generator(self) -> AsyncIterator[None]:
        try:
            self.check(self.hop)
            yield
            await asyncio.sleep(0)
            self()
            yield
        finally:
            self.check("closing of an async generator")


class Race:
    """What the turns of one race share, and what was seen."""

    def __init__(self, seconds: float) -> None:
        self.lock = threading.Lock()
        self.ran: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.wrong: Counter[tuple[str, str]] = Counter()
        self.examples: dict[str, str] = {}
        self.live = self.most_live = 0
        self.numbers = itertools.count()
        self.all_live = threading.Event()
        self.late: set[Future[None]] = set()
        self.pool, self.workers = ThreadPoolExecutor(8), ThreadPool(4)
        self.closers = ThreadPoolExecutor(2)
        self.retired: list[Any] = []
        self.items: queue.Queue[Any] = queue.Queue()
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(self.loop_failed)
        self.loop_items: asyncio.Queue[Any] = asyncio.Queue()
        self.loop_all_live = asyncio.Event()
        start = time.monotonic()
        self.end = start + seconds
        self.forks = [start + seconds * part / (FORKS + 1) for part in range(FORKS, 0, -1)]

    # What was seen

    def note(self, hop: str, wrong: str | None) -> None:
        with self.lock:
            self.ran[hop] += 1
            if wrong is not None:
                self.wrong[hop, "wrong reading"] += 1
                self.examples.setdefault(hop, wrong)

    def nothing_here(self, where: str) -> None:
        """Note whatever is in effect where nothing should be."""
        self.note(where, None if CURRENT.get() is NOTHING or not ctx.current() else str(dict(ctx.current())))

    def inject(self, fault: str) -> None:
        with self.lock:
            self.faults[fault] += 1

    def thread_failed(self, args: Any) -> None:
        self._failed(args.exc_value, "threading.excepthook")

    def loop_failed(self, loop: object, context: dict[str, Any]) -> None:
        self._failed(context.get("exception"), "exception handler of the loop")

    def _failed(self, error: Any, hop: str) -> None:
        if isinstance(error, Fault):
            error.work.check(hop)
        else:
            self.note(hop, f"unexpected: {error!r}")

    # Turns

    @contextmanager
    def turn(self, chance: random.Random) -> Iterator[tuple[str, str]]:
        """Serve one turn, or a sub-agent in one; every fourth is closed from another thread."""
        own = f"t{next(self.numbers)}"
        scope = ctx.session(gateway_session_key=own, session_id=f"{own}.0")
        scope.open()
        with self.lock:
            self.live += 1
            self.most_live = max(self.most_live, self.live)
            if self.live >= TASKS + THREADS and not self.all_live.is_set():
                self.all_live.set()
                self.loop.call_soon_threadsafe(self.loop_all_live.set)
        try:
            begins = f"{own}.child" if chance.random() < 0.25 else own
            with nullcontext() if begins == own else ctx.bind(session_id=f"{begins}.0"):
                yield own, begins
                Work(self, "", own, begins, chance).check("own flow")
            Work(self, "", own, own, chance).check("own flow after a sub-agent")
        finally:
            with self.lock:
                self.live -= 1
            if chance.random() < 0.25:
                self.inject("closed from another thread")
                self.closers.submit(scope.close).result(PATIENCE)
            else:
                scope.close()
            self.nothing_here("own flow after its turn")

    def goes_on(self) -> bool:
        return time.monotonic() < self.end

    def fork_is_due(self) -> bool:
        with self.lock:
            due = bool(self.forks) and time.monotonic() > self.forks[-1]
            if due:
                self.forks.pop()
            return due

    def later(self, work: Work) -> None:
        """Leave work behind that will run when its turn has ended."""
        self.inject("turn ends first")
        with self.lock:
            self.late.add(work.done)
        with ctx.cleared():
            work.done.add_done_callback(self._was_late)

    def _was_late(self, done: Future[None]) -> None:
        with self.lock:
            self.late.discard(done)

    # Pools

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        while True:
            with suppress(RuntimeError):
                return self.pool.submit(work)
            self.inject("pool was shut down")
            time.sleep(0.001)

    def replace_pools(self, chance: random.Random) -> None:
        """Shut the shared pools down in a turn of one's own, while jobs of others run, wait, and come."""
        before, workers = self.pool, self.workers
        self.retired += [before, workers]
        held = threading.Event()
        with self.turn(chance) as (own, begins):
            for _ in range(16):
                before.submit(held.wait, PATIENCE)
            submit(self, Work(self, "submit", own, begins, chance))
            time.sleep(0.1)
            before.shutdown(wait=False, cancel_futures=True)
            workers.close()
            held.set()
            time.sleep(0.01)
            self.pool, self.workers = ThreadPoolExecutor(8), ThreadPool(4)
        self.inject("pool replaced")

    def close(self) -> None:
        for pool in (*self.retired, self.workers):
            if isinstance(pool, ThreadPool):
                pool.close()
                pool.join()
                pool.terminate()  # else multiprocessing keeps a finalizer, and with it the pool
        for pool in (*self.retired, self.pool, self.closers):
            if isinstance(pool, ThreadPoolExecutor):
                pool.shutdown()


# Hops from anywhere


def submit(race: Race, work: Work) -> None:
    def called_back(future: Future[Any]) -> None:
        work.check("Future.add_done_callback")
        if future.cancelled():
            race.inject("job cancelled by a shutdown")
        work.finish()

    race.submit(work).add_done_callback(called_back)


def executor_map(race: Race, work: Work) -> None:
    try:
        race.pool.map(work, range(2))
    except RuntimeError:
        race.inject("pool was shut down")
        work.finish()
    else:
        race.submit(work.finish).add_done_callback(work.finish)  # those of the map may be cancelled


def workers_apply(race: Race, work: Work) -> None:
    def called_back(_: object) -> None:
        work.check("callback of a ThreadPool")

    with suppress(ValueError):
        race.workers.apply_async(work, callback=called_back, error_callback=called_back)
        return
    race.inject("pool was shut down")
    work.finish()


def workers_map(race: Race, work: Work) -> None:
    with suppress(ValueError):
        race.workers.map_async(work, range(2))
        return
    race.inject("pool was shut down")
    work.finish()


def thread(race: Race, work: Work) -> None:
    threading.Thread(target=work).start()


def timer(race: Race, work: Work) -> None:
    threading.Timer(0.005, work).start()


def bare_thread(race: Race, work: Work) -> None:
    _thread.start_new_thread(work, ())


def queue_with_snapshot(race: Race, work: Work) -> None:
    race.items.put((ctx.capture(), work))


def queue_with_carried_job(race: Race, work: Work) -> None:
    race.items.put((None, ctx.carry(work)))


def snapshot_run(race: Race, work: Work) -> None:
    snapshot = ctx.capture()
    with ctx.cleared():
        race.submit(lambda: snapshot.run(work)).add_done_callback(work.finish)


def generator(race: Race, work: Work) -> None:
    steps = ctx.carry(work.generator())
    next(steps)
    with ctx.cleared():
        race.submit(lambda: next(steps, None)).add_done_callback(work.finish)


HOPS = [
    *(submit, executor_map, workers_apply, workers_map, thread, timer, bare_thread),
    *(queue_with_snapshot, queue_with_carried_job, snapshot_run, generator),
]
NEVER_FAIL = {"bare_thread"}
"""What a bare thread raises goes to `sys.unraisablehook`."""


# Hops within the loop


async def create_task(race: Race, work: Work) -> None:
    task = asyncio.create_task(work.task())
    await asyncio.wait([task])  # nobody asks for its exception: the loop's handler gets it


async def cancelled_task(race: Race, work: Work) -> None:
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            work.check(work.hop)

    task = asyncio.create_task(endless())
    task.add_done_callback(lambda _: work.check("done-callback of a task"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    work.finish()


async def gather(race: Race, work: Work) -> None:
    await asyncio.gather(work.task(), asyncio.to_thread(work), return_exceptions=True)


async def to_thread(race: Race, work: Work) -> None:
    with suppress(Fault):
        await asyncio.to_thread(work)


async def run_in_executor(race: Race, work: Work) -> None:
    try:
        with suppress(Fault):
            await asyncio.get_running_loop().run_in_executor(race.pool, work)
    except RuntimeError:
        race.inject("pool was shut down")
    finally:
        work.finish()


async def call_soon(race: Race, work: Work) -> None:
    asyncio.get_running_loop().call_soon(work)


async def call_later(race: Race, work: Work) -> None:
    asyncio.get_running_loop().call_later(0.005, work)


async def asyncio_queue_with_snapshot(race: Race, work: Work) -> None:
    race.loop_items.put_nowait((ctx.capture(), work))


async def asyncio_queue_with_carried_job(race: Race, work: Work) -> None:
    race.loop_items.put_nowait((None, ctx.carry(work)))


async def coroutine(race: Race, work: Work) -> None:
    carried = ctx.carry(work.task())
    task = asyncio.get_running_loop().create_task(carried, context=Context())
    await asyncio.gather(task, return_exceptions=True)  # each step has the keys; the task's own flow has none


async def async_generator(race: Race, work: Work) -> None:
    async def consume(steps: Any) -> None:
        try:
            with suppress(Fault):
                async for _ in steps:
                    if work.rotates:
                        break  # the loop closes it
        finally:
            race.nothing_here("consumer of an async generator")
            work.finish()

    steps = ctx.carry(work.async_generator())
    with ctx.cleared():
        consuming = asyncio.create_task(consume(steps))
    del steps
    await asyncio.wait([consuming])


LOOP_HOPS = [
    *(create_task, cancelled_task, gather, to_thread, run_in_executor, call_soon, call_later, coroutine),
    *(asyncio_queue_with_snapshot, asyncio_queue_with_carried_job, async_generator),
]


def start(race: Race, own: str, begins: str, chance: random.Random) -> Work:
    """Hand work over by any of the hops."""
    hop = chance.choice([*HOPS, *LOOP_HOPS])
    work = Work(race, hop.__name__, own, begins, chance)
    if hop in HOPS:
        hop(race, work)
    else:
        within: Callable[..., Coroutine[Any, Any, None]] = hop  # type: ignore[assignment]
        asyncio.run_coroutine_threadsafe(within(race, work), race.loop)
    return work


# Who serves


async def serve_in_a_task(race: Race, slot: int) -> None:
    chance = random.Random(f"{SEED} task {slot}")
    while race.goes_on():
        try:
            with race.turn(chance) as (own, begins):
                await race.loop_all_live.wait()
                for _ in range(chance.randrange(1, 5)):
                    work = start(race, own, begins, chance)
                    if chance.random() < 0.1:
                        race.later(work)
                    else:
                        await asyncio.wait_for(asyncio.wrap_future(work.done), PATIENCE)
        except asyncio.CancelledError:
            race.inject("task cancelled")
            this: Any = asyncio.current_task()
            this.uncancel()
        except TimeoutError:
            race.note(work.hop, "never ran")
        race.nothing_here("task between turns")


def serve_in_a_thread(race: Race, slot: int) -> None:
    chance = random.Random(f"{SEED} thread {slot}")
    while race.goes_on():
        with race.turn(chance) as (own, begins):
            race.all_live.wait(PATIENCE)
            if race.fork_is_due():
                race.note("fork", fork(own))
            for _ in range(chance.randrange(1, 5)):
                work = start(race, own, begins, chance)
                if chance.random() < 0.1:
                    race.later(work)
                else:
                    work.done.result(PATIENCE)
        race.nothing_here("thread between turns")


def fork(own: str) -> str | None:
    """Fork here; return what was wrong in the child."""
    pid = os.fork()
    if pid == 0:
        in_a_forked_child(own)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return None if status == 0 else f"exit status {status}"


def in_a_forked_child(own: str) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)  # a lock that nobody will ever release
        seen = [ctx.GATEWAY_SESSION_KEY.get()]
        ctx.amend(session_id=f"{own}.forked")
        with ctx.bind(session_id="bound"), ctx.cleared():
            seen += map(str, ctx.current())
        with ThreadPoolExecutor(1) as pool:
            seen.append(pool.submit(ctx.SESSION_ID.get).result(20))
        started = threading.Thread(target=lambda: seen.append(ctx.SESSION_ID.get()))
        started.start()
        started.join(20)
        with ctx.session(session_id="of the child"):
            seen.append(ctx.SESSION_ID.get())
        fault_counts()
        install().uninstall()
        status = 0 if seen == [own, f"{own}.forked", f"{own}.forked", "of the child"] else 2
    finally:
        os._exit(status)


def consume(race: Race) -> None:
    while (item := race.items.get()) is not None:
        snapshot, job = item
        with suppress(Fault):
            if snapshot is None:
                job()
            else:
                with snapshot:
                    job()
        race.nothing_here("idle consumer")


async def consume_in_a_task(race: Race) -> None:
    while True:
        snapshot, job = await race.loop_items.get()
        with suppress(Fault):
            if snapshot is None:
                job()
            else:
                async with snapshot:
                    await asyncio.sleep(0)
                    job()
        race.nothing_here("idle consumer task")


async def cancel_tasks(race: Race, serving: list[asyncio.Task[None]]) -> None:
    chance = random.Random(f"{SEED} cancelling")
    while race.goes_on():
        await asyncio.sleep(0.05)
        if race.all_live.is_set():
            for task in chance.sample(serving, 10):
                task.cancel()


def replace_pools(race: Race) -> None:
    chance = random.Random(f"{SEED} replacing")
    race.all_live.wait(PATIENCE)
    while race.goes_on():
        race.replace_pools(chance)
        time.sleep(0.3)


def started(target: Callable[..., None], *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args)
    thread.start()
    return thread


async def joined(threads: list[threading.Thread]) -> None:
    """Wait for threads without stopping the loop, or using its executor."""
    for thread in threads:
        while thread.is_alive():  # noqa: ASYNC110  # nothing is set when a thread has ended
            await asyncio.sleep(0.01)


async def run_turns(seconds: float, patched: pytest.MonkeyPatch) -> Race:
    race = Race(seconds)
    patched.setattr(threading, "excepthook", race.thread_failed)
    loop_consumers = [asyncio.create_task(consume_in_a_task(race)) for _ in range(4)]
    consumers = [started(consume, race) for _ in range(4)]
    others = [started(replace_pools, race), *(started(serve_in_a_thread, race, slot) for slot in range(THREADS))]
    serving = [asyncio.create_task(serve_in_a_task(race, slot)) for slot in range(TASKS)]
    await cancel_tasks(race, serving)
    await asyncio.gather(*serving)
    await joined(others)
    while race.late:  # noqa: ASYNC110  # as above
        await asyncio.sleep(0.01)
    for _ in consumers:
        race.items.put(None)
    await joined(consumers)
    for task in loop_consumers:
        task.cancel()
    await asyncio.wait(loop_consumers)
    race.nothing_here("main task")
    return race


def look_into_workers(race: Race) -> None:
    """Look, by jobs that nothing carries, at what each worker of the pools has in effect of its own."""
    together = threading.Barrier(8)

    def look(barrier: threading.Barrier) -> None:
        barrier.wait(PATIENCE)
        race.note("worker in the end", None if CURRENT.get() is NOTHING else repr(CURRENT.get()))

    for future in [race.pool.submit(look, together) for _ in range(8)]:
        future.result(PATIENCE)
    race.workers.map(look, [threading.Barrier(4)] * 4, chunksize=1)


def run_race(seconds: float, monkeypatch: pytest.MonkeyPatch) -> Race:
    with monkeypatch.context() as patched, install():
        race = asyncio.run(run_turns(seconds, patched))
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join(PATIENCE)
    look_into_workers(race)
    race.close()
    race.nothing_here("main flow")
    return race


def alive() -> tuple[int, int, int]:
    """Return how many layers and contexts are alive, and how many bytes are traced."""
    gc.collect()
    objects = gc.get_objects()
    layers = sum(isinstance(each, Layer) for each in objects)
    contexts = sum(type(each) is Context for each in objects)
    del objects
    return layers, contexts, tracemalloc.get_traced_memory()[0]


FAULTS = [
    *("rotation", "job raises", "closed from another thread", "turn ends first", "pool replaced"),
    *("pool was shut down", "job cancelled by a shutdown", "task cancelled"),
]
OTHER_PLACES = [
    *("Future.add_done_callback", "callback of a ThreadPool", "threading.excepthook", "exception handler of the loop"),
    *("done-callback of a task", "closing of an async generator", "consumer of an async generator"),
    *(
        "own flow",
        "own flow after a sub-agent",
        "own flow after its turn",
        "task between turns",
        "thread between turns",
    ),
    *("idle consumer", "idle consumer task"),
]


def test_no_job_ever_reads_another_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand turns at once over pools, threads, queues and tasks never mix and leave nothing, whatever fails."""
    print(f"seed {SEED}")
    tracemalloc.start()
    try:
        run_race(WARM_UP, monkeypatch)
        before = alive()
        race = run_race(SECONDS, monkeypatch)
        outcome = race.wrong, race.examples, race.ran, race.faults, race.most_live
        del race
        after = alive()
    finally:
        tracemalloc.stop()
    wrong, examples, ran, faults, most_live = outcome
    grown = [now - then for now, then in zip(after, before, strict=True)]
    print(dict(ran), dict(faults), most_live, grown, sep="\n")

    assert not wrong, (wrong, examples)
    assert most_live >= TASKS + THREADS
    hops = [hop.__name__ for hop in (*HOPS, *LOOP_HOPS)]
    assert {hop: ran[hop] for hop in (*hops, *OTHER_PLACES) if ran[hop] < AT_LEAST} == {}
    assert (ran["fork"], ran["main flow"], ran["worker in the end"]) == (FORKS, 1, 12)
    assert [fault for fault in FAULTS if not faults[fault]] == []
    assert grown[0] <= MORE_LAYERS
    assert grown[1] <= MORE_CONTEXTS
    assert grown[2] <= MORE_BYTES


def test_turns_with_a_pool_job_each_grow_nothing() -> None:
    """200,000 turns with a carried job and a callback each leave no object and no cycle while the collector is off."""
    answers: list[Any] = []

    def run(turns: int) -> None:
        for number in range(turns):
            with ctx.session(session_id=f"s{number}"):
                future = pool.submit(ctx.SESSION_ID.get)
                future.add_done_callback(answers.append)
            assert future.result() == f"s{number}"
            answers.clear()

    with install(), ThreadPoolExecutor(1) as pool:
        run(1000)
        gc.collect()
        gc.disable()
        try:
            before = len(gc.get_objects())
            run(200_000)
            grown = len(gc.get_objects()) - before
        finally:
            gc.enable()
        assert gc.collect() < 1000  # a cycle per turn would be 200,000; what other tests left is some dozens
    assert grown < 20
