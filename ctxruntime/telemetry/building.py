"""How attributes are built from a layer: by code that is compiled for the keys there are.

Most turns have few spans, so that keeping what was built helps less than building it fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ctxruntime.keys import KEYS, PREVIOUS_SESSION_ID, SESSION_ID, Key
from ctxruntime.layers import UNSET, Layer
from ctxruntime.telemetry.presets import CONVERSATION, OWN_SESSION_ID, Preset
from ctxruntime.telemetry.redaction import hashed
from ctxruntime.telemetry.values import Attribute, attribute_of

if TYPE_CHECKING:
    from ctxruntime.keys import Redact

__all__ = ["Build", "compile_build"]

Build: TypeAlias = Callable[[Layer, object, object, object, object], dict[str, Attribute]]
"""From a layer, the session id to show, the one before it, a sub-agent's own, and the conversation; to attributes."""
Show: TypeAlias = Callable[[object], "Attribute | None"]

_SPECIAL: Final = {SESSION_ID.name: "session", PREVIOUS_SESSION_ID.name: "previous"}


def compile_build(preset: Preset, group_by: str = "session") -> Build:
    """Return the function that builds the attributes of a preset from all keys that are defined now."""
    names: dict[str, Any] = {"UNSET": UNSET}
    lines = [
        "def build(layer, session, previous, own, conversation):",
        " found = {}",
        " if previous == session: previous = UNSET",
    ]
    if group_by == "conversation":  # what is one session here had several: each span says which it was
        lines.append(" if conversation: own, previous = layer.session_id, UNSET")
    for number, key in enumerate(tuple(KEYS.values())):
        how = key.redact
        if how == "drop":
            continue
        show = _show(key, how, preset)
        lines += _lines(preset.names_of(key), number, _source(key, number, names), show)
        names[f"show{number}"] = show
        if key is SESSION_ID:
            show = _show(key, how, None)
            lines += _lines((OWN_SESSION_ID,), "own", "own", show)
            names["showown"] = show
    shown = preset.names_of(SESSION_ID)
    for name in shown if group_by == "conversation" else {CONVERSATION}.intersection(shown):
        lines.append(f" if conversation is not UNSET: found[{name!r}] = conversation")
    lines.append(" return found")
    exec("\n".join(lines), names)  # attribute names go in as literals, and key names are identifiers
    return cast("Build", names["build"])


def _source(key: Key[Any], number: int, names: dict[str, Any]) -> str:
    """Return the expression that reads a key."""
    if key.name in _SPECIAL:
        return _SPECIAL[key.name]
    if key.place is not None:
        return f"layer.{key.place}"
    names[f"read{number}"] = key.of
    return f"read{number}(layer)"


def _lines(attributes: tuple[str, ...], number: int | str, source: str, show: Show | None) -> list[str]:
    if not attributes:
        return []
    store = " = ".join(f"found[{name!r}]" for name in attributes)
    if show is None:  # text that is shown as it is; UNSET is false too, but slow to tell
        return [f" value = {source}", f" if value is not UNSET and value: {store} = value"]
    return [
        f" value = {source}",
        " if value is not UNSET:",
        f"  value = show{number}(value)",
        f"  if value is not None: {store} = value",
    ]


def _show(key: Key[Any], how: Redact | None, preset: Preset | None) -> Show | None:
    """Return what turns a key's value into its attribute; None for text that is shown as it is."""
    limited = preset is not None and key.name in preset.limited
    if key.type is str and how is None and not limited:
        return None

    def show(value: object) -> Attribute | None:
        shown = attribute_of(value)
        if shown is None:
            return None
        if how == "hash":
            shown = hashed(shown)
        if limited and preset is not None and not preset.takes(key.name, shown):
            return None
        return shown

    return show
