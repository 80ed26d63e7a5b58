"""The stdlib's log records show what is in effect where the log call is."""

from __future__ import annotations

import copy
import io
import logging
import logging.config
import logging.handlers
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.telemetry import set_hash_key
from ctxruntime.telemetry.logs import RecordFactory, SessionFilter, install_record_factory
from ctxruntime.telemetry.redaction import hashed

SECRET = ctx.Key("log_secret", str, attributes="log.secret", redact="drop")
HASHED = ctx.Key("log_hashed", str, attributes="log.hashed", redact="hash")
SINCE = ctx.Key("log_since", datetime, attributes="log.since")
UNSHOWN = ctx.Key("log_unshown", str)
MODULE = ctx.Key("module", str, attributes="log.module")


class Kept(logging.Handler):
    """Keeps what a formatter of the given format makes of each record, and the records."""

    def __init__(self, fmt: str = "%(session_id)s %(message)s") -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(fmt))
        self.lines: list[str] = []
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))
        self.records.append(record)


@pytest.fixture(autouse=True)
def the_factory_is_left_as_it_was() -> Iterator[None]:
    before = logging.getLogRecordFactory()
    yield
    assert logging.getLogRecordFactory() is before


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Iterator[logging.Logger]:
    log = logging.getLogger(f"test_logs.{request.node.name}")
    log.propagate = False
    yield log
    log.handlers.clear()
    log.filters.clear()


@pytest.fixture(params=["filter", "factory"])
def stamped(request: pytest.FixtureRequest) -> Iterator[Callable[[logging.Handler], None]]:
    """Give what makes records of a handler stamped: by a filter on it, or by the factory."""
    if request.param == "filter":
        yield lambda handler: handler.addFilter(SessionFilter())
    else:
        with install_record_factory():
            yield lambda handler: None


Stamped = Callable[[logging.Handler], None]


def test_a_record_shows_the_session_of_its_log_call(log: logging.Logger, stamped: Stamped) -> None:
    """A record shows the session in effect where it was logged: its turn's, its neighbour's, or none."""
    kept = Kept()
    log.addHandler(kept)
    stamped(kept)

    with ctx.session(session_id="s1"):
        log.warning("one")
        with ctx.bind(session_id="child"):
            log.warning("two")
        ctx.amend(session_id="s2")
        log.warning("three")
    log.warning("four")

    assert kept.lines == ["s1 one", "child two", "s2 three", "- four"]


def test_no_format_of_a_key_raises_when_nothing_is_bound(log: logging.Logger, stamped: Stamped) -> None:
    """Every key that telemetry shows has a field in every record, in each style of format."""
    percent = Kept("%(session_id)s|%(gateway_session_key)s|%(previous_session_id)s|%(user_id)s|%(frontend)s")
    brace, dollar = Kept(), Kept()
    brace.setFormatter(logging.Formatter("{session_id}|{log_since}", style="{"))
    dollar.setFormatter(logging.Formatter("$session_id|$log_secret", style="$"))
    for handler in (percent, brace, dollar):
        log.addHandler(handler)
        stamped(handler)

    log.warning("x")

    assert percent.lines + brace.lines + dollar.lines == ["-|-|-|-|-", "-|-", "-|-"]


def test_the_placeholder_can_be_chosen(log: logging.Logger) -> None:
    """What is shown for a key that is not bound is the filter's or the factory's `placeholder`."""
    kept, other = Kept(), Kept()
    kept.addFilter(SessionFilter(placeholder="none"))
    log.addHandler(kept)

    log.warning("x")
    log.removeHandler(kept)
    log.addHandler(other)
    with install_record_factory(placeholder=""):
        log.warning("x")

    assert kept.lines + other.lines == ["none x", " x"]


def test_what_the_caller_gives_in_extra_wins(log: logging.Logger, stamped: Stamped) -> None:
    """`extra=` under the name of a key raises no KeyError, and is what the record shows."""
    kept = Kept("%(session_id)s %(user_id)s %(frontend)s")
    log.addHandler(kept)
    stamped(kept)

    with ctx.session(session_id="s1", user_id="u1", frontend="web"):
        log.warning("x", extra={"session_id": "mine", "user_id": None})
        logging.LoggerAdapter(log, {"frontend": "adapter"}).warning("y")

    assert kept.lines == ["mine None web", "s1 u1 adapter"]


def test_extra_of_a_name_that_the_stdlib_refuses_is_refused_still(log: logging.Logger) -> None:
    """Only our own names may be overwritten: the stdlib's guard holds for its own, also for a key named alike."""
    with install_record_factory(), pytest.raises(KeyError, match="Attempt to overwrite 'module'"):
        log.warning("x", extra={"module": "mine"})


def test_a_key_called_like_an_attribute_of_records_changes_no_record(log: logging.Logger, stamped: Stamped) -> None:
    """A record's own attributes stay what they are, though a key has the name of one."""
    kept = Kept("%(module)s")
    log.addHandler(kept)
    stamped(kept)

    with ctx.session(session_id="s1", module="m1"):
        log.warning("x")

    assert kept.lines == ["test_logs"]


@pytest.mark.parametrize("where", ["factory", "queue handler", "logger"])
def test_a_queue_listener_shows_the_session_of_the_log_call(log: logging.Logger, where: str) -> None:
    """Case 25: behind a QueueHandler, the record still shows the session that it was logged in."""
    kept, records = Kept(), queue.SimpleQueue[logging.LogRecord]()
    handler = logging.handlers.QueueHandler(records)
    log.addHandler(handler)
    listener = logging.handlers.QueueListener(records, kept)

    def log_something() -> None:
        with ctx.session(session_id="s1"):
            log.warning("hello %s", "you")
        with ctx.session(session_id="s2"):
            log.warning("mine", extra={"session_id": "mine"})

    listener.start()
    if where == "factory":
        with install_record_factory():
            log_something()
    else:
        (handler if where == "queue handler" else log).addFilter(SessionFilter())
        log_something()
    listener.stop()

    assert kept.lines == ["s1 hello you", "mine mine"]


def test_a_filter_behind_the_queue_keeps_what_was_stamped_in_front(log: logging.Logger) -> None:
    """A filter that runs in the listener's thread, itself in another session, changes no record that has its fields."""
    kept, records = Kept(), queue.SimpleQueue[logging.LogRecord]()
    kept.addFilter(SessionFilter())
    log.addHandler(logging.handlers.QueueHandler(records))

    with install_record_factory(), ctx.session(session_id="s1"):
        log.warning("in")
        log.warning("mine", extra={"session_id": "mine"})
    with install_record_factory():
        log.warning("out")
    with ctx.session(session_id="s2"):
        while not records.empty():
            kept.handle(records.get())

    assert kept.lines == ["s1 in", "mine mine", "- out"]


def test_a_handler_of_a_parent_logger_stamps_the_records_of_its_children(log: logging.Logger, stamped: Stamped) -> None:
    """Where a handler sits on a parent, records of its child loggers are stamped as its own are."""
    kept = Kept()
    log.addHandler(kept)
    stamped(kept)

    with ctx.session(session_id="s1"):
        log.getChild("plugin").warning("child")
        log.warning("parent")

    assert kept.lines == ["s1 child", "s1 parent"]


def test_a_handler_of_a_child_logger_stamps_for_its_parents_handlers_too(log: logging.Logger) -> None:
    """With the factory, handlers of the child and of the parent get the record stamped alike."""
    above, below = Kept(), Kept()
    log.addHandler(above)
    child = log.getChild("plugin")
    child.addHandler(below)

    with install_record_factory(), ctx.session(session_id="s1"):
        child.warning("x")
    child.handlers.clear()

    assert (above.lines, below.lines) == (["s1 x"], ["s1 x"])


def test_a_filter_of_a_logger_serves_that_logger_alone(log: logging.Logger) -> None:
    """The stdlib runs a logger's filters for what is logged to that very logger, which a filter of ours cannot mend."""
    kept = Kept("%(message)s")
    log.addHandler(kept)
    log.addFilter(SessionFilter())

    with ctx.session(session_id="s1"):
        log.warning("parent")
        log.getChild("plugin").warning("child")

    assert [hasattr(record, "session_id") for record in kept.records] == [True, False]


def test_threads_and_pools_log_under_their_starters_session(log: logging.Logger, stamped: Stamped) -> None:
    """With `install()`, what a thread or a pool's job logs shows the session that started it."""
    kept = Kept()
    log.addHandler(kept)
    stamped(kept)

    with ctx.install(), ThreadPoolExecutor(1) as pool:
        for session_id in ("s1", "s2"):
            with ctx.session(session_id=session_id):
                thread = threading.Thread(target=log.warning, args=("thread",))
                thread.start()
                thread.join()
                pool.submit(log.warning, "job").result()
        pool.submit(log.warning, "job").result()

    assert kept.lines == ["s1 thread", "s1 job", "s2 thread", "s2 job", "- job"]


def test_a_key_redacted_by_dropping_is_in_no_record(log: logging.Logger, stamped: Stamped) -> None:
    """A value with `redact="drop"` is nowhere in a record; its field shows the placeholder."""
    kept = Kept("%(log_secret)s %(message)s")
    log.addHandler(kept)
    stamped(kept)

    with ctx.session({SECRET: "hunter2"}, session_id="s1"):
        log.warning("x")

    assert kept.lines == ["- x"]
    assert "hunter2" not in repr(vars(kept.records[0]))


def test_a_key_redacted_by_hashing_shows_its_hash(
    log: logging.Logger, stamped: Stamped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value with `redact="hash"` shows as spans show it, and itself nowhere."""
    monkeypatch.setattr("ctxruntime.telemetry.redaction._given", [])
    set_hash_key("of the deployment")
    kept = Kept("%(log_hashed)s")
    log.addHandler(kept)
    stamped(kept)

    with ctx.session({HASHED: "hunter2"}, session_id="s1"):
        log.warning("x")

    assert kept.lines == [hashed("hunter2")]
    assert "hunter2" not in repr(vars(kept.records[0]))


def test_fields_have_the_values_that_spans_have(log: logging.Logger, stamped: Stamped) -> None:
    """A value that is no text is shown as on spans: a time in ISO 8601."""
    kept = Kept("%(log_since)s")
    log.addHandler(kept)
    stamped(kept)

    with ctx.session({SINCE: datetime(2026, 11, 30, tzinfo=UTC)}):
        log.warning("x")

    assert kept.lines == ["2026-11-30T00:00:00+00:00"]


def test_a_key_without_an_attributes_name_is_shown_if_it_is_asked_for(log: logging.Logger) -> None:
    """By default the keys are shown that telemetry shows; `keys=` names others, and those alone."""
    default, asked = Kept("%(message)s"), Kept("%(log_unshown)s")
    default.addFilter(SessionFilter())
    with ctx.session({UNSHOWN: "u"}, session_id="s1"):
        log.addHandler(default)
        log.warning("x")
        log.removeHandler(default)
        asked.addFilter(SessionFilter([UNSHOWN]))
        log.addHandler(asked)
        log.warning("x")

    assert asked.lines == ["u"]
    assert not hasattr(default.records[0], "log_unshown")
    assert not hasattr(asked.records[0], "session_id")


def test_what_is_no_key_is_refused() -> None:
    """`keys=` takes Key objects, and says so."""
    with pytest.raises(ctx.UnknownKeyError, match="a Key object is expected"):
        SessionFilter(["session_id"])  # type: ignore[list-item]  # the point


def test_a_key_defined_later_is_shown(log: logging.Logger, stamped: Stamped) -> None:
    """A key that a plugin defines after logging was set up has its field."""
    kept = Kept("%(message)s")
    log.addHandler(kept)
    stamped(kept)
    log.warning("before")

    name = f"log_late_{uuid4().hex}"
    late = ctx.Key(name, str, attributes="log.late")
    with ctx.session({late: "now"}):
        log.warning("after")

    assert [getattr(record, name, "no field") for record in kept.records] == ["no field", "now"]


def test_the_filter_can_be_named_in_a_config(log: logging.Logger) -> None:
    """`logging.config.dictConfig` makes the filter, with its options."""
    stream = io.StringIO()
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"keys": {"()": "ctxruntime.telemetry.logs.SessionFilter", "placeholder": "none"}},
            "formatters": {"plain": {"format": "%(session_id)s %(message)s"}},
            "handlers": {
                "out": {
                    "class": "logging.StreamHandler",
                    "stream": stream,
                    "filters": ["keys"],
                    "formatter": "plain",
                }
            },
            "loggers": {log.name: {"handlers": ["out"]}},
        }
    )

    log.warning("x")

    assert stream.getvalue() == "none x\n"


# The record factory


def test_uninstalling_puts_the_very_factory_back_that_was_there() -> None:
    """After `uninstall()`, called twice, the factory is the object it was."""
    before = logging.getLogRecordFactory()
    factory = install_record_factory()

    assert logging.getLogRecordFactory() is factory
    factory.uninstall()
    factory.uninstall()

    assert logging.getLogRecordFactory() is before
    assert not factory.active


def test_installing_twice_is_installing_once() -> None:
    """A second installation is the first, and the outermost block ends it."""
    before = logging.getLogRecordFactory()

    with install_record_factory() as first:
        with install_record_factory() as second:
            assert second is first
        assert logging.getLogRecordFactory() is first

    assert logging.getLogRecordFactory() is before


def test_a_factory_of_somebody_else_is_called_first_and_kept(log: logging.Logger) -> None:
    """What another factory makes, of its own class and with its own attributes, is what is stamped."""

    class Theirs(logging.LogRecord):
        pass

    kept = Kept("%(session_id)s %(theirs)s")
    log.addHandler(kept)
    before = logging.getLogRecordFactory()

    def theirs(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = Theirs(*args, **kwargs)
        record.theirs = "t"
        return record

    logging.setLogRecordFactory(theirs)
    with install_record_factory(), ctx.session(session_id="s1"):
        log.warning("x")

    assert logging.getLogRecordFactory() is theirs
    logging.setLogRecordFactory(before)
    assert (kept.lines, type(kept.records[0])) == (["s1 t"], Theirs)


def test_a_factory_put_above_ours_stays_and_ours_stops_stamping(log: logging.Logger) -> None:
    """Uninstalled below another library's factory, ours passes records on as they are."""
    kept = Kept("%(message)s")
    log.addHandler(kept)
    before = logging.getLogRecordFactory()
    ours = install_record_factory()

    def theirs(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = ours(*args, **kwargs)
        record.theirs = "t"
        return record

    logging.setLogRecordFactory(theirs)
    log.warning("both")
    ours.uninstall()
    log.warning("theirs")
    assert logging.getLogRecordFactory() is theirs
    logging.setLogRecordFactory(before)

    assert [hasattr(record, "session_id") for record in kept.records] == [True, False]
    assert [hasattr(record, "theirs") for record in kept.records] == [True, True]


def test_two_of_ours_with_another_between_let_extra_win(log: logging.Logger) -> None:
    """Where somebody's factory stands between two of ours, what is stamped once is stamped once, and extra wins."""
    kept = Kept()
    log.addHandler(kept)
    with install_record_factory() as below:

        def theirs(*args: Any, **kwargs: Any) -> logging.LogRecord:
            return below(*args, **kwargs)

        logging.setLogRecordFactory(theirs)
        with install_record_factory(placeholder="above"), ctx.session(user_id="u1"):
            log.warning("stamped")
            log.warning("given", extra={"session_id": "mine"})
        logging.setLogRecordFactory(below)

    assert kept.lines == ["- stamped", "mine given"]


def test_an_error_of_another_factory_is_the_hosts() -> None:
    """What the factory before ours raises reaches whoever makes a record."""
    before = logging.getLogRecordFactory()

    def broken(*args: Any, **kwargs: Any) -> logging.LogRecord:
        raise LookupError("theirs")

    logging.setLogRecordFactory(broken)
    with install_record_factory(), pytest.raises(LookupError, match="theirs"):
        logging.makeLogRecord({})
    logging.setLogRecordFactory(before)


def test_a_fault_of_ours_loses_no_record(log: logging.Logger) -> None:
    """A record that cannot be stamped is logged as it is, and the fault is counted."""

    class Sealed(logging.LogRecord):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "__dict__":
                raise TypeError("sealed")
            super().__setattr__(name, value)

    kept = Kept("%(message)s")
    log.addHandler(kept)
    before = logging.getLogRecordFactory()
    counted = fault_counts().get("log record factory", 0)
    logging.setLogRecordFactory(Sealed)
    with install_record_factory():
        log.warning("x")
    logging.setLogRecordFactory(before)

    assert kept.lines == ["x"]
    assert fault_counts()["log record factory"] > counted


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))])
def test_copies_of_a_record_have_plain_attributes(take: Callable[[logging.LogRecord], logging.LogRecord]) -> None:
    """A copied or pickled record has a plain dict with every field, so that a process without us can read it."""
    with install_record_factory(), ctx.session(session_id="s1"):
        record = logging.makeLogRecord({"msg": "x"})

    taken = take(record)

    assert type(vars(taken)) is dict
    assert vars(taken)["session_id"] == "s1"
    assert b"ctxruntime" not in pickle.dumps(record)


def test_a_record_that_came_over_a_socket_keeps_its_senders_session() -> None:
    """`logging.makeLogRecord` of what another process sent shows that process's session."""
    sent = {"msg": "x", "session_id": "theirs"}

    with install_record_factory(), ctx.session(session_id="s1"):
        record = logging.makeLogRecord(sent)

    assert vars(record)["session_id"] == "theirs"


def test_a_stamped_record_reads_like_any_other() -> None:
    """Attribute access, `vars`, `hasattr` and assignment see the fields."""
    with install_record_factory(), ctx.session(session_id="s1"):
        record: Any = logging.makeLogRecord({})

    assert (record.session_id, hasattr(record, "session_id"), dict(vars(record))["session_id"]) == ("s1", True, "s1")
    record.session_id = "s2"
    assert vars(record).get("session_id") == "s2"


def test_threads_that_log_at_once_show_each_their_own(log: logging.Logger, stamped: Stamped) -> None:
    """Records of eight threads at once show each its own session."""
    kept = Kept("%(session_id)s %(message)s")
    log.addHandler(kept)
    stamped(kept)
    together = threading.Barrier(8)

    def serve(number: int) -> None:
        together.wait()
        for _ in range(50):
            with ctx.session(session_id=f"s{number}"):
                log.warning("s%d", number)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(kept.lines) == 400
    assert all(shown == said for shown, said in (line.split() for line in kept.lines))


def test_importing_the_logs_imports_no_opentelemetry_sdk_and_no_third_party_logger() -> None:
    """The stdlib's part needs neither the SDK nor structlog nor loguru."""
    program = (
        "import sys, ctxruntime.telemetry.logs\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('opentelemetry', 'structlog', 'loguru')])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_the_factory_is_made_by_its_installation() -> None:
    """`install_record_factory` gives the handle that ends it."""
    with install_record_factory() as factory:
        assert isinstance(factory, RecordFactory)
