"""The attributes of a log record or event: as spans show them, but with the ids of that very moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias, final

from ctxruntime.keys import REVISIONS
from ctxruntime.layers import UNSET, Layer
from ctxruntime.telemetry.building import Build, compile_build
from ctxruntime.telemetry.presets import Preset
from ctxruntime.telemetry.views import conversation_of

if TYPE_CHECKING:
    from ctxruntime.telemetry.values import Attribute

__all__ = ["Recorded"]

Compiled: TypeAlias = tuple[int, Preset, Build]


@final
class Recorded:
    """What of a layer is recorded under a preset's names; keys that are defined later are included.

    Nothing is kept on the layers: most of them are logged from a few times, and building costs less than a record.
    """

    __slots__ = ("_compiled", "_preset_now")

    def __init__(self, preset_now: Callable[[], Preset]) -> None:
        self._preset_now: Final = preset_now
        self._compiled = self._compile()

    @property
    def preset(self) -> Preset:
        """The preset, as it is for the keys that are defined now."""
        return self._current()[1]

    def of(self, layer: Layer) -> dict[str, Attribute]:
        """Return what is recorded where this layer is in effect."""
        return self._current()[2](layer, layer.session_id, layer.previous_session_id, UNSET, conversation_of(layer))

    def _current(self) -> Compiled:
        compiled = self._compiled
        if compiled[0] != len(REVISIONS):
            compiled = self._compiled = self._compile()
        return compiled

    def _compile(self) -> Compiled:
        count, preset = len(REVISIONS), self._preset_now()
        return count, preset, compile_build(preset)
