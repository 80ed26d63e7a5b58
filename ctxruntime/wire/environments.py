"""Baggage and trace context in the environments of child processes.

The names are those of OpenTelemetry's "Environment Variables as Context Propagation Carriers".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, AnyStr, Final, overload

from ctxruntime.keys import Key
from ctxruntime.wire.baggage import believed, managed, merged
from ctxruntime.wire.tracing import TRACE_NAMES, trace_entries

__all__ = ["changed_env", "child_env", "from_env"]

BAGGAGE: Final = "BAGGAGE"
TRACE: Final = {name.upper(): name for name in TRACE_NAMES}
_NAMES: Final = (BAGGAGE, *TRACE)
_SPELLINGS: Final = (*_NAMES, *map(str.encode, _NAMES))


@overload
def child_env(base: None = None) -> dict[str, str]: ...
@overload
def child_env(base: Mapping[AnyStr, AnyStr]) -> dict[AnyStr, AnyStr]: ...
def child_env(base: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
    """Return a new environment for a child process: `base`, with what is in effect here and nothing stale.

    The bound keys with `wire=True` are entries of `BAGGAGE` under their own names, beside those of others; the span
    that is current is in `TRACEPARENT` and `TRACESTATE`. What `base` says of unbound keys is removed, and so is its
    trace where no span is current. A key with `redact` never leaves. `os.environ` is never written to.

        subprocess.run(command, env=wire.child_env())

    Args:
        base: what the child gets besides; `os.environ` by default.
    """
    base = os.environ if base is None else base
    env = changed_env(base)
    return dict(base) if env is None else env


def changed_env(base: Mapping[Any, Any]) -> dict[Any, Any] | None:
    """Return what `child_env` makes of `base`; None if that is right as it is, as it nearly always is."""
    found = base if base is os.environ else dict(base)
    entries = trace_entries()
    if not (entries or managed() or any(map(found.__contains__, _NAMES if found is os.environ else _SPELLINGS))):
        return None
    before = {name: _texts(found, name) for name in _NAMES}
    after = {name: entries.get(entry, "") for name, entry in TRACE.items()}
    after[BAGGAGE] = merged(",".join(before[BAGGAGE]))
    changes = {name: text for name, text in after.items() if before[name] != ([text] if text else [])}
    if not changes:
        return None
    env = dict(found)
    for name, text in changes.items():
        _put(env, name, text)
    return env


def from_env(environ: Mapping[Any, Any] | None = None, *, trust: Iterable[Key[Any]] = ()) -> dict[Key[Any], object]:
    """Return what this process was told of the keys in `trust` by whoever started it, for `session(...)`.

    As in `extract`, nothing else is believed, and nothing at all by default: an environment is inherited through any
    number of shells and services, and is as trustworthy as all of them.

        with session(wire.from_env(trust=(TENANT,))):

    Args:
        environ: what to read; `os.environ` by default.
        trust: keys, all of them with `wire=True`.

    Raises:
        InvalidValueError: `trust` has a key without `wire=True`.
        UnknownKeyError: `trust` has something that is no key.
    """
    environ = os.environ if environ is None or environ is os.environ else dict(environ)
    return believed(",".join(_texts(environ, BAGGAGE)), trust)


def _spellings(env: Mapping[Any, Any], name: str) -> list[str | bytes]:
    """Return by what an environment has a name: as text, as bytes, as both. The process's own takes text alone."""
    both: tuple[str | bytes, ...] = (name,) if env is os.environ else (name, name.encode())
    return [spelling for spelling in both if spelling in env]


def _texts(env: Mapping[Any, Any], name: str) -> list[str]:
    return [os.fsdecode(env[spelling]) for spelling in _spellings(env, name)]


def _put(env: dict[Any, Any], name: str, text: str) -> None:
    for spelling in _spellings(env, name):
        del env[spelling]
    if text:
        as_bytes = any(isinstance(other, bytes) for other in env)
        env[os.fsencode(name) if as_bytes else name] = os.fsencode(text) if as_bytes else text
