"""A connection to Redis that is done within its time, and what its errors mean to us."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from ctxruntime.conversation.errors import (
    MissingClientError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

try:
    from redis import connection, exceptions
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as _missing:
    raise MissingClientError("redis", "redis-py") from _missing

__all__ = ["RedisLink", "SecureRedisLink", "exceptions", "options_of", "translated"]

_CLIENT: Final[Any] = connection
"""The client's connections where they have no types."""


class RedisLink(connection.Connection):
    """A connection whose every answer, those of the login too, has to be there before one point in time."""

    deadline: float = 0.0
    """When that is, by `time.monotonic`."""

    def connected(self, deadline: float) -> RedisLink:
        """Connect before this time, and return itself."""
        self.deadline = deadline
        self.socket_connect_timeout = self.socket_timeout = self.remaining()
        _CLIENT.Connection.connect(self)
        return self

    def ask(self, command: Sequence[Any], deadline: float) -> Any:
        """Return the server's answer to a command, if it is there before this time."""
        self.deadline = deadline
        self._limit()
        _CLIENT.Connection.send_command(self, *command)
        return self.read_response()

    def remaining(self) -> float:
        """Return the seconds that are left; never none, which would mean not to wait at all."""
        return max(0.001, self.deadline - time.monotonic())

    def read_response(self, *args: Any, **options: Any) -> Any:  # Any: the client's own, which differ by version
        """Do what the client does, within the time that is left."""
        self._limit()
        return _CLIENT.Connection.read_response(self, *args, **options)

    def _limit(self) -> None:
        sock: Any = self._sock
        if sock is not None:
            sock.settimeout(self.remaining())

    def fileno(self) -> int:
        """See `pooling.Link`."""
        sock: Any = self._sock
        return -1 if sock is None else sock.fileno()

    def close(self) -> None:
        """See `pooling.Link`."""
        _CLIENT.Connection.disconnect(self)

    def abandon(self) -> None:
        """See `pooling.Link`."""
        self.close()  # says nothing to the server where it was not made


class SecureRedisLink(RedisLink, connection.SSLConnection):
    """One over TLS."""


def options_of(url: str, timeout: float) -> tuple[type[RedisLink], dict[str, Any]]:
    """Return which kind of connection a URL asks for, and how to make it: as the URL says, and as we need it.

    Raises:
        ValueError: it is no such URL. No part of it is shown.
    """
    try:
        found: dict[str, Any] = _CLIENT.parse_url(url)
        kind = SecureRedisLink if found.pop("connection_class", None) else RedisLink
        found.pop("max_connections", None)
        found |= {
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "decode_responses": False,  # versions are bytes
            "health_check_interval": 0,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),  # what is safe to say twice, the store knows
            "retry_on_timeout": False,
        }
        kind(**found)
    except (TypeError, ValueError, exceptions.RedisError):
        raise ValueError(
            "the URL of a Redis is redis://[[USER]:PASSWORD@]HOST[:PORT][/DB][?OPTION=VALUE&…], with the options that "
            "redis-py's connections have"
        ) from None
    return kind, found


_SAID: Final[dict[str, tuple[type[StoreError], str, str]]] = {
    "OOM": (
        StoreFullError,
        "has no memory left",
        "raise its maxmemory (what it evicts is lost)",
    ),
    "MISCONF": (StoreFullError, "cannot save to its disk, and takes no writes", "make room there; its log says more"),
    "READONLY": (StoreReadOnlyError, "is a replica, and takes no writes", "name the primary in the URL"),
    "NOREPLICAS": (StoreReadOnlyError, "has too few replicas, and takes no writes", "start them"),
    "NOPERM": (StoreReadOnlyError, "does not permit this to the user", "give it +@all on the keys ctx:*"),
    "LOADING": (StoreBusyError, "has been started, and loads its data", "try again in a moment"),
    "BUSY": (StoreBusyError, "is held up by a script of somebody's", "try again, or SCRIPT KILL"),
    "MASTERDOWN": (StoreBusyError, "has lost its primary", "try again in a moment"),
    "CLUSTERDOWN": (StoreBusyError, "is a cluster that is down", "try again in a moment"),
    "TRYAGAIN": (StoreBusyError, "is moving keys between nodes", "try again in a moment"),
    "WRONGTYPE": (StoreCorruptError, "has something else where our keys are", "use another DB or namespace"),
}
_LOGIN: Final = ("WRONGPASS", "NOAUTH", "invalid username", "invalid password", "Authentication required")


def translated(error: exceptions.RedisError, place: str, timeout: float) -> StoreError:
    """Return what an error of the client, or the server, is in our words."""
    said = str(error)
    if isinstance(error, exceptions.BusyLoadingError):
        said = "LOADING"  # the client leaves the server's first word out
    elif isinstance(error, exceptions.ReadOnlyError):
        said = "READONLY"
    elif isinstance(error, exceptions.NoPermissionError):
        said = "NOPERM"
    elif isinstance(error, exceptions.OutOfMemoryError):
        said = "OOM"
    kind, problem, advice = _SAID.get(said.partition(" ")[0], (None, "", ""))
    if kind is not None:
        return kind(place, problem, advice)
    if isinstance(error, exceptions.AuthenticationError) or any(text in said for text in _LOGIN):
        return StoreUnavailableError(place, "refused the login", "check the user and the password in the URL")
    if isinstance(error, exceptions.TimeoutError):
        problem = f"did not answer within {timeout:g} s"
        return StoreUnavailableError(place, problem, "see whether it is up, and try again")
    if isinstance(error, exceptions.ConnectionError):
        return StoreUnavailableError(place, "was not to be reached", "see whether it is up, and try again")
    return StoreError(place, f"failed ({type(error).__name__})", "the error that this one comes from says more")
