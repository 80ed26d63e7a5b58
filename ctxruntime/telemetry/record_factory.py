"""The stdlib's record factory: fields on every log record of the process, whatever logger or handler."""

from __future__ import annotations

import logging
from _thread import RLock
from collections.abc import Collection, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, final

from ctxruntime.guarding import guard
from ctxruntime.layers import renew_in_child
from ctxruntime.telemetry.fields import PLACEHOLDER, Fields

if TYPE_CHECKING:
    from ctxruntime.keys import Key

__all__ = ["RecordFactory", "install_record_factory"]

_lock = RLock()
renew_in_child(globals(), "_lock")
_guard = guard("log record factory")


@final
class RecordFactory:
    """The factory in place; `install_record_factory` makes it, and `uninstall()` ends it.

    As a context manager it ends when the outermost of its blocks is left.
    """

    __slots__ = ("_depth", "_fields", "_previous", "active")

    active: bool
    """Whether records are stamped; `uninstall` alone ends it."""

    def __init__(self, previous: Any, fields: Fields) -> None:
        self._previous: Final = previous  # Any: typeshed has no type for a factory
        self._fields: Final = fields
        self._depth = 0
        self.active = True

    def __call__(self, *args: object, **kwargs: object) -> logging.LogRecord:
        """Make a record as the factory before this one does, and stamp it."""
        record: logging.LogRecord = self._previous(*args, **kwargs)
        if self.active:
            with _guard:
                self._stamp(record)
        return record

    def uninstall(self) -> None:
        """Put back the factory that was there; again is harmless.

        If somebody has put a factory above this one since, theirs stays, and this one passes every call on.
        """
        with _lock:
            self.active = False
            if logging.getLogRecordFactory() is self:
                logging.setLogRecordFactory(self._previous)

    def __enter__(self) -> RecordFactory:
        with _lock:
            self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        with _lock:
            self._depth -= 1
            if self._depth == 0:
                self.uninstall()

    def _stamp(self, record: logging.LogRecord) -> None:
        before = record.__dict__
        stamped: Collection[str] = self._fields.stamp(before)
        attributes = _Attributes(before)
        # One of ours may have stamped it already, below another library's factory.
        attributes.stamped = {*stamped, *before.stamped} if isinstance(before, _Attributes) else stamped
        record.__dict__ = attributes


def install_record_factory(
    keys: Iterable[Key[Any]] | None = None,
    *,
    placeholder: str = PLACEHOLDER,
) -> RecordFactory:
    """Stamp every log record of the process where it is made: `%(session_id)s` works in every format.

    The record shows what is in effect where the log call is, also when a queue listener handles it in another
    thread. What the caller gives in `extra=` under the same name wins. The factory that was there is called
    first. Installing again while it stands returns the one in place.

    Args:
        keys: the keys to show, each under its name; all that have an attribute's name, unless given.
        placeholder: what is shown for a key that is not bound. A log record processor of ours takes `"-"` and
            `""` for what they are, and leaves them out of what is exported.

    >>> with install_record_factory():
    ...     record = logging.makeLogRecord({"msg": "hello"})
    >>> "%(session_id)s %(msg)s" % vars(record)
    '- hello'
    """
    with _lock:
        previous = logging.getLogRecordFactory()
        if isinstance(previous, RecordFactory) and previous.active:
            return previous
        factory = RecordFactory(previous, Fields(keys, placeholder))
        logging.setLogRecordFactory(factory)
        return factory


@final
class _Attributes(dict[str, Any]):
    """A record's attributes, in which `extra=` may have the names that are stamped.

    `Logger.makeRecord` refuses what is `in record.__dict__` already; everything else that reads a record looks
    its attributes up, or takes them all. A copy of the record, and a pickled one, has a plain dict.
    """

    __slots__ = ("stamped",)

    stamped: Collection[str]
    """The names that may be had; whoever makes one sets it."""

    def __contains__(self, name: object) -> bool:
        return name not in self.stamped and super().__contains__(name)

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)
