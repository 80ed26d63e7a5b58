"""What an operator sees in Phoenix."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

OFFLINE = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]


def opened(page: str, directory: Path) -> str:
    """Return the document that a browser shows, and keep a picture of it in the directory."""
    browser = shutil.which("chromium")
    assert browser, "there is no chromium: apt-get install chromium"
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", *OFFLINE, "--disable-sync"]
    command += [f"--user-data-dir={directory / 'profile'}", "--window-size=1400,700", "--virtual-time-budget=10000"]
    command += [f"--screenshot={directory / 'sessions.png'}", "--dump-dom", page]
    with (directory / "browser.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    try:
        return process.communicate(timeout=120)[0].decode()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_the_sessions_page_shows_every_session(sent: Any, tmp_path: Path) -> None:
    """In a browser, the Sessions page of the project has a row for each session, and none besides."""
    document = opened(sent("phoenix").answer["page"], tmp_path)

    rows = re.findall(r"<tr.*?</tr>", document.partition("<tbody")[2], re.DOTALL)
    texts = [[text for text in re.split(r"<[^>]*>", row) if text] for row in rows]
    assert sorted(text[0] for text in texts) == ["phoenix-A1", "phoenix-A2", "phoenix-B1"], document[-4000:]
    assert (tmp_path / "sessions.png").read_bytes().startswith(b"\x89PNG")


def test_a_turn_shows_what_was_asked_and_answered(sent: Any) -> None:
    """What `traced` records of a turn's root is what Phoenix shows as the turn's input and output."""
    turns = sent("phoenix").answer["sessions"]["phoenix-A2"]

    assert [(turn["input"], turn["output"]) for turn in turns if turn["input"]] == [
        ('{"whom": "you"}', "Hello you, in A2")
    ]
