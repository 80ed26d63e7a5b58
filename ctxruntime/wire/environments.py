"""Baggage and trace context in the environments of child processes.

The names are those of OpenTelemetry's "Environment Variables as Context Propagation Carriers".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, AnyStr, Final, overload

from ctxruntime.keys import Key
from ctxruntime.wire.baggage import believed, merged
from ctxruntime.wire.tracing import TRACE_NAMES, trace_entries

__all__ = ["child_env", "from_env"]

BAGGAGE: Final = "BAGGAGE"


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
    env: dict[Any, Any] = dict(os.environ if base is None else base)
    before = _text(env, BAGGAGE)
    after = merged(before)
    if after != before:
        _put(env, BAGGAGE, after)
    entries = trace_entries()
    for name in TRACE_NAMES:
        _put(env, name.upper(), entries.get(name, ""))
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
    return believed(_text(os.environ if environ is None else environ, BAGGAGE), trust)


def _spellings(env: Mapping[Any, Any], name: str) -> list[str | bytes]:
    return [other for other in env if (os.fsdecode(other) if isinstance(other, bytes) else other) == name]


def _text(env: Mapping[Any, Any], name: str) -> str:
    return ",".join(os.fsdecode(env[spelling]) for spelling in _spellings(env, name))


def _put(env: dict[Any, Any], name: str, text: str) -> None:
    for spelling in _spellings(env, name):
        del env[spelling]
    if text:
        as_bytes = any(isinstance(other, bytes) for other in env)
        env[os.fsencode(name) if as_bytes else name] = os.fsencode(text) if as_bytes else text
