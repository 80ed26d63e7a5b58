"""A connection to PostgreSQL that is done within its time, and what its errors mean to us."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ctxruntime.conversation.errors import (
    MissingClientError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from ctxruntime.conversation.stores.places import without

try:
    import psycopg
    from psycopg import errors, pq
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.rows import TupleRow, tuple_row
except ImportError as _missing:
    raise MissingClientError("postgres", "psycopg 3 and libpq (psycopg[binary] brings it)") from _missing

if TYPE_CHECKING:
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGconn

__all__ = ["Expired", "PostgresLink", "Target", "errors"]

RV = TypeVar("RV")


class Expired(Exception):
    """The time is over, and nothing was answered."""


class Target:
    """Where a URL leads, and how its errors are told.

    Raises:
        ValueError: it is no such URL. No part of it is shown.
    """

    def __init__(self, url: str, timeout: float) -> None:
        try:
            found: dict[str, Any] = conninfo_to_dict(url)
            for number in str(found.get("port") or 0).split(","):
                int(number or 0)
        except (psycopg.Error, ValueError):
            raise ValueError(
                "the URL of a PostgreSQL is postgresql://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?OPTION=VALUE&…], "
                "with the options that libpq has"
            ) from None
        milliseconds = max(1, int(timeout * 1000))
        settings = {
            # The statements are few and go by an index each: nothing is gained by planning one again.
            "plan_cache_mode": "force_generic_plan",
            **dict.fromkeys(("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"), "off"),
            "default_transaction_isolation": r"read\ committed",
            # The server ends what nobody waits for any more; a lock a little earlier, as that says what it was.
            "statement_timeout": milliseconds,
            "lock_timeout": max(1, milliseconds * 4 // 5),
        }
        options = " ".join([str(found.get("options") or ""), *(f"-c {name}={is_}" for name, is_ in settings.items())])
        self.timeout: Final = timeout
        self._secrets: Final = tuple(str(found[name]) for name in ("password", "sslpassword") if found.get(name))
        known: dict[str, Any] = {"application_name": "ctxruntime", **found, "client_encoding": "utf8"}
        self._conninfo: Final = make_conninfo(**{**known, "options": options.strip()})
        host = found.get("host") or found.get("hostaddr") or os.environ.get("PGHOST") or "localhost"
        port = found.get("port") or os.environ.get("PGPORT") or 5432
        database = found.get("dbname") or os.environ.get("PGDATABASE") or found.get("user") or ""
        self.place: Final = f"PostgreSQL at {host}:{port}/{database}"

    def connected(self, deadline: float) -> PostgresLink:
        """Return a connection, made before this time.

        Raises:
            Expired: it could not be made in time.
            psycopg.OperationalError: it could not be made.
        """
        pgconn = pq.PGconn.connect_start(self._conninfo.encode())
        try:
            state = pq.PollingStatus.READING
            while state != pq.PollingStatus.OK:
                state = _polled(pgconn)
                if state != pq.PollingStatus.OK:
                    _ready(pgconn.socket, 2 if state == pq.PollingStatus.WRITING else 1, deadline)
            pgconn.nonblocking = 1
        except BaseException:
            pgconn.finish()
            raise
        link = PostgresLink(pgconn, tuple_row)
        link.deadline = deadline
        link.autocommit = True
        return link

    def translated(self, error: psycopg.Error | Expired) -> StoreError:
        """Return what an error of the client, or the server, is in our words."""
        if isinstance(error, Expired):
            problem = f"did not answer within {self.timeout:g} s"
            return StoreUnavailableError(self.place, problem, "see whether it is up, and try again")
        for kinds, store_error, problem, advice in _SAID:
            if isinstance(error, kinds):
                return store_error(self.place, problem, advice)
        if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            advice = "see whether it is up, and lets this user in"
            return StoreUnavailableError(self.place, "was not to be reached", advice)
        problem = f"failed ({type(error).__name__})"
        return StoreError(self.place, problem, "the error that this one comes from says more")

    def cleaned(self, error: psycopg.Error | Expired) -> Exception:
        """Return the error, or one like it where it says a password."""
        said = str(error)
        cleaned = without(self._secrets, said)
        return error if cleaned == said else type(error)(cleaned)


class PostgresLink(psycopg.Connection[TupleRow]):
    """A connection whose every wait is over before one point in time; it is finished if that is not enough."""

    deadline: float = 0.0
    """When that is, by `time.monotonic`."""

    def wait(self, gen: PQGen[RV], interval: float = 0.0, timeout: float | None = None) -> RV:
        """Do what the client does, within the time that is left: it has no limit of its own for reading."""
        try:
            wanted = next(gen)
            while True:
                ready: Any = _ready(self.pgconn.socket, wanted, self.deadline)
                wanted = gen.send(ready)
        except StopIteration as done:
            answer: RV = done.value
            return answer
        except (Expired, KeyboardInterrupt):
            self.pgconn.finish()
            raise

    def abandon(self) -> None:
        """See `pooling.Link`."""
        os.close(self.fileno())  # libpq would say goodbye

    def __del__(self, *_: object) -> None:
        """Let it go unclosed, with the store that it was made for."""


def _polled(pgconn: PGconn) -> pq.PollingStatus:
    """Take the next step of connecting; return what it waits for."""
    if pgconn.status != pq.ConnStatus.BAD:
        state = pq.PollingStatus(pgconn.connect_poll())
        if state != pq.PollingStatus.FAILED:
            return state
    raise psycopg.OperationalError(pgconn.error_message.decode("utf-8", "replace").strip())


def _ready(number: int, wanted: int, deadline: float) -> int:
    """Return what of it a socket is ready for: to be read (1), to be written to (2).

    The client's own wait does not tell, in some versions, that nothing came.
    """
    left = max(0.001, deadline - time.monotonic())
    if not hasattr(select, "poll"):
        read, write, _ = select.select([number] * (wanted & 1), [number] * (wanted >> 1), [], left)
        ready = len(read) + 2 * len(write)
    else:
        poll = select.poll()
        poll.register(number, (wanted & 1 and select.POLLIN) | (wanted & 2 and select.POLLOUT))
        found = poll.poll(left * 1000)
        events = found[0][1] if found else 0
        ready = bool(events & ~select.POLLOUT) + 2 * bool(events & select.POLLOUT)
    if not ready:
        raise Expired
    return ready & wanted or wanted  # a broken connection is ready for anything: the client finds out


_Kinds = tuple[type[Exception], ...]
_SAID: Final[tuple[tuple[_Kinds, type[StoreError], str, str], ...]] = (
    ((errors.DiskFull,), StoreFullError, "has no room left on its disk", "make room there"),
    (
        (errors.ReadOnlySqlTransaction,),
        StoreReadOnlyError,
        "is a standby or read-only, and takes no writes",
        "name the primary in the URL (target_session_attrs=read-write finds it among several)",
    ),
    (
        (errors.InsufficientPrivilege,),
        StoreReadOnlyError,
        "does not permit this to the user",
        "have the schema made for it (CREATE SCHEMA ctxruntime AUTHORIZATION user), or grant it all on the tables",
    ),
    (
        (errors.LockNotAvailable, errors.QueryCanceled, errors.SerializationFailure, errors.DeadlockDetected),
        StoreBusyError,
        "was held by others for too long",
        "try again, with fewer at once",
    ),
    (
        (errors.TooManyConnections, errors.OutOfMemory, errors.CannotConnectNow, errors.ConfigurationLimitExceeded),
        StoreBusyError,
        "has too much to do",
        "try again in a moment, or give it more connections, locks or memory",
    ),
    (
        (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName, errors.InvalidTableDefinition),
        StoreCorruptError,
        "has a schema ctxruntime that is none of ours, or a part of one",
        "move it away (ALTER SCHEMA ctxruntime RENAME TO old), or restore a backup",
    ),
    (
        (errors.DataCorrupted, errors.IndexCorrupted),
        StoreCorruptError,
        "has damaged data",
        "restore a backup",
    ),
    (
        (errors.UntranslatableCharacter, errors.CharacterNotInRepertoire),
        StoreError,
        "has a database that cannot hold every text",
        "make one with ENCODING 'UTF8'",
    ),
)
