"""What a gateway key, a session id, a namespace or a state may be called."""

from __future__ import annotations

from typing import Final

from ctxruntime.conversation.stores.base import KEY, SESSION, Ref
from ctxruntime.errors import InvalidValueError
from ctxruntime.keys import GATEWAY_SESSION_KEY, MAX_TEXT, SESSION_ID, Key

__all__ = ["check_name", "refs_of"]


def refs_of(key: str | None, session: str | None) -> list[Ref]:
    """Return the refs of a gateway key and of a session id, in this order; None is left out.

    Raises:
        InvalidValueError: one is no name: not a text, empty, too long, or with control characters.
    """
    refs: list[Ref] = []
    if key is not None:
        if type(key) is not str or not key.isprintable() or not 0 < len(key) <= MAX_TEXT:
            _check(GATEWAY_SESSION_KEY, key)
        refs.append((KEY, key))
    if session is not None:
        if type(session) is not str or not session.isprintable() or not 0 < len(session) <= MAX_TEXT:
            _check(SESSION_ID, session)
        refs.append((SESSION, session))
    return refs


def _check(key: Key[str], name: str) -> None:
    """Check what is not plainly right: some texts are clean, and not all of it printable."""
    if not key.check(name):
        raise InvalidValueError(key.name, "cannot be empty", "leave it out where it is not known yet")


def check_name(what: str, name: str) -> str:
    """Return the name of a namespace or a state, if it is text as a key can hold, and not empty.

    Raises:
        InvalidValueError: it is not. The message names `what` it would be.
    """
    from ctxruntime.values import problem_of

    problem: Final = problem_of(name, str) or (None if name else ("cannot be empty", "choose a name"))
    if problem is not None:
        raise InvalidValueError(what, *problem)
    return name
