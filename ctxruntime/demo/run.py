"""Play the script: all frontends at once, every conversation at the same line."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

from ctxruntime.demo.frontends.cli_loop import Terminal
from ctxruntime.demo.frontends.gateway import Gateway, Message
from ctxruntime.demo.frontends.rpc import RpcServer
from ctxruntime.demo.host import Host
from ctxruntime.demo.plugins import HEARD, Notes, handlers
from ctxruntime.demo.script import COMMANDS, CONVERSATIONS, Conversation, lines_of
from ctxruntime.demo.wiring import Wiring

Answers: TypeAlias = Mapping[tuple[str, str], str]
"""What came back, by session id and command."""

TIMEOUT: Final = 8.0
"""Seconds after which a conversation that the others wait for is given up."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of the script left behind."""

    answers: Answers
    notes: Mapping[str, list[str]]
    again: Mapping[str, int]
    """Answers that were given more than once, and how often."""


def play(wiring: Wiring, step: Callable[[], object]) -> Outcome:
    """Play the script in a host of the given wiring; `step` is called at each line of it."""
    HEARD.clear()
    notes = Notes()
    meeting = threading.Barrier(len(CONVERSATIONS), action=step, timeout=TIMEOUT)
    host = Host(handlers(notes), wiring, meeting.wait)
    answers: dict[tuple[str, str], str] = {}
    with ThreadPoolExecutor() as threads:
        frontends = [threads.submit(part, host) for part in (_terminals, _chats, _tui)]
        ...
    return Outcome(answers, notes.notes, {a: n for a, n in Counter(HEARD).items() if n > 1})
