"""Steps of a generator whose body has facts in effect, and its consumer none of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from measuring import Names, Promise, Table, Way

import ctxruntime as ctx
from tables.shared import CHAT, SESSION

AMBIENT: ContextVar[str] = ContextVar("ambient")
STEPS_OF_ONE = 100


def body() -> Iterator[int]:
    yield from range(STEPS_OF_ONE)


def delegating() -> Iterator[int]:
    yield from body()


def by_hand() -> Iterator[int]:
    """Set a variable for each step, and give the consumer its own value back: without `send`, `throw` or `close`."""
    steps = body()
    while True:
        token = AMBIENT.set(SESSION)
        try:
            item = next(steps)
        except StopIteration:
            return
        finally:
            AMBIENT.reset(token)
        yield item


@contextmanager
def ours() -> Iterator[Names]:
    yield {"held": ctx.session(session_id=SESSION, gateway_session_key=CHAT)(body)}


@contextmanager
def plain() -> Iterator[Names]:
    yield {"delegating": delegating, "by_hand": by_hand}


FROM = "yield from"
STEPS: Final = Table(
    "steps",
    f"A generator's {STEPS_OF_ONE} steps, its body in a session",
    (
        Way(FROM, "for item in delegating(): pass", plain),
        Way("by hand: set and reset in each step", "for item in by_hand(): pass", plain),
        Way("ctxruntime, a decorated generator", "for item in held(): pass", ours),
    ),
    (Promise(4.0, "ctxruntime, a decorated generator", FROM, out_of_reach=7.5),),
)
