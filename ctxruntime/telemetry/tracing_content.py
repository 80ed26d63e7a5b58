"""What went into a handler and what came out, as span attributes: only where that was asked for, errors always."""

from __future__ import annotations

import json
from contextlib import suppress
from inspect import signature
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Final, cast, final

from opentelemetry.trace import Status, StatusCode

from ctxruntime.handlers.stages import stages_of
from ctxruntime.keys import KEYS
from ctxruntime.layers import UNSET, current
from ctxruntime.telemetry.open_spans import LAYER
from ctxruntime.telemetry.tracing_secrets import redacted_keys
from ctxruntime.telemetry.values import attribute_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.trace import Span

    from ctxruntime.layers import Layer
    from ctxruntime.telemetry.tracing_secrets import Seen

__all__ = ["Output", "show_error", "show_input"]

LIMIT: Final = 16_384
"""The most characters of content that a span shows."""
UNPRINTABLE: Final = "<exception str() failed>"
"""The message of an error that cannot be printed: what tracebacks have there."""
_JSON: Final = "application/json"
_TEXT: Final = "text/plain"


def show_input(
    span: Span, seen: Seen | None, fn: Any, hidden: frozenset[str], call: tuple[tuple[Any, ...], dict[str, Any]]
) -> None:
    """Show what a call was given, by parameter name, without keys and without `self` and `cls`."""
    args, kwargs = call
    try:
        bound = signature(fn).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {"args": args, **kwargs}
    markers = {name for stage in stages_of(fn)[:1] for name in bound if stage.marker(name) is not None}
    kept_back = {*KEYS, *hidden, *markers}
    shown: dict[str, object] = {}
    for number, (name, value) in enumerate(bound.items()):
        if name in kept_back or (not number and name in ("self", "cls")):
            continue
        shown[name] = value
    for name, value in bound.items():
        if isinstance(value, dict) and name in shown:  # `**kwargs` may have keys too
            items = cast("dict[object, object]", value).items()
            shown[name] = {key: item for key, item in items if key not in kept_back}
    _show(span, seen, "input", _as_json(shown), _JSON)


@final
class Output:
    """What a handler returns, or all that it yields."""

    __slots__ = ("pieces", "room", "yields")

    def __init__(self) -> None:
        self.pieces: list[tuple[bool, str]] = []
        """What was noted: whether it is text, and the text, or else the JSON."""
        self.room: int = LIMIT
        self.yields: bool = False

    def add(self, value: object, *, yielded: bool) -> None:
        """Take note of a value, as it is now."""
        if self.room < 0 or (value is None and not yielded):
            return
        self.yields = self.yields or yielded
        piece = str(value) if isinstance(value, str) else _as_json(value)
        self.room -= len(piece)
        self.pieces.append((isinstance(value, str), piece))

    def show(self, span: Span, seen: Seen | None) -> None:
        """Show what was noted: texts one after the other, anything else as JSON."""
        if not self.pieces:
            return
        if all(is_text for is_text, _ in self.pieces):
            _show(span, seen, "output", "".join(piece for _, piece in self.pieces), _TEXT)
            return
        items = ", ".join(_as_json(piece) if is_text else piece for is_text, piece in self.pieces)
        _show(span, seen, "output", f"[{items}]" if self.yields else items, _JSON)


def _as_json(value: object) -> str:
    return json.dumps(value, default=repr, ensure_ascii=False, skipkeys=True)


def show_error(span: Span, seen: Seen | None, error: Exception) -> None:
    """Record an error and the status that it means; no redacted value is in its text, its traceback or its notes."""
    message: str | None = None
    with suppress(Exception):  # the program's own `__str__`: what it cannot print is an error all the same
        message = str(error)
    shown = {
        "exception.message": _without_secrets(span, seen, UNPRINTABLE if message is None else message),
        "exception.stacktrace": _without_secrets(span, seen, "".join(format_exception(error))),
    }
    if message is None:  # the SDK would print it too
        span.add_event("exception", {"exception.type": type(error).__qualname__, **shown})
    else:
        span.record_exception(error, shown)
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {shown['exception.message']}"))


def _show(span: Span, seen: Seen | None, which: str, text: str, kind: str) -> None:
    text = _without_secrets(span, seen, text)
    span.set_attribute(f"{which}.value", text if len(text) <= LIMIT else f"{text[:LIMIT]}…")
    span.set_attribute(f"{which}.mime_type", kind)


def _without_secrets(span: Span, seen: Seen | None, text: str) -> str:
    for secret in _secrets(span, seen):
        text = text.replace(secret, "<redacted>")
    return text


def _secrets(span: Span, seen: Seen | None) -> list[str]:
    """Return how the values look that nobody may see, the longest first.

    They are those in effect, those of the span's turn, and those that were in effect in scopes of the body's: what
    it has entered is left when its error arrives here.
    """
    layers: tuple[Layer | None, ...] = (current(), getattr(span, LAYER, None))
    values = [key.peek(layer) for key in redacted_keys() for layer in layers if layer is not None]
    if seen is not None:
        values += seen.values()
    texts = {text for value in values if value is not UNSET for text in _forms(value)}
    texts |= {_as_json(text)[1:-1] for text in texts}
    return sorted(texts - {""}, key=len, reverse=True)


def _forms(value: object) -> Iterator[str]:
    """Yield what a value may look like in a text: as it is printed, as an attribute, and each text in it."""
    yield str(value)
    for item in cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,):
        shown = attribute_of(item)
        if isinstance(shown, str):
            yield shown
        if isinstance(item, bytes):
            yield item.decode(errors="replace")
