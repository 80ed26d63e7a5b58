"""Executors of threads, and futures: each job has the state of the flow that submitted it, callbacks its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from concurrent.futures.thread import ThreadPoolExecutor
from typing import Any, Final

from ctxruntime.guarding import guard
from ctxruntime.hops.jobs import copied_context, keys_job, whole_job
from ctxruntime.hops.patching import Patch
from ctxruntime.hops.processes import job_for_process
from ctxruntime.hops.versions import MAP_SUBMITS_LATER, runs_elsewhere


def patches() -> list[Patch]:
    """Return the patches of `concurrent.futures`' threads and futures, not yet applied.

    `run_in_executor` submits; `map` does too, but from 3.14 on perhaps when its results are read.
    """
    found = [
        Patch(ThreadPoolExecutor, "submit", _carrying_submit, plain=True),
        Patch(Future, "add_done_callback", _carrying_add_done_callback, plain=True),
    ]
    if MAP_SUBMITS_LATER:
        found.append(Patch(Executor, "map", _carrying_map))
    return found


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
    def map(self: Executor, fn: Callable[..., Any], *iterables: Iterable[Any], **options: Any) -> Any:
        if options.get("buffersize"):
            fn = whole_job(fn) if _runs_in_threads(self) else job_for_process(fn)
        return original(self, fn, *iterables, **options)

    return map


def _runs_in_threads(executor: Executor) -> bool:
    return isinstance(executor, ThreadPoolExecutor) and not runs_elsewhere(executor)


def _carrying_add_done_callback(original: Callable[..., None], patch: Patch) -> Callable[..., None]:
    def add_done_callback(self: Future[Any], fn: Callable[..., Any]) -> None:
        original(self, keys_job(fn) if patch.active else fn)

    return add_done_callback
