"""Play the script: all frontends at once, and every conversation at the same line of it."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from ctxruntime.demo.frontends.cli_loop import Terminal
from ctxruntime.demo.frontends.gateway import Gateway, Message
from ctxruntime.demo.frontends.rpc import RpcServer
from ctxruntime.demo.host import Host
from ctxruntime.demo.plugins import HEARD, Notes, handlers
from ctxruntime.demo.script import COMMANDS, CONVERSATIONS, Answers, Call, Conversation, Event, lines_of
from ctxruntime.demo.wiring import Wiring

TIMEOUT: Final = 8.0
"""Seconds after which a conversation that does not come is waited for no longer."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of the script left behind."""

    answers: Answers
    notes: Mapping[str, Sequence[str]]


def play(wiring: Wiring, step: Callable[[], None]) -> Outcome:
    """Play the script in a host of the given wiring; `step` is called at each line of it."""
    HEARD.clear()
    notes = Notes()
    meeting = threading.Barrier(len(CONVERSATIONS), action=step, timeout=TIMEOUT)
    host = Host(handlers(notes), wiring, meeting.wait)

    answers: dict[Call, str] = {}
    with ThreadPoolExecutor(3) as threads:
        for part in [threads.submit(frontend, host) for frontend in (_terminals, _chats, _rpc)]:
            answers.update(part.result())
    return Outcome({call: counted(answer, HEARD) for call, answer in answers.items()}, notes.notes)


def counted(answer: str, heard: Sequence[str]) -> str:
    """Mark an answer whose handler was called more than once for it."""
    times = heard.count(answer)
    return answer if times < 2 else f"{answer} -> called {times} times"


def _of(frontend: str) -> list[Conversation]:
    return [conversation for conversation in CONVERSATIONS if conversation.frontend == frontend]


def _terminals(host: Host) -> Answers:
    """Type into each terminal, and read its screen."""
    mine = _of("cli")
    screens = [io.StringIO() for _ in mine]
    with ThreadPoolExecutor(len(mine)) as threads:
        loops = [
            threads.submit(
                Terminal(host, conversation.session_id, screen).run,
                io.StringIO("\n".join(lines_of(conversation))),
            )
            for conversation, screen in zip(mine, screens, strict=True)
        ]
        for loop in loops:
            loop.result()
    return {
        (conversation.session_id, command): answer
        for conversation, screen in zip(mine, screens, strict=True)
        for command, answer in zip(COMMANDS, screen.getvalue().splitlines(), strict=True)
    }


def _chats(host: Host) -> Answers:
    """Write into each chat, and read what is sent back to it."""
    mine = _of("gateway")
    chats = {str(conversation.gateway_session_key): conversation for conversation in mine}
    sent: defaultdict[str, list[str]] = defaultdict(list)

    async def send(chat: str, text: str) -> None:
        sent[chat].append(text)

    gateway = Gateway(host, {chat: conversation.session_id for chat, conversation in chats.items()}, send)
    asyncio.run(
        gateway.run(
            Message(chat, Event(conversation, command).line)
            for command in COMMANDS
            for chat, conversation in chats.items()
        )
    )
    return {
        (conversation.session_id, command): answer
        for chat, conversation in chats.items()
        for command, answer in zip(COMMANDS, sent[chat], strict=True)
    }


def _rpc(host: Host) -> Answers:
    """Send requests for all sessions over one connection, and read the responses as they come."""
    mine = _of("tui")
    answers: dict[Call, str] = {}
    here, there = socket.socketpair()
    here.settimeout(TIMEOUT)
    with ThreadPoolExecutor(1) as thread, there, here, here.makefile("rw", encoding="utf-8") as connection:
        thread.submit(RpcServer(host, there, workers=len(mine)).serve)
        for command in COMMANDS:
            requests = {f"{command} {conversation.session_id}": Event(conversation, command) for conversation in mine}
            for rid, event in requests.items():
                params = {"session_id": event.conversation.session_id, "line": event.line}
                request = {"jsonrpc": "2.0", "id": rid, "method": "command", "params": params}
                connection.write(json.dumps(request) + "\n")
            connection.flush()
            for _ in mine:
                response = json.loads(connection.readline())
                event = requests[response["id"]]
                answers[event.conversation.session_id, command] = response["result"]
    return answers
