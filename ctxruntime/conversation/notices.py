"""Who is told that a conversation ended here, or became part of another: what this process keeps for it."""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable
from typing import Final, Protocol

from ctxruntime.conversation.records import Conversation
from ctxruntime.guarding import guard
from ctxruntime.layers import renew_in_child

__all__ = ["REMEMBERED", "Watcher", "kept_of", "tell_ended", "tell_merged", "watch"]

REMEMBERED: Final = 1000
"""How many merges are remembered, the newest ones."""


class Watcher(Protocol):
    """What is told, in the flow of the bridge's call, after the store has done it. No lock is held."""

    def merged(self, kept: Conversation, other: Conversation) -> None:
        """Take note that `other` is part of `kept` from now on."""
        ...

    def ended(self, conversation: Conversation) -> None:
        """Take note that a conversation was forgotten, or has expired."""
        ...


_WATCHERS: Final[list[Watcher]] = []
_MERGED: Final[dict[str, str]] = {}
"""What became part of another in this process, and of which: by id, the oldest first."""
_remembering = RLock()
renew_in_child(globals(), "_remembering")
_telling: Final = guard("conversation: who is told of its end")


def watch(watcher: Watcher) -> Callable[[], None]:
    """Have `watcher` told of every bridge's conversations; return what ends that, which can be called twice."""
    _WATCHERS.append(watcher)

    def stop() -> None:
        if watcher in _WATCHERS:
            _WATCHERS.remove(watcher)

    return stop


def tell_merged(kept: Conversation, other: Conversation) -> None:
    """Tell that `other` is part of `kept` from now on, after `kept_of` says so."""
    with _remembering:
        _MERGED[other.id] = kept.id
        if len(_MERGED) > REMEMBERED:
            del _MERGED[next(iter(_MERGED))]
    for watcher in _WATCHERS.copy():
        with _telling:
            watcher.merged(kept, other)


def kept_of(id: str) -> str:
    """Return which conversation this one is part of, as far as that was done here lately; itself, if of none.

    Whoever keeps something for a conversation asks so under the lock that its `merged` takes too: an id that was
    found before a merge may be used after it.
    """
    while id in _MERGED:
        id = _MERGED.get(id, id)
    return id


def tell_ended(conversation: Conversation) -> None:
    """Tell that a conversation is no more."""
    for watcher in _WATCHERS.copy():
        with _telling:
            watcher.ended(conversation)
