"""Threads: what `start()` hands over. Nothing is decided by where a thread was built, or who built the first one."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from contextvars import Context
from threading import Thread, Timer
from typing import Any, Final

from ctxruntime.guarding import guard
from ctxruntime.hops.denied import is_denied, is_denied_target
from ctxruntime.hops.jobs import copied_context, keys_alone, without_keys
from ctxruntime.hops.patching import Patch
from ctxruntime.hops.versions import THREADS_INHERIT, is_born, let_be_born, native_birth, take_birth_back
from ctxruntime.layers import current


def patches() -> list[Patch]:
    """Return the patches of everything that starts a thread, not yet applied.

    `Timer` has none of its own, but OpenTelemetry's instrumentation, once undone, leaves a `start` there.
    """
    return [
        Patch(Thread, "start", _carrying_start, plain=True),
        Patch(Timer, "start", _carrying_start, plain=True),
        *(
            Patch(_thread, name, _carrying_start_new_thread, plain=True)
            for name in ("start_new_thread", "start_new")
            if hasattr(_thread, name)
        ),
    ]


_starting: Final = guard("Thread.start")


def _carrying_start(original: Callable[..., None], patch: Patch) -> Callable[..., None]:
    def start(self: Thread) -> None:
        if not patch.active or is_born(self):
            return original(self)
        try:  # a `with` would cost each thread a fiftieth
            context = _birth_of(self)
            if context is not None:
                let_be_born(self, context)
        except Exception as fault:  # noqa: BLE001
            _starting.caught(fault)
        try:
            original(self)
        except BaseException:
            take_birth_back(self)
            raise

    return start


def _birth_of(thread: Thread) -> Context | None:
    """Return the context that a thread is to be born with; None where its native one is right."""
    if is_denied(thread):
        return without_keys(native_birth()) if THREADS_INHERIT else None
    if type(thread) is not Thread and isinstance(thread, Timer):
        return keys_alone(current(), native_birth())
    return copied_context()


_starting_new: Final = guard("_thread.start_new_thread")


def _carrying_start_new_thread(original: Callable[..., int], patch: Patch) -> Callable[..., int]:
    def start_new_thread(function: Any, args: Any, /, *kwargs: Any) -> int:
        if patch.active and callable(function) and isinstance(args, tuple):  # else the original refuses it
            with _starting_new:
                if not is_denied_target(function):
                    function, args = copied_context().run, (function, *args)
        return original(function, args, *kwargs)

    return start_new_thread
