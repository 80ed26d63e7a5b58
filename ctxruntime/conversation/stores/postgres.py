"""Conversations in PostgreSQL, for several processes and machines: one round trip for every call.

What has expired, by the server's clock, is not seen any more, and swept a few at a time. Needs the extra `postgres`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, final

from ctxruntime.conversation.errors import StoreBusyError, StoreVersionError
from ctxruntime.conversation.stores import postgres_sql as sql
from ctxruntime.conversation.stores.base import NO_DOC, Change, Doc, Look, Ref, Row
from ctxruntime.conversation.stores.places import TIMEOUT, checked, checked_timeout
from ctxruntime.conversation.stores.pooling import Pool
from ctxruntime.conversation.stores.postgres_sql import fold, folded, stripe
from ctxruntime.conversation.stores.postgres_wire import Expired, PostgresLink, Target, errors

__all__ = ["PostgresStore"]

_Answer: TypeAlias = list[tuple[Any, ...]]
_Call: TypeAlias = Callable[[PostgresLink], _Answer]
_UNDONE: Final = (errors.SerializationFailure, errors.DeadlockDetected, errors.ForeignKeyViolation)
"""What the server says when it has undone all of a transaction for the sake of another one."""


def _always(answer: _Answer) -> bool:
    return True


def _is_written(answer: _Answer) -> bool:
    """Tell whether a document is there: if it is not, a first attempt may have been written, and changed since."""
    return bool(answer[0][0])


@final
class PostgresStore:
    """Keep conversations in a PostgreSQL (12 or newer), which every process that reaches it shares.

    They are in a schema `ctxruntime` of the database, which is made at the first use. A call that may be made twice
    is, if its connection breaks; a `commit` is not. Nothing acknowledged is lost by a crash of the server.

    Args:
        url: `postgresql://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`; libpq's options after a `?`.
        timeout: seconds within which a call fails if the server does not answer.

    Raises:
        MissingClientError: psycopg is not installed.
        ValueError: this is no such URL, or no such timeout.
    """

    blocks: ClassVar[bool] = True

    def __init__(self, url: str, *, timeout: float = TIMEOUT) -> None:
        self._target: Final = Target(checked(url), checked_timeout(timeout))
        self._pool: Final = Pool(self._target.connected)
        self._is_made = False

    def look(self, namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
        """See `base.Store`."""
        ns = fold(namespace)
        asked: list[object] = []
        for at, ref in enumerate(refs):
            asked += (at, folded(ref))
        ids = [id for id in ids if _is_text(id)]
        statement, values = sql.look(len(refs), len(ids)), (*asked, *ids, ns, ns)
        answer = self._run(lambda link: _fetch(link, statement, values))
        found: dict[Ref, str] = {}
        rows: dict[str, Row] = {}
        for _, at, id, version, expires, record in answer:
            if id is not None:
                rows[id] = Row(version, expires, record)
                if at >= 0:
                    found[refs[at]] = id
        return answer[0][0], found, rows

    def commit(self, namespace: str, change: Change) -> bool:
        """See `base.Store`. It is tried again where the server has undone it, and not where nobody knows."""
        ns = fold(namespace)
        values = (ns, _stripes(ns, change), json.dumps(_document(change), ensure_ascii=False))
        answer = self._run(lambda link: _fetch(link, sql.COMMIT, values), told_twice=None)
        return bool(answer[0][0])

    def get_doc(self, namespace: str, conversation: str, name: str) -> Doc | None:
        """See `base.Store`."""
        if not _is_text(conversation):
            return None
        values = (fold(name), fold(namespace), conversation)
        answer = self._run(lambda link: _fetch(link, sql.GET_DOC, values))
        for version, body in answer:
            return NO_DOC if version is None else Doc(version, body)
        return None

    def put_doc(self, namespace: str, conversation: str, name: str, doc: Doc, was: bytes | None) -> bool | None:
        """See `base.Store`."""
        if not _is_text(conversation):
            return None
        ns = fold(namespace)
        values = (ns, stripe(ns, conversation), conversation, fold(name), name, doc.version, doc.body, was)
        answer = self._run(lambda link: _fetch(link, sql.PUT_DOC, values), told_twice=_is_written)
        is_written: bool | None = answer[0][0]
        return is_written

    def docs(self, namespace: str, conversation: str) -> Mapping[str, Doc]:
        """See `base.Store`."""
        if not _is_text(conversation):
            return {}
        values = (fold(namespace), conversation)
        answer = self._run(lambda link: _fetch(link, sql.DOCS, values))
        return {name: Doc(version, body) for name, version, body in answer}

    def rows(self, namespace: str) -> Iterator[tuple[str, Row]]:
        """See `base.Store`."""
        batch = self._batch(namespace, "")
        while batch:
            for id, version, expires, record in batch:
                yield id, Row(version, expires, record)
            batch = self._batch(namespace, batch[-1][0])

    def _batch(self, namespace: str, after: str) -> _Answer:
        values = (fold(namespace), after)
        return self._run(lambda link: _fetch(link, sql.ROWS, values))

    def close(self) -> None:
        """See `base.Store`."""
        self._pool.close()

    def _run(self, run: _Call, *, told_twice: Callable[[_Answer], bool] | None = _always) -> _Answer:
        """Return what `run` returns for a connection; where it broke, for a second one.

        `told_twice` tells whether a second answer says all, whatever became of the first attempt; without, there is
        no second one.

        Raises:
            StoreError: there was no answer in time, or it was an error.
        """
        deadline = time.monotonic() + self._target.timeout
        broken: errors.Error | Expired | None = None
        while True:
            try:
                answer = self._tried(run, deadline)
                if broken is None or (told_twice is not None and told_twice(answer)):
                    return answer
                raise broken
            except (errors.Error, Expired) as error:
                is_over = time.monotonic() > deadline
                if isinstance(error, _UNDONE) and not is_over:
                    time.sleep(random.uniform(0, 0.002))
                elif told_twice is not None and broken is None and not is_over and _is_broken(error):
                    broken = error
                else:
                    raise self._target.translated(error) from self._target.cleaned(error)

    def _tried(self, run: _Call, deadline: float) -> _Answer:
        link = self._pool.take(deadline)
        if link is None:
            place = self._target.place
            raise StoreBusyError(place, "has all our connections in use", "try again, with fewer threads at once")
        try:
            link.deadline = deadline
            if not self._is_made:
                self._make(link)
            result = run(link)
        except BaseException:
            self._pool.drop(link)
            raise
        self._pool.give(link)
        return result

    def _make(self, link: PostgresLink) -> None:
        """Make the schema, if there is none, or see that it is one that we know."""
        has_tables, is_made = _fetch(link, sql.IS_MADE, ())[0]
        found = _fetch(link, sql.VERSION, ())[0][0] if has_tables else 0
        if found > sql.SCHEMA:
            raise StoreVersionError(self._target.place, found, sql.SCHEMA)
        if not is_made:
            with link.transaction():
                for statement in sql.MAKE:
                    link.execute(statement)
        self._is_made = True


def _fetch(link: PostgresLink, statement: Any, values: Sequence[object]) -> list[tuple[Any, ...]]:
    return link.execute(statement, values, prepare=True, binary=True).fetchall()


def _is_broken(error: Exception) -> bool:
    """Tell whether it was the connection that failed, and not what was asked: such an error has no code."""
    return isinstance(error, errors.OperationalError) and (error.sqlstate or "57P").startswith("57P")


def _is_text(id: str) -> bool:
    """Tell whether a conversation can have this id: what is no text in this database is just not there."""
    return "\0" not in id and not any("\ud800" <= character <= "\udfff" for character in id)


def _stripes(ns: str, change: Change) -> list[int]:
    """Return the locks of all that a change names: what is not there cannot be locked itself."""
    refs = {*change.if_refs, *change.refs, *change.no_refs}
    ids = {*change.if_versions, *change.if_docs, *change.rows, *change.gone, *change.docs}
    return sorted({stripe(ns, folded(ref)) for ref in refs} | {stripe(ns, id) for id in ids})


def _document(change: Change) -> dict[str, list[Any]]:
    """Return a change as the function reads it."""
    parts: dict[str, list[Any]] = {
        "if_refs": [{"name": folded(ref), "id": id} for ref, id in change.if_refs.items()],
        "if_versions": [{"id": id, "version": version.hex()} for id, version in change.if_versions.items()],
        "if_docs": [
            {"id": id, "docs": {name: version.hex() for name, version in docs.items()}}
            for id, docs in change.if_docs.items()
        ],
        "rows": [
            {"id": id, "version": row.version.hex(), "expires": row.expires, "record": row.record}
            for id, row in change.rows.items()
        ],
        "gone": list(change.gone),
        "refs": [{"name": folded(ref), "id": id} for ref, id in change.refs.items()],
        "no_refs": [folded(ref) for ref in change.no_refs],
        "docs": [
            {"id": id, "folded": fold(name), "name": name, "version": (doc.version or b"").hex(), "body": doc.body}
            for id, docs in change.docs.items()
            for name, doc in docs.items()
        ],
    }
    return {name: part for name, part in parts.items() if part}
