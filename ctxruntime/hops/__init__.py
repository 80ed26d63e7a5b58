"""How a scope gets across: from one task, thread, pool, callback or process to another.

from ctxruntime import carry, install
from ctxruntime.hops import Executor

install()                       # every hop of the process, or, for those who patch nothing:
pool = Executor()               # a ThreadPoolExecutor that carries
Thread(target=carry(work))      # one function, generator, async generator or coroutine
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxruntime.hops.pools import Executor

__all__ = ["Executor"]


def __getattr__(name: str) -> object:
    """Load the executor on first use: who captures needs no thread pool."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Before ours: an installation that waits for it makes its patches from `pools`, which has to be whole then.
    import_module("concurrent.futures.thread")

    from ctxruntime.hops import pools

    value = globals()[name] = getattr(pools, name)
    return value
