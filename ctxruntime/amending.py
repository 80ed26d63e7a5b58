"""How a fact is added or changed: where it is bound, all of a call's facts or none, and told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxruntime.errors import NoTurnError
from ctxruntime.keys import PREVIOUS_SESSION_ID, SESSION_ID
from ctxruntime.layers import LINKED, SUBSCRIBERS, UNSET, amending, relink, scope_of, tell_amended, write
from ctxruntime.scope import Turn

if TYPE_CHECKING:
    from typing import Any

    from ctxruntime.doors import Given
    from ctxruntime.keys import Key
    from ctxruntime.layers import Layer


def amend_from(layer: Layer, changes: Given) -> None:
    """Make changes as seen from a layer, all of them or none, and tell of them."""
    places = write_from(layer, changes)
    if SUBSCRIBERS:
        tell_amended(places)


def write_from(layer: Layer, changes: Given) -> list[tuple[Layer, Key[Any], object]]:
    """Make changes as seen from a layer, all of them or none; return what was written where."""
    places: list[tuple[Layer, Key[Any], object]] = []
    lock = amending()
    lock.acquire()  # `with` would cost twice as much
    try:
        for key, value in changes:
            scope = scope_of(layer, key.bit)
            if scope is None:
                raise NoTurnError(key.name)
            places.append((scope, key, value))
            if key is SESSION_ID and value is not UNSET:
                before = key.peek(scope)
                if before not in (value, UNSET, "") and not any(other is PREVIOUS_SESSION_ID for other, _ in changes):
                    places.append((scope, PREVIOUS_SESSION_ID, before))
        for scope, key, value in places:
            if isinstance(scope, Turn):
                scope.again()  # entering it again starts from what it was given
            write(scope, key, value)
    finally:
        lock.release()
    if LINKED:
        relink([(scope, key) for scope, key, _ in places if key.link is not None])
    return places
