"""What type checkers make of mirroring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_type

from opentelemetry.sdk.trace import TracerProvider

from ctxruntime.telemetry import PRESETS, Preset, SessionSpanProcessor, add_to, follow_providers

assert_type(add_to(TracerProvider(), preset="langfuse"), SessionSpanProcessor)
assert_type(SessionSpanProcessor(PRESETS["otel"], pin="span").preset, Preset)
assert_type(follow_providers(), Callable[[], None])
assert_type(Preset("mine", {"session_id": ("my.session",)}).names, Mapping[str, tuple[str, ...]])

add_to(pin="turn")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
