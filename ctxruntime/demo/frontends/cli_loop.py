"""A command line: a thread that reads lines and prints answers, one session per terminal."""

from __future__ import annotations

from typing import TextIO

from ctxruntime.demo.host import Host


class Terminal:
    """One terminal, with the session that is open in it."""

    def __init__(self, host: Host, session_id: str, screen: TextIO) -> None:
        self._host = host
        self._session_id = session_id
        self._screen = screen

    def run(self, keyboard: TextIO) -> None:
        """Answer line after line, until there are no more."""
        for line in keyboard:
            self._on_line(line.rstrip("\n"))

    def _on_line(self, line: str) -> None:
        # The entry point: from here on everything that runs for this line knows its session.
        with self._host.session(session_id=self._session_id, frontend="cli"):
            print(self._host.handle(line), file=self._screen)
