"""Spans in a file, one line for each when it ends: what one sees with no server."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

from opentelemetry import trace

from ctxruntime.guarding import guard
from ctxruntime.telemetry.following import call_with_each
from ctxruntime.telemetry.otlp_json import line_of
from ctxruntime.telemetry.sdk import TracerProvider
from ctxruntime.telemetry.stand_in import stand_in

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

__all__ = ["SpansFile", "write_spans"]

_writing: Final = guard("telemetry: a span is written to the file")


@final
class SpansFile(SpanExporter):
    """Append spans to a file as OTLP JSON lines.

    Every line is one write to the end of the file, so that threads, forked children and other programs can share
    it, and a program that is killed loses only the spans that are open. The file is not held open: programs that
    become daemons close what they do not know.

    Raises:
        OSError: the file cannot be opened or made; the folder is to be there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Final = os.path.abspath(path)
        os.close(self._open())
        self._torn = _ends_torn(self.path)

    def __repr__(self) -> str:
        return f"<SpansFile {self.path}>"

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append one line with these spans."""
        with _writing:
            line = line_of(spans)
            if self._torn:
                line = b"\n" + line
            file = self._open()
            try:
                while line:  # the system takes it whole, unless a disk is full
                    written = os.write(file, line)
                    line = line[written:]
                    self._torn = bool(line)
            finally:
                os.close(file)
            return SpanExportResult.SUCCESS
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Do nothing: nothing is kept."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Return True: nothing is kept back."""
        return True

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)


def _ends_torn(path: str) -> bool:
    """Tell whether a file ends within a line: what was to write it found the disk full, or was killed."""
    if not os.path.isfile(path):  # to read from a pipe would wait
        return False
    with suppress(OSError), open(path, "rb") as file:  # an empty one has no last character
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
    return False


def write_spans(path: str | os.PathLike[str], service: str) -> Callable[[], None]:
    """Append the spans of every provider to a file, of those that are made later too; return what ends that.

    While the program has set no provider, a provider of ours stands in for it, whose spans go to the file alone.

    Args:
        path: the file; it is appended to.
        service: the name of the service that the stand-in's spans have, unless the environment gives one.

    Raises:
        OSError: the file cannot be opened or made.
    """
    file = SpansFile(path)

    def add(made: TracerProvider) -> None:
        TracerProvider.add_span_processor(made, SimpleSpanProcessor(file))

    stop_following = call_with_each(TracerProvider, add)
    current = trace.get_tracer_provider()
    for candidate in (current, getattr(current, "provider", None)):
        if isinstance(candidate, TracerProvider):
            add(candidate)
            return stop_following
    stop_standing_in = stand_in(service)

    def stop() -> None:
        stop_standing_in()
        stop_following()

    return stop
