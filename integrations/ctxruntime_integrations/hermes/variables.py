"""Hermes's own variables, set around a plugin's command: for plugins that read `get_session_env`.

Hermes sets its `HERMES_SESSION_*` context variables for an agent's turn, and not for a command. They are set
one by one, as its own function for all of them also pins the working directory, and put back exactly.
`os.environ` is never written.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from functools import update_wrapper
from importlib import import_module
from inspect import iscoroutine
from typing import Any, Final
from weakref import WeakKeyDictionary

from ctxruntime import GATEWAY_SESSION_KEY, SESSION_ID, Turn, current_turn
from ctxruntime.guarding import guard

__all__ = ["EVERY", "in_effect", "note", "with_variables"]

_MODULE: Final = "gateway.session_context"
_ID: Final = "HERMES_SESSION_ID"
_KEY: Final = "HERMES_SESSION_KEY"

EVERY: Final = "*"
"""Noted with a value, it is that of all variables that are not noted themselves."""

_noted: Final[WeakKeyDictionary[Turn, Mapping[str, str]]] = WeakKeyDictionary()


def note(values: Mapping[str, str]) -> None:
    """Note what a frontend knows beyond the keys, for the turn in effect."""
    turn = current_turn()
    if turn is not None:
        _noted[turn] = values


def _wanted(mapped: Mapping[str, ContextVar[Any]]) -> dict[str, str]:
    """Return what the variables are to be in the scope in effect."""
    turn = current_turn()
    if turn is None:
        return {}
    noted = _noted.get(turn)
    wanted: dict[str, str] = {}
    if noted is not None:
        if EVERY in noted:
            wanted = dict.fromkeys(mapped, noted[EVERY])
        wanted.update((name, value) for name, value in noted.items() if name in mapped)
        wanted.setdefault(_ID, "")
        wanted[_KEY] = GATEWAY_SESSION_KEY.get("") or wanted.get(_KEY, "")
    session_id = SESSION_ID.get(None)
    if session_id is not None:
        wanted[_ID] = session_id
    return {name: value for name, value in wanted.items() if name in mapped}


@contextmanager
def in_effect() -> Generator[None]:
    """Have the variables say what the keys do, inside the block."""
    tokens: list[tuple[ContextVar[Any], Token[Any]]] = []
    with guard("hermes: set the host's variables"):
        mapped: Mapping[str, ContextVar[Any]] = import_module(_MODULE)._VAR_MAP
        for name, value in _wanted(mapped).items():
            tokens.append((mapped[name], mapped[name].set(value)))  # those that were set are put back
    try:
        yield
    finally:
        for var, token in reversed(tokens):
            with suppress(ValueError):  # the coroutine was closed in another context, where they were not set
                var.reset(token)


def with_variables(handler: Callable[..., Any]) -> Callable[..., Any]:  # Any: the plugin's
    """Return a command's handler that runs with the variables set; what it awaits does too."""

    def run(*args: object, **kwargs: object) -> object:
        with in_effect():
            result = handler(*args, **kwargs)
        return _awaited(result) if iscoroutine(result) else result

    return update_wrapper(run, handler)


async def _awaited(result: Coroutine[Any, Any, Any]) -> Any:
    with in_effect():
        return await result
