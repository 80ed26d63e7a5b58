"""The two names that a host takes from ctxruntime, and what hosts have in their place today.

A host of your own writes `ctx.session` and `ctx.adapt` where this one writes `host.session` and `host.adapt`:
it has them exchangeable only to show what happens without.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

import ctxruntime as ctx
from ctxruntime.demo.plugins import Handler


@dataclass(frozen=True, slots=True)
class Wiring:
    """How a host lets events in, and how it keeps handlers."""

    session: Callable[..., AbstractContextManager[object]]
    adapt: Callable[[Handler], Handler]


@contextmanager
def _no_session(**keys: str | None) -> Generator[None]:
    yield


def _as_it_is(handler: Handler) -> Handler:
    return handler


def _adapted(handler: Handler) -> Handler:
    return ctx.adapt(handler)


WITHOUT: Final = Wiring(session=_no_session, adapt=_as_it_is)
"""What hosts do today: call `handler(raw_args)`."""

WITH: Final = Wiring(session=ctx.session, adapt=_adapted)
"""The whole of adopting ctxruntime."""

NOT_INJECTED: Final = Wiring(session=ctx.session, adapt=_as_it_is)
"""Half of it: the session is there to be read, but no handler is given it."""
