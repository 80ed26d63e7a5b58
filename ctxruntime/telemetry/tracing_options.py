"""How a handler wants its span."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

__all__ = ["TraceOptions"]


@final
class TraceOptions:
    """What `traced` was given."""

    __slots__ = ("hidden", "name", "record_input", "record_output")

    def __init__(
        self,
        name: str | None = None,
        *,
        record_input: bool = False,
        record_output: bool = False,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self.name: str | None = name
        self.record_input: bool = record_input
        self.record_output: bool = record_output
        self.hidden: frozenset[str] = hidden
        """The parameters that an alias fills."""

    def _all(self) -> tuple[object, ...]:
        return self.name, self.record_input, self.record_output, self.hidden

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TraceOptions) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def on_top_of(self, own: TraceOptions) -> TraceOptions:
        """Return these for a handler that was traced with `own` before: nothing that was said is forgotten."""
        return TraceOptions(
            own.name if self.name is None else self.name,
            record_input=own.record_input or self.record_input,
            record_output=own.record_output or self.record_output,
            hidden=own.hidden | self.hidden,
        )

    def hiding(self, names: Iterable[str]) -> TraceOptions:
        """Return these with further parameters that an alias fills."""
        return self.on_top_of(TraceOptions(hidden=frozenset(names)))
