"""Session keys set once, at the door, and there everywhere behind it.

    import ctxruntime as ctx

    with ctx.session(session_id="s1", gateway_session_key="agent:main:discord:dm:7"):
        ...                                   # here, and in the tasks, threads and handlers behind it
        ctx.SESSION_ID.get()                  # "s1"

The words: a *key* is a named, typed ambient value; a *turn* is one event let in at one *entry point* by
`session(...)`; `bind` puts a value in effect for a nested *scope*; `amend` adds or changes a fact of the scope in
effect for all who serve it; `capture` and `carry` take the state over a *hop* to another flow of execution; a
*handler* is a function that a host calls and somebody else wrote, and `inject` or `adapt` give it the keys that
its signature accepts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxruntime.keys import FRONTEND, GATEWAY_SESSION_KEY, PREVIOUS_SESSION_ID, SESSION_ID, USER_ID, Key
from ctxruntime.layers import UNSET
from ctxruntime.scope import Turn, amend, cleared, current, current_turn, session

if TYPE_CHECKING:
    from ctxruntime.binds import bind
    from ctxruntime.errors import (
        CtxRuntimeError,
        DuplicateKeyError,
        InvalidValueError,
        NoTurnError,
        UnboundKeyError,
        UnknownKeyError,
    )
    from ctxruntime.handlers import INJECTED, Plan, acall, adapt, call, explain, inject
    from ctxruntime.hops.install import install
    from ctxruntime.hops.snapshot import Snapshot, capture, carry
    from ctxruntime.telemetry.traced import handler, traced

__version__ = "0.1.0"

__all__ = [
    "FRONTEND",
    "GATEWAY_SESSION_KEY",
    "INJECTED",
    "PREVIOUS_SESSION_ID",
    "SESSION_ID",
    "UNSET",
    "USER_ID",
    "CtxRuntimeError",
    "DuplicateKeyError",
    "InvalidValueError",
    "Key",
    "NoTurnError",
    "Plan",
    "Snapshot",
    "Turn",
    "UnboundKeyError",
    "UnknownKeyError",
    "acall",
    "adapt",
    "amend",
    "bind",
    "call",
    "capture",
    "carry",
    "cleared",
    "current",
    "current_turn",
    "explain",
    "handler",
    "inject",
    "install",
    "session",
    "traced",
]

_LATER = {
    "binds": ("bind",),
    "errors": (
        *("CtxRuntimeError", "DuplicateKeyError", "InvalidValueError"),
        *("NoTurnError", "UnboundKeyError", "UnknownKeyError"),
    ),
    "handlers": ("INJECTED", "Plan", "acall", "adapt", "call", "explain", "inject"),
    "hops.install": ("install",),
    "hops.snapshot": ("Snapshot", "capture", "carry"),
    "telemetry.traced": ("handler", "traced"),
}


def __getattr__(name: str) -> object:
    """Load upon first use what not every program needs, or what brings wrapt and inspect with it."""
    for module, names in _LATER.items():
        if name in names:
            from importlib import import_module

            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
