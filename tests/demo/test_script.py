"""The script and its oracle."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ctxruntime.demo import script
from ctxruntime.demo.plugins import Notes, handlers
from ctxruntime.demo.script import COMMANDS, CONVERSATIONS, Conversation, Event, right

CHAT = Conversation("gateway", "g1", "buy milk", "k1")
TERMINAL = Conversation("cli", "c1", "call mum")


def test_oracle_imports_nothing_of_ctxruntime() -> None:
    """What is right is worked out without what is put to the test."""
    nodes = list(ast.walk(ast.parse(Path(script.__file__).read_text(encoding="utf-8"))))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}

    assert imported == {"__future__", "collections.abc", "dataclasses", "typing"}


@pytest.mark.parametrize(
    ("conversation", "command", "answer"),
    [
        (CHAT, "legacy", "line 0 of g1"),
        (CHAT, "named", "line 1 of g1 -> session_id=g1"),
        (CHAT, "kwargs", "line 4 of g1 -> session_id=g1, gateway_session_key=k1"),
        (TERMINAL, "kwargs", "line 4 of c1 -> session_id=c1"),
        (TERMINAL, "narrow", "line 19 of c1"),
        (TERMINAL, "note", "call mum -> bucket=c1"),
        (TERMINAL, "notes", "line 23 of c1 -> notes=c1 (1)"),
    ],
    ids=lambda value: value.frontend if isinstance(value, Conversation) else str(value).partition(" ->")[0],
)
def test_oracle_says_what_is_right(conversation: Conversation, command: str, answer: str) -> None:
    """A handler should receive its own conversation's keys, those that its signature takes, and no others."""
    assert right(Event(conversation, command)) == answer


def test_every_command_has_a_handler() -> None:
    """The plugins register what the script calls, and the script calls all that they register."""
    assert tuple(handlers(Notes())) == COMMANDS


def test_no_two_events_have_the_same_text() -> None:
    """An answer can be traced to the one event that it is for."""
    texts = [Event(conversation, command).text for conversation in CONVERSATIONS for command in COMMANDS]

    assert len(set(texts)) == len(texts)


def test_each_frontend_has_two_conversations() -> None:
    """In each frontend there is somebody to be taken for somebody else."""
    frontends = [conversation.frontend for conversation in CONVERSATIONS]

    assert frontends == ["cli", "cli", "gateway", "gateway", "tui", "tui"]
