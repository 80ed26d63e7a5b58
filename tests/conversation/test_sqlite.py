"""What a SQLite store does beyond what all stores do: many processes, forks, kills, locks, and what it remembers."""

from __future__ import annotations

import gc
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import StoreBusyError, StoreError
from ctxruntime.conversation.stores import SQLiteStore
from ctxruntime.conversation.stores.base import FOREVER, Change, Doc, Ref, Row
from ctxruntime.conversation.stores.sqlite_files import StoreFile

CHAT: Ref = ("k", "chat")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store is to be."""
    return tmp_path / "x.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    """Return a store."""
    with closing(SQLiteStore(path, timeout=2)) as store:
        yield store


def raw(path: Path) -> closing[sqlite3.Connection]:
    """Return a connection that knows nothing of stores."""
    return closing(sqlite3.connect(path, isolation_level=None))


def writing(rows: dict[str, Row], refs: dict[Ref, str], docs: dict[str, dict[str, Doc]] | None = None) -> Change:
    """Return a change that writes, whatever there is."""
    return Change({}, {}, {}, rows, [], refs, [], docs or {})


def open_files(path: Path) -> list[str]:
    """Return which files beside a path this process has open."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return [
        link for link in (os.readlink(link) for link in links if os.path.exists(link)) if link.startswith(str(path))
    ]


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program in a process group of its own, to talk to over its pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> None:
    """End a program, whatever it has started, and what connects it to us."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


# What it remembers


def test_a_look_that_is_remembered_ends_when_the_conversation_does(path: Path) -> None:
    """What expires while nobody commits is not found any more."""
    clock = [100.0]
    with closing(SQLiteStore(path, clock=lambda: clock[0])) as store:
        store.commit("n", writing({"c": Row(b"version1", 200.0, "{}")}, {CHAT: "c"}))
        assert store.look("n", [CHAT], ["c"])[1:] == ({CHAT: "c"}, {"c": (b"version1", 200.0, "{}")})

        clock[0] = 200.0

        assert store.look("n", [CHAT], ["c"]) == (200.0, {}, {})


def test_a_commit_of_its_own_ends_what_is_remembered(store: SQLiteStore) -> None:
    """The connection that reads notices what the other one writes."""
    for number in range(50):
        row = Row(b"%08d" % number, FOREVER, "{}")

        store.commit("n", writing({"c": row}, {CHAT: "c"}))

        assert store.look("n", [CHAT])[2] == {"c": row}
        assert store.look("n", [CHAT])[2] == {"c": row}


def test_nothing_is_read_again_while_nobody_commits(store: SQLiteStore) -> None:
    """A look that is repeated asks SQLite for the version of the file, and nothing else."""
    store.commit("n", writing({"c": Row(b"version1", FOREVER, "{}")}, {CHAT: "c"}))
    store.look("n", [CHAT])
    asked: list[str] = []
    with store._reader as cursor:
        cursor.connection.set_trace_callback(asked.append)

    store.look("n", [CHAT])

    assert asked == ["PRAGMA data_version"]


def test_what_is_remembered_has_an_end(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks for ever other keys do not fill the memory."""
    monkeypatch.setattr("ctxruntime.conversation.stores.sqlite.KNOWN", 10)

    for number in range(100):
        store.look("n", [("k", f"chat-{number}")])

    assert len(store._cache.looks) <= 10


def test_another_connection_counts_versions_anew(store: SQLiteStore, path: Path) -> None:
    """What was remembered before a close is not taken for what is there after it."""
    store.commit("n", writing({"c": Row(b"version1", FOREVER, "{}")}, {CHAT: "c"}))
    store.look("n", [CHAT])
    store.close()

    with closing(SQLiteStore(path)) as other:
        other.commit("n", writing({"d": Row(b"version2", FOREVER, "{}")}, {CHAT: "d"}))

    assert store.look("n", [CHAT])[1] == {CHAT: "d"}


WRITER = """
import sys
from ctxruntime.conversation.stores import SQLiteStore
from ctxruntime.conversation.stores.base import FOREVER, Change, Row
store = SQLiteStore(sys.argv[1])
for line in sys.stdin:
    namespace, name, conversation, version = line.split()
    row = Row(version.encode(), FOREVER, "{}")
    print(store.commit(namespace, Change({}, {}, {}, {conversation: row}, [], {("k", name): conversation}, [], {})))
    sys.stdout.flush()
"""
Step = tuple[str, str, str]
NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.sampled_from(["ours", "theirs", "look", "look"]), NAMES, NAMES), max_size=30)


@pytest.fixture
def tell(path: Path) -> Iterator[Callable[..., None]]:
    """Return what has another process write: a namespace, a key's name, its conversation and its version."""
    process = start(WRITER, path)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def told(*words: str) -> None:
        stdin.write(" ".join(words) + "\n")
        stdin.flush()
        assert stdout.readline() == "True\n"

    yield told
    end(process)


namespaces = (f"n{number}" for number in range(10_000))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_what_is_remembered_is_what_is_there(store: SQLiteStore, tell: Callable[..., None], steps: list[Step]) -> None:
    """Whoever writes, this process or another, each look finds what was committed last, and not what was before."""
    namespace = next(namespaces)
    points: dict[Ref, str] = {}
    versions: dict[str, bytes] = {}
    for number, (what, name, other) in enumerate(steps):
        version = b"%08d" % number
        if what == "look":
            refs: list[Ref] = [("k", name), ("k", other)]
            _, found, rows = store.look(namespace, refs)
            assert found == {ref: points[ref] for ref in refs if ref in points}
            assert {id: row.version for id, row in rows.items()} == {id: versions[id] for id in found.values()}
            continue
        if what == "ours":
            store.commit(namespace, writing({other: Row(version, FOREVER, "{}")}, {("k", name): other}))
        else:
            tell(namespace, name, other, version.decode())
        points["k", name], versions[other] = other, version


# What it sweeps


def test_what_has_expired_is_deleted_by_later_commits(path: Path) -> None:
    """Nothing is left of a conversation that has expired, a few at a time, but for what points elsewhere by now."""
    clock = [100.0]
    with closing(SQLiteStore(path, clock=lambda: clock[0])) as store:
        for number in range(6):
            id = f"old-{number}"
            refs: dict[Ref, str] = {("k", f"chat-{number}"): id, ("i", f"s{number}"): id}
            store.commit("n", writing({id: Row(b"version1", 200.0 + number, "{}")}, refs, {id: {"x": Doc(b"v", "{}")}}))
        clock[0] = 300.0

        store.commit("m", writing({"new": Row(b"version2", FOREVER, "{}")}, {}))
        with raw(path) as connection:
            left = connection.execute("SELECT id FROM convs WHERE ns = 'n'").fetchall()
        store.commit("n", writing({"new": Row(b"version2", FOREVER, "{}")}, {("k", "chat-5"): "new"}))

        assert left == [("old-4",), ("old-5",)]
        with raw(path) as connection:
            assert connection.execute("SELECT ns, id FROM convs").fetchall() == [("m", "new"), ("n", "new")]
            assert connection.execute("SELECT ns, kind, name, conv FROM refs").fetchall() == [
                ("n", "k", "chat-5", "new")
            ]
            assert connection.execute("SELECT * FROM docs").fetchall() == []


# What fails in the middle


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_half_done(path: Path, error: type[BaseException]) -> None:
    """Whatever ends a call in the middle, its transaction ends with it, and the next one is as any other."""
    ends = [False]

    def clock() -> float:
        if ends[0]:
            raise error
        return 100.0

    change = writing({"c": Row(b"version1", FOREVER, "{}")}, {CHAT: "c"})
    with closing(SQLiteStore(path, clock=clock)) as store, raw(path) as other:
        store.look("n", [CHAT])
        ends[0] = True
        with pytest.raises(error):
            store.commit("n", change)
        ends[0] = False

        other.execute("BEGIN IMMEDIATE")  # nobody holds it
        other.execute("ROLLBACK")

        assert store.look("n", [CHAT])[1] == {}
        assert store.commit("n", change)


def test_a_write_that_fails_half_way_writes_nothing(store: SQLiteStore) -> None:
    """An error in the last part of a change undoes the first."""
    docs = {"c": {"x": Doc(b"version1", "{}"), "y": Doc(b"version1", object())}}  # type: ignore[arg-type]

    with pytest.raises(StoreError, match="cannot be used"):
        store.commit("n", writing({"c": Row(b"version1", FOREVER, "{}")}, {CHAT: "c"}, docs))

    assert store.look("n", [CHAT], ["c"])[1:] == ({}, {})


def test_a_call_within_a_call_of_the_same_thread_is_refused(path: Path) -> None:
    """What a signal handler writes in the middle of a transaction does not become part of it."""
    refused: list[StoreBusyError] = []

    def clock() -> float:
        if not refused:
            with pytest.raises(StoreBusyError) as caught:
                store.commit("n", writing({"inner": Row(b"version1", FOREVER, "{}")}, {}))
            refused.append(caught.value)
        return 100.0

    with closing(SQLiteStore(path, timeout=0.05, clock=clock)) as store:
        assert store.commit("n", writing({"outer": Row(b"version1", FOREVER, "{}")}, {}))

        assert [id for id, _ in store.rows("n")] == ["outer"]


# Locks


def test_a_file_that_is_locked_is_busy_in_time(path: Path) -> None:
    """Who waits longer than the timeout is told so; when the lock is gone, the next call works."""
    change = writing({"c": Row(b"version1", FOREVER, "{}")}, {CHAT: "c"})
    with closing(SQLiteStore(path, timeout=0.3)) as store, raw(path) as other:
        store.look("n", [CHAT])
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()

        with pytest.raises(StoreBusyError, match=f"SQLite store '{path}' was locked by others for too long") as caught:
            store.commit("n", change)

        assert 0.25 < time.monotonic() - began < 2
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert store.look("n", [CHAT])[1] == {}  # reading does not wait for a writer
        other.execute("ROLLBACK")
        assert store.commit("n", change)


def test_threads_do_not_wait_one_after_the_other(path: Path) -> None:
    """Each of many threads waits for the timeout at most, and not for those of the others too."""
    taken: list[float] = []

    def write() -> None:
        began = time.monotonic()
        with pytest.raises(StoreBusyError):
            store.put_doc("n", "c", "x", Doc(b"version1", "{}"), None)
        taken.append(time.monotonic() - began)

    with closing(SQLiteStore(path, timeout=2)) as store, raw(path) as other:
        store.commit("n", writing({"c": Row(b"version1", FOREVER, "{}")}, {}))
        other.execute("BEGIN IMMEDIATE")
        threads = [Thread(target=write, daemon=True) for _ in range(6)]

        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)

        assert len(taken) == 6
        assert max(taken) < 3.5
        other.execute("ROLLBACK")
        assert store.put_doc("n", "c", "x", Doc(b"version1", "{}"), None)


def test_waiting_for_a_thread_and_for_a_process_takes_one_timeout(path: Path) -> None:
    """What a call has waited for another thread it does not wait for another process too; the next has all its time."""
    taken: list[float] = []

    def write() -> None:
        began = time.monotonic()
        with pytest.raises(StoreBusyError, match="was locked by others"):
            store.put_doc("n", "c", "x", Doc(b"version1", "{}"), None)
        taken.append(time.monotonic() - began)

    with closing(SQLiteStore(path, timeout=2)) as store, raw(path) as other:
        store.look("n", [CHAT])
        other.execute("BEGIN IMMEDIATE")
        thread = Thread(target=write, daemon=True)
        with store._writer:
            thread.start()
            thread.join(1.6)
        thread.join(20)

        assert len(taken) == 1
        assert 1.6 < taken[0] < 3
        with store._writer as cursor:
            assert cursor.execute("PRAGMA busy_timeout").fetchone() == (2000,)


# What it holds


def test_a_store_that_is_dropped_lets_go(path: Path) -> None:
    """Nobody has to close a store: what it holds goes with it."""
    store = SQLiteStore(path)
    Bridge(store).resolve(session_id="s")
    assert len(open_files(path)) > 3

    del store
    gc.collect()

    assert open_files(path) == []


def test_a_closed_store_holds_nothing_and_opens_again(store: SQLiteStore, path: Path) -> None:
    """After a close there is the one file, and the next call works."""
    bridge = Bridge(store)
    known = bridge.resolve(session_id="s")

    store.close()
    store.close()

    assert open_files(path) == []
    assert os.listdir(path.parent) == ["x.db"]
    assert bridge.find(session_id="s") == known


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_another_file_in_its_place_is_noticed_by_the_next_write(store: SQLiteStore, path: Path, how: str) -> None:
    """Nothing is acknowledged that went into a file that is not there any more, and reading follows."""
    bridge = Bridge(store)
    before = bridge.resolve(session_id="s")
    with closing(SQLiteStore(path.with_name("other.db"))) as other:
        replacement = Bridge(other).resolve(session_id="s")
    for name in ("x.db", "x.db-wal", "x.db-shm"):
        (path.parent / name).unlink()
    if how == "replaced":
        path.with_name("other.db").rename(path)

    bridge.resolve(session_id="new")

    found = bridge.find(session_id="s")
    assert found == (replacement if how == "replaced" else None)
    assert found != before
    with closing(SQLiteStore(path)) as fresh:
        assert Bridge(fresh).find(session_id="new") is not None


# Processes


def test_two_processes_see_each_others_writes_at_once(store: SQLiteStore, tell: Callable[..., None]) -> None:
    """What another process has acknowledged is in the next look."""
    for number in range(100):
        tell("n", "chat", f"c{number}", f"{number:08}")

        assert store.look("n", [CHAT])[1] == {CHAT: f"c{number}"}


FORKS = """
import os, sys, threading
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.stores import SQLiteStore

store = SQLiteStore(sys.argv[1])
bridge = Bridge(store)
known = bridge.resolve(gateway_session_key="chat")
ending = threading.Event()
faults = []

def busy(number):
    turn = 0
    try:
        while not ending.is_set():
            assert bridge.resolve(gateway_session_key="chat") == known
            bridge.resolve(session_id=f"{number}-{turn}")
            turn += 1
    except BaseException as error:
        faults.append(error)

threads = [threading.Thread(target=busy, args=(number,), daemon=True) for number in range(3)]
for thread in threads:
    thread.start()
for number in range(20):
    child = os.fork()
    if child == 0:
        inherited = any(os.readlink(f"/proc/self/fd/{fd}").startswith(sys.argv[1]) for fd in os.listdir("/proc/self/fd")
                        if os.path.exists(f"/proc/self/fd/{fd}"))
        right = not inherited and bridge.resolve(gateway_session_key="chat") == known
        bridge.resolve(session_id=f"child-{number}")
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
ending.set()
for thread in threads:
    thread.join()
assert not faults, faults
assert all(bridge.find(session_id=f"child-{number}") for number in range(20))
with store._reader as cursor:
    print(*cursor.execute("PRAGMA integrity_check").fetchone())
"""


def test_a_fork_takes_no_connection_along(path: Path) -> None:
    """Children that are forked while threads read and write have nothing open, and neither they nor those hang."""
    process = start("import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n" + FORKS, path)
    try:
        assert process.communicate(timeout=60)[0] == "ok\n"
        assert process.returncode == 0
    finally:
        end(process)


def test_a_fork_in_the_middle_of_a_call_leaves_the_parent_alone(path: Path) -> None:
    """A fork by the very thread that is in a call goes on after a while; the parent's transaction is untouched."""
    program = """
import os, sys
from ctxruntime.conversation.errors import StoreBusyError
from ctxruntime.conversation.stores import SQLiteStore
from ctxruntime.conversation.stores.base import FOREVER, Change, Row

def clock():
    global child
    if forks:
        forks.clear()
        child = os.fork()
        if child == 0:
            try:
                store.look("n", [("k", "chat")])
                store.commit("n", change)  # with a connection of its own, so that the parent is in its way
            except StoreBusyError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    return 100.0

forks = []
change = Change({}, {}, {}, {"c": Row(b"version1", FOREVER, "{}")}, [], {("k", "chat"): "c"}, [], {})
store = SQLiteStore(sys.argv[1], timeout=0.2, clock=clock)
store.look("n", [("k", "chat")])
forks.append(True)
print(store.commit("n", change))
print(store.look("n", [("k", "chat")])[1])
"""
    process = start(program, path)
    try:
        assert process.communicate(timeout=60)[0] == "True\n{('k', 'chat'): 'c'}\n"
    finally:
        end(process)


WRITES = """
import sys
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.stores import SQLiteStore
bridge = Bridge(SQLiteStore(sys.argv[1]))
for number in range(10_000):
    print(number, bridge.resolve(gateway_session_key=f"chat-{number}", session_id=f"s{number}").id, flush=True)
"""


def test_a_kill_loses_nothing_that_was_acknowledged(path: Path) -> None:
    """After `kill -9` in the middle of 10,000 writes the file opens, is whole, and has every acknowledged one."""
    process = start(WRITES, path)
    assert process.stdout is not None
    acknowledged = dict(process.stdout.readline().split() for _ in range(random.randrange(500, 1500)))
    os.kill(process.pid, signal.SIGKILL)
    acknowledged |= dict(line.split() for line in process.stdout if line.endswith("\n") and line.count(" ") == 1)
    end(process)

    assert process.returncode == -signal.SIGKILL
    with closing(SQLiteStore(path)) as store:
        bridge = Bridge(store)
        for number, id in acknowledged.items():
            found = bridge.find(gateway_session_key=f"chat-{number}", session_id=f"s{number}")
            assert found is not None
            assert found.id == id
        with store._reader as cursor:
            assert cursor.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


CLAIMS = """
import sys
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.stores import SQLiteStore
bridge = Bridge(SQLiteStore(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(*(bridge.resolve(gateway_session_key=f"chat-{number}").id for number in range(1000)))
"""


def test_many_processes_agree_on_a_file_that_none_of_them_has_made(path: Path) -> None:
    """8 processes that begin at once, with no file, resolve 1,000 keys: one file, one conversation for each key."""
    processes = [start(CLAIMS, path) for _ in range(8)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        answers = {process.communicate(timeout=60)[0] for process in processes}
    finally:
        for process in processes:
            end(process)

    (answer,) = answers
    assert len(set(answer.split())) == 1000
    with closing(SQLiteStore(path)) as store, store._reader as cursor:
        assert cursor.execute("SELECT count(*) FROM convs").fetchone() == (1000,)
        assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("moment", range(1, 9))
def test_a_file_that_is_made_while_it_is_being_looked_at_is_ours(
    path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Whichever statement of an opening finds that another process has just made the file, it is taken as ours."""
    told = 0

    def tell(statement: str) -> None:
        nonlocal told
        told += 1
        if told == moment:
            with suppress(sqlite3.OperationalError):  # the first has locked it: it makes it itself
                StoreFile(str(path), 0, "NORMAL").open().close()

    class Watched(sqlite3.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.set_trace_callback(tell)

    monkeypatch.setattr("sqlite3.connect", partial(sqlite3.connect, factory=Watched))

    StoreFile(str(path), 1, "NORMAL").open().close()

    assert told >= moment


@pytest.mark.bench
@pytest.mark.timeout(300)
def test_a_thousand_keys_are_claimed_in_a_second(
    path: Path, claimed: Callable[[str, str], list[tuple[float, int, str]]]
) -> None:
    """Eight processes that claim the same 1,000 keys of one file are done in a second, on two cores."""
    slowest = float("inf")
    for number in range(4):
        slowest = min(slowest, max(seconds for seconds, _, _ in claimed(f"sqlite:{path}", f"bench-{number}")))
        if slowest <= 1.0:
            break

    print(f"sqlite: {slowest:.2f} s of 1.0")
    assert slowest <= 1.0 * 1.1  # a tenth, as for the other promises
