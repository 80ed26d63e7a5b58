"""Enter a turn where a frontend of Hermes lets an event in.

Every key is set at each, an unknown one as unknown: a message's task may have been started from another's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, final

from ctxruntime import FRONTEND, GATEWAY_SESSION_KEY, SESSION_ID, Key, Turn, session
from ctxruntime.hops.patching import guard
from ctxruntime.scope import Scope

from . import _host
from ._options import OPTIONS

__all__ = ["cli_entry", "gateway_entry", "tui_entry"]

Facts: TypeAlias = dict[Key[str], str | None]
Entry: TypeAlias = Callable[..., Any]  # Any: what the host's functions take and return is the host's


@final
class entered:
    """Hold a turn with the facts that ``read`` finds in what the host's function is called with."""

    __slots__ = ("_args", "_frontend", "_kwargs", "_read", "_scope")

    def __init__(
        self, frontend: str, read: Callable[..., Facts], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        self._frontend = frontend
        self._read = read
        self._args = args
        self._kwargs = kwargs
        self._scope: Scope[Turn] | None = None

    def __enter__(self) -> None:
        facts: Facts = {}  # if they cannot be read, the turn is still this one and not a neighbour's
        with guard(f"hermes {self._frontend}: read the session"):
            facts = self._read(*self._args, **self._kwargs)
        with guard(f"hermes {self._frontend}: enter the session"):
            scope = session({FRONTEND: self._frontend, **facts})
            scope.open()
            self._scope = scope

    def __exit__(self, *_: object) -> None:
        if self._scope is not None:
            with guard(f"hermes {self._frontend}: leave the session"):
                self._scope.close()


def cli_entry(original: Entry) -> Entry:
    """Replace ``HermesCLI.process_command``."""

    def process_command(*args: object, **kwargs: object) -> object:
        with entered("cli", cli_facts, args, kwargs):
            return original(*args, **kwargs)

    return process_command


def gateway_entry(original: Entry) -> Entry:
    """Replace ``GatewayRunner._handle_message``."""

    async def _handle_message(*args: object, **kwargs: object) -> object:
        with entered("gateway", gateway_facts, args, kwargs):
            return await original(*args, **kwargs)

    return _handle_message


def tui_entry(original: Entry) -> Entry:
    """Replace ``tui_gateway.server.handle_request``."""

    def handle_request(*args: object, **kwargs: object) -> object:
        with entered("tui", tui_facts, args, kwargs):
            return original(*args, **kwargs)

    return handle_request


def cli_facts(cli: _host.Cli, /, *_: object, **__: object) -> Facts:
    """Return what is known of a command's session."""
    return {
        SESSION_ID: known(SESSION_ID, "cli", lambda: _host.cli_session_id(cli)),
        GATEWAY_SESSION_KEY: None,
    }


def gateway_facts(gateway: _host.Gateway, /, event: _host.Event, *_: object, **__: object) -> Facts:
    """Return what is known of a message's chat; a chat may have no session yet."""
    key = known(GATEWAY_SESSION_KEY, "gateway", lambda: _host.gateway_key(gateway, event))
    session_id = known(SESSION_ID, "gateway", lambda: _host.gateway_session_id(gateway, event))
    if session_id is None and key is not None and OPTIONS.falls_back_to_gateway_key():
        session_id = key
    return {SESSION_ID: session_id, GATEWAY_SESSION_KEY: key}


def tui_facts(req: object, *_: object, **__: object) -> Facts:
    """Return what is known of a request's session; some requests have none."""
    return {
        SESSION_ID: known(SESSION_ID, "tui", lambda: _host.tui_session_id(req)),
        GATEWAY_SESSION_KEY: None,
    }


def known(key: Key[str], frontend: str, read: Callable[[], Any]) -> str | None:  # Any: to be checked
    """Return what the host has for a key, or None: where it has nothing, or nothing that the door would take.

    Each key is read and checked by itself, so that one bad value costs no other. To Hermes "" is unknown.
    """
    with guard(f"hermes {frontend}: {key.name}"):
        value = read()
        if value is not None and value != "":
            return key.check(value)
    return None
