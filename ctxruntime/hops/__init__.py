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
    from ctxruntime.hops.install import Installation, install
    from ctxruntime.hops.pools import Executor
    from ctxruntime.hops.snapshot import Snapshot, capture, carry

__all__ = ["Executor", "Installation", "Snapshot", "capture", "carry", "install"]

_LATER = {
    "Executor": "ctxruntime.hops.pools",
    **dict.fromkeys(("Installation", "install"), "ctxruntime.hops.install"),
    **dict.fromkeys(("Snapshot", "capture", "carry"), "ctxruntime.hops.snapshot"),
}


def __getattr__(name: str) -> object:
    """Load what is used: who captures needs no thread pool."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value
