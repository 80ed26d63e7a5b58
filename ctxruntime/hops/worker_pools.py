"""`multiprocessing`'s pools: threads get the whole state of each job's submitter, processes its keys."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.pool import Pool, ThreadPool
from typing import Any, Final

from ctxruntime.hops.jobs import keys_job, whole_job
from ctxruntime.hops.patching import Patch
from ctxruntime.hops.processes import job_for_process

_SUBMITTING: Final = ("apply_async", "map", "map_async", "starmap", "starmap_async", "imap", "imap_unordered")
"""What takes a job. `apply` is `apply_async`."""
_CALLBACKS: Final = ("callback", "error_callback")
_FIRST_CALLBACK: Final = 2
"""Where callbacks stand among the positional arguments behind the job, in all that take them."""


def patches() -> list[Patch]:
    """Return the patches of everything that hands a job to a pool, not yet applied."""
    return [Patch(Pool, name, _carrying) for name in _SUBMITTING]


def _carrying(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(self: Pool, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        job = whole_job(func) if isinstance(self, ThreadPool) else job_for_process(func)
        for name in _CALLBACKS:
            if name in kwargs:
                kwargs[name] = keys_job(kwargs[name])
        callbacks = map(keys_job, args[_FIRST_CALLBACK:])
        return original(self, job, *args[:_FIRST_CALLBACK], *callbacks, **kwargs)

    return submit
