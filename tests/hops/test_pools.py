"""The hop contract, pool by pool: each job has the state of who submitted it, and no worker has any of its own."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor as AnyExecutor
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.hops import Executor, jobs, pools

HOSTS: ContextVar[str] = ContextVar("pools_hosts", default="unset")


def seen(*_: object) -> Any:
    return ctx.SESSION_ID.get(None)


class Patched(ThreadPoolExecutor):
    """An executor of the host's own, which a patch of the base class reaches."""


@pytest.fixture(params=["install", "install, a subclass", "Executor", "Executor, installed"])
def new_pool(request: pytest.FixtureRequest) -> Callable[..., ThreadPoolExecutor]:
    """Return what makes a pool that carries: patched, or explicitly, or both."""
    if "install" in request.param:
        request.getfixturevalue("installed")
    if request.param.startswith("Executor"):
        return Executor
    return Patched if "subclass" in request.param else ThreadPoolExecutor


@pytest.fixture
def pool(new_pool: Callable[..., ThreadPoolExecutor]) -> Iterator[ThreadPoolExecutor]:
    with new_pool(max_workers=1) as made:
        yield made


def test_submit(pool: ThreadPoolExecutor) -> None:
    """A job has the whole state of the flow that submitted it, on a fresh worker and on a warm one."""
    HOSTS.set("whole")
    with ctx.session(session_id="a") as turn:
        assert pool.submit(seen).result() == "a"
        assert pool.submit(HOSTS.get).result() == "whole"
        assert pool.submit(ctx.current_turn).result() is turn
        assert pool.submit(functools.partial(seen, 1), 2).result() == "a"
    with ctx.session(session_id="b"):
        assert pool.submit(seen).result() == "b"
    assert pool.submit(seen).result() is None


def test_submit_after_a_close_from_elsewhere(pool: ThreadPoolExecutor) -> None:
    """A job is of what is in effect below a turn that another thread has closed."""
    with ctx.session(session_id="outer"):
        scope = ctx.session(session_id="inner")
        scope.open()
        thread = threading.Thread(target=scope.close)
        thread.start()
        thread.join()

        assert pool.submit(ctx.SESSION_ID.get).result(5) == "outer"


def test_submit_passes_everything_on(pool: ThreadPoolExecutor) -> None:
    """Arguments, results and errors are the job's own."""

    def job(*args: Any, **kwargs: Any) -> Any:
        if args == ("fail",):
            raise LookupError("mine")
        return args, kwargs

    assert pool.submit(job, 1, fn=2, self=3).result() == ((1,), {"fn": 2, "self": 3})
    with pytest.raises(LookupError, match="mine"):
        pool.submit(job, "fail").result()
    with pytest.raises(TypeError):
        pool.submit(5).result()  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        pool.submit()  # type: ignore[call-arg]


def test_what_a_job_enters_and_sets_is_gone_with_it(pool: ThreadPoolExecutor) -> None:
    """What a job binds and never unbinds does not reach the next one, also after an error."""

    def careless() -> None:
        ctx.session(session_id="left open").open()
        HOSTS.set("left set")
        raise LookupError

    with ctx.session(session_id="a"):
        assert pool.submit(careless).exception() is not None
        assert pool.submit(seen).result() == "a"
    assert pool.submit(seen).result() is None
    assert pool.submit(HOSTS.get).result() == HOSTS.get() != "left set"


def test_late_facts_of_a_job_reach_its_submitter(pool: ThreadPoolExecutor) -> None:
    """What a job amends is seen by all who serve the turn."""
    with ctx.session(gateway_session_key="k"):
        pool.submit(ctx.amend, session_id="late").result()
        assert seen() == "late"


def test_map(pool: ThreadPoolExecutor) -> None:
    """`map` carries as `submit` does, also over a generator that is read while it submits."""

    def items() -> Iterator[Any]:
        yield seen()
        yield seen()

    with ctx.session(session_id="a"):
        assert list(pool.map(lambda item: (item, seen()), items())) == [("a", "a")] * 2
        results = pool.map(seen, range(3))
    with ctx.session(session_id="b"):
        assert list(results) == ["a"] * 3


@pytest.mark.skipif(sys.version_info < (3, 14), reason="map has no buffersize before 3.14")
def test_map_that_submits_while_its_results_are_read(pool: ThreadPoolExecutor) -> None:
    """A job of a `map` belongs to the flow that called it, whoever reads its results, and when."""
    options: dict[str, Any] = {"buffersize": 1}
    with ctx.session(session_id="a"):
        results = pool.map(seen, range(5), **options)
    with ctx.session(session_id="b"):
        assert list(results) == ["a"] * 5


@pytest.mark.asyncio
async def test_run_in_executor(pool: ThreadPoolExecutor) -> None:
    """A loop's executor carries: a pool that it is given, its default one, and one that was made its default."""
    loop = asyncio.get_running_loop()
    with ctx.session(session_id="a"):
        assert await loop.run_in_executor(pool, seen) == "a"
        if not isinstance(pool, Executor):
            assert await loop.run_in_executor(None, seen) == "a"
    loop.set_default_executor(pool)
    with ctx.session(session_id="b"):
        assert await loop.run_in_executor(None, functools.partial(seen, 1)) == "b"
        assert await asyncio.to_thread(seen) == "b"
    assert await loop.run_in_executor(None, seen) is None


def test_initializer(new_pool: Callable[..., ThreadPoolExecutor]) -> None:
    """A pool's initializer serves the whole pool, and sees nobody's session."""
    seen_at_birth: list[Any] = []
    with (
        ctx.session(session_id="a"),
        new_pool(2, initializer=lambda: seen_at_birth.append(seen())) as pool,
    ):
        assert pool.submit(seen).result() == "a"

    assert seen_at_birth == [None]


def test_initializer_explicitly(new_pool: Callable[..., ThreadPoolExecutor]) -> None:
    """`carry(initializer)` is for those who want it otherwise."""
    seen_at_birth: list[Any] = []
    with ctx.session(session_id="a"):
        initializer = ctx.carry(lambda: seen_at_birth.append(seen()))
    with new_pool(1, initializer=initializer) as pool:
        pool.submit(seen).result()

    assert seen_at_birth == ["a"]


def test_jobs_in_jobs(new_pool: Callable[..., ThreadPoolExecutor]) -> None:
    """A job that submits to another pool hands its state on, at any depth."""

    def nested(depth: int) -> Any:
        with new_pool(1) as inner:
            return inner.submit(nested, depth - 1).result() if depth else seen()

    with ctx.session(session_id="a"), ctx.bind(session_id="child"):
        assert nested(3) == "child"


def test_shut_down_pool(pool: ThreadPoolExecutor) -> None:
    """Submitting to a pool that is shut down is the error that it was."""
    pool.shutdown()
    with ctx.session(session_id="a"), pytest.raises(RuntimeError, match="shutdown"):
        pool.submit(seen)


# Futures


def answer_of(future: Future[Any], answers: list[Any]) -> Callable[[Future[Any]], None]:
    def callback(done: Future[Any]) -> None:
        assert done is future
        answers.append(seen())

    return callback


@pytest.mark.usefixtures("installed")
def test_future_done_callback() -> None:
    """A callback has the keys of who added it, not of the job, nor of the thread that it happens to run in."""
    answers: list[Any] = []
    go = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with ctx.session(session_id="a"):
            future = pool.submit(go.wait, 10)
        with ctx.session(session_id="b"):
            future.add_done_callback(answer_of(future, answers))
        future.add_done_callback(answer_of(future, answers))
        with ctx.session(session_id="c"):
            go.set()
            future.result()

    assert answers == ["b", None]


@pytest.mark.usefixtures("installed")
def test_future_done_callback_of_a_future_that_is_set_elsewhere() -> None:
    """Who sets the result of a future lends its callbacks no session."""
    answers: list[Any] = []
    future: Future[int] = Future()
    future.add_done_callback(answer_of(future, answers))
    with ctx.session(session_id="a"):
        future.add_done_callback(answer_of(future, answers))
    with ctx.session(session_id="b"):
        future.set_result(1)
        future.add_done_callback(answer_of(future, answers))  # done already: called at once

    assert answers == [None, "a", "b"]


@pytest.mark.usefixtures("installed")
def test_future_done_callback_after_its_turn_has_ended() -> None:
    """A callback whose turn has ended still has its keys, and can see that it ended."""
    answers: list[Any] = []
    future: Future[int] = Future()
    with ctx.session(session_id="a"):
        future.add_done_callback(lambda _: answers.append((seen(), getattr(ctx.current_turn(), "ended", None))))
    with ctx.session(session_id="b"):
        threading.Thread(target=future.set_result, args=(1,)).start()
        future.result(10)
        time.sleep(0.01)

    assert answers == [("a", True)]


def test_future_done_callback_explicitly() -> None:
    """`carry(callback)` takes the keys along without any patch."""
    answers: list[Any] = []
    future: Future[int] = Future()
    with ctx.session(session_id="a"):
        future.add_done_callback(ctx.carry(answer_of(future, answers)))
    with ctx.session(session_id="b"):
        future.set_result(1)

    assert answers == ["a"]


@pytest.mark.usefixtures("installed")
def test_future_done_callback_that_leaves_a_scope_open() -> None:
    """What a callback enters and does not leave is gone with it."""
    future: Future[int] = Future()
    future.add_done_callback(lambda _: ctx.session(session_id="left open").open())
    with ctx.session(session_id="a"):
        future.set_result(1)
        assert seen() == "a"


@pytest.mark.usefixtures("installed")
def test_future_done_callback_that_runs_over_the_scope_it_was_added_in() -> None:
    """A callback has the keys of where it was added, also in the very context in which that scope was closed below."""
    answers: list[Any] = []
    future: Future[int] = Future()
    below, above = ctx.session(session_id="a"), ctx.session(session_id="b")
    with ctx.session(session_id="outer"):
        below.open()
        future.add_done_callback(answer_of(future, answers))
        above.open()
        below.close()
        future.set_result(1)
        answers.append(seen())
        above.close()
        answers.append(seen())

    assert answers == ["a", "b", "outer"]
    assert seen() is None


@pytest.mark.usefixtures("installed")
def test_future_done_callback_that_closes_the_scope_it_was_added_in() -> None:
    """What a callback closes is gone where it was entered, and the callback keeps its keys to its end."""
    answers: list[Any] = []
    future: Future[int] = Future()
    below, above = ctx.session(session_id="a"), ctx.session(session_id="b")
    below.open()

    def closing(_: object) -> None:
        below.close()
        answers.append(seen())

    future.add_done_callback(closing)
    above.open()
    future.set_result(1)
    answers.append(seen())
    above.close()

    assert answers == ["a", "b"]
    assert seen() is None


# multiprocessing's pool of threads

HANDED: dict[str, Callable[[ThreadPool], Any]] = {
    "apply": lambda pool: pool.apply(seen, (1,)),
    "apply_async": lambda pool: pool.apply_async(seen).get(10),
    "map": lambda pool: pool.map(seen, [1])[0],
    "map_async": lambda pool: pool.map_async(seen, [1]).get(10)[0],
    "starmap": lambda pool: pool.starmap(seen, [(1, 2)])[0],
    "starmap_async": lambda pool: pool.starmap_async(seen, [(1, 2)]).get(10)[0],
    "imap": lambda pool: next(pool.imap(seen, [1])),
    "imap in chunks": lambda pool: next(iter(pool.imap(seen, [1, 2], 2))),
    "imap_unordered": lambda pool: next(pool.imap_unordered(seen, [1])),
}


@pytest.mark.parametrize("hand_over", HANDED.values(), ids=list(HANDED))
@pytest.mark.usefixtures("installed")
def test_multiprocessing_thread_pool(hand_over: Callable[[ThreadPool], Any]) -> None:
    """A job has the state of who handed it over, whoever made the pool and whoever used it before."""
    with ctx.session(session_id="a"), ThreadPool(1) as pool:
        assert hand_over(pool) == "a"
        with ctx.session(session_id="b"):
            assert hand_over(pool) == "b"
        with ctx.cleared():
            assert hand_over(pool) is None


@pytest.mark.usefixtures("installed")
def test_multiprocessing_thread_pool_gets_it_whole() -> None:
    """A job in a thread has the whole context, as `to_thread` gives it."""
    HOSTS.set("whole")
    with ThreadPool(1) as pool:
        assert pool.apply(HOSTS.get) == "whole"


@pytest.mark.usefixtures("installed")
def test_multiprocessing_thread_pool_passes_every_name_on() -> None:
    """No name that a job calls its arguments by is ours."""
    with ThreadPool(1) as pool:
        assert pool.apply(dict, (), {"self": 1, "fn": 2}) == {"self": 1, "fn": 2}


@pytest.mark.usefixtures("installed")
def test_multiprocessing_thread_pool_callbacks() -> None:
    """Callbacks have the keys of who handed the job over, given by name or by position."""
    answers: list[Any] = []

    def note(result: Any) -> None:
        answers.append((seen(), result))

    def fail() -> None:
        raise LookupError

    with ThreadPool(1) as pool:
        with ctx.session(session_id="a"):
            pool.apply_async(seen, callback=note).wait(10)
            pool.map_async(seen, [1], None, note).wait(10)
            pool.apply_async(fail, (), {}, None, lambda error: note(type(error))).wait(10)
        pool.close()
        pool.join()

    assert answers == [("a", "a"), ("a", ["a"]), ("a", LookupError)]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("none", [None, False])
def test_multiprocessing_thread_pool_without_a_callback(none: Any) -> None:
    """What the pool takes for no callback is none, and its result arrives."""
    with ThreadPool(1) as pool, ctx.session(session_id="a"):
        assert pool.apply_async(seen, callback=none, error_callback=none).get(10) == "a"
        assert pool.map_async(seen, [1], None, none).get(10) == ["a"]


def test_multiprocessing_thread_pool_explicitly() -> None:
    """`carry(job)` takes the keys along without any patch."""
    with ThreadPool(1) as pool:
        with ctx.session(session_id="a"):
            job = ctx.carry(seen)
        with ctx.session(session_id="b"):
            assert pool.apply(job) == "a"


# Faults of ours


def fail(*_: object) -> Any:
    raise ZeroDivisionError


HANDED_OVER: dict[str, tuple[tuple[Any, str], Callable[[], Any]]] = {
    "submit": ((pools, "copied_context"), lambda: submitted(lambda pool: pool.submit(int, "7"))),
    "add_done_callback": ((jobs, "current"), lambda: called_back()),
    "done-callback": ((jobs, "derive"), lambda: called_back()),
    "ThreadPool": ((jobs, "copied_context"), lambda: handed_over(lambda pool: pool.apply_async(int, ("7",)))),
    "ThreadPool, callback": (
        (jobs, "current"),
        lambda: handed_over(lambda pool: pool.apply_async(int, ("7",), {}, id)),
    ),
}


def submitted(hand_over: Callable[[ThreadPoolExecutor], Future[Any]]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return hand_over(pool).result(10)


def handed_over(hand_over: Callable[[ThreadPool], Any]) -> Any:
    with ThreadPool(1) as pool:
        return hand_over(pool).get(10)


def called_back() -> Any:
    future: Future[int] = Future()
    answers: list[int] = []
    future.add_done_callback(lambda done: answers.append(done.result()))
    future.set_result(7)
    return answers[0]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("broken", "hand_over"), HANDED_OVER.values(), ids=HANDED_OVER)
def test_a_fault_of_ours_loses_no_job(
    monkeypatch: pytest.MonkeyPatch, broken: tuple[Any, str], hand_over: Callable[[], Any]
) -> None:
    """Where carrying fails, the job is done and the callback called as without us, and the fault is counted."""
    before = sum(fault_counts().values())
    with ctx.session(session_id="a"), monkeypatch.context() as patched:
        patched.setattr(*broken, fail)
        assert hand_over() == 7

    assert sum(fault_counts().values()) > before


# Snapshots, by many at once


@pytest.mark.parametrize("installed_too", [False, True], ids=["explicit", "installed"])
def test_snapshot_run_by_32_threads_at_once_and_recursively(
    request: pytest.FixtureRequest, installed_too: bool
) -> None:
    """One snapshot serves many threads at once, inside itself too."""
    if installed_too:
        request.getfixturevalue("installed")
    with ctx.session(session_id="a"):
        snapshot = ctx.capture()
    together = threading.Barrier(32)

    def job(depth: int) -> list[Any]:
        if depth == 0:
            together.wait(10)
            return [seen()]
        return [*snapshot.run(job, depth - 1), seen()]

    with ctx.session(session_id="b"), ThreadPoolExecutor(32) as pool:
        jobs = [pool.submit(snapshot.run, job, 3) for _ in range(32)]
        assert [job.result(10) for job in jobs] == [["a"] * 4] * 32


@pytest.mark.skipif(sys.version_info < (3, 14), reason="interpreters have no pool before 3.14")
@pytest.mark.usefixtures("installed")
def test_interpreter_pool() -> None:
    """A pool of interpreters gets each job's keys as plain data, and stays as it is otherwise."""
    from concurrent import futures

    with getattr(futures, "InterpreterPoolExecutor")(1) as pool:  # noqa: B009  # unknown to older checkers
        executor: AnyExecutor = pool
        with ctx.session(session_id="a"):
            assert executor.submit(pow, 2, 3).result(60) == 8
            assert list(executor.map(abs, [-1, 1])) == [1, 1]
            assert executor.submit(ctx.SESSION_ID.get).result(60) == "a"
