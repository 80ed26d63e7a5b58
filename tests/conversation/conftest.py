"""Stores of every kind, each empty, bridges over them, and the servers that some of them need."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.stores import MemoryStore, Store, open_store

KINDS = [
    "memory",
    "sqlite",
    pytest.param("redis", marks=pytest.mark.server),
    pytest.param("postgres", marks=pytest.mark.server),
]
NAMESPACES = (f"tests-{number}" for number in itertools.count())


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the name of a kind of store: the test runs once for each."""
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a store of this kind; those with a server are started for the session."""
    if kind == "memory":
        return "memory:"
    if kind == "sqlite":
        return f"sqlite:{tmp_path}/conversations.db"
    return str(request.getfixturevalue(f"{kind}_url"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Return a store of this kind; use the `namespace` fixture to be alone in it."""
    store = open_store(url)
    yield store
    store.close()


@pytest.fixture
def namespace() -> str:
    """Return a namespace that no other test uses."""
    return next(NAMESPACES)


@pytest.fixture
def bridge(store: Store, namespace: str) -> Bridge:
    """Return a bridge over a store of this kind, alone in its namespace."""
    return Bridge(store, namespace)


@pytest.fixture
def memory() -> Callable[[], tuple[MemoryStore, list[float]]]:
    """Return what makes a memory store with a clock that stands, and the clock: a list of one time."""

    def make() -> tuple[MemoryStore, list[float]]:
        clock = [1_000_000.0]
        return MemoryStore(clock=lambda: clock[0]), clock

    return make


# The servers: real ones, of Debian's packages redis-server and postgresql, on loopback. Where one cannot be started,
# the tests that need it fail with what it said.

PASSWORD = "s3cr@t/%"
PATIENCE = 30.0
"""Seconds for a server to be ready."""


class Server:
    """A server in a directory of its own, which a test may kill and start again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def ask(self) -> None:
        """Raise what the client raises, if the server does not answer."""
        raise NotImplementedError

    def launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start(self) -> None:
        try:
            self.process = self.launch(self.command())
        except OSError as error:
            pytest.fail(f"a server cannot be started: {error}")
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.ask()
            except Exception as error:  # noqa: BLE001 - each client has its own
                if self.process.poll() is not None and time.monotonic() < deadline:
                    time.sleep(0.1)  # what a killed one left behind may take a moment to go
                    self.process = self.launch(self.command())
                if time.monotonic() > deadline:
                    self.stop()
                    pytest.fail(f"a server does not answer: {error!r}\n{self.log.read_text(errors='replace')[-4000:]}")
                time.sleep(0.02)

    def kill(self) -> None:
        """End it as a crash would."""
        self.stop(signal.SIGKILL)

    def stop(self, number: int = signal.SIGINT) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(number)
            self.process.wait(PATIENCE)
            self.process = None


class RedisServer(Server):
    @property
    def url(self) -> str:
        return f"redis://:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/3"

    def command(self) -> list[str]:
        options = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self.folder), "requirepass": PASSWORD}
        options |= {"appendonly": "yes", "save": ""}
        return ["redis-server", *itertools.chain(*((f"--{name}", value) for name, value in options.items()))]

    def ask(self) -> None:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        with Redis.from_url(self.url, retry=Retry(NoBackoff(), 0)) as client:
            client.ping()


class PostgresServer(Server):
    """Run by Debian's user `postgres` where the tests are run by root, whom it refuses."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.user = "postgres" if os.getuid() == 0 else None
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        self.programs = found[-1] if found else Path()

    @property
    def url(self) -> str:
        return f"postgresql://tester:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        program = f"{self.programs}/postgres"
        return [program, "-D", "data", "-h", "127.0.0.1", "-p", str(self.port), "-k", str(self.folder)]

    def launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=self.user
            )

    def start(self) -> None:
        if not (self.folder / "data").exists():
            secret = self.folder / "password"
            secret.write_text(PASSWORD)
            if self.user is not None:
                shutil.chown(self.folder, self.user)
                shutil.chown(secret, self.user)
            options = ["-A", "scram-sha-256", "-U", "tester", "--pwfile", "password", "-E", "UTF8", "--no-sync"]
            try:
                made = self.launch([f"{self.programs}/initdb", "-D", "data", *options]).wait(2 * PATIENCE)
            except OSError as error:
                pytest.fail(f"no PostgreSQL to start: {error}")
            if made != 0:
                pytest.fail(f"initdb failed:\n{self.log.read_text(errors='replace')}")
        super().start()

    def ask(self) -> None:
        import psycopg

        psycopg.connect(self.url, connect_timeout=5).close()


@contextlib.contextmanager
def running(kind: type[Server]) -> Iterator[Server]:
    """Run a server in a directory that its user can enter, as the tests' own need not be."""
    with tempfile.TemporaryDirectory(prefix="ctx-", ignore_cleanup_errors=True) as folder:
        server = kind(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()


class Proxy:
    """A wire to a server on loopback, which can lose what the server answers."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.mutes = False
        """Whether answers are swallowed from now on."""
        self.muted: set[socket.socket] = set()
        """The connections whose answers are swallowed from now on."""
        self.cuts = False
        """Whether the connection breaks instead of the next answer."""
        self.before_cut: Callable[[], object] = lambda: None
        """Called between the server's answer and the break."""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.ends: list[socket.socket] = [self.listener]
        self.accepting = threading.Thread(target=self.accept, daemon=True)
        self.accepting.start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                self.ends.append(near)
                far = socket.create_connection(("127.0.0.1", self.target))
                self.ends.append(far)
                for pump in (self.ask, self.answer):
                    threading.Thread(target=pump, args=(near, far), daemon=True).start()

    def ask(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                far.sendall(data)

    def answer(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                if self.cuts:
                    self.cuts = False
                    self.before_cut()
                    near.shutdown(socket.SHUT_RDWR)
                    return
                if not self.mutes and near not in self.muted:
                    near.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join(PATIENCE)  # what it has accepted meanwhile is to be closed, too
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def proxied() -> Iterator[Callable[[str], tuple[Proxy, str]]]:
    """Return what puts a proxy before the server of a URL, and returns it with the URL that goes through it."""
    proxies: list[Proxy] = []

    def make(url: str) -> tuple[Proxy, str]:
        port = urlsplit(url).port
        proxies.append(Proxy(port or 0))
        return proxies[-1], url.replace(f":{port}/", f":{proxies[-1].port}/")

    yield make
    for proxy in proxies:
        proxy.close()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """Return the URL of a Redis that runs for the whole session."""
    with running(RedisServer) as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Return the URL of a PostgreSQL that runs for the whole session."""
    with running(PostgresServer) as server:
        yield server.url


@pytest.fixture
def own_redis() -> Iterator[Server]:
    """Return a Redis that the test may kill and start again."""
    with running(RedisServer) as server:
        yield server


@pytest.fixture
def own_postgres() -> Iterator[Server]:
    """Return a PostgreSQL that the test may kill and start again."""
    with running(PostgresServer) as server:
        yield server


# Several processes at once

CLAIMING = """
import hashlib, sys, time
from ctxruntime.conversation.bridge import Bridge
bridge = Bridge(sys.argv[1], sys.argv[2])
bridge.find(session_id="warm")
print("ready", flush=True)
sys.stdin.readline()
start = time.perf_counter()
ids = [bridge.resolve(gateway_session_key=f"key-{number}").id for number in range(1000)]
print(time.perf_counter() - start, len(set(ids)), hashlib.sha256(",".join(ids).encode()).hexdigest())
"""


def claim(url: str, namespace: str) -> list[tuple[float, int, str]]:
    """Have eight processes resolve 1,000 keys at once; return the seconds, the number of ids and their digest."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", CLAIMING, url, namespace]
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(8)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=100)[0].split() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [(float(seconds), int(count), digest) for seconds, count, digest in answers]


@pytest.fixture
def claimed() -> Callable[[str, str], list[tuple[float, int, str]]]:
    """Return what has eight processes resolve the same 1,000 new keys at once."""
    return claim
