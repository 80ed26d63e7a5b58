"""Who is told that a conversation ended here, or became part of another: what this process keeps for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ctxruntime.conversation.records import Conversation
from ctxruntime.guarding import guard

__all__ = ["Watcher", "tell_ended", "tell_merged", "watch"]


class Watcher(Protocol):
    """What is told, in the flow of the bridge's call, after the store has done it. No lock is held."""

    def merged(self, kept: Conversation, other: Conversation) -> None:
        """Take note that `other` is part of `kept` from now on."""
        ...

    def ended(self, conversation: Conversation) -> None:
        """Take note that a conversation was forgotten, or has expired."""
        ...


_WATCHERS: Final[list[Watcher]] = []
_telling: Final = guard("conversation: who is told of its end")


def watch(watcher: Watcher) -> Callable[[], None]:
    """Have `watcher` told of every bridge's conversations; return what ends that, which can be called twice."""
    _WATCHERS.append(watcher)

    def stop() -> None:
        if watcher in _WATCHERS:
            _WATCHERS.remove(watcher)

    return stop


def tell_merged(kept: Conversation, other: Conversation) -> None:
    """Tell that `other` is part of `kept` from now on."""
    for watcher in _WATCHERS.copy():
        with _telling:
            watcher.merged(kept, other)


def tell_ended(conversation: Conversation) -> None:
    """Tell that a conversation is no more."""
    for watcher in _WATCHERS.copy():
        with _telling:
            watcher.ended(conversation)
