"""What is read of the host's objects, each fact under its own key, and whose child a conversation is."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.hermes

PREPARED = """
from types import SimpleNamespace
import ctxruntime
from ctxruntime import FRONTEND, GATEWAY_SESSION_KEY, SESSION_ID, USER_ID, session
from ctxruntime_integrations import hermes
from ctxruntime_integrations.hermes import _doors, identity, turns
from ctxruntime_integrations.hermes.keys import HERMES_CHAT_ID, HERMES_PLATFORM, HERMES_THREAD_ID
hermes.install(store="memory:")
def bridge():
    return identity.IDENTITY.bridge()
"""


def succeeds(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PREPARED + program], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr


def test_each_fact_of_a_messages_source_is_under_its_key() -> None:
    """A number is an id too, and what is missing or empty is not known."""
    succeeds(
        """
found = _doors.of_source("here", SimpleNamespace(user_id="u", platform="telegram", chat_id=7, thread_id="t"))
assert found == {USER_ID: "u", HERMES_PLATFORM: "telegram", HERMES_CHAT_ID: "7", HERMES_THREAD_ID: "t"}, found
found = _doors.of_source("here", SimpleNamespace(user_id="", platform="telegram", thread_id=None))
assert found == {USER_ID: None, HERMES_PLATFORM: "telegram", HERMES_CHAT_ID: None, HERMES_THREAD_ID: None}, found
"""
    )


def test_each_fact_of_an_agent_is_under_its_key() -> None:
    """Its frontend is the gateway where it has a chat, and its platform where it has none."""
    succeeds(
        """
private = {"_user_id": "u", "_chat_id": "c", "_thread_id": "t", "_gateway_session_key": "k"}
found = _doors.of_agent("here", SimpleNamespace(session_id="s", platform="telegram", **private))
assert found == {
    USER_ID: "u", HERMES_PLATFORM: "telegram", HERMES_CHAT_ID: "c", HERMES_THREAD_ID: "t",
    SESSION_ID: "s", GATEWAY_SESSION_KEY: "k", FRONTEND: "gateway",
}, found
assert _doors.of_agent("here", SimpleNamespace(session_id="s", platform="acp"))[FRONTEND] == "acp"
"""
    )


def test_background_jobs_conversation_is_the_child_of_its_chats() -> None:
    """It has a conversation of its own, whose parent is the one that it was started in."""
    succeeds(
        """
seen = []
run = turns.agent_turn(lambda agent: seen.append(dict(ctxruntime.current())))
with session(session_id="s1", gateway_session_key="k"):
    run(SimpleNamespace(session_id="job", platform="telegram"))
assert (seen[0]["session_id"], seen[0]["gateway_session_key"]) == ("job", "k")
chat, job = bridge().find(session_id="s1"), bridge().find(session_id="job")
assert chat.id != job.id and job.parent == chat.id, (chat, job)
"""
    )


def test_subagents_conversation_is_the_child_of_the_one_that_made_it() -> None:
    """Also where it starts with no turn in effect, and only knows its parent's session."""
    succeeds(
        """
run = turns.agent_turn(lambda agent: None)
with session(session_id="s1"):
    pass
run(SimpleNamespace(session_id="child", platform="cli", _delegate_depth=1, _parent_session_id="s1"))
parent, child = bridge().find(session_id="s1"), bridge().find(session_id="child")
assert parent.id != child.id and child.parent == parent.id, (parent, child)
"""
    )


def test_session_that_comes_in_while_the_store_is_opened_is_of_its_conversation_too() -> None:
    """Of several first events, at once in several threads, each finds the bridge: what one goes on from is told."""
    succeeds(
        """
import threading
from ctxruntime_integrations.hermes import _host_store
opening, may_open, open_store = threading.Event(), threading.Event(), identity.open_store
def opened(*args, **kwargs):
    opening.set()
    assert may_open.wait(60)
    return open_store(*args, **kwargs)
identity.open_store = opened
_host_store.origin_of = lambda id: _host_store.Origin("old", "compression") if id == "new" else None
run = turns.agent_turn(lambda agent: None)
def start(id):
    thread = threading.Thread(target=run, args=(SimpleNamespace(session_id=id, platform="tui"),))
    thread.start()
    return thread
old = start("old")
assert opening.wait(60)
new = start("new")
new.join(0.2)
may_open.set()
old.join()
new.join()
bridge().resolve(session_id="old"), bridge().resolve(session_id="new")
assert bridge().find(session_id="old").id == bridge().find(session_id="new").id
"""
    )


def test_rotation_that_a_failing_store_missed_is_learned_of_later() -> None:
    """Hermes knows it still: when the store answers again, the session is of the conversation that it goes on from."""
    succeeds(
        """
import time
from ctxruntime.conversation import Bridge, MemoryStore, StoreError, use
from ctxruntime_integrations.hermes import _host_store
class Failing(MemoryStore):
    down = False
    def look(self, *args, **kwargs):
        if self.down:
            raise StoreError("the store", "is down", "wait")
        return super().look(*args, **kwargs)
store = Failing()
_host_store.origin_of = lambda id: _host_store.Origin("s1", "compression") if id == "s2" else None
def compress(agent):
    agent.session_id = "s2"
def work(agent):
    store.down = True
    turns.compressing(compress)(agent)
with use(Bridge(store)) as using:
    turns.agent_turn(work)(SimpleNamespace(session_id="s1", platform="cli"))
    run = turns.agent_turn(lambda agent: None)
    run(SimpleNamespace(session_id="s2", platform="cli"))  # while the store is left alone, or fails
    store.down = False
    while using.left_alone:
        time.sleep(0.05)
    run(SimpleNamespace(session_id="s2", platform="cli"))
    assert bridge().find(session_id="s2").id == bridge().find(session_id="s1").id
"""
    )
