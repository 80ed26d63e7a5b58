"""The hop contract, thread by thread: what a flow that is started as a thread has in effect."""

from __future__ import annotations

import _thread
import functools
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.hops import threads
from ctxruntime.hops.install import Installation, install

HOSTS: ContextVar[str] = ContextVar("threads_hosts", default="unset")


def seen() -> Any:
    return ctx.SESSION_ID.get(None)


class Reading(threading.Thread):
    """A thread that answers what it saw."""

    answer: Any = "never ran"

    def run(self) -> None:
        self.answer = seen()


def read_in(start: Callable[[Callable[[], None]], threading.Thread], read: Callable[[], Any] = seen) -> Any:
    """Return what `read` gives in the thread that `start` starts with a target."""
    answers: list[Any] = []
    start(lambda: answers.append(read())).join(10)
    return answers[0]


def thread(target: Callable[[], None]) -> threading.Thread:
    started = threading.Thread(target=target)
    started.start()
    return started


def timer(target: Callable[[], None]) -> threading.Thread:
    started = threading.Timer(0.01, target)
    started.start()
    return started


@pytest.mark.usefixtures("installed")
def test_thread() -> None:
    """A thread has the state of the flow that started it, whole, and its own turn's late facts."""
    HOSTS.set("whole")
    with ctx.session(session_id="a") as turn:
        assert read_in(thread) == "a"
        assert read_in(thread, HOSTS.get) == "whole"
        assert read_in(thread, ctx.current_turn) is turn
        assert read_in(thread, lambda: ctx.amend(user_id="u1")) is None
        assert ctx.USER_ID.get() == "u1"
    assert read_in(thread) is None


def test_thread_explicitly() -> None:
    """`carry(target)` takes the keys along without any patch."""
    with ctx.session(session_id="a"):
        assert read_in(lambda target: thread(ctx.carry(target))) == "a"
        assert read_in(lambda target: timer(ctx.carry(target))) == "a"


@pytest.mark.usefixtures("installed")
def test_thread_subclass_that_overrides_run() -> None:
    """A subclass is carried whatever it overrides."""
    with ctx.session(session_id="a"):
        reading = Reading()
        reading.start()
    reading.join(10)

    assert reading.answer == "a"


@pytest.mark.usefixtures("installed")
def test_thread_built_in_a_turn_and_started_outside() -> None:
    """What counts is where a thread is started: built in a turn and started outside, it has nothing."""
    with ctx.session(session_id="a"):
        reading = Reading()
    reading.start()
    reading.join(10)

    assert reading.answer is None


@pytest.mark.usefixtures("installed")
def test_thread_built_in_one_turn_and_started_in_another() -> None:
    """What counts is where a thread is started, not where it was built."""
    with ctx.session(session_id="a"):
        reading = Reading()
    with ctx.session(session_id="b"):
        reading.start()
    reading.join(10)

    assert reading.answer == "b"


@pytest.mark.usefixtures("installed")
def test_timer() -> None:
    """A timer has the keys of the flow that started it, and nothing else of its context."""
    HOSTS.set("not carried")
    with ctx.session(session_id="a"):
        built = threading.Timer(0.01, lambda: None)
        assert read_in(timer) == "a"
        if not getattr(sys.flags, "thread_inherit_context", False):  # there every thread has it natively
            assert read_in(timer, HOSTS.get) == "unset"
    built.start()
    built.join(10)


@pytest.mark.usefixtures("installed")
def test_timer_after_its_turn_has_ended() -> None:
    """A timer that fires late still has its own session, which it can see to have ended."""
    late: list[Any] = []
    done = threading.Event()

    def fire() -> None:
        turn = ctx.current_turn()
        late.append((seen(), turn is not None and turn.ended))
        done.set()

    with ctx.session(session_id="a"):
        threading.Timer(0.05, fire).start()
    with ctx.session(session_id="b"):
        assert done.wait(10)

    assert late == [("a", True)]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", [name for name in ("start_new_thread", "start_new") if hasattr(_thread, name)])
def test_start_new_thread(name: str) -> None:
    """A thread that is started below `threading` has the state of the flow that started it."""
    answers: list[Any] = []
    done = threading.Event()

    def work(value: str, *, named: str) -> None:
        answers.append((seen(), value, named))
        done.set()

    with ctx.session(session_id="a"):
        getattr(_thread, name)(work, ("positional",), {"named": "keyword"})
    assert done.wait(10)

    assert answers == [("a", "positional", "keyword")]


@pytest.mark.usefixtures("installed")
def test_start_new_thread_refuses_what_it_refused() -> None:
    """What the original refuses is refused by the original."""
    start: Any = _thread.start_new_thread
    with pytest.raises(TypeError, match="callable"):
        start(None, ())
    with pytest.raises(TypeError, match="tuple"):
        start(seen, [])


class Arguments(tuple[Any, ...]):
    """A tuple of the host's own."""


@pytest.mark.usefixtures("installed")
def test_start_new_thread_takes_any_tuple() -> None:
    """A subclass of tuple is arguments to the original, and so to us."""
    target = Named("target")
    with ctx.session(session_id="a"):
        _thread.start_new_thread(target, Arguments())
    assert target.done.wait(10)

    assert target.answers == ["a"]


@pytest.mark.usefixtures("installed")
def test_a_fault_of_ours_starts_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where carrying fails, a thread is started as it was without us."""
    before = sum(fault_counts().values())
    done = threading.Event()

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken, ctx.session(session_id="a"):
        broken.setattr(threads, "copied_context", fail)
        thread(lambda: None).join(10)
        _thread.start_new_thread(done.set, ())
    assert done.wait(10)

    assert sum(fault_counts().values()) == before + 2


@pytest.mark.usefixtures("installed")
def test_run_without_start() -> None:
    """`run()` that is called instead of started runs in the flow of its caller."""
    with ctx.session(session_id="a"):
        built = Reading()
    with ctx.session(session_id="b"):
        built.run()

    assert built.answer == "b"


@pytest.mark.usefixtures("installed")
def test_run_of_a_started_thread_called_again() -> None:
    """Nothing of a start stays on the thread: its `run` and `start` are its class's."""
    with ctx.session(session_id="a"):
        reading = Reading()
        reading.start()
        reading.join(10)
    with ctx.session(session_id="b"):
        reading.run()

    assert reading.answer == "b"
    assert not {"run", "start", "_bootstrap"} & set(vars(reading))


@pytest.mark.usefixtures("installed")
def test_thread_that_cannot_be_started_twice() -> None:
    """Starting again is the error that it was, and changes nothing."""
    with ctx.session(session_id="a"):
        started = thread(lambda: None)
        started.join(10)
        with pytest.raises(RuntimeError, match="once"):
            started.start()

    assert "_bootstrap" not in vars(started)


@pytest.mark.usefixtures("installed")
def test_thread_that_could_not_start_is_started_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that failed leaves nothing behind: the next one counts."""
    native = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"

    def full(*args: object, **kwargs: object) -> None:
        raise RuntimeError("can't start new thread")

    reading = Reading()
    with ctx.session(session_id="a"), monkeypatch.context() as patched:
        patched.setattr(threading, native, full)
        with pytest.raises(RuntimeError, match="can't start"):
            reading.start()
    with ctx.session(session_id="b"):
        reading.start()
    reading.join(10)

    assert reading.answer == "b"


@pytest.mark.usefixtures("installed")
def test_nested_threads() -> None:
    """Threads that start threads hand on what they have, at any depth."""

    def nested(depth: int) -> Any:
        return read_in(thread, (lambda: nested(depth - 1)) if depth else seen)

    with ctx.session(session_id="a"), ctx.bind(session_id="child"):
        assert nested(4) == "child"


@pytest.mark.usefixtures("installed")
def test_threading_excepthook(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook for what a thread did not catch sees the keys of the thread that failed."""
    failed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: failed.append((seen(), args.exc_type)))

    def fail() -> None:
        raise LookupError

    with ctx.session(session_id="a"):
        thread(fail).join(10)
        timer(fail).join(10)

    assert failed == [("a", LookupError), ("a", LookupError)]


@pytest.mark.usefixtures("installed")
def test_thread_that_is_let_go_keeps_nothing_alive() -> None:
    """A thread that has run and is let go leaves no cycle, and keeps no turn alive."""
    gc.collect()
    gc.disable()
    try:
        with ctx.session(session_id="a") as turn:
            started = thread(lambda: None)
            started.join(10)
        left = weakref.ref(started), weakref.ref(turn)
        del started, turn
        assert [reference() for reference in left] == [None, None]
    finally:
        gc.enable()


@pytest.mark.usefixtures("installed")
def test_thread_that_is_kept_keeps_no_turn_alive() -> None:
    """A thread object that a host keeps when it has run holds nothing of what it was born with."""
    with ctx.session(session_id="a") as turn:
        kept = thread(lambda: None)
        kept.join(10)
    left = weakref.ref(turn)
    del turn
    for _ in range(1000):  # the thread may be in its last line still
        if left() is None:
            break
        threading.Event().wait(0.01)

    assert left() is None
    assert not kept.is_alive()


class Poller(threading.Thread):
    """A thread of a library that lives as long as the process."""

    def __init__(self) -> None:
        super().__init__(target=self.poll)
        self.answers: list[Any] = []

    def poll(self, *_: object) -> None:
        self.answers.append(seen())


class Deeper(Poller):
    """A subclass of it."""


def poll(answers: list[Any], *_: object) -> None:
    answers.append(seen())


@pytest.mark.parametrize("cls", [Poller, Deeper])
def test_denied_class(cls: type[Poller]) -> None:
    """A thread is born with nothing if its class, or one above it, is named."""
    with install(deny=[f"{__name__}.Poller"]), ctx.session(session_id="a"):
        poller = cls()
        poller.start()
        poller.join(10)

    assert poller.answers == [None]


def test_denied_target() -> None:
    """A thread is born with nothing if its target is named: a function, also through partials, or a method."""
    answers: list[Any] = []
    poller = Poller()
    with install(deny=[f"{__name__}.poll", f"{__name__}.Poller.poll"]), ctx.session(session_id="a"):
        for target in (functools.partial(poll, answers), functools.partial(functools.partial(poll, answers), 1)):
            thread(target).join(10)
        poller.start()
        poller.join(10)
        _thread.start_new_thread(poll, (poller.answers,))
        while len(poller.answers) < 2:  # there is nothing to join
            threading.Event().wait(0.01)

    assert answers == [None, None]
    assert poller.answers == [None, None]


class Named:
    """A callable object that calls itself what a function is called, as decorators do."""

    def __init__(self, name: Any) -> None:
        self.__name__ = name
        self.answers: list[Any] = []
        self.done = threading.Event()

    def __call__(self) -> None:
        self.answers.append(seen())
        self.done.set()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["worker", "_run", ["no", "text"]])
def test_callable_object_with_a_name_is_carried(name: Any) -> None:
    """An object whose name is the last part of a denied one, or no name at all, is a target as any other."""
    target = Named(name)
    with ctx.session(session_id="a"):
        thread(target).join(10)
        target.done.clear()
        _thread.start_new_thread(target, ())
        assert target.done.wait(10)

    assert target.answers == ["a", "a"]


def test_denied_callable_object_with_a_name() -> None:
    """An object is denied by its class, whatever it calls itself."""
    target = Named("worker")
    with install(deny=[f"{__name__}.Named"]), ctx.session(session_id="a"):
        thread(target).join(10)

    assert target.answers == [None]


def test_denied_names_are_exact(installed: Installation) -> None:
    """Neither a part of a name nor one that ends alike denies anything, and what ships stays denied."""
    install(deny=["threads.poll", f"{__name__}.pol"])
    answers: list[Any] = []
    with ctx.session(session_id="a"):
        thread(functools.partial(poll, answers)).join(10)

    assert answers == ["a"]


def test_denied_is_forgotten_with_the_installation() -> None:
    """What one installation denied, the next carries."""
    with install(deny=[f"{__name__}.poll"]):
        pass
    answers: list[Any] = []
    with install(), ctx.session(session_id="a"):
        thread(functools.partial(poll, answers)).join(10)

    assert answers == ["a"]


@pytest.mark.usefixtures("installed")
def test_denied_loses_our_keys_only() -> None:
    """Where threads inherit natively (3.14 on, by a flag), one that is denied loses our keys and nothing else."""
    HOSTS.set("native")
    answers: list[Any] = []
    with install(deny=[f"{__name__}.poll"]), ctx.session(session_id="a"):
        thread(functools.partial(poll, answers)).join(10)
        native = read_in(lambda target: thread(target), HOSTS.get)

    assert answers == [None]
    assert native == "native"
