"""The deny list: threads that live as long as the process, and must be born with nothing.

Such a thread serves everybody. Were it born with the state of whoever happened to need it first, it would show
that session for the work of all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from threading import Thread
from types import FunctionType
from typing import Any, Final

SHIPPED: Final = frozenset(
    {
        # The standard library: pool workers, listeners, feeders, event loops.
        "concurrent.futures.thread._worker",
        "concurrent.futures.process._ExecutorManagerThread",
        "multiprocessing.pool.Pool._handle_results",
        "multiprocessing.pool.Pool._handle_tasks",
        "multiprocessing.pool.Pool._handle_workers",
        "multiprocessing.pool.worker",
        "multiprocessing.queues.Queue._feed",
        "logging.handlers.QueueListener._monitor",
        "asyncio.base_events.BaseEventLoop.run_forever",
        "uvloop.loop.Loop.run_forever",
        # Pools of others, whose jobs come with a context of their own or by a queue.
        "aiosqlite.core._connection_worker_thread",
        "aiosqlite.core.Connection",  # up to 0.21 a thread itself
        "anyio._backends._asyncio.WorkerThread",
        "gevent._monitor.PeriodicMonitoringThread",
        "joblib.externals.loky.process_executor._ExecutorManagerThread",
        "trio._core._thread_cache.WorkerThread._work",
        # Exporters, pollers and writers that libraries start when they are first used.
        "apscheduler.schedulers.blocking.BlockingScheduler._main_loop",
        "langfuse._task_manager.media_upload_consumer.MediaUploadConsumer",
        "langfuse._task_manager.score_consumer.ScoreConsumer",
        "langfuse._utils.prompt_cache.PromptCacheRefreshConsumer",
        "langsmith._internal._background_thread.tracing_control_thread_func",
        "langsmith._internal._background_thread.tracing_control_thread_func_compress_parallel",
        "langsmith._internal._background_thread._tracing_sub_thread_func",
        "loguru._handler.Handler._queued_writer",
        "mlflow.tracing.export.async_export_queue.AsyncTraceExportQueue._consumer_loop",
        "mlflow.tracing.export.span_batcher.SpanBatcher._worker_loop",
        "opentelemetry.sdk._shared_internal.BatchProcessor.worker",
        "opentelemetry.sdk.metrics._internal.export.PeriodicExportingMetricReader._ticker",
        "opentelemetry.sdk.trace.export.BatchSpanProcessor.worker",  # up to 1.32
        "posthog.consumer.Consumer",
        "posthog.poller.Poller",
        "psycopg_pool.pool.ConnectionPool.worker",
        "psycopg_pool.sched.Scheduler.run",
        "pymongo.periodic_executor.PeriodicExecutor._run",
        "sentry_sdk._batcher.Batcher._flush_loop",
        "sentry_sdk.monitor.Monitor._ensure_running.<locals>._thread",
        "sentry_sdk.sessions.SessionFlusher._ensure_running.<locals>._thread",
        "sentry_sdk.worker.BackgroundWorker._target",
        "tqdm._monitor.TMonitor",
        "watchdog.utils.BaseThread",
    }
)
"""What no program wants otherwise."""

_listed: dict[str, set[str]] = {}
"""The names that are denied now, by their last part: hardly ever is there anything more to compare."""


def extend(names: Iterable[str]) -> None:
    """Deny further targets and classes, by qualified name."""
    for name in names:
        _listed.setdefault(name.rpartition(".")[2], set()).add(name)


def reset() -> None:
    """Deny what ships, and nothing else."""
    _listed.clear()
    extend(SHIPPED)


reset()


def is_denied(thread: Thread) -> bool:
    """Tell whether a thread must be born with nothing."""
    cls, target = type(thread), getattr(thread, "_target", None)
    if cls is Thread and type(target) is FunctionType and target.__name__ not in _listed:
        return False  # nearly always, and each start of a thread asks
    return (cls is not Thread and any(map(_is_listed, cls.__mro__))) or is_denied_target(target)


def is_denied_target(target: Any) -> bool:
    """Tell whether what a thread runs (a callable object: its class) must be born with nothing."""
    while isinstance(target, partial):
        target = target.func
    target = getattr(target, "__func__", target)
    return _is_listed(target) or _is_listed(type(target))


def _is_listed(found: Any) -> bool:
    # A callable object can have a `__name__` alone, which a decorator gave it, and of any type.
    name = getattr(found, "__name__", None)
    names = _listed.get(name) if isinstance(name, str) else None
    return names is not None and f"{found.__module__}.{getattr(found, '__qualname__', name)}" in names
