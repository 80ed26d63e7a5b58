"""What checkers know of headers and environments."""

from __future__ import annotations

import os
from typing import Any, assert_type

import ctxruntime as ctx
from ctxruntime import wire

TENANT = ctx.Key("typing_wire_tenant", wire=True)
raw: list[tuple[bytes, bytes]] = []
headers: dict[str, str] = {}

assert_type(wire.inject(), dict[str, str])
assert_type(wire.inject(headers), dict[str, str])
assert_type(wire.inject(raw), list[tuple[bytes, bytes]])
assert_type(wire.extract(headers), dict[ctx.Key[Any], object])
assert_type(wire.extract(raw, trust=(TENANT,)), dict[ctx.Key[Any], object])

assert_type(wire.child_env(), dict[str, str])
assert_type(wire.child_env(os.environ), dict[str, str])
assert_type(wire.child_env({b"A": b"b"}), dict[bytes, bytes])
assert_type(wire.from_env(), dict[ctx.Key[Any], object])

with ctx.session(wire.extract(headers, trust=[TENANT]), session_id="s1"):
    pass
with ctx.session(wire.from_env(trust={TENANT})):
    pass

wire.inject("baggage")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
wire.extract(headers, trust=TENANT)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
