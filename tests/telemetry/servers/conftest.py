"""The servers that telemetry is sent to: installed, started and stopped by the tests, each in a process group.

Installing them takes half a minute and 850 MB each. To do that once, give a directory to keep them in:
CTXRUNTIME_TEST_SERVERS=DIRECTORY pytest -m server tests/telemetry/servers
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

REQUIREMENTS = {
    "phoenix": "arize-phoenix>=20.26",
    "phoenix-client": "arize-phoenix-client>=3.5",  # beside the server it would import that, which takes long
    "mlflow": "mlflow>=3.17",
    "rotel": "rotel==0.0.1a15",  # no version of it is final
}
"""What each environment is made of: the oldest versions that these tests are for."""

CACHE = "CTXRUNTIME_TEST_SERVERS"
DRIVE = Path(__file__).parent / "drive"
HOME = "127.0.0.1"
STDIN = "sub-agent A\nplain A\n"
"""What the user of the host's command line types."""

_running: dict[str, Path] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the servers wrote with every test that fails."""
    report = yield
    if report.failed:
        report.sections += [(f"output of {name}", tail(log)) for name, log in _running.items()]
    return report


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]


# ---- environments and processes


@pytest.fixture(scope="session", autouse=True)
def servers_end_with_the_run() -> Iterator[None]:
    """A run that is told to end, as by a CI that is interrupted, stops its servers first."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the directory of a server's environment, made when it is first asked for."""

    @functools.cache
    def make(name: str) -> Path:
        kept = os.environ.get(CACHE)
        version = re.sub(r"[^0-9a-z.]+", "-", f"{REQUIREMENTS[name]}-py{sys.version_info[0]}.{sys.version_info[1]}")
        place = (Path(kept) if kept else tmp_path_factory.mktemp("servers")) / version
        done = place / "installed"
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            run([sys.executable, "-m", "venv", str(place)])
            pip = ["uv", "pip"] if shutil.which("uv") else [str(place / "bin/python"), "-m", "pip"]
            run([*pip, "install", REQUIREMENTS[name]], VIRTUAL_ENV=str(place))
            done.touch()
        return place

    return make


def run(command: list[str], stdin: str = "", **variables: str) -> str:
    """Return what a command printed; it fails the test with all that it wrote."""
    done = subprocess.run(
        command, env=cleaned() | variables, input=stdin, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def cleaned() -> dict[str, str]:
    """Return our environment without what is meant for a developer's own backends, or makes large imports slow."""
    others = ("OTEL_", "PHOENIX_", "MLFLOW_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)}


@contextmanager
def running(command: list[str], log: Path, ready: Callable[[], object], **variables: str) -> Iterator[None]:
    """Run a server until the end of the `with`; begin once `ready` no longer raises OSError."""
    name = Path(command[0]).name
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=cleaned() | variables,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(ready, process, log)
        _running[name] = log
        yield
    finally:
        _running.pop(name, None)
        end(process)


def wait_for(ready: Callable[[], object], process: subprocess.Popen[bytes], log: Path, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while True:
        assert process.poll() is None, f"{process.args} has ended\n{tail(log)}"
        with suppress(OSError):
            ready()
            return
        assert time.monotonic() < deadline, f"{process.args} does not answer after {seconds} s\n{tail(log)}"
        time.sleep(0.1)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and whatever it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOME, 0)) for _ in range(count)]
    ports = [made.getsockname()[1] for made in sockets]
    for made in sockets:
        made.close()
    return ports


def answers(url: str) -> Callable[[], object]:
    def ask() -> None:
        with urllib.request.urlopen(url, timeout=5):
            """It is enough that it answers."""

    return ask


# ---- the servers


class Backend:
    """A server to send spans to and to read them back from."""

    def __init__(self, url: str, read: list[str], send_to: str | None = None) -> None:
        self.url = url
        self.send_to = f"{send_to or url}/v1/traces"
        self._read = read

    def options(self, project: str) -> list[str]:
        """Return what the host has to be given besides."""
        return []

    def name_of(self, project: str) -> str:
        return project

    def read(self, project: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(run([*self._read, self.url, self.name_of(project)]))
        return answer


class MLflow(Backend):
    @functools.cache  # noqa: B019  # it lives as long as the run
    def name_of(self, project: str) -> str:
        """Make an experiment."""
        request = urllib.request.Request(
            f"{self.url}/api/2.0/mlflow/experiments/create",
            json.dumps({"name": project}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return str(json.load(response)["experiment_id"])

    def options(self, project: str) -> list[str]:
        return ["--header", f"x-mlflow-experiment-id={self.name_of(project)}"]


@pytest.fixture(scope="session")
def phoenix(environment: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    place, home, (port, grpc) = environment("phoenix"), tmp_path_factory.mktemp("phoenix"), free_ports(2)
    url = f"http://{HOME}:{port}"
    with running(
        [str(place / "bin/phoenix"), "serve"],
        home / "phoenix.log",
        answers(f"{url}/healthz"),
        PHOENIX_WORKING_DIR=str(home),
        PHOENIX_HOST=HOME,
        PHOENIX_PORT=str(port),
        PHOENIX_GRPC_PORT=str(grpc),
        PHOENIX_TELEMETRY_ENABLED="false",
        PHOENIX_ALLOW_EXTERNAL_RESOURCES="false",
    ):
        yield Backend(url, [str(environment("phoenix-client") / "bin/python"), str(DRIVE / "read_phoenix.py")])


@pytest.fixture(scope="session")
def rotel(
    phoenix: Backend, environment: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    """A collector in front of Phoenix."""
    (agent,) = environment("rotel").glob("lib/python*/site-packages/rotel/rotel-agent")
    http, grpc = free_ports(2)
    command = [str(agent), "start", "--otlp-http-endpoint", f"{HOME}:{http}", "--otlp-grpc-endpoint", f"{HOME}:{grpc}"]
    command += ["--exporter", "otlp", "--otlp-exporter-protocol", "http", "--otlp-exporter-endpoint", phoenix.url]

    def ready() -> None:
        socket.create_connection((HOME, http), 5).close()

    with running(command, tmp_path_factory.mktemp("rotel") / "rotel.log", ready):
        yield Backend(phoenix.url, phoenix._read, f"http://{HOME}:{http}")


@pytest.fixture(scope="session")
def mlflow(environment: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    place, home, (port,) = environment("mlflow"), tmp_path_factory.mktemp("mlflow"), free_ports(1)
    url = f"http://{HOME}:{port}"
    command = [str(place / "bin/mlflow"), "server", "--host", HOME, "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{home}/mlflow.db", "--default-artifact-root", f"{home}/artifacts"]
    with running(
        command,
        home / "mlflow.log",
        answers(f"{url}/health"),
        # The server starts processes of its own by the name of `python`.
        PATH=f"{place / 'bin'}:{os.environ['PATH']}",
        MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false",
        MLFLOW_DISABLE_TELEMETRY="true",
    ):
        yield MLflow(url, [str(place / "bin/python"), str(DRIVE / "read_mlflow.py")])


# ---- what was sent, and what arrived


class Found:
    """What a backend has of one run of the host, by the names of root spans and without the ids' prefix."""

    def __init__(self, prefix: str, answer: dict[str, Any]) -> None:
        self.answer = answer
        self._prefix = f"{prefix}-"
        self._root_of = {span["trace"]: span["name"] for span in answer["spans"] if span["root"]}

    @property
    def sessions(self) -> dict[str, list[str]]:
        """The traces of each session."""
        sessions: dict[str, list[dict[str, str]]] = self.answer["sessions"]
        return {self._short(name): self.roots(turn["trace"] for turn in turns) for name, turns in sessions.items()}

    def roots(self, traces: Iterable[str]) -> list[str]:
        return sorted(self._root_of[trace] for trace in traces)

    def column(self, attribute: str) -> dict[str, dict[str, Any]]:
        """Return one attribute of every span, by trace and name."""
        column: dict[str, dict[str, Any]] = {root: {} for root in self._root_of.values()}
        for span in self.answer["spans"]:
            column[self._root_of[span["trace"]]][span["name"]] = self._short(span["attributes"].get(attribute))
        return column

    def _short(self, value: Any) -> Any:
        return value.removeprefix(self._prefix) if isinstance(value, str) else value


Sent = Callable[..., Found]


@pytest.fixture(scope="session")
def sent(request: pytest.FixtureRequest) -> Sent:
    """Return what a server has after a run of the host; each run is made once, and read by many tests."""

    @functools.cache
    def send(server: str, *options: str) -> Found:
        backend: Backend = request.getfixturevalue(server)
        project = "".join([server, *options])
        host = [sys.executable, str(DRIVE / "host.py"), backend.send_to, backend.name_of(project), project]
        run([*host, *backend.options(project), *options], STDIN)
        return Found(project, _settled(backend, project))

    return send


def _settled(backend: Backend, project: str, spans: int = 43, seconds: float = 60) -> dict[str, Any]:
    """Read until all spans are there; a server takes them in behind the answer that it gives."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline
        try:
            answer = backend.read(project)
        except AssertionError:  # so far there may be no such project
            if late:
                raise
        else:
            if late:
                return answer
            if len(answer["spans"]) >= spans:
                return backend.read(project)  # sessions are read before spans, of which some may have been late
