"""What a traced body must not show: each value that a key with `redact` had in it, in scopes it has left too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, final
from weakref import WeakSet, ref

from opentelemetry import context as contexts

from ctxruntime.guarding import guard
from ctxruntime.keys import KEYS, REVISIONS
from ctxruntime.layers import UNSET, amending, current
from ctxruntime.subscriptions import subscribe

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context

    from ctxruntime.keys import Key
    from ctxruntime.layers import Layer

__all__ = ["Seen", "forget", "redacted_keys", "seen_in"]

MOST: Final = 1_000
"""How many values are remembered of one body, the newest: a worker's may serve turns for weeks."""
SEEN: Final = contexts.create_key("ctxruntime-seen")

_noting: Final = guard("traced: a value to keep back is noted")


_known: tuple[int, tuple[Key[Any], ...]] = (0, ())


def redacted_keys() -> tuple[Key[Any], ...]:
    """Return the keys whose values nobody may see, of those that are defined now."""
    global _known
    count, known = len(REVISIONS), _known
    if known[0] != count:
        known = _known = count, tuple(key for key in tuple(KEYS.values()) if key.redact)
    return known[1]


@final
class Seen:
    """The values to keep back that were in effect in one body, and in the bodies that it called.

    Its call holds it; contexts, which others copy and keep, know it weakly.
    """

    __slots__ = ("__weakref__", "_outer", "_values")

    def __init__(self, outer: Seen | None) -> None:
        self._outer: Final = None if outer is None else ref(outer)
        self._values: Final[dict[tuple[type, object], None]] = {}

    def values(self) -> list[object]:
        """Return the values."""
        return [value for _, value in self._values.copy()]

    def note(self, layer: Layer) -> None:
        """Remember what is in effect in a layer, here and in the bodies that called this one."""
        values: list[object] = [key.peek(layer) for key in redacted_keys()]
        found: dict[tuple[type, object], None] = {(type(value), value): None for value in values if value is not UNSET}
        seen: Seen | None = self
        while found and seen is not None:
            seen._values.update(found)
            while len(seen._values) > MOST:
                seen._values.pop(next(iter(seen._values)), None)
            seen = None if seen._outer is None else seen._outer()


@final
class _Watcher:
    """Tells the body in which something is entered or amended."""

    def entered(self, layer: Layer) -> None:
        """Note what was entered."""
        self._note(layer)

    def amended(self, layer: Layer, keys: Sequence[Key[Any]]) -> None:
        """Note what was learned."""
        self._note(layer)

    def _note(self, layer: Layer) -> None:
        with _noting:
            seen = _innermost()
            if seen is not None:
                seen.note(layer)


_watcher: Final = _Watcher()
_open: Final[WeakSet[Seen]] = WeakSet()
_stop: Final[list[Callable[[], None]]] = []


def _innermost() -> Seen | None:
    held: Any = contexts.get_value(SEEN)
    return None if held is None else held()


def seen_in(context: Context) -> tuple[Seen, Context]:
    """Return what notes the values in a body, and the context for the body to run in. `forget` ends it."""
    seen = Seen(_innermost())
    with amending():
        _open.add(seen)
        if not _stop:
            _stop.append(subscribe(_watcher))
    seen.note(current())
    return seen, contexts.set_value(SEEN, ref(seen), context)


def forget(seen: Seen) -> None:
    """End the noting of a body's values; with the last of them the core has nobody to tell."""
    with amending():
        _open.discard(seen)
        if not _open and _stop:
            _stop.pop()()
