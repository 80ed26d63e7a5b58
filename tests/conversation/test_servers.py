"""What Redis and PostgreSQL have to do as servers: be away, be slow, crash, be shared by processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import StoreBusyError, StoreError, StoreUnavailableError
from ctxruntime.conversation.stores import Store, open_store
from ctxruntime.conversation.stores.base import NO_DOC, Change, Doc, Row

pytestmark = pytest.mark.server

KINDS = ["redis", "postgres"]
SECRET = "s3cr@t/%"
LATER = time.time() + 1e6
Proxied = Callable[[str], tuple[Any, str]]
Claimed = Callable[[str, str], list[tuple[float, int, str]]]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the name of a kind of server: the test runs once for each."""
    return str(request.param)


@pytest.fixture
def own_server(kind: str, request: pytest.FixtureRequest) -> Any:
    """Return a server that the test may kill."""
    return request.getfixturevalue(f"own_{kind}")


@pytest.fixture
def scheme(kind: str) -> str:
    """Return what the URLs of this kind begin with."""
    return {"redis": "redis", "postgres": "postgresql"}[kind]


@pytest.fixture
def silent() -> Iterator[int]:
    """Return a port of loopback where connections are accepted, and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


def made(id: str, ref: str, version: bytes = b"versionA") -> Change:
    """Return the change that makes a conversation with one session id, if nothing has this id."""
    return Change(
        if_refs={("i", ref): None},
        if_versions={},
        if_docs={},
        rows={id: Row(version, LATER, "{}")},
        gone=[],
        refs={("i", ref): id},
        no_refs=[],
        docs={},
    )


CALLS: dict[str, Callable[[Store], object]] = {
    "look": lambda store: store.look("n", [("i", "x")]),
    "commit": lambda store: store.commit("n", made("c", "x")),
    "get_doc": lambda store: store.get_doc("n", "c", "notes"),
    "put_doc": lambda store: store.put_doc("n", "c", "notes", Doc(b"versionA", "{}"), None),
    "docs": lambda store: store.docs("n", "c"),
    "rows": lambda store: list(store.rows("n")),
}


def timed(call: Callable[[], object]) -> float:
    """Return how long a call took to fail, or to succeed."""
    start = time.monotonic()
    with contextlib.suppress(StoreError):
        call()
    return time.monotonic() - start


# A server that is away, or says nothing


@pytest.mark.parametrize("call", CALLS)
def test_a_silent_server_costs_one_timeout(scheme: str, silent: int, call: str) -> None:
    """A call to a server that accepts and never answers fails within the store's timeout, not in some times of it."""
    store = open_store(f"{scheme}://user:pw@127.0.0.1:{silent}/0", timeout=0.5)
    start = time.monotonic()

    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:\d+/0 did not answer within 0\.5 s"):
        CALLS[call](store)

    assert 0.4 < time.monotonic() - start < 1.0


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_falls_silent_costs_one_timeout(url: str, proxied: Proxied, call: str) -> None:
    """A call over a connection that worked, and whose server answers no more, fails within the store's timeout."""
    proxy, through = proxied(url)
    store = open_store(through, timeout=0.5)
    store.look("n", [("i", "x")])
    proxy.mutes = True
    start = time.monotonic()

    with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.5 s"):
        CALLS[call](store)

    assert 0.4 < time.monotonic() - start < 1.0
    proxy.mutes = False
    store.look("n", [("i", "x")])
    store.close()


def test_a_silent_login_costs_one_timeout(url: str, proxied: Proxied) -> None:
    """Answers that come late, one after another, do not add up to more than the timeout."""
    proxy, through = proxied(url)
    proxy.mutes = True

    assert timed(lambda: open_store(through, timeout=0.4).look("n", [("i", "x")])) < 0.9


@pytest.mark.parametrize("call", CALLS)
def test_a_dead_server_is_told_at_once(scheme: str, silent: int, call: str) -> None:
    """A call to a port where nothing listens fails without waiting, with the kind of server and its place."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    store = open_store(f"{scheme}://user@127.0.0.1:{port}/0")
    start = time.monotonic()

    with pytest.raises(
        StoreUnavailableError, match=rf"^(Redis|PostgreSQL) at 127\.0\.0\.1:{port}/0 was not to be reac"
    ):
        CALLS[call](store)

    assert time.monotonic() - start < 2


# A call whose answer is lost


def test_a_document_whose_answer_is_lost_is_written_once(url: str, proxied: Proxied, namespace: str) -> None:
    """If the connection breaks after a document was written, the call finds that it was, and says so."""
    proxy, through = proxied(url)
    store, other = open_store(through), open_store(url)
    assert store.commit(namespace, made("c", "x"))
    assert store.put_doc(namespace, "c", "cart", Doc(b"version1", "{}"), None)  # it is known to the server now
    proxy.cuts = True

    assert store.put_doc(namespace, "c", "notes", Doc(b"version1", '{"a":1}'), None) is True

    assert not proxy.cuts
    assert other.get_doc(namespace, "c", "notes") == Doc(b"version1", '{"a":1}')
    assert store.put_doc(namespace, "c", "notes", Doc(b"version2", "{}"), b"version0") is False
    store.close()
    other.close()


@pytest.mark.parametrize("how", ["written over", "gone"])
def test_a_document_whose_answer_is_lost_may_have_been_written(
    url: str, proxied: Proxied, namespace: str, how: str
) -> None:
    """If others were there meanwhile, nobody knows any more: the call raises, as who tries anew may do it twice."""
    proxy, through = proxied(url)
    store, other = open_store(through), open_store(url)
    assert store.commit(namespace, made("c", "x"))
    for version, was in ((b"versionA", None), (b"version0", b"versionA")):  # the server knows the call now
        assert store.put_doc(namespace, "c", "notes", Doc(version, "{}"), was)

    def meddle() -> None:
        assert other.put_doc(namespace, "c", "notes", Doc(b"version2", '{"count":2}'), b"version1")
        if how == "gone":
            assert other.commit(namespace, Change({}, {}, {}, {}, ["c"], {}, [("i", "x")], {}))

    proxy.before_cut = meddle
    proxy.cuts = True

    with pytest.raises(StoreUnavailableError, match="was not to be reached"):
        store.put_doc(namespace, "c", "notes", Doc(b"version1", '{"count":1}'), b"version0")

    assert not proxy.cuts
    store.close()
    other.close()


def test_a_commit_whose_answer_is_lost_is_not_said_to_have_failed(url: str, proxied: Proxied, namespace: str) -> None:
    """If the connection breaks after a commit, the call raises, and does not say that somebody else was faster."""
    proxy, through = proxied(url)
    store, other = open_store(through), open_store(url)
    assert store.commit(namespace, made("c0", "x0"))
    proxy.cuts = True

    with pytest.raises(StoreUnavailableError, match="was not to be reached"):
        store.commit(namespace, made("c", "x"))

    assert eventually(lambda: other.look(namespace, [("i", "x")])[1] == {("i", "x"): "c"})
    store.close()
    other.close()


def eventually(is_so: Callable[[], bool]) -> bool:
    """Wait for what a server does when nobody waits for its answer any more."""
    deadline = time.monotonic() + 10
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


# A server that is killed, and started again


def test_a_restart_between_two_calls_is_not_noticed(own_server: Any) -> None:
    """A connection that broke while nobody used it is replaced, for a write as for a read."""
    store = open_store(own_server.url)
    assert store.commit("n", made("c1", "x1"))
    for number, call in enumerate([CALLS["look"], lambda store: store.commit("n", made("c2", "x2"))]):
        own_server.kill()
        own_server.start()
        assert call(store), number

    assert store.look("n", [("i", "x1"), ("i", "x2")])[1] == {("i", "x1"): "c1", ("i", "x2"): "c2"}
    store.close()


class Writer(threading.Thread):
    """Makes conversations and writes to them until it is told to stop; keeps what was acknowledged."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(daemon=True)
        self.store = open_store(url, timeout=2)
        self.name = name
        self.acknowledged: list[str] = []
        self.faults: list[BaseException] = []
        self.longest = 0.0
        self.stopping = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            id = f"{self.name}-{number}"
            start = time.monotonic()
            try:
                assert self.store.commit("n", made(id, id))
                self.longest = max(self.longest, time.monotonic() - start)
                start = time.monotonic()
                assert self.store.put_doc("n", id, "notes", Doc(b"version1", "{}"), None)
                self.acknowledged.append(id)
            except Exception as fault:  # noqa: BLE001 - whatever it is, it is looked at below
                self.faults.append(fault)
                time.sleep(0.01)
            self.longest = max(self.longest, time.monotonic() - start)


def test_nothing_acknowledged_is_lost_by_a_crash(own_server: Any) -> None:
    """A server killed under its writers fails their calls in time, by name; then all goes on, and all is there."""
    open_store(own_server.url).look("n", [("i", "x")])
    writers = [Writer(own_server.url, f"w{number}") for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(2):
            before = [len(writer.acknowledged) for writer in writers]
            assert eventually(
                lambda b=before: all(len(w.acknowledged) > n + 30 for w, n in zip(writers, b, strict=True))
            )
            own_server.kill()
            faults = [len(writer.faults) for writer in writers]
            assert eventually(lambda f=faults: all(len(w.faults) > n for w, n in zip(writers, f, strict=True)))
            own_server.start()
        before = [len(writer.acknowledged) for writer in writers]
        assert eventually(lambda: all(len(w.acknowledged) > n + 30 for w, n in zip(writers, before, strict=True)))
    finally:
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join(20)

    assert {type(fault) for writer in writers for fault in writer.faults} <= {StoreUnavailableError, StoreBusyError}
    assert max(writer.longest for writer in writers) < 3
    store = open_store(own_server.url)
    ids = [id for writer in writers for id in writer.acknowledged]
    there = dict(store.rows("n"))
    assert [id for id in ids if id not in there or store.get_doc("n", id, "notes") in (None, NO_DOC)] == []
    store.close()


# Secrets


def chain(error: BaseException) -> str:
    """Return all that a log would show of an error."""
    return "".join(traceback.format_exception(error))


def test_no_error_shows_the_password(url: str, proxied: Proxied) -> None:
    """Neither a refused login nor a server that is away shows the password, in any of its forms, in the whole chain."""
    wrong = "wr0ng@/%"
    refused = open_store(url.replace(quote(SECRET, safe=""), quote(wrong, safe="")))
    proxy, through = proxied(url)
    proxy.close()

    for store, secret in ((refused, wrong), (open_store(through), SECRET)):
        with pytest.raises(StoreUnavailableError) as caught:
            store.look("n", [("i", "x")])

        shown = chain(caught.value) + repr(store)
        assert secret not in shown
        assert quote(secret, safe="") not in shown
        assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    "ending",
    [
        "user:hunter2@hunter2@127.0.0.1/0",
        "user:hun/ter2@127.0.0.1/0",
        "user:12#34@127.0.0.1/0",
        "user:hunter2@127.0.0.1:hunter2/0",
        "user:hunter2@127.0.0.1/0?hunter2=1",
    ],
)
def test_a_url_that_is_none_is_refused_without_showing_it(scheme: str, ending: str) -> None:
    """A URL whose password would be taken for a host, a port or an option is refused, and no part of it shown."""
    with pytest.raises(ValueError, match="URL") as caught:
        open_store(f"{scheme}://{ending}").look("n", [("i", "x")])

    assert not any(part in chain(caught.value).split("Error", 1)[1] for part in ("hunter2", "ter2", "34@"))


# Several threads and processes


def test_more_threads_than_connections_take_turns(url: str, namespace: str) -> None:
    """Any number of threads may use a store at once: those for whom there is no connection wait for one."""
    store = open_store(url)
    bridge, barrier = Bridge(store, namespace), threading.Barrier(24)
    found: list[str] = []

    def work() -> None:
        barrier.wait(20)
        found.extend(bridge.resolve(session_id=f"s{number}").id for number in range(5))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(found) == 24 * 5
    assert len(set(found)) == 5
    store.close()


def test_a_store_whose_connections_are_all_in_use_is_busy(url: str) -> None:
    """A thread that gets no connection within the timeout is told that the store is busy."""
    store: Any = open_store(url, timeout=0.4)
    links = [store._pool.take(time.monotonic() + 10) for _ in range(8)]
    start = time.monotonic()

    with pytest.raises(StoreBusyError, match="has all our connections in use"):
        store.look("n", [("i", "x")])

    assert 0.3 < time.monotonic() - start < 1
    for link in links:
        store._pool.give(link)
    store.look("n", [("i", "x")])
    store.close()


def test_a_closed_store_opens_again_and_closes_what_was_in_use(url: str) -> None:
    """Closing closes what is idle at once and what is in use when it is given back; a later call opens anew."""
    store: Any = open_store(url)
    used, idle = (store._pool.take(time.monotonic() + 10) for _ in range(2))
    store._pool.give(idle)

    store.close()
    assert is_closed(idle)
    assert not is_closed(used)
    store._pool.give(used)

    assert is_closed(used)
    store.look("n", [("i", "x")])
    store.close()


def is_closed(link: Any) -> bool:
    """Tell whether a connection has no socket any more; each client says it in its own way."""
    return bool(link.closed) if hasattr(link, "closed") else link.fileno() < 0


def forked(work: Callable[[], object]) -> int:
    """Run in a forked child; return its exit code: 0 if the work was done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of other tests may be there
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1


def test_a_forked_child_has_connections_of_its_own(url: str, namespace: str) -> None:
    """Parent and child use one store object at once, and neither gets an answer to the other's question."""
    store = open_store(url)
    for name in ("parent", "child"):
        assert store.commit(namespace, made(f"c-{name}", name))

    def look(name: str) -> None:
        for _ in range(300):
            assert store.look(namespace, [("i", name)])[1] == {("i", name): f"c-{name}"}

    parent = threading.Thread(target=look, args=("parent",), daemon=True)
    parent.start()
    assert forked(lambda: look("child")) == 0
    parent.join(30)

    look("parent")
    store.close()


def test_a_child_that_ends_leaves_the_parents_connections_alone(url: str, namespace: str, proxied: Proxied) -> None:
    """A child says no goodbye on the connections of its parent, whatever it does with the store, and how it ends."""
    proxy, through = proxied(url)
    store = open_store(through)
    assert store.commit(namespace, made("c", "x"))
    ends = len(proxy.ends)

    assert forked(store.close) == 0
    assert forked(lambda: None) == 0

    assert store.look(namespace, [("i", "x")])[1] == {("i", "x"): "c"}
    assert len(proxy.ends) == ends
    store.close()


def test_a_child_forked_in_the_middle_of_calls_can_make_calls(url: str, namespace: str, proxied: Proxied) -> None:
    """A fork while other threads use all connections, and one waits, leaves the child neither them nor a held lock."""
    proxy, through = proxied(url)
    store: Any = open_store(through, timeout=3)
    links = [store._pool.take(time.monotonic() + 10) for _ in range(8)]
    for link in links:
        store._pool.give(link)
    proxy.muted.update(proxy.ends)
    look = CALLS["look"]
    threads = [threading.Thread(target=timed, args=(lambda: look(store),), daemon=True) for _ in range(9)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: not store._pool._idle)

    assert forked(lambda: look(store)) == 0

    for thread in threads:
        thread.join(20)
    store.close()


def test_eight_processes_agree_on_a_thousand_keys(claimed: Claimed, url: str, namespace: str) -> None:
    """Processes that resolve the same new keys at once find the same conversations, one for each key."""
    claims = claimed(url, namespace)

    assert {count for _, count, _ in claims} == {1000}
    assert len({digest for _, _, digest in claims}) == 1


def test_names_may_be_as_long_as_names_can_be(url: str) -> None:
    """A namespace, a key, a session id and a state of 1,024 characters of four bytes each are kept and told apart."""
    store = open_store(url)
    for ending in "ab":
        long = "".join(chr(0x1F300 + number) for number in range(511)) * 2 + "x" + ending
        bridge = Bridge(store, long)
        found = bridge.resolve(gateway_session_key=long, session_id=long)

        assert store.put_doc(long, found.id, long, Doc(b"version1", f'"{ending}"'), None)
        assert bridge.find(gateway_session_key=long) == bridge.find(session_id=long) == found
        assert store.docs(long, found.id) == {long: Doc(b"version1", f'"{ending}"')}
        assert [one.session_ids for one in bridge.conversations()] == [(long,)]
    store.close()
