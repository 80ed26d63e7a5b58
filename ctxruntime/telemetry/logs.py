"""The keys on every log line: for the stdlib's logging, structlog and loguru.

    install_record_factory()                        # logging: "%(session_id)s" in every format
    handler.addFilter(SessionFilter())              # logging: the same for one handler
    structlog.configure(processors=[structlog_processor(), ...])
    loguru.logger.configure(patcher=loguru_patcher())           # "{extra[session_id]}"

Fields have the keys' own names, and values as on spans, redaction included. What the caller gave wins. Each of
these reads what is in effect where it runs: put it where the log call is, not behind a queue. For OpenTelemetry's
log records, see `log_records`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, Final, final

from ctxruntime.guarding import guard
from ctxruntime.telemetry.fields import PLACEHOLDER, Fields
from ctxruntime.telemetry.record_factory import RecordFactory, install_record_factory

if TYPE_CHECKING:
    from ctxruntime.keys import Key

__all__ = [
    "PLACEHOLDER",
    "RecordFactory",
    "SessionFilter",
    "install_record_factory",
    "loguru_patcher",
    "structlog_processor",
]


@final
class SessionFilter(logging.Filter):
    """Stamp the records that pass, and let all of them pass.

    On a handler it serves every logger that the handler gets records of; on a logger only what is logged to that
    very logger, not to its children, which is how the stdlib applies filters. With a queue it belongs on the
    `QueueHandler`, which runs where the log call is; behind the listener there is nothing left to read.

    Args:
        keys: the keys to show, each under its name; all that have an attribute's name, unless given.
        placeholder: what is shown for a key that is not bound, so that no format ever fails.

    >>> record = logging.makeLogRecord({"msg": "hello"})
    >>> SessionFilter().filter(record), "%(session_id)s %(msg)s" % vars(record)
    (True, '- hello')
    """

    def __init__(
        self,
        keys: Iterable[Key[Any]] | None = None,
        *,
        placeholder: str = PLACEHOLDER,
    ) -> None:
        super().__init__()
        self._fields: Final = Fields(keys, placeholder)

    def filter(self, record: logging.LogRecord) -> bool:
        """Stamp the record with what it does not have yet, and let it pass."""
        with _in_filter:
            self._fields.stamp(record.__dict__)
        return True


def structlog_processor(
    keys: Iterable[Key[Any]] | None = None,
) -> Callable[[Any, str, MutableMapping[str, Any]], MutableMapping[str, Any]]:
    """Return a structlog processor that adds what is bound to the event; what is not bound is left out.

    Args:
        keys: the keys to show, each under its name; all that have an attribute's name, unless given.

    >>> structlog_processor()(None, "info", {"event": "hello"})
    {'event': 'hello'}
    """
    fields = Fields(keys)

    def add_keys(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        with _in_processor:
            for name, value in fields.known().items():
                event.setdefault(name, value)
        return event

    return add_keys


def loguru_patcher(
    keys: Iterable[Key[Any]] | None = None,
    *,
    placeholder: str = PLACEHOLDER,
) -> Callable[[Any], None]:
    """Return a loguru patcher, which puts the keys into `record["extra"]`: format them as `{extra[session_id]}`.

    It serves both `logger.configure(patcher=...)` and `logger.patch(...)`, with `enqueue=True` too.

    Args:
        keys: the keys to show, each under its name; all that have an attribute's name, unless given.
        placeholder: what is shown for a key that is not bound, so that no format ever fails.

    >>> record = {"extra": {}}
    >>> loguru_patcher()(record)
    >>> record["extra"]["session_id"]
    '-'
    """
    fields = Fields(keys, placeholder)

    def patch(record: Any) -> None:
        with _in_patcher:
            fields.stamp(record["extra"])

    return patch


_in_filter, _in_processor, _in_patcher = guard("log filter"), guard("structlog processor"), guard("loguru patcher")
