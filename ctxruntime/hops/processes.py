"""Jobs and processes: the keys of who submits or starts them, as plain data.

A child may be another interpreter, which has none of our patches: what is pickled does it all by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from ctxruntime.guarding import guard
from ctxruntime.hops.denied import is_denied_target
from ctxruntime.hops.patching import AnyCallable, Patch
from ctxruntime.hops.plain import PlainDoor, PlainKeys, plain_keys
from ctxruntime.layers import UNSET
from ctxruntime.scope import cleared

__all__ = ["BORN_EMPTY", "Job", "executor_patches", "job_for_process", "patches", "process_patches"]

BORN_EMPTY: Final = frozenset(
    {
        "concurrent.futures.process._process_worker",
        "joblib.externals.loky.process_executor._process_worker",
        "loky.process_executor._process_worker",
        "multiprocessing.managers.BaseManager._run_server",
        "multiprocessing.pool.worker",
    }
)
"""The targets of processes that serve whoever comes: they are born with nothing, whoever starts them."""


@final
class Job:
    """A call to be made in another process, with keys in effect there that were captured here.

    It pickles where `fn` does. In the child it is a turn of its own: all keys are replaced, and what it does
    is seen by nobody here. Keys that the child does not define are dropped, and so are values that its keys
    refuse. Without a turn to capture, nothing is bound.

    Args:
        fn: what is called; its result and its errors are the job's.
        keys: what `plain_keys` returned.
    """

    __slots__ = ("fn", "keys")

    def __init__(self, fn: Callable[..., Any], keys: PlainKeys) -> None:
        self.fn: Final = fn
        self.keys: Final = keys

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call `fn` with the keys in effect."""
        door = PlainDoor(self.keys)
        layer = door.make()
        door.enter(layer)
        try:
            return self.fn(*args, **kwargs)
        finally:
            door.leave(layer)

    def __reduce__(self) -> tuple[type[Job], tuple[Callable[..., Any], PlainKeys]]:
        return Job, (self.fn, self.keys)


def job_for_process(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fn` with the keys in effect now, for a process to call. Never raises.

    What is a job already, or a chunk of a `map` over a job, stays what it is.
    """
    with guard("hops: a job for a process"):
        if not (isinstance(fn, Job) or _is_chunk_of_jobs(fn)):
            return Job(fn, plain_keys())
    return fn


def _is_chunk_of_jobs(fn: object) -> bool:
    return isinstance(fn, partial) and any(isinstance(argument, Job) for argument in fn.args)


def patches() -> list[Patch]:
    """Return what carries over processes, not yet applied; it imports the modules that it patches."""
    return [*process_patches(), *executor_patches()]


# Process pools of concurrent.futures


def executor_patches() -> list[Patch]:
    """Return the patches, not yet applied, of `ProcessPoolExecutor`: each job gets the submitter's keys.

    `map` captures when it is called, though it may submit later, and each item is a job of its own.
    """
    from concurrent.futures.process import ProcessPoolExecutor

    return [Patch(ProcessPoolExecutor, "submit", _submitting), Patch(ProcessPoolExecutor, "map", _submitting)]


def _submitting(original: AnyCallable) -> AnyCallable:
    def submitting(executor: object, /, *args: Any, **kwargs: Any) -> Any:
        if args:  # without, the error is the pool's
            args = (job_for_process(args[0]), *args[1:])
        return original(executor, *args, **kwargs)

    return submitting


# Processes


def process_patches() -> list[Patch]:
    """Return the patch, not yet applied, of `multiprocessing`: a process gets the keys of who starts it.

    Targets and classes of processes that are on the deny list, or in `BORN_EMPTY`, get nothing.
    """
    from multiprocessing.process import BaseProcess

    return [Patch(BaseProcess, "start", _starting)]


def _starting(original: AnyCallable) -> AnyCallable:
    def start(process: object, /, *args: Any, **kwargs: Any) -> Any:
        if _is_born_empty(process):
            with cleared():  # a forked child takes over what is in effect
                return original(process, *args, **kwargs)
        keys: PlainKeys = None
        with guard("hops: the keys of a process"):
            keys = plain_keys()
        if keys is None:
            return original(process, *args, **kwargs)
        attributes = vars(process)
        before = attributes.get("run", UNSET)
        attributes["run"] = _Run(keys, before)
        try:
            return original(process, *args, **kwargs)
        finally:
            _put_back(attributes, before)

    return start


@final
class _Run:
    """What a process has for its `run` while it is started; the child calls it.

    It does not refer to the process: one that pickles itself by its attributes would never come to an end.
    """

    __slots__ = ("before", "keys")

    def __init__(self, keys: PlainKeys, before: Any) -> None:
        self.keys: Final = keys
        self.before: Final = before

    def __call__(self) -> Any:
        from multiprocessing.process import current_process

        process = current_process()
        _put_back(vars(process), self.before)
        return Job(process.run, self.keys)()

    def __reduce__(self) -> tuple[type[_Run], tuple[PlainKeys, object]]:
        return _Run, (self.keys, self.before)


def _put_back(attributes: dict[str, Any], before: object) -> None:
    if before is UNSET:
        attributes.pop("run", None)
    else:
        attributes["run"] = before


def _is_born_empty(process: object) -> bool:
    with guard("hops: the target of a process"):
        target: Any = getattr(process, "_target", None)
        if is_denied_target(target) or any(map(is_denied_target, type(process).__mro__)):
            return True
        while isinstance(target, partial):
            target = target.func
        target = getattr(target, "__func__", target)
        return f"{getattr(target, '__module__', None)}.{getattr(target, '__qualname__', None)}" in BORN_EMPTY
    return False
