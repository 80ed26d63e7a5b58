"""Greenlets: bare ones, gevent's, and what gevent's monkey-patching makes of threads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sized
from contextvars import Context, ContextVar
from typing import Any

import gevent
import gevent.event
import gevent.pool
import gevent.queue
import gevent.server
import gevent.socket
import gevent.threadpool
import greenlet
import pytest

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.hops.greenlets import (
    gevent_patches,
    gevent_pool_patches,
    gevent_thread_patches,
    gevent_threadpool_patches,
    greenlet_patches,
)

HOSTS: ContextVar[str] = ContextVar("greenlets_hosts", default="unset")
PLAIN = greenlet.greenlet
GEVENT = (gevent_patches, gevent_pool_patches, gevent_thread_patches, gevent_threadpool_patches)
EACH_ITS_OWN = ["A", "B", None]
Spawn = Callable[[Callable[[], Any]], Any]


def here() -> Any:
    return ctx.SESSION_ID.get(None)


@pytest.fixture
def patched() -> Iterator[None]:
    patches = [patch for make in (greenlet_patches, *GEVENT) for patch in make()]
    for patch in patches:
        patch.apply()
    yield
    for patch in reversed(patches):
        patch.undo()


def answers(program: str) -> list[str]:
    """Run a program in an interpreter of its own, started as this one was; return the lines that it printed."""
    options = subprocess._args_from_interpreter_flags()
    ran = subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


# Bare greenlets


@pytest.mark.usefixtures("patched")
def test_a_greenlet_has_the_keys_of_where_it_was_constructed() -> None:
    """A greenlet runs with the keys of the flow that constructed it, whoever switches to it first."""
    made = []
    for name in ("A", "B"):
        with ctx.session(session_id=name):
            made.append(greenlet.greenlet(here))
    made.append(greenlet.greenlet(here))

    with ctx.session(session_id="switcher's"):
        assert [each.switch() for each in made] == EACH_ITS_OWN


@pytest.mark.usefixtures("patched")
def test_greenlets_of_two_sessions_that_take_turns() -> None:
    """Greenlets that switch to and fro keep their own keys, and so does who switches to them."""
    made = {}

    def two_steps() -> tuple[Any, Any]:
        return here(), greenlet.getcurrent().parent.switch() or here()

    for name in ("A", "B"):
        with ctx.session(session_id=name):
            made[name] = greenlet.greenlet(two_steps)
    with ctx.session(session_id="switcher's"):
        for each in made.values():
            each.switch()
        assert here() == "switcher's"
        assert [each.switch() for each in made.values()] == [("A", "A"), ("B", "B")]


@pytest.mark.usefixtures("patched")
def test_a_greenlet_gets_the_keys_alone() -> None:
    """Of the spawner's context the keys go along, and no other variable: so it is natively."""
    token = HOSTS.set("the spawner's")

    with ctx.session(session_id="A"):
        made = greenlet.greenlet(lambda: (here(), HOSTS.get()))

    assert made.switch() == ("A", "unset")
    HOSTS.reset(token)


@pytest.mark.usefixtures("patched")
def test_an_amend_in_a_greenlet_reaches_the_turn() -> None:
    """A greenlet serves the turn that spawned it: what it amends is seen there, and the other way round."""
    with ctx.session(gateway_session_key="k1"):
        made = greenlet.greenlet(lambda: (ctx.amend(session_id="A"), greenlet.getcurrent().parent.switch(), here())[2])
        made.switch()
        assert here() == "A"

        ctx.amend(session_id="A2")
        assert made.switch() == "A2"


@pytest.mark.usefixtures("patched")
def test_a_greenlet_outlives_the_turn() -> None:
    """A greenlet keeps the keys after the turn was left, and knows that it ended."""
    with ctx.session(session_id="A"):
        made = greenlet.greenlet(lambda: (here(), ctx.current_turn().ended))  # type: ignore[union-attr]

    assert made.switch() == ("A", True)


@pytest.mark.usefixtures("patched")
def test_a_class_derived_from_greenlet() -> None:
    """A class that a host derives carries too, also one that never calls the constructor of its base."""

    class Worker(greenlet.greenlet):
        def __init__(self, name: str) -> None:
            self.name = name

        def run(self, *args: object) -> Any:
            return self.name, args, here()

    with ctx.session(session_id="A"):
        made = Worker("w")

    assert made.switch(1) == ("w", (1,), "A")


@pytest.mark.usefixtures("patched")
def test_a_class_with_an_abstract_base() -> None:
    """A host may derive from the greenlet and from an abstract class at once, as it can natively."""

    class Both(greenlet.greenlet, Sized):
        def __len__(self) -> int:
            return 1

    assert isinstance(Both(), Sized)
    assert not isinstance(greenlet.greenlet(), Both)
    assert issubclass(Both, PLAIN)


@pytest.mark.usefixtures("patched")
def test_every_greenlet_is_an_instance() -> None:
    """The main greenlet, those that C code makes, and the plain class pass the tests that they pass natively."""
    assert isinstance(greenlet.getcurrent(), greenlet.greenlet)
    assert isinstance(PLAIN(here), greenlet.greenlet)
    assert isinstance(gevent.Greenlet(here), greenlet.greenlet)
    assert issubclass(gevent.Greenlet, greenlet.greenlet)
    assert not isinstance(here, greenlet.greenlet)
    assert (greenlet.greenlet.__name__, greenlet.greenlet.__module__) == ("greenlet", PLAIN.__module__)


@pytest.mark.usefixtures("patched")
def test_a_context_that_the_host_gives_a_greenlet_wins() -> None:
    """Who sets `gr_context` gets that: SQLAlchemy runs its greenlets in the awaiting task's own context."""
    with ctx.session(session_id="A"):
        made = greenlet.greenlet(here)
        made.gr_context = Context()

    assert made.switch() is None


@pytest.mark.usefixtures("patched")
def test_a_reference_from_before_stays_the_plain_class() -> None:
    """A class that was imported by name before the installation carries nothing; `carry` does."""
    with ctx.session(session_id="A"):
        assert (PLAIN(here).switch(), PLAIN(ctx.carry(here)).switch()) == (None, "A")


def test_undo_puts_the_greenlet_module_back() -> None:
    """The module has the very attributes that it had, and no other, whatever was done how often."""
    before = dict(vars(greenlet))
    [patch] = greenlet_patches()

    for _ in range(2):
        patch.apply()
    assert greenlet.greenlet is not PLAIN
    for _ in range(2):
        patch.undo()

    assert vars(greenlet) == before
    assert greenlet.greenlet is PLAIN


def test_a_name_that_the_module_does_not_have() -> None:
    """What is missing in the module is an AttributeError that says so, with the patch and without."""
    [patch] = greenlet_patches()

    for step in (patch.apply, patch.undo):
        step()
        with pytest.raises(AttributeError, match=r"^module 'greenlet' has no attribute 'nothing'$"):
            greenlet.nothing  # noqa: B018


def test_a_module_with_a_getattr_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `__getattr__` that the module has is asked for every other name, and is back after the undo."""
    theirs = {"lazy": 1}.__getitem__
    monkeypatch.setattr(greenlet, "__getattr__", theirs, raising=False)
    [patch] = greenlet_patches()

    patch.apply()
    assert (greenlet.lazy, greenlet.greenlet is PLAIN) == (1, False)
    patch.undo()

    assert vars(greenlet)["__getattr__"] is theirs


def test_undo_leaves_what_others_put_in_the_place_of_the_class() -> None:
    """A class that somebody else puts into the module stays there over an undo, and is an ordinary one then."""
    [patch] = greenlet_patches()
    patch.apply()
    Theirs = type("Theirs", (greenlet.greenlet,), {})
    vars(greenlet)["greenlet"] = Theirs

    patch.undo()

    assert greenlet.greenlet is Theirs
    with ctx.session(session_id="A"):
        assert Theirs(here).switch() is None
    vars(greenlet)["greenlet"] = PLAIN


def test_a_class_that_was_derived_before_the_undo() -> None:
    """A host's class, derived while the patch was applied, is an ordinary one after the undo."""
    [patch] = greenlet_patches()
    patch.apply()

    class Derived(greenlet.greenlet):
        pass

    patch.undo()

    with ctx.session(session_id="A"):
        assert Derived(here).switch() is None


@pytest.mark.usefixtures("patched")
def test_what_others_put_in_the_place_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that somebody else puts into the module is what everybody gets, until it is taken back, and undone."""
    ours = greenlet.greenlet

    class Theirs(ours):  # type: ignore[misc, valid-type]
        pass

    with monkeypatch.context() as patching:
        patching.setattr(greenlet, "greenlet", Theirs)
        assert greenlet.greenlet is Theirs
    assert greenlet.greenlet is ours


@pytest.mark.usefixtures("patched")
def test_a_fault_of_ours_does_not_keep_a_greenlet_from_being_made() -> None:
    """If a greenlet cannot be given its keys, it is made all the same, and the fault is counted."""

    class Odd(greenlet.greenlet):
        @property
        def gr_context(self) -> object:
            raise RuntimeError("on purpose")

    before = fault_counts().get("greenlet.greenlet", 0)
    with ctx.session(session_id="A"):
        made = Odd(here)

    assert made.switch() is None
    assert fault_counts()["greenlet.greenlet"] == before + 1


IMPORTED_LATER = """
import greenlet
from ctxruntime.hops.greenlets import greenlet_patches
plain = greenlet.greenlet
[patch] = greenlet_patches()
patch.apply()

import gevent, gevent.event, gevent.lock, gevent.pool, gevent.queue, gevent.threadpool
from ctxruntime import SESSION_ID, session

print(gevent.Greenlet.__mro__[1] is plain, gevent.threadpool._WorkerGreenlet.__base__ is plain)
print(list(gevent.pool.Pool(2).imap(abs, [-1, -2])))
event, queue = gevent.event.Event(), gevent.queue.Queue()
gevent.spawn(event.set)
gevent.spawn(queue.put, 1)
print(event.wait(10), queue.get(timeout=10), gevent.get_hub().threadpool.apply(abs, (-5,)))
with session(session_id="A"):
    print(greenlet.greenlet(SESSION_ID.get).switch())
"""


def test_gevent_may_be_imported_later() -> None:
    """gevent's C code, which derives from the greenlet and checks by it, gets the plain class, and works."""
    assert answers(IMPORTED_LATER) == ["True True", "[1, 2]", "True 1 5", "A"]


# SQLAlchemy


SQLALCHEMY = """
import asyncio, greenlet
from contextvars import ContextVar
from ctxruntime import SESSION_ID, amend, session
from ctxruntime.hops.greenlets import greenlet_patches
HOSTS = ContextVar("hosts", default="unset")
[patch] = greenlet_patches()
{first}
{second}

async def awaited():
    await asyncio.sleep(0)
    return SESSION_ID.get(None)

def in_the_greenlet():
    HOSTS.set("set inside")
    before = SESSION_ID.get(None), await_only(awaited())
    amend(session_id=before[0] + "2")
    return before

async def turn(name):
    with session(session_id=name):
        inside = await greenlet_spawn(in_the_greenlet)
        return *inside, SESSION_ID.get(), HOSTS.get()

async def main():
    print(await asyncio.gather(turn("A"), turn("B")), await greenlet_spawn(SESSION_ID.get, None))

asyncio.run(main())
"""
IMPORT_SQLALCHEMY = "from sqlalchemy.util import await_only, greenlet_spawn"


@pytest.mark.parametrize(
    ("first", "second"),
    [(IMPORT_SQLALCHEMY, "patch.apply()"), ("patch.apply()", IMPORT_SQLALCHEMY)],
    ids=["imported before", "imported after"],
)
def test_sqlalchemy(first: str, second: str) -> None:
    """SQLAlchemy's asyncio greenlets run in the awaiting task's own context, both ways, as they do natively."""
    seen = [("A", "A", "A2", "set inside"), ("B", "B", "B2", "set inside")]
    assert answers(SQLALCHEMY.format(first=first, second=second)) == [f"{seen} None"]


# gevent


def started(each: Any) -> Any:
    each.start()
    return each


def by_raw_spawn(fn: Callable[[], Any]) -> Any:
    result = gevent.event.AsyncResult()
    gevent.spawn_raw(lambda: result.set(fn()))
    return result.get()


def by_start_later(fn: Callable[[], Any]) -> Any:
    each = gevent.Greenlet(fn)
    each.start_later(0.001)
    return each.get()


def by_pool_start(fn: Callable[[], Any]) -> Any:
    each = gevent.Greenlet(fn)
    POOL.start(each)
    return each.get()


def by_callback(fn: Callable[[], Any]) -> Any:
    result = gevent.event.AsyncResult()
    POOL.apply_async(str, callback=lambda _: result.set(fn()))
    return result.get()


POOL = gevent.pool.Pool(4)
GROUP = gevent.pool.Group()
SPAWNS: dict[str, Spawn] = {
    "gevent.spawn": lambda fn: gevent.spawn(fn).get(),
    "gevent.spawn_later": lambda fn: gevent.spawn_later(0.001, fn).get(),
    "gevent.spawn_raw": by_raw_spawn,
    "Greenlet.spawn": lambda fn: gevent.Greenlet.spawn(fn).get(),
    "Greenlet.start": lambda fn: started(gevent.Greenlet(fn)).get(),
    "Greenlet.start_later": by_start_later,
    "a greenlet's greenlet": lambda fn: gevent.spawn(lambda: gevent.spawn(fn).get()).get(),
    "Pool.spawn": lambda fn: POOL.spawn(fn).get(),
    "Pool.start": by_pool_start,
    "Pool.apply": lambda fn: POOL.apply(fn),
    "Pool.apply_async": lambda fn: POOL.apply_async(fn).get(),
    "Pool.apply_async callback": by_callback,
    "Pool.map": lambda fn: POOL.map(lambda _: fn(), [1])[0],
    "Pool.map_async": lambda fn: POOL.map_async(lambda _: fn(), [1]).get()[0],
    "Pool.imap": lambda fn: next(POOL.imap(lambda _: fn(), [1])),
    "Pool.imap_unordered": lambda fn: next(POOL.imap_unordered(lambda _: fn(), [1])),
    "Group.spawn": lambda fn: GROUP.spawn(fn).get(),
    "Group.map": lambda fn: GROUP.map(lambda _: fn(), [1])[0],
    "Group.apply_async": lambda fn: GROUP.apply_async(fn).get(),
}


def served(spawn: Spawn) -> list[Any]:
    """Spawn in two sessions at once, then outside of any; return what was seen each time."""
    turns = gevent.pool.Group()

    def turn(name: str) -> Any:
        with ctx.session(session_id=name):
            gevent.sleep(0)
            return spawn(here)

    return [*turns.map(turn, ["A", "B"]), spawn(here)]


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("spawn", SPAWNS.values(), ids=SPAWNS)
def test_gevent_spawn(spawn: Spawn) -> None:
    """Whatever way a greenlet is spawned, it has the keys of the flow that spawns it, there and then."""
    assert served(spawn) == EACH_ITS_OWN


@pytest.mark.usefixtures("patched")
def test_a_gevent_greenlet_that_is_started_elsewhere() -> None:
    """What counts is where a greenlet of gevent's is started, not where it is built: as for threads."""
    with ctx.session(session_id="A"):
        built_inside = gevent.Greenlet(here)
    built_outside = gevent.Greenlet(here)

    built_inside.start()
    with ctx.session(session_id="B"):
        built_outside.start()

    assert (built_inside.get(), built_outside.get()) == (None, "B")


@pytest.mark.usefixtures("patched")
def test_a_gevent_greenlet_gets_the_keys_alone() -> None:
    """Of the spawner's context the keys go along, and no other variable: so it is natively."""
    token = HOSTS.set("the spawner's")

    with ctx.session(session_id="A"):
        assert gevent.spawn(lambda: (here(), HOSTS.get())).get() == ("A", "unset")
    HOSTS.reset(token)


@pytest.mark.usefixtures("patched")
def test_a_context_that_the_host_gives_a_gevent_greenlet_wins() -> None:
    """Who sets `gr_context` before the start gets that."""
    each = gevent.Greenlet(lambda: (here(), HOSTS.get()))
    each.gr_context = Context()
    each.gr_context.run(HOSTS.set, "given")

    with ctx.session(session_id="A"):
        each.start()

    assert each.get() == (None, "given")


@pytest.mark.usefixtures("patched")
def test_callbacks_of_gevents_hub() -> None:
    """Callbacks, timers and links run in the hub, with nothing; `carry` takes the keys there."""
    hub, seen = gevent.get_hub(), []
    finished = gevent.spawn(str)
    finished.join()

    with ctx.session(session_id="A"):
        for fn in (here, ctx.carry(here)):
            hub.loop.run_callback(lambda fn=fn: seen.append(("callback", fn())))
            hub.loop.timer(0.001).start(lambda fn=fn: seen.append(("timer", fn())))
            finished.link(lambda _, fn=fn: seen.append(("link", fn())))
        gevent.sleep(0.02)

    assert sorted(seen, key=str) == [(kind, far) for kind in ("callback", "link", "timer") for far in ("A", None)]


@pytest.mark.usefixtures("patched")
def test_a_consumer_of_a_gevent_queue() -> None:
    """A greenlet that serves everybody has each item's own keys while it serves it, and between items nothing."""
    queue, seen = gevent.queue.Queue(), []

    def consume() -> None:
        for snapshot in queue:
            with snapshot:
                gevent.sleep(0)
                seen.append(here())
            seen.append(here())

    consumer = gevent.spawn(consume)
    for name in ("A", "B"):
        with ctx.session(session_id=name):
            queue.put(ctx.capture())
    queue.put(StopIteration)
    consumer.join()

    assert seen == ["A", None, "B", None]


@pytest.mark.usefixtures("patched")
def test_a_gevent_server() -> None:
    """A server's handler is spawned by the hub, with nothing, whoever started the server."""
    with ctx.session(session_id="starter's"):
        server = gevent.server.StreamServer(("127.0.0.1", 0), lambda sock, _: sock.sendall(str(here()).encode()))
        server.start()
        client = gevent.socket.create_connection(server.address)
        try:
            assert client.recv(100) == b"None"
        finally:
            client.close()
            server.stop()


# gevent.threadpool


@pytest.fixture
def threads(patched: None) -> Iterator[Any]:
    pool = gevent.threadpool.ThreadPool(1)
    yield pool
    pool.kill()


THREADPOOL: dict[str, Callable[[Any, Callable[[], Any]], Any]] = {
    "spawn": lambda pool, fn: pool.spawn(fn).get(),
    "apply": lambda pool, fn: pool.apply(fn),
    "apply_async": lambda pool, fn: pool.apply_async(fn).get(),
    "map": lambda pool, fn: pool.map(lambda _: fn(), [1])[0],
    "imap": lambda pool, fn: next(pool.imap(lambda _: fn(), [1])),
    "imap_unordered": lambda pool, fn: next(pool.imap_unordered(lambda _: fn(), [1])),
}


@pytest.mark.parametrize("way", THREADPOOL)
def test_gevent_threadpool(threads: Any, way: str) -> None:
    """Each job of a pool of real threads has the keys of the flow that spawned it, and the thread none of its own."""
    assert served(lambda fn: THREADPOOL[way](threads, fn)) == EACH_ITS_OWN


def test_what_a_job_leaves_open_ends_with_it(threads: Any) -> None:
    """A scope that a job opens and never closes is not in effect in the next job of the same thread."""
    threads.apply(lambda: ctx.session(session_id="left open").open())

    assert threads.apply(here) is None


@pytest.mark.usefixtures("patched")
def test_gevent_threadpool_executor() -> None:
    """gevent's own executor carries per job too."""
    with gevent.threadpool.ThreadPoolExecutor(1) as pool:
        assert served(lambda fn: pool.submit(fn).result()) == EACH_ITS_OWN


def test_the_greenlet_that_manages_a_threadpool(threads: Any) -> None:
    """What a pool starts to manage its threads is born with nothing, whoever made it necessary."""
    threads.apply(here)

    with ctx.session(session_id="A"):
        threads.maxsize = 0
        manager = threads.manager

    assert manager is not None
    assert manager.gr_context is None
    threads.maxsize = 1


def test_undo_ends_the_carrying_of_gevent() -> None:
    """After the undo every attribute is the very object that was there, and greenlets are native again."""
    owners = (gevent, gevent.hub, gevent.pool.GroupMappingMixin, gevent.threadpool.ThreadPool, gevent.thread)
    before = [dict(vars(owner)) for owner in owners]
    patches = [patch for make in GEVENT for patch in make()]

    for patch in [*patches, *patches]:
        patch.apply()
    with ctx.session(session_id="A"):
        assert gevent.spawn(here).get() == "A"
    for patch in [*patches, *patches]:
        patch.undo()

    assert [dict(vars(owner)) for owner in owners] == before
    with ctx.session(session_id="A"):
        assert [spawn(here) for spawn in SPAWNS.values()] == [None] * len(SPAWNS)


# gevent.monkey

MONKEY = """
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from ctxruntime import SESSION_ID, session

births = []

def here():
    return SESSION_ID.get(None)

def by_thread(fn):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(fn()))
    thread.start()
    thread.join()
    return seen[0]

def by_raw_thread(fn):
    seen = Queue()
    _thread.start_new_thread(lambda: seen.put(fn()), ())
    return seen.get(timeout=10)

def by_timer(fn):
    seen = Queue()
    threading.Timer(0.001, lambda: seen.put(fn())).start()
    return seen.get(timeout=10)

def served(spawn):
    seen = []
    for name in ("A", "B"):
        with session(session_id=name):
            seen.append(spawn(here))
    return [*seen, spawn(here)]

assert monkey.is_module_patched("threading")
pool = ThreadPoolExecutor(1, initializer=lambda: births.append(here()))
print("Thread", served(by_thread))
print("start_new_thread", served(by_raw_thread))
print("Timer", served(by_timer))
print("submit", served(lambda fn: pool.submit(fn).result(10)), births)
print("map", served(lambda fn: next(pool.map(lambda _: fn(), [1]))))
print("spawn", served(lambda fn: gevent.spawn(fn).get()))
"""
PATCHED = "from gevent import monkey; monkey.patch_all()"
INSTALLED = "from ctxruntime.hops.install import install; install()"
ORDERS = {"patched before": (PATCHED, INSTALLED), "patched after": (INSTALLED, PATCHED)}


@pytest.mark.parametrize("order", ORDERS)
def test_a_program_that_gevent_patched(order: str) -> None:
    """Under `monkey.patch_all()` threads and pools are greenlets, and carry as threads and pools do."""
    program = "\n".join([*ORDERS[order], "import gevent, _thread", MONKEY])

    assert answers(program) == [
        "Thread ['A', 'B', None]",
        "start_new_thread ['A', 'B', None]",
        "Timer ['A', 'B', None]",
        "submit ['A', 'B', None] [None]",
        "map ['A', 'B', None]",
        "spawn ['A', 'B', None]",
    ]


def test_a_thread_that_gevent_makes_is_born_with_nothing() -> None:
    """Where the hop of threads does not act, a greenlet that stands in for a thread has nothing, as a thread has."""
    program = """
from gevent import monkey; monkey.patch_all()
import threading, gevent
from ctxruntime import SESSION_ID, session
from ctxruntime.hops.greenlets import gevent_patches, gevent_thread_patches
for patch in [*gevent_patches(), *gevent_thread_patches()]:
    patch.apply()
with session(session_id="A"):
    thread = threading.Thread(target=lambda: print(SESSION_ID.get(None)))
    thread.start()
    thread.join()
    gevent.spawn(lambda: print(SESSION_ID.get(None))).join()
"""
    inherits = bool(getattr(sys.flags, "thread_inherit_context", False))
    assert answers(program) == ["A" if inherits else "None", "A"]
