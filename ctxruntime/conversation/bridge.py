"""The bridge: which gateway key and session ids are one conversation.

    bridge = Bridge("sqlite:conversations.db")
    bridge.resolve(gateway_session_key="agent:main:discord:dm:7", session_id="20261130_0911_ab12")

What an operation means is a pure step (`steps`); here it is looked at, done and committed, again if others changed
meanwhile what it is based on.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, final

from ctxruntime.conversation import steps
from ctxruntime.conversation.blocking import off_loop
from ctxruntime.conversation.errors import StoreBusyError, StoreCorruptError, StoreError
from ctxruntime.conversation.lifetimes import Lifetimes
from ctxruntime.conversation.merging import with_documents
from ctxruntime.conversation.names import check_name, refs_of
from ctxruntime.conversation.notices import tell_ended, tell_merged
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.steps import Board, Draft, Terms
from ctxruntime.conversation.stores.base import FOREVER, Change, Look, Ref, Row, Store
from ctxruntime.conversation.stores.memory import MemoryStore
from ctxruntime.conversation.stores.opening import open_store

__all__ = ["Bridge"]

MONTH: Final = 30 * 24 * 3600.0
PATIENCE: Final = 20.0
"""Seconds for which a step is tried again, while others change what it is based on, before the store is busy."""

R = TypeVar("R")
D = TypeVar("D", bound=Draft | None)
_LOG: Final = logging.getLogger("ctxruntime")


@final
class Bridge:
    """Know which gateway key and session ids are one conversation, in one namespace of a store.

    One given is a *look-up*: it makes what is missing, and moves nothing. Both given is a *bind*: this chat is in
    this session now; the id becomes `current`, and the key points there. All processes that use one store and
    namespace agree, and every operation is one atomic step. The twins with an `a` are for event loops.

    Args:
        store: where they are kept: None for bounded memory, a URL (`open_store`), or a store object.
        namespace: keeps equal keys of two bots, or two profiles, apart.
        ttl: seconds that a conversation lives after its last use, at least, and 9/8 of it at most; None for ever.
        max_ids: how many session ids, and how many keys, one remembers: the newest.

    Raises:
        InvalidValueError: a key, an id or a name is none that it can be.
        StoreError: from every operation, if the store fails. A call that failed may have been done.

    >>> bridge = Bridge()
    >>> early = bridge.resolve(gateway_session_key="chat-7")
    >>> early == bridge.resolve(gateway_session_key="chat-7", session_id="s1") == bridge.resolve(session_id="s1")
    True
    """

    def __init__(
        self,
        store: Store | str | None = None,
        namespace: str = "default",
        *,
        ttl: float | None = MONTH,
        max_ids: int = 256,
    ) -> None:
        if (ttl is not None and not ttl > 0) or max_ids < 1:
            raise ValueError("ttl is a number of seconds above 0, or None; max_ids is at least 1")
        self.namespace: Final = check_name("namespace", namespace)
        """Where in the store its conversations are."""
        self.store: Final[Store] = _opened(store)
        """The store in use; to close it is its owner's."""
        self._ttl: Final = None if ttl is None or ttl > FOREVER / 2 else ttl  # later than any store can count
        self._terms: Final = Terms(self._ttl, max_ids)
        self._lifetimes: Final = Lifetimes()

    def resolve(
        self,
        *,
        gateway_session_key: str | None = None,
        session_id: str | None = None,
        parent_session_id: str | None = None,
    ) -> Conversation:
        """Find the conversation, or make it; bind the key to the session if both are given.

        A chat that has no session yet takes the first that is bound to it. An id that nobody explained (see
        `rotate`) starts a conversation. With `parent_session_id` the session is a sub-agent's: a conversation of
        its own, which never moves a key.

        Raises:
            TypeError: neither is given, or a parent without its sub-agent.
        """
        refs = refs_of(gateway_session_key, session_id)
        if not refs or (parent_session_id is not None and session_id is None):
            raise TypeError("resolve() takes a gateway_session_key, a session_id, or both; a parent is a session_id's")
        if parent_session_id is not None and session_id is not None:
            (parent,) = refs_of(None, parent_session_id)
            return self.resolve_child(session_id, parent, gateway_session_key)
        look = self.store.look(self.namespace, refs)
        settled = self._settled(look, refs)
        if settled is not None:
            return settled
        return self._done(refs, partial(steps.resolve, key=gateway_session_key, session=session_id), look)

    def resolve_child(self, session_id: str, parent: Ref, gateway_session_key: str | None = None) -> Conversation:
        """Find or make the conversation of a sub-agent that was started in the conversation of `parent`."""
        refs = [*refs_of(gateway_session_key, session_id), parent]
        step = partial(steps.resolve_child, session=session_id, parent=parent, key=gateway_session_key)
        return self._done(refs, step)

    def find(self, *, gateway_session_key: str | None = None, session_id: str | None = None) -> Conversation | None:
        """Return the conversation that `resolve` would find, or None; nothing is changed, and nothing prolonged.

        Raises:
            TypeError: neither is given.
        """
        refs = refs_of(gateway_session_key, session_id)
        if not refs:
            raise TypeError("find() takes a gateway_session_key, a session_id, or both")
        _, pointing, rows = self.store.look(self.namespace, refs)
        for ref in reversed(refs):
            id = pointing.get(ref)
            found = None if id is None else self._parsed(id, rows[id])
            if found is not None and (ref == refs[-1] or not found.session_ids):
                return found
        return None

    def get(self, conversation_id: str) -> Conversation | None:
        """Return a conversation by its own id, as it is now; None if it is gone. Nothing is prolonged."""
        if not (conversation_id.isascii() and conversation_id.isprintable()):
            return None  # no id of ours, and a text that some stores refuse
        row = self.store.look(self.namespace, (), (conversation_id,))[2].get(conversation_id)
        return None if row is None else self._parsed(conversation_id, row)

    def rotate(
        self,
        old: str | None,
        new: str | None,
        *,
        continues: bool,
        gateway_session_key: str | None = None,
        branch: bool = False,
        reason: str | None = None,
    ) -> Conversation:
        """Explain that a session id became another; return the conversation of `new`.

        Args:
            old, new: session ids; None for what is not known yet.
            continues: the conversation goes on under `new` (a compression, a rollback), told before `new` is seen
                or after: what was begun under it is taken over. Otherwise one key moves to the conversation of
                `new`: made if unknown (`/new`), or that which it has (`/resume`).
            gateway_session_key: the key that moves; without, the only one of `old`, and of several none.
            branch: a conversation that is made has that of `old` for its parent.
            reason: what happened, for people who read the logs.

        Raises:
            TypeError: nothing says which conversation is meant.
        """
        refs = refs_of(gateway_session_key, old) + refs_of(None, new)
        if not refs or (continues and gateway_session_key is None and old is None):
            raise TypeError("rotate() takes the old session id, or the gateway_session_key of the conversation")
        if continues:
            step = partial(steps.rotate, key=gateway_session_key, old=old, new=new)
        else:
            step = partial(steps.switch, key=gateway_session_key, old=old, new=new, branch=branch)
        conversation = self._done(refs, step)
        _LOG.debug("conversation %s: a session id rotated (%s)", conversation.id, reason or "no reason given")
        return conversation

    def forget(
        self,
        conversation: Conversation | None = None,
        *,
        session_id: str | None = None,
        gateway_session_key: str | None = None,
    ) -> bool:
        """Delete a conversation, with its ids, keys and state, in one step; return whether there was one.

        Raises:
            TypeError: not exactly one of the three is given.
        """
        refs = refs_of(gateway_session_key, session_id)
        ids = [conversation.id] if conversation is not None else []
        if len(refs) + len(ids) != 1:
            raise TypeError("forget() takes a conversation, a session_id or a gateway_session_key: one of them")
        return self._do(refs, steps.forget, ids=ids) is not None

    def prolong(self, conversation_id: str) -> None:
        """Have a conversation, if it is not gone, live for its time from now on."""
        now, _, rows = look = self.store.look(self.namespace, (), (conversation_id,))
        row = rows.get(conversation_id)
        if row is not None and row.expires < self._terms.least_expiry(now):
            self._do((), steps.keep, ids=[conversation_id], look=look)

    def conversations(self) -> Iterator[Conversation]:
        """Yield the conversations that there are; what changes meanwhile may or may not be among them."""
        for id, row in self.store.rows(self.namespace):
            yield self._parsed(id, row)

    async def aresolve(
        self,
        *,
        gateway_session_key: str | None = None,
        session_id: str | None = None,
        parent_session_id: str | None = None,
    ) -> Conversation:
        """Do what `resolve` does, without blocking the event loop."""
        return await self._awaited(
            partial(
                self.resolve,
                gateway_session_key=gateway_session_key,
                session_id=session_id,
                parent_session_id=parent_session_id,
            )
        )

    async def afind(
        self, *, gateway_session_key: str | None = None, session_id: str | None = None
    ) -> Conversation | None:
        """Do what `find` does, without blocking the event loop."""
        return await self._awaited(partial(self.find, gateway_session_key=gateway_session_key, session_id=session_id))

    async def arotate(
        self,
        old: str | None,
        new: str | None,
        *,
        continues: bool,
        gateway_session_key: str | None = None,
        branch: bool = False,
        reason: str | None = None,
    ) -> Conversation:
        """Do what `rotate` does, without blocking the event loop."""
        return await self._awaited(
            partial(
                self.rotate,
                old,
                new,
                continues=continues,
                gateway_session_key=gateway_session_key,
                branch=branch,
                reason=reason,
            )
        )

    async def aforget(
        self,
        conversation: Conversation | None = None,
        *,
        session_id: str | None = None,
        gateway_session_key: str | None = None,
    ) -> bool:
        """Do what `forget` does, without blocking the event loop."""
        return await self._awaited(
            partial(self.forget, conversation, session_id=session_id, gateway_session_key=gateway_session_key)
        )

    async def _awaited(self, call: Callable[[], R]) -> R:
        return await off_loop(self.store, call)

    def _settled(self, look: Look, refs: Sequence[Ref]) -> Conversation | None:
        """Return the conversation if nothing is to be changed: the one path that must be fast."""
        now, pointing, rows = look
        id = pointing.get(refs[0])
        if id is None or pointing.get(refs[-1]) != id:
            return None
        row = rows[id]
        if row.expires < (FOREVER if self._ttl is None else now + self._ttl):
            return None
        found = self._lifetimes.known.get(row.version) or self._parsed(id, row)
        if len(refs) == 2 and not (
            found.gateway_keys and found.gateway_keys[-1] == refs[0][1] and found.session_ids[-1] == refs[1][1]
        ):
            return None
        return found

    def _done(self, refs: Sequence[Ref], step: Callable[[Board], Draft], look: Look | None = None) -> Conversation:
        draft = self._do(refs, step, look=look)
        return draft.was if draft.was is not None and not draft.is_changed() else draft.conversation()

    def _do(
        self, refs: Sequence[Ref], step: Callable[[Board], D], *, ids: Sequence[str] = (), look: Look | None = None
    ) -> D:
        """Take a step until it is committed with nothing changed of what it is based on.

        Raises:
            StoreBusyError: others changed it again and again.
        """
        give_up = time.monotonic() + PATIENCE
        pause = 0.0005
        while True:
            if look is None:
                look = self.store.look(self.namespace, refs, ids)
            board = Board(look, refs, self._parsed, self._terms)
            result = step(board)
            unseen = [id for id in board.missing if id not in ids]
            if unseen:
                look, ids = None, (*ids, *unseen)
                continue
            change = board.change()
            if change is None:
                return result
            if board.absorbed:
                change = with_documents(self.store, self.namespace, change, board)
            if self.store.commit(self.namespace, change):
                self._tell(board, change)
                return result
            if time.monotonic() > give_up:
                raise StoreBusyError(
                    "the store of conversations",
                    "was changed by others again and again",
                    "try again, with fewer at once",
                )
            look = None
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, 0.05)

    def _tell(self, board: Board, change: Change) -> None:
        """Tell what this process keeps for conversations what became of them."""
        for id, row in change.rows.items():
            self._lifetimes.note(id, row, board.drafts[id].conversation())
        merged = {other.id: draft for draft, other in board.absorbed}
        for draft in board.gone:
            self._lifetimes.end(draft.id)
            if draft.was is not None and draft.id in merged:
                tell_merged(merged[draft.id].conversation(), draft.was)
            elif draft.was is not None:
                tell_ended(draft.was)
        with suppress(StoreError):  # what was asked for is done; the next change looks again
            self._tell_expired(board.now)

    def _tell_expired(self, now: float) -> None:
        overdue = self._lifetimes.overdue(now)
        if not overdue:
            return
        _, _, living = self.store.look(self.namespace, (), list(overdue))
        for id, conversation in overdue.items():
            if id in living:
                self._parsed(id, living[id])
            elif self._lifetimes.end(id):
                tell_ended(conversation)

    def _parsed(self, id: str, row: Row) -> Conversation:
        try:
            return self._lifetimes.parsed(id, row)
        except (ValueError, LookupError, TypeError) as error:
            raise StoreCorruptError(
                "the store of conversations",
                f"holds a record of conversation {id} that is none",
                "move it away and start with a new one, or restore a backup",
            ) from error


def _opened(store: Store | str | None) -> Store:
    if store is None:
        return MemoryStore()
    return open_store(store) if isinstance(store, str) else store
