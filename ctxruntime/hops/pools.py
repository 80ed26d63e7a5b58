"""Executors of threads, and futures: each job has the state of the flow that submitted it, callbacks its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor as AnyExecutor
from concurrent.futures import Future
from concurrent.futures.thread import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from ctxruntime.hops.jobs import WholeJob, copied_context, keys_job, whole_job
from ctxruntime.hops.patching import Patch, guard
from ctxruntime.hops.processes import job_for_process
from ctxruntime.hops.versions import MAP_SUBMITS_LATER, THREADS_INHERIT, runs_elsewhere
from ctxruntime.scope import cleared

P = ParamSpec("P")
R = TypeVar("R")


def patches() -> list[Patch]:
    """Return the patches of `concurrent.futures`' threads and futures, not yet applied.

    `run_in_executor` submits; `map` does too, but from 3.14 on perhaps when its results are read.
    """
    found = [
        Patch(ThreadPoolExecutor, "submit", _carrying_submit, plain=True),
        Patch(Future, "add_done_callback", _carrying_add_done_callback, plain=True),
    ]
    if MAP_SUBMITS_LATER:
        found.append(Patch(AnyExecutor, "map", _carrying_map))
    return found


class Executor(ThreadPoolExecutor):
    """A ThreadPoolExecutor that carries, for those who patch nothing.

    Each job runs in a copy of the whole context of the flow that submitted it (for `map`: of the flow that
    called `map`). The workers, and the initializer, have no keys in effect outside a job, whoever submits first.
    It can be an event loop's default executor.

    >>> from ctxruntime import SESSION_ID, session
    >>> with Executor(max_workers=1) as executor, session(session_id="s1"):
    ...     executor.submit(SESSION_ID.get).result()
    's1'
    """

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Schedule a call as `ThreadPoolExecutor.submit` does, with the state of this flow."""
        run: Any = copied_context().run  # typed by variables of its own, which checkers do not match with ours
        if not THREADS_INHERIT:
            return super().submit(run, fn, *args, **kwargs)
        with cleared():  # a worker is started by the first job that needs it
            return super().submit(run, fn, *args, **kwargs)

    def map(self, fn: Callable[..., R], *iterables: Iterable[Any], **options: Any) -> Iterator[R]:
        """Schedule calls as `ThreadPoolExecutor.map` does, all with the state of this flow."""
        return super().map(WholeJob(fn) if MAP_SUBMITS_LATER else fn, *iterables, **options)


_submitting: Final = guard("ThreadPoolExecutor.submit")


def _carrying_submit(original: Callable[..., Any], patch: Patch) -> Callable[..., Any]:
    def submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if not patch.active:
            return original(self, fn, *args, **kwargs)
        if type(self) is not ThreadPoolExecutor and runs_elsewhere(self):
            return original(self, job_for_process(fn), *args, **kwargs)
        run: Any = None
        try:  # a `with` would cost each job a twentieth
            run = copied_context().run
        except Exception as fault:  # noqa: BLE001
            _submitting.caught(fault)
        if run is None:
            return original(self, fn, *args, **kwargs)
        return original(self, run, fn, *args, **kwargs)

    return submit


def _carrying_map(original: Callable[..., Any]) -> Callable[..., Any]:
    def map(self: AnyExecutor, fn: Callable[..., Any], *iterables: Iterable[Any], **options: Any) -> Any:
        if options.get("buffersize"):
            fn = whole_job(fn) if _runs_in_threads(self) else job_for_process(fn)
        return original(self, fn, *iterables, **options)

    return map


def _runs_in_threads(executor: AnyExecutor) -> bool:
    return isinstance(executor, ThreadPoolExecutor) and not runs_elsewhere(executor)


def _carrying_add_done_callback(original: Callable[..., None], patch: Patch) -> Callable[..., None]:
    def add_done_callback(self: Future[Any], fn: Callable[..., Any]) -> None:
        original(self, keys_job(fn) if patch.active else fn)

    return add_done_callback
