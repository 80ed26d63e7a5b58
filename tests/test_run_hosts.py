"""`ctxruntime run`: the integration of a host that is installed is there before the program is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "import sys; print('program sees', 'integration' in sys.modules)"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of distributions: a host, and an integration that names it and one that is not installed."""

    def distribution(name: str, entry_points: str = "") -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (folder / "entry_points.txt").write_text(entry_points)

    distribution("some-host")
    distribution("some-integration", "[ctxruntime.hosts]\nsome-host = integration\nno-such-host = absent\n")
    (tmp_path / "integration.py").write_text("print('armed')\n")
    (tmp_path / "absent.py").write_text("print('armed for nothing')\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def run(site: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ctxruntime", "run", str(site / "program.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(site), **environ},
    )


def test_integration_of_an_installed_host_is_imported_before_the_program(site: Path) -> None:
    """The entry point that names a host which is installed is loaded, and no other."""
    done = run(site)

    assert (done.returncode, done.stdout, done.stderr) == (0, "armed\nprogram sees True\n", "")


def test_integration_that_fails_costs_only_itself(site: Path) -> None:
    """The program runs, and the fault is logged with the host's name."""
    (site / "integration.py").write_text("raise RuntimeError('a fault of the integration')\n")
    done = run(site)

    assert (done.returncode, done.stdout) == (0, "program sees False\n")
    assert "run: the integration of some-host" in done.stderr


def test_switched_off_nothing_is_imported(site: Path) -> None:
    """`CTXRUNTIME_DISABLED` runs the program bare."""
    assert run(site, CTXRUNTIME_DISABLED="1").stdout == "program sees False\n"
