"""Child processes get the environment that `wire.child_env` makes of what the caller gave.

Covered: everything that ends in `subprocess.Popen` (`run`, `call`, `check_output`, `os.popen`, the processes of
asyncio, anyio and trio), gevent's `Popen`, and uvloop's loops, which start processes by themselves.

Not covered, and inheriting `os.environ` as it is: `os.system`, `os.exec*`, `os.spawn*`, `os.posix_spawn`, `pty.spawn`,
and the processes of `multiprocessing`, which get their keys with each job. A child that inherits also gets what C code
put into the environment behind `os.environ`; one whose environment was changed here does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from ctxruntime.guarding import guard
from ctxruntime.hops.patching import Patch
from ctxruntime.wire.environments import changed_env

__all__ = ["gevent_patches", "patches", "uvloop_patches"]

_ENV: Final = 10  # the position of `env` among Popen's arguments, `self` not counted; the same since Python 2

# Any: the arguments are the host's.
AnyCallable = Callable[..., Any]


def patches() -> list[Patch]:
    """Return the patch, not applied yet, that gives children what is in effect where `subprocess` starts them.

    A child whose environment needs no change gets exactly what the caller gave, None included.
    """
    import subprocess

    return [Patch(subprocess.Popen, "__init__", _starting)]


def gevent_patches() -> list[Patch]:
    """Return the same for gevent's `Popen`, where it has not been put in the place of `subprocess`'s already."""
    import subprocess

    theirs: type = import_module("gevent.subprocess").Popen
    return [] if theirs is subprocess.Popen else [Patch(theirs, "__init__", _starting)]


def uvloop_patches() -> list[Patch]:
    """Return the same for the processes that uvloop's loops start by themselves."""
    loop: type = import_module("uvloop").Loop
    return [Patch(loop, name, _spawning) for name in ("subprocess_exec", "subprocess_shell")]


def _starting(original: AnyCallable) -> AnyCallable:
    def __init__(self: object, /, *args: Any, **kwargs: Any) -> None:
        with guard("subprocesses: Popen"):
            args, kwargs = _with_environment(args, kwargs)
        original(self, *args, **kwargs)

    return __init__


def _spawning(original: AnyCallable) -> AnyCallable:
    async def spawn(self: object, /, *args: Any, **kwargs: Any) -> Any:
        with guard("subprocesses: uvloop"):
            kwargs = {**kwargs, **_changed(kwargs.get("env"))}
        return await original(self, *args, **kwargs)

    return spawn


def _with_environment(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if len(args) <= _ENV:
        return args, {**kwargs, **_changed(kwargs.get("env"))}
    changed = _changed(args[_ENV])
    return ((*args[:_ENV], changed["env"], *args[_ENV + 1 :]) if changed else args), kwargs


def _changed(given: Mapping[Any, Any] | None) -> dict[str, dict[Any, Any]]:
    """Return the environment to pass in place of the one that was given, or nothing if that is right as it is."""
    if given is not None and not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        return {}  # the original refuses it
    env = changed_env(os.environ if given is None else given)
    return {} if env is None else {"env": env}
