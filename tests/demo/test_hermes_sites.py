"""`ctxruntime demo --hermes`, in an environment that has Hermes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctxruntime.demo.hermes_plugin import PLAYED

pytestmark = pytest.mark.hermes


def demo(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ctxruntime", "demo", "--hermes", *options],
        env={**os.environ, "COLUMNS": "80", "PYTHONUTF8": "1", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=110,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def run(home: Path) -> subprocess.CompletedProcess[str]:
    return demo(HOME=str(home))


def test_all_is_right_in_hermes(run: subprocess.CompletedProcess[str]) -> None:
    """At its four command sites, Hermes gives each handler the session and the chat that it serves."""
    right = len(PLAYED) * 8

    assert (run.returncode, run.stdout.splitlines()[-1:]) == (
        0,
        [f"with ctxruntime: {right} of {right} answers are right"],
    ), run.stdout + run.stderr


@pytest.mark.parametrize("site", ["cli", "gateway", "dispatch", "slash"])
def test_table_has_a_row_for_each_handler_at_each_site(run: subprocess.CompletedProcess[str], site: str) -> None:
    """Every handler kind that Hermes can call is shown at every site."""
    rows = [line.split()[1] for line in run.stdout.splitlines() if line.split()[:1] == [site]]

    assert tuple(rows) == PLAYED


def test_table_fits_80_columns(run: subprocess.CompletedProcess[str]) -> None:
    """No line is wider than a terminal, and nothing is cut off."""
    assert max(map(len, run.stdout.splitlines())) <= 80
    assert "…" not in run.stdout


def test_home_of_the_user_is_left_alone(run: subprocess.CompletedProcess[str], home: Path) -> None:
    """Hermes runs with a home of its own, which is gone when it ends."""
    assert list(home.iterdir()) == []


def test_not_all_is_right_if_ctxruntime_is_not_enabled() -> None:
    """The exit code depends on what Hermes passes: without our plugin it says that all is not right."""
    run = demo("--no-inject")

    assert (run.returncode, run.stdout.splitlines()[-1:]) == (
        1,
        [f"not injecting: 16 of {len(PLAYED) * 8} answers are right"],
    ), run.stdout + run.stderr
