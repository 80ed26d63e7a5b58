"""`ctxruntime demo`, as a program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from ctxruntime.demo.script import COMMANDS, CONVERSATIONS

FRONTENDS = sorted({conversation.frontend for conversation in CONVERSATIONS})
PLAIN = {
    name: value
    for name, value in os.environ.items()
    if name not in {"COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
}

WITHOUT_HERMES = """
from importlib import metadata

installed = metadata.version

def version(name):
    if name == "hermes-agent":
        raise metadata.PackageNotFoundError(name)
    return installed(name)

metadata.version = version

from ctxruntime.cli import main
main(["demo", "--hermes"])
"""


def demo(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return program("-m", "ctxruntime", "demo", *options, **environment)


def program(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        env={**PLAIN, "PYTHONUTF8": "1", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


@pytest.fixture(scope="module")
def run() -> subprocess.CompletedProcess[str]:
    """The demo, with nobody looking on."""
    return demo(COLUMNS="80")


def test_demo_leaves_with_0_as_all_is_right(run: subprocess.CompletedProcess[str]) -> None:
    """The exit code says that with ctxruntime every handler received what was right."""
    assert (run.returncode, run.stdout.splitlines()[-1]) == (
        0,
        f"with ctxruntime: {len(COMMANDS) * 6} of {len(COMMANDS) * 6} answers are right",
    )


def test_demo_leaves_with_1_if_injection_is_off() -> None:
    """The exit code depends on what handlers receive: without the adapt step it says that all is not right."""
    run = demo("--no-inject")

    assert (run.returncode, re.findall(r"^not injecting: \d+ of", run.stdout, re.MULTILINE)) == (
        1,
        ["not injecting: 30 of"],
    )


@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_table_has_a_row_for_each_handler_in_each_frontend(
    run: subprocess.CompletedProcess[str], frontend: str, command: str
) -> None:
    """Every handler kind is shown in every frontend, and is right there with ctxruntime."""
    rows = [line for line in run.stdout.splitlines() if line.split()[:2] == [frontend, command]]

    assert len(rows) == 1
    assert re.search(r" [✓✗] .* ✓ ", rows[0])


def test_demo_shows_whose_notes_meet(run: subprocess.CompletedProcess[str]) -> None:
    """The fault that began it all is shown in two lines of code, and what it does in the buckets."""
    assert '    notes.setdefault(session_id or "_default", []).append(text)\nwithout          _default  ' in run.stdout
    assert re.search(r"^with ctxruntime  c1        buy milk +\n +c2        call mum +\n", run.stdout, re.MULTILINE)


def test_demo_fits_80_columns(run: subprocess.CompletedProcess[str]) -> None:
    """No line is wider than a terminal, and nothing is cut off."""
    assert max(map(len, run.stdout.splitlines())) <= 80
    assert "…" not in run.stdout


def test_demo_tells_progress_in_lines_if_nobody_looks_on(run: subprocess.CompletedProcess[str]) -> None:
    """Into a pipe go no control codes; progress is a line for each run, apart from the table."""
    assert "\x1b" not in run.stdout + run.stderr
    assert run.stderr == f"without: {len(COMMANDS)} steps\nwith ctxruntime: {len(COMMANDS)} steps\n"


def test_demo_moves_no_cursor_in_a_pipe_that_gets_colours() -> None:
    """FORCE_COLOR asks for colours, as build servers do, and not for bars that overwrite each other."""
    run = demo(FORCE_COLOR="1")

    assert set(re.findall(r"\x1b\[[\d;?]*([a-zA-Z])", run.stdout + run.stderr)) == {"m"}


def test_demo_ends_in_under_ten_seconds() -> None:
    """A demonstration is over before anybody wonders whether it hangs."""
    start = time.monotonic()

    demo()

    assert time.monotonic() - start < 10


def has_terminals() -> bool:
    """Whether this system has pseudo-terminals: Windows has none, and a bare chroot has no /dev/pts."""
    try:
        import pty

        for end in pty.openpty():
            os.close(end)
    except (ImportError, OSError):
        return False
    return True


needs_a_terminal = pytest.mark.skipif(not has_terminals(), reason="no pseudo-terminals: is /dev/pts mounted?")


def on_a_terminal(**environment: str) -> str:
    """What the demo writes to a terminal."""
    import pty

    def pieces(terminal: int) -> Iterator[bytes]:
        try:
            while piece := os.read(terminal, 65536):
                yield piece
        except OSError:  # the other end is closed
            return

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ctxruntime", "demo"]
    environment = {**PLAIN, "PYTHONUTF8": "1", "TERM": "xterm-256color", "COLUMNS": "80", **environment}
    with subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        written = b"".join(pieces(ours))
    os.close(ours)
    return written.decode()


COLOUR = re.compile(r"\x1b\[(?:\d+;)*[349]\d(?:;\d+)*m")


@needs_a_terminal
def test_demo_shows_bars_and_colours_on_a_terminal() -> None:
    """Whoever looks on sees how far each run is, and what is right in green."""
    written = on_a_terminal()

    assert re.search(rf"without .*━.*{len(COMMANDS)}/{len(COMMANDS)}", written)
    assert "\x1b[32m✓ c1 / c2" in written


@needs_a_terminal
def test_demo_obeys_no_color() -> None:
    """With NO_COLOR a terminal gets the same, and no colour."""
    written = on_a_terminal(NO_COLOR="1")

    assert "✓ c1 / c2" in written
    assert not COLOUR.search(written)


def test_demo_with_hermes_says_how_to_install_it() -> None:
    """Where there is no Hermes the exit code is 2, and one line names the next step."""
    run = program("-c", WITHOUT_HERMES)

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "ctxruntime: hermes-agent is not installed in this environment; next to ctxruntime, in a virtual "
        "environment for both: pip install hermes-agent==0.19.0\n"
    )
