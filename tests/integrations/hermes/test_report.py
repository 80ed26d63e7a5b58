"""`python -m ctxruntime_integrations.hermes`: what of the installed Hermes is patched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from ctxruntime_integrations.hermes import _host
from ctxruntime_integrations.hermes._installation import POINTS


def report(home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ctxruntime_integrations.hermes"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=home,
        # Without PYTHONUNBUFFERED, as at most places: what is not flushed is lost where the process is ended.
        env={**os.environ, "HOME": str(home), "HERMES_HOME": str(home), "PYTHONUNBUFFERED": ""},
    )


@pytest.mark.hermes
def test_each_patch_point_is_ok_and_the_host_is_named(tmp_path: Path) -> None:
    """One line says which Hermes this is, and one for each patch point what became of it, within 80 columns.

    It is `ok`, or absent in a Hermes that is older than what is patched.
    """
    (tmp_path / "config.yaml").write_text("plugins: {enabled: [ctxruntime]}\n")
    done = report(tmp_path)
    lines = done.stdout.splitlines()

    assert done.returncode == 0
    assert lines[0].startswith(f"hermes-agent {metadata.version('hermes-agent')}, Python 3.")
    states = {True: "ok      ", False: "absent  "}
    assert lines[2 : 2 + len(POINTS)] == [f"{states[_host.is_expected(point)]} {point}" for point in POINTS]
    assert "plugins.enabled in config.yaml names ctxruntime: yes" in lines
    assert max(map(len, lines)) <= 80


def test_without_a_host_it_says_so(tmp_path: Path) -> None:
    """Where no hermes-agent is installed there is one line, and the exit code is 1."""
    try:
        metadata.version("hermes-agent")
    except metadata.PackageNotFoundError:
        done = report(tmp_path)
        assert done.returncode == 1
        assert done.stdout == f"hermes-agent is not installed in this environment: {sys.executable}\n"


@pytest.mark.hermes
@pytest.mark.parametrize(
    ("store", "shown"),
    [
        ("postgresql://bot:s3cret@db.example:5432/x?sslpassword=s3cret", "postgresql://db.example"),
        ("redis://:s3cret?@db.example", "redis://..."),
        ("sqlite:conversations.db", "sqlite:conversations.db"),
        ("off", "off"),
    ],
)
def test_where_conversations_are_is_said_without_a_password(tmp_path: Path, store: str, shown: str) -> None:
    """A server's name is shown, and nothing else of its URL, right or wrong; a file as it was given."""
    settings = {"plugins": {"entries": {"ctxruntime": {"store": store}}}}
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    done = report(tmp_path)

    assert done.stdout.splitlines()[-1] == f"conversations are kept in: {shown}"
    assert "s3cret" not in done.stdout + done.stderr
