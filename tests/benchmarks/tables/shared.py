"""The keys that are bound, and the handlers that want them, in every table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from measuring import Names

import ctxruntime as ctx

FIVE: Final = {
    "session_id": "20261130_0911_ab12",
    "gateway_session_key": "agent:main:discord:dm:7",
    "previous_session_id": "20261130_0801_99ff",
    "user_id": "user-7",
    "frontend": "gateway",
}
SESSION, CHAT = FIVE["session_id"], FIVE["gateway_session_key"]


def handler(raw: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
    return raw


async def async_handler(raw: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
    return raw


@contextmanager
def in_a_session() -> Iterator[Names]:
    """Bind two keys."""
    with ctx.session(session_id=SESSION, gateway_session_key=CHAT):
        yield {"s": SESSION, "k": CHAT}
