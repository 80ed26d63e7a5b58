"""What plugin authors write: handlers of every signature kind, all in use in one host at the same time.

Nearly all of them import nothing: they name a parameter, and what it names arrives. Each answers with what it
received, so that the answer that a user gets to see shows which session the handler believed to serve.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Annotated, Final, TypeAlias

import ctxruntime as ctx
from ctxruntime.demo.script import NOTE, NOTES, answer

Answer: TypeAlias = str | Awaitable[str] | Iterator[str] | AsyncIterator[str]
"""What a handler may give back: text, something to wait for, or text in pieces."""
Handler: TypeAlias = Callable[..., Answer]

HEARD: Final[list[str]] = []
"""Each answer of each handler, one per call: whoever was called twice is in it twice."""


def say(raw_args: str, **received: str | None) -> str:
    """Answer with what was received."""
    text = answer(raw_args, received)
    HEARD.append(text)
    return text


# Functions


def legacy(raw_args: str) -> str:
    """Take the one argument that hosts have always passed."""
    return say(raw_args)


def named(raw_args: str, session_id: str) -> str:
    """Require the session: whoever calls it without one gets an error."""
    return say(raw_args, session_id=session_id)


def defaulted(raw_args: str, session_id: str | None = None) -> str:
    """Take the session where the host has it to give."""
    return say(raw_args, session_id=session_id)


def keyword_only(raw_args: str, *, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
    """Take session and chat, by keyword."""
    return say(raw_args, session_id=session_id, gateway_session_key=gateway_session_key)


def keywords(raw_args: str, **keys: str) -> str:
    """Take whatever there is."""
    return say(raw_args, **dict(sorted(keys.items(), reverse=True)))


def positional_only(raw_args: str, session_id: str | None = None, /) -> str:
    """Take the session by position."""
    return say(raw_args, session_id=session_id)


async def coroutine(raw_args: str, session_id: str | None = None, *, gateway_session_key: str | None = None) -> str:
    """Wait before answering, while others are served."""
    await asyncio.sleep(0)
    return say(raw_args, session_id=session_id, gateway_session_key=gateway_session_key)


def generator(raw_args: str, session_id: str | None = None) -> Iterator[str]:
    """Answer in pieces."""
    yield say(raw_args, session_id=session_id)


async def async_generator(raw_args: str, *, session_id: str | None = None) -> AsyncIterator[str]:
    """Answer in pieces, waiting for each."""
    await asyncio.sleep(0)
    yield say(raw_args, session_id=session_id)


def in_language(raw_args: str, session_id: str | None = None, *, language: str) -> str:
    """Serve several languages; each is registered as a partial."""
    return say(raw_args, session_id=session_id)


# mypy infers no lambda that has a default.
unnamed: Callable[[str], str] = lambda raw_args, session_id=None: say(raw_args, session_id=session_id)  # type: ignore[misc]  # noqa: E731


# Methods and objects


class Plugin:
    """A plugin whose handlers are methods."""

    def method(self, raw_args: str, session_id: str | None = None) -> str:
        """Answer as an object that lives as long as the host."""
        return say(raw_args, session_id=session_id)

    @staticmethod
    def static_method(raw_args: str, *, session_id: str | None = None) -> str:
        """Answer without the object."""
        return say(raw_args, session_id=session_id)

    @classmethod
    def class_method(cls, raw_args: str, session_id: str | None = None) -> str:
        """Answer for the class."""
        return say(raw_args, session_id=session_id)


class CallableObject:
    """A handler that is an object."""

    def __call__(self, raw_args: str, session_id: str | None = None) -> str:
        """Answer."""
        return say(raw_args, session_id=session_id)


class AsyncObject:
    """A handler that is an object whose call is awaited."""

    async def __call__(self, raw_args: str, *, session_id: str | None = None) -> str:
        """Wait, and answer."""
        await asyncio.sleep(0)
        return say(raw_args, session_id=session_id)


# Parameters with names of their own, for authors who import ctxruntime


def marker(
    raw_args: str,
    sid: Annotated[str | None, ctx.SESSION_ID] = None,
    chat: Annotated[str | None, ctx.GATEWAY_SESSION_KEY] = None,
) -> str:
    """Say with a marker which key goes where."""
    return say(raw_args, session_id=sid, gateway_session_key=chat)


@ctx.inject(aliases={"sid": ctx.SESSION_ID})
def alias(raw_args: str, sid: str | None = None) -> str:
    """Say with an alias which key goes where."""
    return say(raw_args, session_id=sid)


def ambient(raw_args: str) -> str:
    """Take one argument; code deep inside reads the session."""
    return say(raw_args, session_id=ctx.SESSION_ID.get(None))


# Handlers behind decorators of their own


def timed(fn: Callable[..., str]) -> Callable[..., str]:
    """Decorate as one should: everything passes."""

    @functools.wraps(fn)
    def outer(*args: str, **kwargs: str) -> str:
        return fn(*args, **kwargs)

    return outer


def trimmed(fn: Callable[..., str]) -> Callable[[str], str]:
    """Decorate as in the days of one argument, and claim the signature of what is inside."""

    @functools.wraps(fn)
    def outer(raw_args: str) -> str:
        return fn(raw_args)

    return outer


@timed
def decorated(raw_args: str, session_id: str | None = None) -> str:
    """Take the session, through the decorator."""
    return say(raw_args, session_id=session_id)


@trimmed
def narrow(raw_args: str, session_id: str | None = None) -> str:
    """Seem to take the session; passing it would be a TypeError in the decorator."""
    return say(raw_args, session_id=session_id)


# State of each session


class Notes:
    """The fault that began it all: in two lines that look harmless, and are in many a plugin."""

    def __init__(self) -> None:
        self.notes: dict[str, list[str]] = {}

    def note(self, raw_args: str, session_id: str | None = None) -> str:
        """Keep a note for the session; for all sessions at once, where the host does not say which."""
        self.notes.setdefault(session_id or "_default", []).append(raw_args)
        return say(raw_args, bucket=session_id or "_default")

    def show(self, raw_args: str, session_id: str | None = None) -> str:
        """Read the session's notes back."""
        bucket = session_id or "_default"
        return say(raw_args, notes=f"{bucket} ({len(self.notes[bucket])})")


def handlers(notes: Notes) -> Mapping[str, Handler]:
    """Return what the plugins register, by command."""
    plugin = Plugin()
    return {
        "legacy": legacy,
        "named": named,
        "defaulted": defaulted,
        "keyword-only": keyword_only,
        "kwargs": keywords,
        "positional-only": positional_only,
        "method": plugin.method,
        "static-method": plugin.static_method,
        "class-method": plugin.class_method,
        "partial": functools.partial(in_language, language="en"),
        "callable-object": CallableObject(),
        "lambda": unnamed,
        "async": coroutine,
        "async-object": AsyncObject(),
        "generator": generator,
        "async-generator": async_generator,
        "marker": marker,
        "alias": alias,
        "decorated": decorated,
        "narrow": narrow,
        "builtin": str,  # written in C, without a signature: gives back what it gets
        "ambient": ambient,
        NOTE: notes.note,
        NOTES: notes.show,
    }
