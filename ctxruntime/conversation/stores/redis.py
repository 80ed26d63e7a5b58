"""Conversations in Redis, for several processes and machines: every call is one script, which runs alone.

No key outlives its conversation: all of them expire with it, by the server's clock. Needs the extra `redis`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, final
from urllib.parse import quote

from ctxruntime.conversation.errors import StoreBusyError
from ctxruntime.conversation.stores import redis_scripts
from ctxruntime.conversation.stores.base import NO_DOC, Change, Doc, Look, Ref, Row
from ctxruntime.conversation.stores.places import TIMEOUT, checked, checked_timeout
from ctxruntime.conversation.stores.pooling import Pool
from ctxruntime.conversation.stores.redis_wire import RedisLink, exceptions, options_of, translated

__all__ = ["RedisStore"]

BATCH: Final = 500
"""How many conversations are listed at a time."""
VERSION: Final = 8
"""How many bytes of a stored document are its version."""


@final
class _Script:
    """A script, and the name by which a server knows it that has run it once."""

    __slots__ = ("source", "summed")

    def __init__(self, source: str) -> None:
        self.source: Final = source.encode()
        self.summed: Final = hashlib.sha1(self.source, usedforsecurity=False).hexdigest().encode()


_LOOK: Final = _Script(redis_scripts.LOOK)
_COMMIT: Final = _Script(redis_scripts.COMMIT)
_PUT_DOC: Final = _Script(redis_scripts.PUT_DOC)
_DOCS: Final = _Script(redis_scripts.DOCS)


_Check: TypeAlias = Callable[[Any], bool]


def _always(answer: object) -> bool:
    return True


def _is_written(answer: int) -> bool:
    """Tell whether a document is there: if it is not, a first attempt may have been written, and changed since."""
    return answer == 1


@final
class RedisStore:
    """Keep conversations in a Redis server, which every process that reaches it shares.

    A call that may be made twice is, if its connection breaks; a `commit` is not. Nothing acknowledged is lost by a
    crash of the server if it runs with `appendonly yes`, and by a loss of power with `appendfsync always`. Its
    `maxmemory-policy` is to be `noeviction`: what it evicts is lost, and may be a part of a conversation.

    Args:
        url: `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]`, or `rediss://` for TLS; redis-py's options after a `?`.
        timeout: seconds within which a call fails if the server does not answer.

    Raises:
        MissingClientError: redis-py is not installed.
        ValueError: this is no such URL, or no such timeout.
    """

    blocks: ClassVar[bool] = True

    def __init__(self, url: str, *, timeout: float = TIMEOUT) -> None:
        self._timeout: Final = checked_timeout(timeout)
        self._kind, self._options = options_of(checked(url), timeout)
        host, port = self._options.get("host", "localhost"), self._options.get("port", 6379)
        self._place: Final = f"Redis at {host}:{port}/{self._options.get('db', 0)}"
        self._pool: Final[Pool[RedisLink]] = Pool(lambda deadline: self._kind(**self._options).connected(deadline))
        self._prefixes: Final[dict[str, bytes]] = {}

    def look(self, namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
        """See `base.Store`."""
        prefix = self._prefix(namespace)
        keys = [_key(prefix, ref) for ref in refs]
        answer = self._run(_LOOK, keys, [prefix, *map(_text, ids)])
        end = len(refs) + 2
        found: dict[Ref, str] = {}
        for ref, id in zip(refs, answer[2:end], strict=True):
            if id is not None:
                found[ref] = id.decode()
        rows: dict[str, Row] = {}
        for at in range(end, len(answer), 4):
            id, version, expires, record = answer[at : at + 4]
            rows[id.decode()] = Row(version, float(expires), record.decode())
        return int(answer[0]) + int(answer[1]) / 1e6, found, rows

    def commit(self, namespace: str, change: Change) -> bool:
        """See `base.Store`. It is tried once: a second attempt could not tell the first one from somebody else."""
        prefix = self._prefix(namespace)
        return bool(self._run(_COMMIT, [prefix], [prefix, *_checks(change), *_writes(change)], told_twice=None))

    def get_doc(self, namespace: str, conversation: str, name: str) -> Doc | None:
        """See `base.Store`."""
        prefix, id = self._prefix(namespace), _text(conversation)
        answer = self._run(_DOCS, [prefix + b"d:" + id], [prefix, id, name])
        return None if answer is None else _docs(answer).get(name, NO_DOC)

    def put_doc(self, namespace: str, conversation: str, name: str, doc: Doc, was: bytes | None) -> bool | None:
        """See `base.Store`."""
        prefix, id = self._prefix(namespace), _text(conversation)
        arguments = [prefix, id, name, doc.version or b"", doc.body, was or b""]
        answer = self._run(_PUT_DOC, [prefix + b"d:" + id], arguments, told_twice=_is_written)
        return None if answer < 0 else _is_written(answer)

    def docs(self, namespace: str, conversation: str) -> Mapping[str, Doc]:
        """See `base.Store`."""
        prefix, id = self._prefix(namespace), _text(conversation)
        return _docs(self._run(_DOCS, [prefix + b"d:" + id], [prefix, id]) or [])

    def rows(self, namespace: str) -> Iterator[tuple[str, Row]]:
        """See `base.Store`."""
        start = self._prefix(namespace) + b"c:"
        seen: set[bytes] = set()  # a scan may find the same again
        cursor = b"0"
        while True:
            # What is quoted holds none of the characters that a pattern gives a meaning to.
            cursor, keys = self._ask(["SCAN", cursor, "MATCH", start + b"*", "COUNT", BATCH])
            new = set(keys) - seen
            seen |= new
            ids = [key.removeprefix(start).decode() for key in new]
            yield from self.look(namespace, (), ids)[2].items() if ids else ()
            if cursor == b"0":
                return

    def close(self) -> None:
        """See `base.Store`."""
        self._pool.close()

    def _prefix(self, namespace: str) -> bytes:
        """Return what all keys of a namespace begin with; quoted, it cannot reach into another's."""
        prefix = self._prefixes.get(namespace)
        if prefix is None:
            prefix = self._prefixes[namespace] = b"ctx:{%s}:" % quote(namespace, safe="").encode()
        return prefix

    def _run(
        self, script: _Script, keys: Sequence[bytes], arguments: Sequence[Any], *, told_twice: _Check | None = _always
    ) -> Any:
        """Run a script, by its name if the server knows it; return its answer. See `_ask`."""
        try:
            return self._ask(["EVALSHA", script.summed, len(keys), *keys, *arguments], told_twice=told_twice)
        except _UnknownScript:
            return self._ask(["EVAL", script.source, len(keys), *keys, *arguments], told_twice=told_twice)

    def _ask(self, command: Sequence[Any], *, told_twice: _Check | None = _always) -> Any:
        """Return the server's answer; where the connection broke, that to a second attempt.

        `told_twice` tells whether a second answer says all, whatever became of the first attempt; without, there is
        no second one.

        Raises:
            StoreError: there is none in time, or it is an error.
        """
        deadline = time.monotonic() + self._timeout
        try:
            try:
                return self._answer(command, deadline)
            except exceptions.TimeoutError:
                raise
            except exceptions.ConnectionError:
                if told_twice is None or time.monotonic() > deadline:
                    raise
                answer = self._answer(command, deadline)
                if told_twice(answer):
                    return answer
                raise
        except exceptions.NoScriptError:
            raise _UnknownScript from None
        except exceptions.RedisError as error:
            raise translated(error, self._place, self._timeout) from error

    def _answer(self, command: Sequence[Any], deadline: float) -> Any:
        link = self._pool.take(deadline)
        if link is None:
            raise StoreBusyError(self._place, "has all our connections in use", "try again, with fewer threads at once")
        try:
            answer = link.ask(command, deadline)
        except exceptions.ResponseError:
            self._pool.give(link)  # it has answered
            raise
        except BaseException:
            self._pool.drop(link)
            raise
        self._pool.give(link)
        return answer


class _UnknownScript(Exception):
    """The server has not run it yet."""


def _text(name: str) -> bytes:
    """Return a text as a key holds it; nothing is stored of what is no text, and so it is just not there."""
    return name.encode("utf-8", "surrogatepass")


def _key(prefix: bytes, ref: Ref) -> bytes:
    return b"%s%s:%s" % (prefix, ref[0].encode(), ref[1].encode())


def _docs(answer: Sequence[bytes]) -> dict[str, Doc]:
    pairs = zip(answer[::2], answer[1::2], strict=True)
    return {name.decode(): Doc(doc[:VERSION], doc[VERSION:].decode()) for name, doc in pairs}


def _checks(change: Change) -> Iterator[Any]:
    for ref, was in change.if_refs.items():
        yield from ("ref?", _key(b"", ref), was or b"")
    for id, version in change.if_versions.items():
        yield from ("conv?", id, version)
    for id, versions in change.if_docs.items():
        yield from ("docs?", id, len(versions))
        for name, version in versions.items():
            yield from (name, version)


def _writes(change: Change) -> Iterator[Any]:
    for id in change.gone:
        yield from ("conv-", id)
    for ref in change.no_refs:
        yield from ("ref-", _key(b"", ref))
    for id, row in change.rows.items():
        yield from ("conv", id, row.version, repr(row.expires), row.record)
    for ref, id in change.refs.items():
        yield from ("ref", _key(b"", ref), id)
    for id, docs in change.docs.items():
        for name, doc in docs.items():
            yield from ("doc", id, name, (doc.version or b"") + doc.body.encode())
