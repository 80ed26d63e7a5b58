"""Baggage and trace context in headers, in whatever shape a framework keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import suppress
from typing import Any, Final, TypeVar, cast, overload

from ctxruntime.keys import Key
from ctxruntime.wire.baggage import believed, merged
from ctxruntime.wire.tracing import TRACE_NAMES, trace_entries

__all__ = ["extract", "inject"]

BAGGAGE: Final = "baggage"

# Any: names and values are the framework's, str or bytes.
Headers = TypeVar("Headers", bound="MutableMapping[Any, Any] | list[Any]")


@overload
def inject(headers: None = None) -> dict[str, str]: ...
@overload
def inject(headers: Headers) -> Headers: ...
def inject(headers: Any = None) -> Any:
    """Put the bound keys with `wire=True`, and the current span, into the headers of a request; return them.

    The headers are changed in place: a dict, a framework's mutable headers, or a list of pairs, of text or bytes;
    None makes a new dict. Each key is an entry of `baggage` under its own name. Entries of others stay, ours are
    replaced, and those of unbound keys removed. A key with `redact` never leaves. `traceparent` and `tracestate`
    are replaced where a span is current, and left alone where none is.

    What does not fit the limits of W3C Baggage (8,192 bytes, 180 entries) is left out, with one warning.

    Raises:
        TypeError: `headers` is nothing that can be written to.

    >>> from ctxruntime import Key, session
    >>> with session({Key("doc_tenant", wire=True): "Łódź/7"}):
    ...     inject({"Baggage": "theirs=1"})
    {'Baggage': 'theirs=1,doc_tenant=%C5%81%C3%B3d%C5%BA%2F7'}
    """
    carrier: Any = {} if headers is None else headers
    if not hasattr(carrier, "__setitem__"):
        raise TypeError(f"headers to write to are a mutable mapping or a list of pairs, not {type(carrier).__name__}")
    before = ",".join(_values(carrier, BAGGAGE))
    after = merged(before)
    if after != before:
        _put(carrier, BAGGAGE, after)
    if entries := trace_entries():
        for name in TRACE_NAMES:
            _put(carrier, name, entries.get(name, ""))
    return carrier


def extract(headers: Any, *, trust: Iterable[Key[Any]] = ()) -> dict[Key[Any], object]:
    """Return what the headers of a request say of the keys in `trust`, for `session(...)`.

    Nothing else is believed, and nothing at all by default: whoever sends a request could else choose the session
    that it is served in. Trust a key only where every sender may choose it, such as a service behind your own
    gateway that removes what clients send.

        with session(wire.extract(request.headers, trust=(TENANT,)), session_id=...):

    Values come back in the key's type, checked by the key. Dropped, with one warning that shows no value: what is
    malformed or no value of its key, a key that is not trusted, one that is given twice and not alike, and
    everything where there is more than 8,192 bytes, 180 entries, or 64 of ours. Entries of others are not looked at.

    Args:
        headers: a mapping or pairs, of text or bytes; several `baggage` headers are one list.
        trust: keys, all of them with `wire=True`.

    Raises:
        InvalidValueError: `trust` has a key without `wire=True`.
        UnknownKeyError: `trust` has something that is no key.

    >>> from ctxruntime import Key
    >>> tenant = Key("doc_tenant", wire=True)
    >>> extract([(b"baggage", b"doc_tenant=acme")], trust=(tenant,))
    {<Key doc_tenant: str>: 'acme'}
    """
    return believed(",".join(_values(headers, BAGGAGE)), trust)


def _pairs(headers: Any) -> Iterator[tuple[object, object]]:
    # items() of a multi-value mapping has every line; its [] has the first.
    items: Iterable[Any] = headers.items() if hasattr(headers, "items") else headers or ()
    for item in items:
        if isinstance(item, (tuple, list)) and len(cast("tuple[object, ...]", item)) == 2:
            yield item[0], item[1]


def _values(headers: Any, wanted: str) -> Iterator[str]:
    for name, value in _pairs(headers):
        if _is(name, wanted):
            several = cast("Iterable[object]", value if isinstance(value, (list, tuple)) else (value,))
            yield from (_text(one) for one in several if isinstance(one, (str, bytes)))


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _is(name: object, wanted: str) -> bool:
    return isinstance(name, (str, bytes)) and _text(name).lower() == wanted


def _put(headers: Any, wanted: str, text: str) -> None:
    """Replace all headers of this name by one, spelt as the first was; by none where there is no text."""
    names = [name for name, _ in _pairs(headers) if _is(name, wanted)]
    name = names[0] if names else _like(next(iter(_pairs(headers)), ("",))[0], wanted)
    value = text.encode("latin-1", "replace") if isinstance(name, bytes) else text
    if isinstance(headers, list):
        pairs = cast("list[Any]", headers)  # type: ignore[redundant-cast]  # not to pyright
        pairs[:] = [item for item in pairs if not any(_is(name, wanted) for name in item[:1])]
        if text:
            pairs.append((name, value))
        return
    for old in names:
        with suppress(KeyError):  # deleting one spelling deletes all of them in some mappings
            del headers[old]
    if text:
        headers[name] = value


def _like(sample: object, name: str) -> str | bytes:
    return name.encode() if isinstance(sample, bytes) else name
