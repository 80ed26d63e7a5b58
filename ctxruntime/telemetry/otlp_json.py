"""Spans as OTLP in JSON: one `ExportTraceServiceRequest` in one line, as OpenTelemetry's file exporters write it.

OpenTelemetry has an encoder too (opentelemetry-exporter-otlp-json-common), which wants its own release of the SDK;
the tests compare what the two give. What has its default value is left out, 64 bit numbers are text, and ids are
hexadecimal.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from json import dumps
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import Link, SpanContext

__all__ = ["line_of"]

Json: TypeAlias = dict[str, Any]

_HAS_IS_REMOTE: Final = 0x100
_IS_REMOTE: Final = 0x200


def line_of(spans: Sequence[ReadableSpan]) -> bytes:
    r"""Return the line of some spans that have ended, with its `\n`; nothing without spans."""
    if not spans:
        return b""
    resources: dict[object, dict[object, list[ReadableSpan]]] = {}
    for span in spans:
        resources.setdefault(span.resource, {}).setdefault(span.instrumentation_scope, []).append(span)
    request = {"resourceSpans": [_resource_spans(*item) for item in resources.items()]}
    return dumps(request, separators=(",", ":")).encode("ascii") + b"\n"


def _resource_spans(resource: Any, scopes: Mapping[object, list[ReadableSpan]]) -> Json:
    return _given(
        resource=_given(attributes=_attributes(resource.attributes)),
        scopeSpans=[_scope_spans(*item) for item in scopes.items()],
        schemaUrl=resource.schema_url,
    )


def _scope_spans(scope: Any, spans: Iterable[ReadableSpan]) -> Json:
    attributes = _attributes(getattr(scope, "attributes", None))  # SDKs before 1.27 have none
    return _given(
        scope={} if scope is None else _given(name=scope.name, version=scope.version, attributes=attributes),
        spans=[_span(span) for span in spans],
        schemaUrl=getattr(scope, "schema_url", None),
    )


def _span(span: ReadableSpan) -> Json:
    context: SpanContext = span.get_span_context()  # type: ignore[assignment] # one that has ended has it
    status = span.status
    return _given(
        traceId=_trace_id(context),
        spanId=_span_id(context),
        traceState=context.trace_state.to_header(),
        parentSpanId=_span_id(span.parent) if span.parent else None,
        flags=_flags(span.parent),
        name=span.name,
        kind=span.kind.value + 1,
        startTimeUnixNano=str(span.start_time),
        endTimeUnixNano=str(span.end_time),
        attributes=_attributes(span.attributes),
        droppedAttributesCount=span.dropped_attributes,
        events=[_event(event) for event in span.events],
        droppedEventsCount=span.dropped_events,
        links=[_link(link) for link in span.links],
        droppedLinksCount=span.dropped_links,
    ) | {"status": _given(message=status.description, code=status.status_code.value)}


def _event(event: Event) -> Json:
    return _given(
        timeUnixNano=str(event.timestamp),
        name=event.name,
        attributes=_attributes(event.attributes),
        droppedAttributesCount=getattr(event, "dropped_attributes", 0),
    )


def _link(link: Link) -> Json:
    return _given(
        traceId=_trace_id(link.context),
        spanId=_span_id(link.context),
        attributes=_attributes(link.attributes),
        droppedAttributesCount=getattr(link, "dropped_attributes", 0),
        flags=_flags(link.context),
    )


def _attributes(attributes: Mapping[str, object] | None) -> list[Json]:
    return [{"key": name, "value": _value(value)} for name, value in (attributes or {}).items()]


def _value(value: object) -> Json:
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(int(value))}
        case float():
            return {"doubleValue": float(value) if isfinite(value) else _NOT_FINITE[repr(float(value))]}
        case bytes():
            return {"bytesValue": b64encode(value).decode("ascii")}
        case Mapping():
            return {"kvlistValue": _given(values=_attributes(cast("Mapping[str, object]", value)))}
        case Sequence() if not isinstance(value, str):
            return {"arrayValue": _given(values=[_value(item) for item in cast("Sequence[object]", value)])}
        case _:
            return {"stringValue": str(value)}


_NOT_FINITE: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _trace_id(context: SpanContext) -> str:
    return f"{context.trace_id:032x}"


def _span_id(context: SpanContext) -> str:
    return f"{context.span_id:016x}"


def _flags(context: SpanContext | None) -> int:
    return _HAS_IS_REMOTE | (_IS_REMOTE if context is not None and context.is_remote else 0)


def _given(**fields: object) -> Json:
    """Return the fields that have another value than their default."""
    return {name: value for name, value in fields.items() if value}
