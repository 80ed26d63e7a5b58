"""Headers and environments: how keys leave the program, and what is believed of those that come in.

Only keys defined with `wire=True` leave, each as an entry of W3C `baggage` under its own name, and never one with
`redact`; `SESSION_ID.wire = True`, set once at start, lets a built-in key leave. Nothing that comes in is believed
but for the keys that the entry point says it trusts.

    TENANT = Key("tenant", wire=True)

    httpx.get(url, headers=wire.inject())                                  # here
    with session(wire.extract(request.headers, trust=(TENANT,))): ...      # there

    subprocess.run(command, env=wire.child_env())                          # here
    with session(wire.from_env(trust=(TENANT,))): ...                      # in the child
"""

from __future__ import annotations

from ctxruntime.wire.environments import child_env, from_env
from ctxruntime.wire.headers import extract, inject

__all__ = ["child_env", "extract", "from_env", "inject"]
