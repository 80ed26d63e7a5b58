"""Runs of the real host, each in a process of its own, started once and read by many tests."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

DRIVE = Path(__file__).parent / "drive"
PATIENCE = 240
"""Seconds for a run of the host: on a machine with much else to do it takes ten times as long as by itself."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "since(version): the host has it from this version of hermes-agent on")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what an older host does not have. A lane takes no other reason, and on the newest host none at all."""
    for item in items:
        if DRIVE.parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(3 * PATIENCE))  # what is compared is up to three runs
    if importlib.util.find_spec("hermes_cli") is None:
        return
    installed = numbers(metadata.version("hermes-agent"))
    for item in items:
        for mark in item.iter_markers("since"):
            if installed < numbers(mark.args[0]):
                item.add_marker(pytest.mark.skip(reason=f"since {mark.args[0]}"))


def numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


class Run:
    """What one process of the host wrote down."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def calls(self, phase: str, style: str | None = None) -> list[dict[str, Any]]:
        """The handler calls of a phase, in their order."""
        return [r for r in self["records"] if r["phase"] == phase and style in (None, r["style"])]

    def call(self, phase: str, style: str) -> dict[str, Any]:
        """The one call of a handler in a phase."""
        (call,) = self.calls(phase, style)
        return call

    def logged(self, site: str) -> list[dict[str, Any]]:
        """What ctxruntime logged about one of its sites."""
        return [entry for entry in self["log"] if entry["message"].startswith(f"{site}: ")]


RunHost = Callable[[str, str], Run]
Has = Callable[[str], bool]


@pytest.fixture(scope="session")
def has() -> Has:
    """Tell whether the host is of this version, or later."""
    return lambda version: numbers(metadata.version("hermes-agent")) >= numbers(version)


@pytest.fixture(scope="session")
def run_host(tmp_path_factory: pytest.TempPathFactory) -> RunHost:
    """Return the run of a site of the host, with ctxruntime loaded in one of the ways (see `drive`)."""
    # Not importorskip: the host stays out of this process.
    if importlib.util.find_spec("hermes_cli") is None:
        pytest.skip("hermes-agent is not installed here")

    @functools.cache
    def data(site: str, load: str) -> dict[str, Any]:
        return _run(tmp_path_factory.mktemp(f"{site}-{load}"), site, load)

    def run(site: str, load: str) -> Run:
        assert "error" not in data(site, load), data(site, load)["error"]
        return Run(data(site, load))

    return run


def _run(directory: Path, site: str, load: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(DRIVE), str(directory), site, load],
        # The host leaves files where temporary ones go.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(directory)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    record = directory / "record.json"
    if not record.exists():
        return {"error": f"the host's process died:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"}
    data: dict[str, Any] = json.loads(record.read_text())
    return data


@pytest.fixture(params=["plugin", "import"])
def load(request: pytest.FixtureRequest) -> str:
    """How ctxruntime gets into the host: loaded by it as its plugin, or imported before it."""
    return str(request.param)


@pytest.fixture
def cli(run_host: RunHost, load: str) -> Run:
    return run_host("cli", load)


@pytest.fixture
def gateway(run_host: RunHost, load: str) -> Run:
    return run_host("gateway", load)


@pytest.fixture
def tui(run_host: RunHost, load: str) -> Run:
    return run_host("tui", load)


@pytest.fixture
def disarmed() -> Iterator[None]:
    """Take the integration, which importing it arms, out of the test's own process again."""
    yield
    from ctxruntime_integrations import hermes

    hermes.uninstall()
