"""A span around the whole body of a handler, and the one decorator that a plugin author needs.

`traced` asks the global tracer provider at each call. While there is none, which is all that a program without
opentelemetry-sdk has, a call goes straight through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ctxruntime.handlers.calling import adapt
from ctxruntime.handlers.decorators import inject
from ctxruntime.handlers.options import Options, VarKeyword, options_of, plain, require_callable
from ctxruntime.telemetry.tracing_options import TraceOptions

if TYPE_CHECKING:
    from ctxruntime.keys import Key

__all__ = ["handler", "traced"]

F = TypeVar("F", bound=Callable[..., Any])


@overload
def traced(fn: F, /, *, record_input: bool = False, record_output: bool = False) -> F: ...
@overload
def traced(
    name: str | None = None, /, *, record_input: bool = False, record_output: bool = False
) -> Callable[[F], F]: ...
def traced(fn: Any = None, /, *, record_input: bool = False, record_output: bool = False) -> Any:
    """Make a span of the global tracer provider around the whole body of a handler; nothing else changes.

    The provider is looked up at each call, so that one that is set later, or another one, is used from then on.
    The body of a coroutine or a generator begins with its first step and ends when it returns, fails, is closed
    or is garbage-collected; the span is current in the body at each step, and never in whoever makes the steps.
    What a plain function returns is part of its body if it is a coroutine or a generator that has not begun.

    An `Exception` that leaves the body is recorded, with its message, and makes the span's status an error; a
    close, a cancellation and the end of an iterator do not. It passes unchanged. A tracer that fails costs the
    span, never the call: the fault is logged once.

    The keys in effect are mirrored by the `SessionSpanProcessor`. Where the provider has none, `traced` itself
    gives its span what is bound as it starts, under the names of the preset "otel"; what is learned later, and
    the spans of others, need the processor.

    Decorating twice makes one span; the name that was given last counts.

    Args:
        fn: the handler: a function, method, static or class method, partial, callable object or class; or the
            name of the span, which otherwise is the handler's qualified name.
        record_input: show what the caller gave, as JSON in `input.value`: private content, hence off. Parameters
            for keys are left out.
        record_output: show what is returned, or all that is yielded, in `output.value`. Both are cut off after
            16,384 characters, and values of keys with `redact` are taken out.

    Raises:
        TypeError: `fn` is neither callable nor text.

    >>> @traced("tool.read")
    ... def read(path):
    ...     return path.upper()
    >>> read("notes")
    'NOTES'
    """
    name, fn = (fn, None) if isinstance(fn, str) else (None, fn)
    options = TraceOptions(name, record_input=record_input, record_output=record_output)
    return partial(_traced, options=options) if fn is None else _traced(fn, options)


@overload
def handler(
    fn: F,
    /,
    *,
    aliases: Mapping[str, Key[Any]] | None = None,
    var_keyword: VarKeyword = "any",
    hide: bool = False,
    record_input: bool = False,
    record_output: bool = False,
) -> F: ...
@overload
def handler(
    name: str | None = None,
    /,
    *,
    aliases: Mapping[str, Key[Any]] | None = None,
    var_keyword: VarKeyword = "any",
    hide: bool = False,
    record_input: bool = False,
    record_output: bool = False,
) -> Callable[[F], F]: ...
def handler(
    fn: Any = None,
    /,
    *,
    aliases: Mapping[str, Key[Any]] | None = None,
    var_keyword: VarKeyword = "any",
    hide: bool = False,
    record_input: bool = False,
    record_output: bool = False,
) -> Any:
    """Pass a handler the keys that its signature accepts, and make a span around its body: `inject` and `traced`.

    It takes the options of both. A key that is required and not bound is an `UnboundKeyError` before the body
    begins, and there is no span.

    Raises:
        TypeError: `fn` is neither callable nor text.
        UnknownKeyError: an alias is for no Key or no parameter, or a parameter marked INJECTED names no key.

    >>> from ctxruntime import session
    >>> @handler
    ... def block(raw, session_id=None):
    ...     return session_id
    >>> with session(session_id="s1"):
    ...     block("read_file")
    's1'
    """
    name, fn = (fn, None) if isinstance(fn, str) else (None, fn)
    hidden = frozenset(aliases or ())
    options = TraceOptions(name, record_input=record_input, record_output=record_output, hidden=hidden)

    def decorate(fn: Any) -> Any:
        return inject(_traced(fn, options), aliases=aliases, var_keyword=var_keyword, hide=hide)

    return decorate if fn is None else decorate(fn)


def _traced(fn: Any, options: TraceOptions) -> Any:
    if isinstance(fn, (staticmethod, classmethod)):
        return type(cast("Any", fn))(_traced(cast("Any", fn).__func__, options))
    require_callable(fn, "traced")
    own = options_of(fn)
    if own is not None:
        return _inside(fn, own, options)
    # OpenTelemetry comes with the first handler that is traced.
    from ctxruntime.telemetry.tracing_wrappers import TracedObject, traced_function, tracing_of

    before = tracing_of(fn)
    if before is not None:
        merged = options.on_top_of(before.options)
        return fn if merged == before.options else _traced(before.fn, merged)
    if type(fn) is MethodType and type(fn.__func__) is FunctionType:
        return MethodType(_traced(fn.__func__, options), fn.__self__)
    return traced_function(fn, options) if type(fn) is FunctionType else TracedObject(fn, options)


def _inside(fn: Any, own: Options, options: TraceOptions) -> Any:
    """Trace the handler behind one that injects by itself: what it is given is decided by its own signature."""
    handler = plain(fn)
    inner = _traced(handler, options.hiding(own.aliases))
    if inner is handler:
        return fn
    if type(fn) is FunctionType:
        return adapt(inner, aliases=own.aliases, var_keyword=own.var_keyword, keys=own.keys, missing=own.missing)
    if own.keys is not None or own.missing:
        inner = adapt(inner, keys=own.keys, missing=own.missing)
    return inject(inner, aliases=own.aliases, var_keyword=own.var_keyword, hide=own.hide)
