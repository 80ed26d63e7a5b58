"""What each operation means: a pure step from what was looked at to the change to be committed.

A step knows neither stores nor clocks nor other processes. `Board` is what was read, with the changes made on it;
`resolve`, `rotate` and `forget` are the rules; `Board.change` is what a store has to write for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, final

from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores.base import FOREVER, KEY, SESSION, Change, Look, Ref, Row

SLACK: Final = 9 / 8
"""How long a conversation is kept, in times of its promised life: so that it is prolonged now and then, not always."""


class Terms(NamedTuple):
    """What a bridge promises of its conversations."""

    ttl: float | None
    """Seconds that one lives after its last use; None for ever."""
    max_ids: int
    """The most session ids, and the most keys, that are kept of one: the newest."""

    def least_expiry(self, now: float) -> float:
        """Return the expiry below which a conversation that is used now has to be prolonged."""
        return FOREVER if self.ttl is None else now + self.ttl

    def expiry(self, now: float) -> float:
        """Return when a conversation that is used now is gone."""
        return FOREVER if self.ttl is None else now + self.ttl * SLACK


@final
class Draft:
    """A conversation as a step leaves it."""

    __slots__ = ("created", "id", "inherited", "keys", "parent", "root", "sessions", "used", "was")

    def __init__(self, id: str, created: float, was: Conversation | None = None) -> None:
        self.id: str = id
        self.was: Conversation | None = was
        self.used: bool = was is None
        """Whether it is to live for its time from now on."""
        self.keys: list[str] = []
        self.sessions: list[str] = []
        self.parent: str | None = None
        self.root: str = id
        self.inherited: str | None = None
        self.created: float = created

    @classmethod
    def of(cls, was: Conversation) -> Draft:
        """Make it of what is stored."""
        draft = cls(was.id, was.created_at, was)
        draft.keys, draft.sessions = [*was.gateway_keys], [*was.session_ids]
        draft.parent, draft.root, draft.inherited = was.parent, was.root, was.inherited_key
        return draft

    @property
    def gateway_key(self) -> str | None:
        """The key that its sub-agents inherit."""
        return self.keys[-1] if self.keys else self.inherited

    @property
    def refs(self) -> list[Ref]:
        """What points to it."""
        return [*((KEY, key) for key in self.keys), *((SESSION, one) for one in self.sessions)]

    def names(self, ref: Ref) -> list[str]:
        """Return the list that a ref of this kind is in."""
        return self.keys if ref[0] == KEY else self.sessions

    def conversation(self) -> Conversation:
        """Return it as a value."""
        return Conversation(
            self.id, tuple(self.keys), tuple(self.sessions), self.parent, self.root, self.inherited, self.created
        )

    def is_changed(self) -> bool:
        """Tell whether it differs from what is stored."""
        was = self.was
        return was is None or (
            (*was.gateway_keys,) != (*self.keys,)
            or (*was.session_ids,) != (*self.sessions,)
            or (was.parent, was.root, was.inherited_key) != (self.parent, self.root, self.inherited)
        )


@final
class Board:
    """What one look has found, and what the step makes of it."""

    __slots__ = ("absorbed", "asked", "drafts", "found", "gone", "missing", "now", "pointing", "rows", "terms")

    def __init__(
        self, look: Look, asked: Sequence[Ref], known: Callable[[str, Row], Conversation], terms: Terms
    ) -> None:
        self.now: float = look[0]
        self.found: Mapping[Ref, str] = look[1]
        self.rows: Mapping[str, Row] = look[2]
        self.asked: Sequence[Ref] = asked
        self.terms: Terms = terms
        self.drafts: dict[str, Draft] = {id: Draft.of(known(id, row)) for id, row in self.rows.items()}
        self.pointing: dict[Ref, str] = {ref: draft.id for draft in self.drafts.values() for ref in draft.refs}
        self.gone: list[Draft] = []
        self.absorbed: list[tuple[Draft, Draft]] = []
        """Which took over what is kept for which, in order."""
        self.missing: list[str] = []
        """Conversations that the step has to see too: it is taken again, from a look at these as well."""

    def at(self, ref: Ref) -> Draft | None:
        """Return the conversation that lists a key or a session id; None if there is none."""
        id = self.pointing.get(ref)
        return None if id is None else self.drafts[id]

    def make(self, *refs: Ref) -> Draft:
        """Make a conversation."""
        draft = Draft(os.urandom(16).hex(), self.now)
        self.drafts[draft.id] = draft
        for ref in refs:
            self.give(draft, ref)
        return draft

    def give(self, draft: Draft, ref: Ref) -> None:
        """Point a ref to a conversation, as its newest; whose last ref it was cannot be reached, and is removed."""
        holder = self.at(ref)
        if holder is not None:
            holder.names(ref).remove(ref[1])
        names = draft.names(ref)
        names.append(ref[1])
        self.pointing[ref] = draft.id
        for oldest in names[: -self.terms.max_ids]:
            names.remove(oldest)
            del self.pointing[ref[0], oldest]
        if holder not in (None, draft) and ref[0] == KEY and not holder.refs:
            self.drop(holder)

    def absorb(self, draft: Draft, other: Draft) -> None:
        """Make another conversation part of this one: whatever points to it, and whatever is kept for it."""
        self.absorbed.append((draft, other))
        for ref in other.refs:
            other.names(ref).remove(ref[1])
            del self.pointing[ref]
            self.give(draft, ref)
        self.drop(other)

    def drop(self, draft: Draft) -> None:
        """Remove a conversation, and what points to it."""
        for ref in draft.refs:
            del self.pointing[ref]
        del self.drafts[draft.id]
        self.gone.append(draft)

    def is_within(self, draft: Draft, other: Draft) -> bool:
        """Tell whether a conversation is this other one, or has it for an ancestor that lives."""
        above, seen = draft, {draft.id}
        while above is not other:
            if above.parent is None or above.parent in seen:
                return False
            if above.parent not in self.drafts:
                self.missing.append(above.parent)
                return False
            above = self.drafts[above.parent]
            seen.add(above.id)
        return True

    def change(self) -> Change | None:
        """Return what has to be written, without any document; None if all is as it was."""
        rows: dict[str, Row] = {}
        refs: dict[Ref, str] = {}
        for draft in self.drafts.values():
            row, was = self.rows.get(draft.id), draft.was
            prolonged = row is None or (draft.used and row.expires < self.terms.least_expiry(self.now))
            if prolonged or draft.is_changed():
                expires = self.terms.expiry(self.now) if row is None or prolonged else row.expires
                rows[draft.id] = Row(os.urandom(8), expires, draft.conversation().record())
                listed = () if was is None or prolonged else was.refs
                refs |= {ref: draft.id for ref in draft.refs if ref not in listed}
        gone = [draft.id for draft in self.gone if draft.was]
        if not rows and not gone:
            return None
        before = [ref for draft in (*self.drafts.values(), *self.gone) if draft.was for ref in draft.was.refs]
        return Change(
            if_refs={ref: self.found.get(ref) for ref in self.asked},
            if_versions={id: row.version for id, row in self.rows.items()},
            if_docs={},
            rows=rows,
            gone=gone,
            refs=refs,
            no_refs=[ref for ref in before if ref not in self.pointing],
            docs={},
        )


# The rules


def resolve(board: Board, key: str | None, session: str | None) -> Draft:
    """Find or make: a look-up where one is given, a bind where both are."""
    if session is None:
        found = _sought(board, (KEY, key or ""))
    elif key is None:
        found = _sought(board, (SESSION, session))
    else:
        found = _bound(board, key, session)
    found.used = True
    return found


def resolve_child(board: Board, session: str, parent: Ref, key: str | None) -> Draft:
    """Find or make the conversation of a sub-agent, and of its parent: keys never move."""
    elder = _sought(board, parent)
    found = _sought(board, (SESSION, session))
    elder.used = found.used = True
    # The first parent stays, and no ancestor is one's child: of what is made here nothing is a descendant yet.
    if found.parent is None and elder is not found and (found.was is None or not board.is_within(elder, found)):
        found.parent = elder.id
    if found.parent == elder.id:
        found.root = elder.root
        found.inherited = found.inherited or elder.gateway_key or key
    return found


def _sought(board: Board, ref: Ref) -> Draft:
    return board.at(ref) or board.make(ref)


def _bound(board: Board, key: str, session: str) -> Draft:
    """Say that this chat is in this session now."""
    found, before = board.at((SESSION, session)), board.at((KEY, key))
    if found is None:
        # A chat that has no session yet takes its first; an id that nobody explained starts a conversation.
        found = before if before is not None and not before.sessions else board.make()
    elif before is not None and not before.sessions and not found.keys and found.parent is None:
        board.absorb(found, before)  # two halves of one, which were seen apart
    board.give(found, (SESSION, session))
    board.give(found, (KEY, key))
    return found


def rotate(board: Board, key: str | None, old: str | None, new: str | None) -> Draft:
    """Keep the conversation of `old` for `new`, whatever was begun under that."""
    found = resolve(board, key, old)
    if new is None:
        return found
    other = board.at((SESSION, new))
    board.give(found, (SESSION, new))
    if other is not None and not other.sessions:
        board.absorb(found, other)
    return found


def switch(board: Board, key: str | None, old: str | None, new: str | None, *, branch: bool) -> Draft:
    """Put one key into the conversation of `new`, which is made if there is none."""
    elder = None if old is None else board.at((SESSION, old))
    if key is None and elder is not None and len(elder.keys) == 1 and elder.sessions[-1:] == [old]:
        key = elder.keys[0]
    found = _target(board, key, elder, new)
    if branch and found.was is None and elder is not None:
        found.parent, found.root, found.inherited = elder.id, elder.root, elder.gateway_key
    if new is not None:
        board.give(found, (SESSION, new))
    if key is not None:
        board.give(found, (KEY, key))
    found.used = True
    return found


def _target(board: Board, key: str | None, elder: Draft | None, new: str | None) -> Draft:
    if new is not None:
        return board.at((SESSION, new)) or board.make()
    before = None if key is None else board.at((KEY, key))
    # Told again before the new id is known: the key has left the old conversation already.
    if before is not None and not before.sessions and elder is not None:
        return before
    return board.make()


def forget(board: Board) -> Draft | None:
    """Remove the one conversation that was looked at, if there is one."""
    found = next(iter(board.drafts.values()), None)
    if found is not None:
        board.drop(found)
    return found


def keep(board: Board) -> None:
    """Prolong the conversations that were looked at."""
    for draft in board.drafts.values():
        draft.used = True
