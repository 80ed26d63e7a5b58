"""Which of Hermes's session ids are one conversation.

Hermes's own stores are asked first: they know the chat of a session, and whether it goes on from another one
(a compression), branched off, or is a sub-agent's. The bridge in use is taught what they say before a turn asks
it: the program's own, else one of ours, whose store is a file in the home of Hermes's process, also where that
serves profiles with homes of their own. So what plugins keep for a conversation survives rotations, also those that
nobody watched, and restarts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from threading import Lock
from typing import Final, final

from ctxruntime import GATEWAY_SESSION_KEY, PREVIOUS_SESSION_ID, SESSION_ID, amend, current_turn
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.stores import SQLiteStore, open_store
from ctxruntime.conversation.stores.base import Store
from ctxruntime.conversation.turns import Use, in_use, use
from ctxruntime.guarding import guard
from ctxruntime.layers import renew_in_child

from . import _host, _host_store
from ._options import OPTIONS

__all__ = ["IDENTITY", "child_of", "is_remote", "key_of", "learn", "moved_to", "now_in", "rotated"]

FILE: Final = "ctxruntime.db"
"""Where, in Hermes's home, conversations and what plugins keep for them are, unless an option says otherwise."""
PATIENCE: Final = 1.0
"""Seconds after which a call of our store fails: a gateway's loop may wait for it."""
MOST_LEARNED: Final = 4096
MOST_ANCESTORS: Final = 64

_learning = Lock()
renew_in_child(globals(), "_learning")
_opening: Final = guard("hermes: open the store of conversations")


@final
class Identity:
    """The bridge that we put in use, if nobody else had; and which sessions it was told of."""

    def __init__(self) -> None:
        self._asked = False
        self._use: Use | None = None
        self._store: Store | None = None
        self._learned: OrderedDict[str, None] = OrderedDict()

    def bridge(self) -> Bridge | None:
        """Return the bridge in use; the first call puts one in use if there is none and the option is not "off"."""
        if not self._asked:
            self._start()
        using = in_use()
        return None if using is None else using.bridge

    def stop(self) -> None:
        """Take our bridge out of use and close its store; can be called twice."""
        with _learning:
            using, self._use = self._use, None
            store, self._store = self._store, None
            self._asked = False
            self._learned.clear()
        if using is not None:
            using.stop()
        if store is not None:
            with guard("hermes: close the store of conversations"):
                store.close()

    def is_news(self, session_id: str) -> bool:
        """Tell whether a session was not looked into yet, in this process; of many, the latest are remembered."""
        with _learning:
            news = session_id not in self._learned
            self._learned[session_id] = None
            self._learned.move_to_end(session_id)
            if len(self._learned) > MOST_LEARNED:
                self._learned.popitem(last=False)
        return news

    def forget(self, session_id: str) -> None:
        """Have a session be news again."""
        with _learning:
            self._learned.pop(session_id, None)

    def _start(self) -> None:
        where = "off"
        with _opening:
            if in_use() is None:
                # In an empty context: the first event may be one of a profile with a home of its own.
                where = Context().run(_where)
        with _learning:
            if self._asked:
                return
            with _opening:
                if where != "off" and in_use() is None:
                    self._store = open_store(where, timeout=PATIENCE)
                    self._use = use(Bridge(self._store))
            self._asked = True  # last: what comes in meanwhile waits here, and does not go on without a bridge


def _where() -> str:
    """Return the URL of our store, or "off"."""
    return OPTIONS.store() or f"sqlite:{_host.home() / FILE}"


IDENTITY: Final = Identity()


def is_remote() -> bool:
    """Tell whether the store in use is one to wait for: on a server, and not in memory or in a file here."""
    bridge = IDENTITY.bridge()
    return bridge is not None and bridge.store.blocks and not isinstance(bridge.store, SQLiteStore)


def learn(session_id: str | None) -> None:
    """Teach the bridge what Hermes knows of a session that a turn is about to enter, once in a process."""
    if session_id is not None:
        with guard("hermes: learn of a session"):
            _teach(session_id, lambda bridge: _explain(bridge, session_id, MOST_ANCESTORS))


def _teach(session_id: str, tell: Callable[[Bridge], object]) -> None:
    """Tell the bridge of a session, once in a process; what failed is told again when its store is asked again."""
    bridge, using = IDENTITY.bridge(), in_use()
    if bridge is None or using is None or using.left_alone or not IDENTITY.is_news(session_id):
        return
    try:
        tell(bridge)
    except Exception:
        IDENTITY.forget(session_id)
        raise


def _explain(bridge: Bridge, session_id: str, depth: int) -> None:
    """Tell what a session came from, eldest first."""
    if depth == 0 or bridge.find(session_id=session_id) is not None:
        return
    origin = _host_store.origin_of(session_id)
    if origin is None:
        return
    _explain(bridge, origin.parent, depth - 1)
    if origin.kind == "subagent":
        bridge.resolve(session_id=session_id, parent_session_id=origin.parent)
    else:
        bridge.rotate(
            origin.parent,
            session_id,
            continues=origin.kind == "compression",
            branch=origin.kind == "branch",
            reason=origin.kind,
        )


def moved_to(key: str | None, session_id: str | None) -> None:
    """Teach the bridge that a chat is in another session now, and tell the turn in effect if it is that chat's."""
    if key is None or session_id is None:
        return
    learn(session_id)
    with guard("hermes: a chat is in another session"):
        bridge = IDENTITY.bridge()
        if bridge is not None:
            bridge.resolve(gateway_session_key=key, session_id=session_id)
    now_in(key, session_id)


def now_in(key: str | None, session_id: str | None) -> None:
    """Have the turn in effect be in this session, if it is the chat's turn and says otherwise."""
    here = SESSION_ID.get(None)
    if session_id is None or here == session_id or key is None or GATEWAY_SESSION_KEY.get(None) != key:
        return
    learn(session_id)
    with guard("hermes: the session of a turn"):
        bridge = IDENTITY.bridge()
        if bridge is not None and here == key:  # what stood in for the id before there was one
            bridge.rotate(key, session_id, continues=True, reason="first session")
        amend(session_id=session_id)


def rotated(old: str | None, new: str | None) -> None:
    """Teach the bridge that a session goes on under another id, and tell the turn in effect if it is in that one."""
    if old is None or new is None or old == new:
        return
    with guard("hermes: a session rotated"):
        bridge = IDENTITY.bridge()
        if bridge is not None:
            bridge.rotate(old, new, continues=True, reason="compression")
            IDENTITY.is_news(new)  # it is none from now on
    with guard("hermes: the session of a turn"):
        if current_turn() is not None and SESSION_ID.get(None) == old:
            amend(session_id=new)


def child_of(parent: str, session_id: str) -> None:
    """Teach the bridge that a session is a sub-agent's, which was started in another one."""
    with guard("hermes: the conversation of a sub-agent"):
        _teach(session_id, lambda bridge: bridge.resolve(session_id=session_id, parent_session_id=parent))


def key_of(session_id: str) -> str | None:
    """Return the gateway key of a session's chat: the ambient one if that is it, else as Hermes or the bridge knows."""
    here = GATEWAY_SESSION_KEY.get(None)
    if here is not None and session_id in (SESSION_ID.get(None), PREVIOUS_SESSION_ID.get(None)):
        return here
    with guard("hermes: the chat of a session"):
        key = _host_store.chat_of(session_id)
        if key is None and (bridge := IDENTITY.bridge()) is not None:
            found = bridge.find(session_id=session_id)
            key = None if found is None else found.gateway_key
        with suppress(ValueError):
            return None if key is None else GATEWAY_SESSION_KEY.check(key)
    return None
