"""Hold a scope of ours around a call of the host's, which goes on without it if ours fails."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, TypeAlias, final

from ctxruntime import FRONTEND, GATEWAY_SESSION_KEY, SESSION_ID, USER_ID, Key, bind, cleared, session
from ctxruntime.guarding import guard
from ctxruntime.scope import Scope

from . import _host_facts, identity
from .keys import HERMES_CHAT_ID, HERMES_PLATFORM, HERMES_THREAD_ID

__all__ = ["Entry", "Facts", "held", "known", "of_agent", "of_source", "session_of_chat"]

Facts: TypeAlias = dict[Key[str], str | None]
Entry: TypeAlias = Callable[..., Any]  # Any: what the host's functions take and return is the host's


SAME_CHAT: Final = (GATEWAY_SESSION_KEY, USER_ID, FRONTEND, HERMES_PLATFORM, HERMES_CHAT_ID, HERMES_THREAD_ID)
"""What does not change with a chat's session."""


def session_of_chat(facts: Facts, key: str | None) -> Scope[Any]:
    """Return a turn for a session of a chat, told of and not entered by its user: it moves no chat to that session."""
    identity.learn(facts.get(SESSION_ID))  # it may be the first event of the process
    if key == GATEWAY_SESSION_KEY.get(None):
        return session(facts, take=SAME_CHAT)
    if key is None:
        return session(facts)
    return InChat(key, session({FRONTEND: "gateway", **facts}, take=(GATEWAY_SESSION_KEY,)))


@final
class InChat(Scope[None]):
    """A turn that takes the key over from a chat that is not in effect here; for one entry."""

    __slots__ = ("_key", "_stack", "_turn")

    def __init__(self, key: str, turn: Scope[Any]) -> None:
        self._key = key
        self._turn = turn
        self._stack = ExitStack()

    def __enter__(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(cleared())
            stack.enter_context(bind(gateway_session_key=self._key))
            stack.enter_context(self._turn)
            self._stack = stack.pop_all()

    def __exit__(self, kind: object, error: object, trace: object, /) -> None:
        self._stack.close()


@final
class held:
    """Hold the scope that `make` returns for a call, in both kinds of `with`; where it returns None, hold nothing.

    `site` says where, in what is logged of a fault of ours. Where an event is let in (`entry`) nothing is in effect
    then: a message's task may have been started from another's. What each `with` gives is whether all went well.
    """

    __slots__ = ("_args", "_entry", "_kwargs", "_make", "_scope", "_site")

    def __init__(
        self,
        site: str,
        make: Callable[..., Scope[Any] | None],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        *,
        entry: bool = False,
    ) -> None:
        self._site = site
        self._entry = entry
        self._make = make
        self._args = args
        self._kwargs = kwargs
        self._scope: Scope[Any] | None = None

    def __enter__(self) -> bool:
        with guard(f"hermes {self._site}: enter the session"):
            scope = self._make(*self._args, **self._kwargs)
            if scope is not None:
                scope.__enter__()
                self._scope = scope
            return True
        return self._failed()

    def _failed(self) -> bool:
        if self._entry:
            self._scope = cleared()
            self._scope.__enter__()
        return False

    def __exit__(self, *_: object) -> None:
        if self._scope is not None:
            with guard(f"hermes {self._site}: leave the session"):
                self._scope.__exit__(None, None, None)

    async def __aenter__(self) -> bool:
        with guard(f"hermes {self._site}: enter the session"):
            # A file is not waited for in another thread. The host's loop would go on meanwhile: a message's handler
            # that ends without having been suspended is what its typing indicator survives on Python 3.11, where
            # `wait_for` loses a cancellation that comes at the wrong moment.
            if not identity.is_remote():
                return self.__enter__()
            # What is read is taught to the bridge, which may ask its store.
            scope = await to_thread(self._make, *self._args, **self._kwargs)
            if scope is not None:
                await scope.__aenter__()
                self._scope = scope
            return True
        return self._failed()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()


def known(key: Key[str], site: str, read: Callable[[], Any]) -> str | None:  # Any: to be checked
    """Return what the host has for a key, or None: where it has nothing, or nothing that the door would take.

    Each key is read and checked by itself, so that one bad value costs no other. To Hermes "" is unknown.
    """
    with guard(f"hermes {site}: {key.name}"):
        value = read()
        if value is not None and value != "":
            return key.check(value)
    return None


def of_source(site: str, source: _host_facts.Source) -> Facts:
    """Return what a message's source says of who sent it and where."""
    return _of(site, source, user="user_id", platform="platform", chat="chat_id", thread="thread_id")


def of_agent(site: str, agent: _host_facts.Agent) -> Facts:
    """Return all that an agent knows of its session."""
    facts = _of(site, agent, user="_user_id", platform="platform", chat="_chat_id", thread="_thread_id")
    facts[SESSION_ID] = known(SESSION_ID, site, lambda: agent.session_id)
    facts[GATEWAY_SESSION_KEY] = known(GATEWAY_SESSION_KEY, site, lambda: _host_facts.agent_key(agent))
    facts[FRONTEND] = _frontend(facts)
    return facts


def _of(site: str, owner: object, *, user: str, platform: str, chat: str, thread: str) -> Facts:
    names = {USER_ID: user, HERMES_PLATFORM: platform, HERMES_CHAT_ID: chat, HERMES_THREAD_ID: thread}

    def read(name: str) -> Callable[[], object]:
        return lambda: _host_facts.text(getattr(owner, name, None))

    return {key: known(key, site, read(name)) for key, name in names.items()}


def _frontend(facts: Facts) -> str | None:
    """Say which frontend an agent serves: its platform, which of a chat is the chat's."""
    platform = facts[HERMES_PLATFORM]
    return platform if facts[GATEWAY_SESSION_KEY] is None or platform == "api_server" else "gateway"
