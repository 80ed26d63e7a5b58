"""How a scope gets across: from one task, thread, pool, callback or process to another.

from ctxruntime import carry, install
from ctxruntime.hops import Executor

install()                       # every hop of the process, or, for those who patch nothing:
pool = Executor()               # a ThreadPoolExecutor that carries
Thread(target=carry(work))      # one function, generator, async generator or coroutine
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxruntime.hops.executor import Executor

__all__ = ["Executor"]


def __getattr__(name: str) -> object:
    """Load the executor on first use: who captures needs no thread pool."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ctxruntime.hops import executor

    value = globals()[name] = executor.Executor
    return value
