"""What conversations and their stores raise: leaves of the one base, each also the builtin one would catch.

No message shows a password: a store names itself by its kind and its place, and nothing else of its URL.
"""

from __future__ import annotations

from ctxruntime.errors import CtxRuntimeError, NoTurnError

__all__ = [
    "ConversationGoneError",
    "MissingClientError",
    "NoConversationError",
    "StateTooLargeError",
    "StoreBusyError",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "StoreVersionError",
]


class MissingClientError(CtxRuntimeError, ImportError):
    """Tell that a store was asked for whose client library an extra of ctxruntime brings, and it is not installed."""

    def __init__(self, extra: str, needs: str) -> None:
        super().__init__(extra, needs)
        self.extra = extra
        self.needs = needs

    def __str__(self) -> str:
        return f"this store needs {self.needs}, which is not installed: pip install 'ctxruntime[{self.extra}]'"


class StoreError(CtxRuntimeError):
    """Tell that a store could not do what was asked of it.

    `store` names the store, `problem` says what happened, and `advice` what to do about it. A call that failed may
    have been done nevertheless.
    """

    def __init__(self, store: str, problem: str, advice: str) -> None:
        super().__init__(store, problem, advice)
        self.store = store
        self.problem = problem
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.store} {self.problem}: {self.advice}"


class StoreUnavailableError(StoreError, ConnectionError):
    """Tell that the store was not to be reached in time."""


class StoreBusyError(StoreUnavailableError):
    """Tell that others held the store, or changed the same conversation again and again, for too long."""


class StoreReadOnlyError(StoreError, PermissionError):
    """Tell that the store may be read, and not written."""


class StoreFullError(StoreError):
    """Tell that there is no room left where the store keeps its data."""


class StoreCorruptError(StoreError):
    """Tell that what is there is no store of ours, or a damaged one. It was not written to."""


class StoreVersionError(StoreError):
    """Tell that the store was made by a newer ctxruntime. It was not written to."""

    def __init__(self, store: str, found: int, known: int) -> None:
        super().__init__(store, f"has schema {found}, and this ctxruntime knows {known}", "upgrade ctxruntime")
        self.found = found
        self.known = known

    def __reduce__(self) -> tuple[type[StoreVersionError], tuple[str, int, int]]:
        return type(self), (self.store, self.found, self.known)


class StateTooLargeError(CtxRuntimeError, ValueError):
    """Tell that a state would take more than it may; nothing was changed. `size` and `limit` are in bytes."""

    def __init__(self, state: str, size: int, limit: int) -> None:
        super().__init__(state, size, limit)
        self.state = state
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"state {self.state!r} would take {self.size} bytes, and may take {self.limit}: keep large things in a "
            f"store of your own, and their names here, or raise max_bytes"
        )


class ConversationGoneError(CtxRuntimeError, LookupError):
    """Tell that a conversation is no more: forgotten, expired, or become part of another."""

    def __init__(self, conversation: str) -> None:
        super().__init__(conversation)
        self.conversation = conversation

    def __str__(self) -> str:
        return (
            f"conversation {self.conversation} is gone (forgotten, expired, or part of another now): resolve its "
            f"session id or gateway key again"
        )


class NoConversationError(NoTurnError):
    """Tell that a conversation was asked for where none is in effect."""

    def __init__(self, wanted: str) -> None:
        super().__init__(wanted)
        self.wanted = wanted

    def __str__(self) -> str:
        return (
            f"{self.wanted} needs a conversation, and none is in effect here: enter session(session_id=...) or "
            f"session(gateway_session_key=...) with conversation.use(bridge) in effect, or name one by at(...)"
        )
