"""The pool of threads for those who patch nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.thread import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from ctxruntime.hops.jobs import WholeJob, copied_context
from ctxruntime.hops.versions import MAP_SUBMITS_LATER, THREADS_INHERIT
from ctxruntime.scope import cleared

P = ParamSpec("P")
R = TypeVar("R")


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
