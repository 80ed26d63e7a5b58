"""Enter a turn where a frontend of Hermes lets an event in.

Every key is set at each, an unknown one as unknown: a message's task may have been started from another's.
"""

from __future__ import annotations

from typing import Any, Final

from ctxruntime import FRONTEND, GATEWAY_SESSION_KEY, SESSION_ID, Turn, session
from ctxruntime.guarding import guard
from ctxruntime.scope import Scope

from . import _host, _host_facts, _host_store, identity, variables
from ._doors import Entry, Facts, held, known, of_source
from ._options import OPTIONS

__all__ = ["cli_chat_entry", "cli_entry", "gateway_agent_entry", "gateway_entry", "remember", "tui_entry"]

NO_FACTS: Final[Facts] = {}  # if they cannot be read, the turn is still this one and not a neighbour's


def cli_entry(original: Entry) -> Entry:
    """Replace ``HermesCLI.process_command``."""

    def process_command(*args: Any, **kwargs: object) -> object:
        with held("cli", cli_turn, args, kwargs, entry=True):
            return original(*args, **kwargs)

    return process_command


def cli_chat_entry(original: Entry) -> Entry:
    """Replace ``HermesCLI.chat``, which makes the agent, if there is none, and runs its turn."""

    def chat(*args: Any, **kwargs: object) -> object:
        with held("cli", cli_chat_turn, args, kwargs):
            return original(*args, **kwargs)

    return chat


def gateway_entry(original: Entry) -> Entry:
    """Replace ``GatewayRunner._handle_message``."""

    async def _handle_message(*args: Any, **kwargs: Any) -> object:
        async with held("gateway", gateway_turn, args, kwargs, entry=True) as entered:
            if entered:
                note_source(*args, **kwargs)
            return await original(*args, **kwargs)

    return _handle_message


def gateway_agent_entry(original: Entry) -> Entry:
    """Replace ``GatewayRunner._run_agent``, the second door of a message's turn."""

    async def _run_agent(*args: Any, **kwargs: object) -> object:
        async with held("gateway agent", gateway_agent_turn, args, kwargs):
            return await original(*args, **kwargs)

    return _run_agent


def tui_entry(original: Entry) -> Entry:
    """Replace ``tui_gateway.server.handle_request``."""

    def handle_request(*args: Any, **kwargs: object) -> object:
        with held("tui", tui_turn, args, kwargs, entry=True) as entered:
            if entered:
                note_ui(*args, **kwargs)
            return original(*args, **kwargs)

    return handle_request


def cli_turn(cli: _host_facts.Cli, /, *_: object, **__: object) -> Scope[Turn]:
    """Return the turn of a command."""
    return session(cli_facts(cli))


def cli_chat_turn(cli: _host_facts.Cli, /, *_: object, **__: object) -> Scope[Turn]:
    """Return the turn of a message; a command may send one, and then this is its second door."""
    return session.join(cli_facts(cli))


def cli_facts(cli: _host_facts.Cli) -> Facts:
    """Return what the command line knows of its session."""
    session_id = known(SESSION_ID, "cli", lambda: _host_facts.cli_session_id(cli))
    remember(cli)
    identity.learn(session_id)
    return {FRONTEND: "cli", SESSION_ID: session_id}


def gateway_turn(gateway: _host_facts.Gateway, /, event: _host_facts.Event, *_: object, **__: object) -> Scope[Turn]:
    """Return the turn of a message; its chat may have no session yet."""
    facts = NO_FACTS
    with guard("hermes gateway: read the session"):
        facts = gateway_facts(gateway, event.source)
        remember(gateway)
        identity.learn(facts[SESSION_ID])
    return session({FRONTEND: "gateway", **facts})


def gateway_facts(gateway: _host_facts.Gateway, source: _host_facts.Source) -> Facts:
    """Return what is known of a message's chat and sender."""
    key = known(GATEWAY_SESSION_KEY, "gateway", lambda: _host_facts.gateway_key(gateway, source))
    session_id = known(SESSION_ID, "gateway", lambda: _host_facts.gateway_session_id(gateway, source))
    if session_id is None and key is not None and OPTIONS.falls_back_to_gateway_key():
        session_id = key
    return {SESSION_ID: session_id, GATEWAY_SESSION_KEY: key, **of_source("gateway", source)}


def gateway_agent_turn(gateway: _host_facts.Gateway, /, *args: Any, **kwargs: Any) -> Scope[Turn]:
    """Return a further door of the message's turn: from here on its session's id is known."""
    facts = NO_FACTS
    with guard("hermes gateway agent: read the session"):
        given = {name: _host.argument(args, kwargs, place, name) for place, name in _OF_RUN_AGENT}
        key = known(GATEWAY_SESSION_KEY, "gateway agent", lambda: given["session_key"])
        session_id = known(SESSION_ID, "gateway agent", lambda: given["session_id"])
        identity.learn(session_id)
        identity.now_in(key, session_id)
        facts = {SESSION_ID: session_id, GATEWAY_SESSION_KEY: key, **of_source("gateway agent", given["source"])}
    return session.join({FRONTEND: "gateway", **facts})


_OF_RUN_AGENT: Final = ((3, "source"), (4, "session_id"), (5, "session_key"))
"""The arguments of ``_run_agent`` that say whose turn it is, by their places behind ``self``."""


def tui_turn(req: Any, *_: object, **__: object) -> Scope[Turn]:  # Any: what a client sent
    """Return the turn of a request; some requests have no session."""
    session_id = known(SESSION_ID, "tui", lambda: _host_facts.tui_session_id(req))
    with guard("hermes tui: read the session"):
        found = _host_facts.tui_session(req)
        if found is not None:
            remember(found[1].get("agent"))
    identity.learn(session_id)
    return session({FRONTEND: "tui", SESSION_ID: session_id})


def remember(owner: object) -> None:
    """Note where the host's session database is."""
    with guard("hermes: the session database"):
        _host_store.remember(owner)


def note_source(_: object, /, event: _host_facts.Event, *__: object, **___: object) -> None:
    """Note what Hermes's variables are to say for a message: of each something, so that none is a neighbour's."""
    with guard("hermes gateway: the host's variables"):
        variables.note({variables.EVERY: "", **_host_facts.source_variables(event.source)})


def note_ui(req: Any, *_: object, **__: object) -> None:
    """Note what Hermes's variables are to say for a request."""
    with guard("hermes tui: the host's variables"):
        ui_id, found = _host_facts.tui_session(req) or ("", {})
        key = found.get("session_key") or ""
        variables.note({"HERMES_SESSION_KEY": key, "HERMES_UI_SESSION_ID": ui_id})
