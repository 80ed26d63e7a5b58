"""The events `session.start` and `session.end`, through OpenTelemetry's logs.

events = emit_session_events()      # from now on; events.stop() ends it
"""

from __future__ import annotations

from _thread import RLock
from collections import OrderedDict
from collections.abc import Sequence
from contextvars import copy_context
from types import TracebackType
from typing import Any, Final, final

from opentelemetry._logs import LoggerProvider, get_logger_provider

from ctxruntime.conversation.keys import CONVERSATION_ID
from ctxruntime.conversation.notices import watch
from ctxruntime.conversation.records import Conversation
from ctxruntime.guarding import guard
from ctxruntime.keys import GATEWAY_SESSION_KEY, PREVIOUS_SESSION_ID, SESSION_ID, Key
from ctxruntime.layers import CURRENT, NOTHING, UNSET, Layer, derive, renew_in_child
from ctxruntime.subscriptions import subscribe
from ctxruntime.telemetry.presets import SESSION, Preset, preset_named
from ctxruntime.telemetry.recorded import Recorded
from ctxruntime.telemetry.sdk_logs import emit_event

__all__ = ["SESSION_END", "SESSION_START", "SessionEvents", "emit_session_events"]

SESSION_START: Final = "session.start"
SESSION_END: Final = "session.end"

_IDS: Final = SESSION_ID.bit | PREVIOUS_SESSION_ID.bit
_UNKNOWN: Final = (UNSET, "")
_telling: Final = guard("telemetry: a session event")

_lock = RLock()
renew_in_child(globals(), "_lock")


@final
class SessionEvents:
    """The telling of events; `emit_session_events` makes it, and `stop()` ends it.

    As a context manager it ends when the block is left.
    """

    def __init__(self, provider: LoggerProvider | None, preset: Preset, max_ids: int) -> None:
        self._provider: Final = provider
        self._recorded: Final = Recorded(lambda: preset)
        self._max_ids: Final = max_ids
        self._ended: Final[OrderedDict[str, bool]] = OrderedDict()
        """Whether a session has ended, by id; the longest unused first."""
        self._endings: Final = (subscribe(self), watch(self))

    def stop(self) -> None:
        """Emit nothing from now on; again is harmless."""
        for end in self._endings:
            end()

    def __enter__(self) -> SessionEvents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.stop()

    def entered(self, layer: Layer) -> None:
        """Take note of the session that was entered."""
        if layer is layer.turn or layer.binds & SESSION_ID.bit:
            with _telling:
                self._seen(layer, rotated=False)

    def amended(self, layer: Layer, keys: Sequence[Key[Any]]) -> None:
        """Take note of a session id that was learned, or rotated."""
        if SESSION_ID in keys:
            with _telling:
                self._seen(layer, rotated=PREVIOUS_SESSION_ID in keys)

    def merged(self, kept: Conversation, other: Conversation) -> None:
        """Do nothing: no session ends where two conversations become one."""

    def ended(self, conversation: Conversation) -> None:
        """Take note of a conversation that was forgotten, or has expired: its sessions end with it."""
        with _telling:
            with _lock:
                ids = [id for id in conversation.session_ids if self._ended.get(id) is False]
                self._ended.update(dict.fromkeys(ids, True))
            layer = derive(NOTHING)
            GATEWAY_SESSION_KEY.put(layer, conversation.gateway_key or UNSET)
            CONVERSATION_ID.put(layer, conversation.id)
            for id in ids:
                self._emit(SESSION_END, layer, id, UNSET)

    def _seen(self, layer: Layer, *, rotated: bool) -> None:
        session, previous = SESSION_ID.peek(layer), PREVIOUS_SESSION_ID.peek(layer)
        if session in _UNKNOWN:
            return
        ends = starts = False
        with _lock:
            if previous not in _UNKNOWN and previous != session:
                # What was entered as continuing another session may have ended it in a process before this one.
                ends = not self._ended.get(previous, not rotated)
                if ends:
                    self._ended[previous] = True
            starts = session not in self._ended
            self._ended.setdefault(session, False)
            self._ended.move_to_end(session)
            while len(self._ended) > self._max_ids:
                self._ended.popitem(last=False)
        if ends:
            self._emit(SESSION_END, layer, previous, UNSET)
        if starts:
            self._emit(SESSION_START, layer, session, previous)

    def _emit(self, name: str, layer: Layer, session: object, previous: object) -> None:
        """Emit an event of a layer, with it in effect: the flow that tells may serve another turn meanwhile."""
        shown = derive(layer, _IDS)
        SESSION_ID.put(shown, session)
        PREVIOUS_SESSION_ID.put(shown, previous)
        attributes = self._recorded.of(shown)
        if SESSION not in attributes:  # not shown to this backend, and no event is complete without
            return

        def emit() -> None:
            CURRENT.set(shown)
            provider = get_logger_provider() if self._provider is None else self._provider
            emit_event(provider.get_logger("ctxruntime"), name, attributes)

        copy_context().run(emit)


def emit_session_events(
    provider: LoggerProvider | None = None, *, preset: str | Preset = "otel", max_ids: int = 10_000
) -> SessionEvents:
    """Emit an event when a session starts, and when it ends by rotation; return what stops that.

    `session.start` comes when a session id is first seen, entered or amended, a sub-agent's too; it has
    `session.previous_id` if the session continues another. `session.end` comes on a rotation, before the start of
    the new session, and where a conversation is forgotten or found to have expired. Leaving a turn ends no session.
    Each comes once per id, as far as ids are remembered. Events
    carry the other keys of their scope too, under the preset's names.

    Args:
        provider: the logger provider to emit to; the global one, whichever it is at that time, unless given.
        preset: whose attribute names to use; see `presets`.
        max_ids: how many ids are remembered, the last used ones.

    Raises:
        UnknownPresetError: there is no such preset.
        ValueError: no id may be remembered.
    """
    if max_ids < 2:
        raise ValueError("max_ids is at least 2: a rotation is of two ids")
    return SessionEvents(provider, preset_named(preset), max_ids)
