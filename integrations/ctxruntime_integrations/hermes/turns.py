"""The agent's turn, whoever runs it, and where its session changes.

One agent's work is one turn: the frontend's, if that has let the event in and the session is the same; a scope in
its parent's turn, if it is a sub-agent; a turn of its own for the chat that started it, if it is a background job.
"""

from __future__ import annotations

from typing import Any, Final

from ctxruntime import FRONTEND, GATEWAY_SESSION_KEY, SESSION_ID, USER_ID, bind, cleared, current_turn, session
from ctxruntime.scope import Scope

from . import _host, _host_facts, identity
from ._doors import Entry, Facts, held, known, of_agent, session_of_chat
from .entrypoints import remember
from .keys import HERMES_PLATFORM

__all__ = ["agent_turn", "compressing", "eviction", "finding", "moving", "title", "tool_call"]

OF_THE_CHAT: Final = (GATEWAY_SESSION_KEY, USER_ID)
"""What a background job has of the turn that started it."""
OF_NO_CHAT: Final = frozenset({"cron", "curator"})
"""The platforms of agents that serve no chat, whichever turn happens to start them."""


def agent_turn(original: Entry) -> Entry:
    """Replace ``run_conversation``: an agent's turn."""

    def run_conversation(*args: Any, **kwargs: object) -> object:
        with held("agent", scope_of_turn, args, kwargs):
            return original(*args, **kwargs)

    return run_conversation


def tool_call(original: Entry) -> Entry:
    """Replace ``invoke_tool``, which is called outside an agent's turn too."""

    def invoke_tool(*args: Any, **kwargs: object) -> object:
        with held("tool", scope_of_tool, args, kwargs):
            return original(*args, **kwargs)

    return invoke_tool


def eviction(original: Entry) -> Entry:
    """Replace what tears an agent down: it runs for that agent's chat, and not for the one that evicts it."""

    def tear_down(*args: Any, **kwargs: object) -> object:
        with held("eviction", scope_of_eviction, args, kwargs):
            return original(*args, **kwargs)

    return tear_down


def title(original: Entry) -> Entry:
    """Replace ``maybe_auto_title``: not every frontend has the session in effect when the agent's turn has ended."""

    def maybe_auto_title(*args: Any, **kwargs: object) -> object:
        with held("title", scope_of_title, args, kwargs):
            return original(*args, **kwargs)

    return maybe_auto_title


def compressing(original: Entry) -> Entry:
    """Replace ``compress_context``, after which a session may go on under another id."""

    def compress_context(*args: Any, **kwargs: Any) -> object:
        agent = _host.argument(args, kwargs, 0, "agent")
        before = known(SESSION_ID, "compression", lambda: agent.session_id)
        try:
            return original(*args, **kwargs)
        finally:
            remember(agent)
            identity.rotated(before, known(SESSION_ID, "compression", lambda: agent.session_id))

    return compress_context


def moving(original: Entry) -> Entry:
    """Replace ``reset_session`` and ``switch_session``: a chat is in another session when they return."""

    def move(*args: Any, **kwargs: Any) -> object:
        entry: Any = original(*args, **kwargs)
        if entry is not None:
            identity.moved_to(*_of_entry(entry))
        return entry

    return move


def finding(original: Entry) -> Entry:
    """Replace ``get_or_create_session``, which may give a chat another session inside its message's turn."""

    def get_or_create_session(*args: Any, **kwargs: Any) -> object:
        entry: Any = original(*args, **kwargs)
        identity.now_in(*_of_entry(entry))
        return entry

    return get_or_create_session


def _of_entry(entry: Any) -> tuple[str | None, str | None]:  # Any: a SessionEntry of the host's
    key = known(GATEWAY_SESSION_KEY, "store", lambda: entry.session_key)
    return key, known(SESSION_ID, "store", lambda: entry.session_id)


def scope_of_turn(agent: _host_facts.Agent, /, *_: object, **__: object) -> Scope[Any]:
    """Return the scope of an agent's turn."""
    remember(agent)
    facts = of_agent("agent", agent)
    if _is_of_turn_in_effect(facts):
        # The turn knows better than the agent who sent this: it may have been kept from another sender's message.
        return session.join({key: facts[key] for key in (SESSION_ID, GATEWAY_SESSION_KEY, HERMES_PLATFORM)})
    if _host_facts.is_subagent(agent):
        return _scope_of_subagent(agent, facts)
    if facts[GATEWAY_SESSION_KEY] is None and facts[HERMES_PLATFORM] not in OF_NO_CHAT:
        return _scope_of_job(facts)
    identity.learn(facts[SESSION_ID])
    return session(facts)


def _scope_of_job(facts: Facts) -> Scope[Any]:
    """Return a turn for an agent that was given no chat: that of the turn which starts it, if that is a chat's."""
    chat, own = SESSION_ID.get(None), facts[SESSION_ID]
    if not GATEWAY_SESSION_KEY.is_bound():
        identity.learn(own)
        return session(facts)
    if chat is not None and own is not None:
        identity.child_of(chat, own)
    return session(_given({**facts, FRONTEND: FRONTEND.get(None)}), take=OF_THE_CHAT)


def scope_of_eviction(_: object, /, agent: _host_facts.Agent | None = None, *__: object, **___: object) -> Scope[Any]:
    """Return a turn for what an agent that is torn down has still to do."""
    if agent is None:
        return cleared()
    facts = of_agent("eviction", agent)
    return session_of_chat(_given(facts), facts[GATEWAY_SESSION_KEY])


def scope_of_title(*args: Any, **kwargs: object) -> Scope[Any] | None:
    """Return a turn for a title of a session; None where that session is in effect."""
    session_id = known(SESSION_ID, "title", lambda: _host.argument(args, kwargs, 1, "session_id"))
    if session_id is None or session_id == SESSION_ID.get(None):
        return None
    return session_of_chat({SESSION_ID: session_id}, identity.key_of(session_id))


def scope_of_tool(agent: _host_facts.Agent, /, *args: object, **kwargs: object) -> Scope[Any] | None:
    """Return the scope of a tool's call; None where the agent's own is in effect, as nearly always."""
    if current_turn() is not None and SESSION_ID.get(None) == agent.session_id:
        return None
    return scope_of_turn(agent)


def _given(facts: Facts) -> Facts:
    """Leave out what is not known: a key that is taken over is not to be taken away again."""
    return {key: value for key, value in facts.items() if value is not None}


def _is_of_turn_in_effect(facts: Facts) -> bool:
    turn = current_turn()
    if turn is None or turn.ended:
        return False
    key, here = facts[GATEWAY_SESSION_KEY], GATEWAY_SESSION_KEY.get(None)
    if key is not None and here is not None:
        return key == here
    return facts[SESSION_ID] is not None and facts[SESSION_ID] == SESSION_ID.get(None)


def _scope_of_subagent(agent: _host_facts.Agent, facts: Facts) -> Scope[Any]:
    """Return the scope of a sub-agent: in the turn that it was started in, as far as that got here."""
    if current_turn() is not None:
        return bind({key: facts[key] for key in (SESSION_ID, HERMES_PLATFORM)})
    parent, own = _host_facts.parent_of(agent), facts[SESSION_ID]
    if parent is None or own is None:
        return session(facts)
    identity.child_of(parent, own)
    return session_of_chat(_given(facts), identity.key_of(parent))
