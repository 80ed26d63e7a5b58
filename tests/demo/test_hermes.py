"""The script played in Hermes: what can be tested without it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from ctxruntime.demo import hermes
from ctxruntime.demo.script import Conversation


def test_long_ids_get_short_names() -> None:
    """Ids and keys as Hermes makes them are replaced in all that is told, each frontend's counted by itself."""
    told = [
        json.dumps({"conversation": asdict(conversation)})
        for conversation in (
            Conversation("cli", "20261130_070956_feb6d8", "a note"),
            Conversation("gateway", "20261130_070957_cd75", "a note", "agent:main:discord:group:chat-1"),
            Conversation("gateway", "20261130_070957_28c3", "a note", "agent:main:discord:group:chat-2"),
        )
    ]
    answer = "line 4 of 20261130_070957_28c3 -> gateway_session_key=agent:main:discord:group:chat-2"
    told.append(json.dumps({"session_id": "20261130_070957_28c3", "command": "kwargs", "answer": answer}))

    *conversations, last = hermes.with_short_names(told)

    assert [Conversation(**fact["conversation"]) for fact in conversations] == [
        Conversation("cli", "c1", "a note"),
        Conversation("gateway", "g1", "a note", "k1"),
        Conversation("gateway", "g2", "a note", "k2"),
    ]
    assert last == {
        "session_id": "g2",
        "command": "kwargs",
        "answer": "line 4 of g2 -> gateway_session_key=k2",
    }


def test_hermes_that_does_not_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hermes that ends early is no run that went wrong: its last words are told."""
    (tmp_path / "hermes_cli.py").write_text("raise RuntimeError('not today')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(hermes.HermesError, match=r"^Hermes ended before the script did: RuntimeError: not today$"):
        hermes.play([], lambda: None)
