"""What ctxruntime raises: one base, few leaves, each also the builtin one would catch.

Every leaf keeps its data as attributes and its arguments as they were given, so that
errors survive pickling on their way out of a process pool. No message shows a value.
"""

from __future__ import annotations


class CtxRuntimeError(Exception):
    """Be the base of everything that ctxruntime raises on purpose."""


class UnboundKeyError(CtxRuntimeError, LookupError):
    """Tell that a key was read which nothing in effect binds.

    `handler` and `location` (``file:line``) are there when a handler required the key.
    """

    def __init__(self, key: str, handler: str | None = None, location: str | None = None) -> None:
        super().__init__(key, handler, location)
        self.key = key
        self.handler = handler
        self.location = location

    def __str__(self) -> str:
        if self.handler is None:
            return (
                f"key {self.key!r} is not bound here: enter session({self.key}=...) at the entry "
                f"point, or read it with a default"
            )
        return (
            f"handler {self.handler} ({self.location}) requires key {self.key!r}, which is not "
            f"bound here: enter session({self.key}=...) around the call, or give the parameter "
            f"a default"
        )


class InvalidValueError(CtxRuntimeError, ValueError, TypeError):
    """Tell that a value, or a definition, is not one that a key can hold.

    The value itself is never part of the message: it may be a secret.
    """

    def __init__(self, key: str, reason: str, advice: str) -> None:
        super().__init__(key, reason, advice)
        self.key = key
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        return f"key {self.key!r} {self.reason}: {self.advice}"


class UnknownKeyError(CtxRuntimeError, TypeError):
    """Tell that a name was used as a key's which no key has."""

    def __init__(self, name: str, advice: str) -> None:
        super().__init__(name, advice)
        self.name = name
        self.advice = advice

    def __str__(self) -> str:
        return f"no key is called {self.name!r}: {self.advice}"


class DuplicateKeyError(CtxRuntimeError, ValueError):
    """Tell that two keys of one name were defined, and not alike."""

    def __init__(self, name: str, differs: str) -> None:
        super().__init__(name, differs)
        self.name = name
        self.differs = differs

    def __str__(self) -> str:
        return (
            f"key {self.name!r} is defined already, with another {self.differs}: import that "
            f"one, or choose another name"
        )


class NoTurnError(CtxRuntimeError, RuntimeError):
    """Tell that a key was amended which no scope in effect binds, outside any turn."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return (
            f"key {self.key!r} cannot be amended here: no scope in effect binds it and no turn "
            f"is in effect; enter session(...) at the entry point first"
        )
