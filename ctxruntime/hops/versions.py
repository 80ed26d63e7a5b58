"""What differs between the versions of CPython, in one place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from gc import get_referents
from threading import Thread
from typing import Any, Final, cast, final

# Threads

THREADS_INHERIT: Final = bool(getattr(sys.flags, "thread_inherit_context", False))
"""Whether a thread is born with a copy of its starter's context; can be switched on from 3.14 on."""
_THREADS_HAVE_A_CONTEXT: Final = sys.version_info >= (3, 14)


def native_birth() -> Context:
    """Return the context that a thread which is started here is born with if nobody interferes."""
    return copy_context() if THREADS_INHERIT else Context()


def let_be_born(thread: Thread, context: Context) -> None:
    """Let a thread that is about to be started run in `context`, from its first line of Python to its last.

    That its `excepthook` is called there too is why `run` alone would not do. A context that the thread was
    given by its maker (from 3.14 on) stays what `run` sees.
    """
    made: Any = thread
    if _THREADS_HAVE_A_CONTEXT:
        if made._context is not None:
            return
        made._context = context.copy()  # `run` enters it, and a context cannot be entered twice
    made._bootstrap = _Birth(_begin, made, made._bootstrap, context)


@final
class _Birth(partial[None]):
    """A thread's beginning, in place of its own."""

    __slots__ = ()


def _begin(thread: Any, bootstrap: Callable[[], None], context: Context) -> None:
    del thread._bootstrap  # else the thread and its beginning keep one another alive
    context.run(bootstrap)
    if _THREADS_HAVE_A_CONTEXT:
        thread._context = None  # a thread object that is kept would keep the state of its turn


def is_born(thread: Thread) -> bool:
    """Tell whether `let_be_born` was called already for the start that is going on."""
    return type(cast("Any", thread)._bootstrap) is _Birth  # a look at `__dict__` would slow the thread down for good


def take_birth_back(thread: Thread) -> None:
    """Undo `let_be_born` for a thread that could not be started: it may be started again, elsewhere."""
    if vars(thread).pop("_bootstrap", None) and _THREADS_HAVE_A_CONTEXT:
        cast("Any", thread)._context = None


# Pools

MAP_SUBMITS_LATER: Final = sys.version_info >= (3, 14)
"""Whether `Executor.map` may submit while its results are read, long after it was called (`buffersize`)."""


def runs_elsewhere(executor: object) -> bool:
    """Tell whether an executor of threads runs its jobs in other interpreters (from 3.14 on), as plain data."""
    module = sys.modules.get("concurrent.futures.interpreter")
    return module is not None and isinstance(executor, module.InterpreterPoolExecutor)


# Loops


def context_of(thing: Any) -> Context | None:
    """Return the context that a task or a handle of asyncio runs in; None for what has none, or hides it."""
    if hasattr(thing, "get_context"):
        context = thing.get_context()
    else:
        context = getattr(thing, "_context", None)
        if context is None and hasattr(thing, "get_coro"):  # up to 3.11, the C task shows it to the collector alone
            # The first one: that of a done-callback comes behind it.
            context = next((found for found in get_referents(thing) if isinstance(found, Context)), None)
    return context if isinstance(context, Context) else None
