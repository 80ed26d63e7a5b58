"""What stands in a traced handler's place: for a function, one with its own signature; for an object, a proxy.

For `def block(raw, *, limit=3)` the source is, but for the names:

    def block(raw, *, limit=3):
        if trace._TRACER_PROVIDER is None:
            return handler(raw, limit=limit)
        return run(tracing, (raw,), {"limit": limit})

So `inject`, `adapt` and `call` see the signature that they would see without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial, update_wrapper
from inspect import Parameter
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

from wrapt import FunctionWrapper

from ctxruntime.generators import answering_like, kind_of
from ctxruntime.handlers.stages import stages_of
from ctxruntime.telemetry.tracing_bodies import run
from ctxruntime.telemetry.tracing_spans import Tracing, provider_holder

if TYPE_CHECKING:
    from ctxruntime.telemetry.tracing_options import TraceOptions

    _Wrapper: TypeAlias = FunctionWrapper[..., Any]  # generic in the stubs alone
else:
    _Wrapper = FunctionWrapper

__all__ = ["TracedObject", "traced_function", "tracing_of"]

SOURCE: Final = "<ctxruntime traced>"
"""The file name of compiled code: in tracebacks, and by which a traced function is known."""
TRACING: Final = "__ctxruntime_tracing__"


def tracing_of(fn: Any) -> Tracing | None:
    """Return how a handler is traced; None if it is not. What `functools.wraps` copied does not count."""
    if type(fn) is FunctionType:
        return fn.__dict__.get(TRACING) if fn.__code__.co_filename == SOURCE else None
    return fn._self_tracing if issubclass(type(fn), TracedObject) else None


def span_name(fn: Any) -> str:
    """Return the name of a handler's spans: its qualified name, from the function on that it is defined in."""
    while isinstance(fn, (partial, MethodType)):
        fn = fn.__func__ if isinstance(fn, MethodType) else cast("Any", fn).func
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return str(name).rpartition("<locals>.")[2]


def _tracing(fn: Any, options: TraceOptions) -> Tracing:
    return Tracing(fn, kind_of(fn), options.name or span_name(fn), options)


def traced_function(fn: FunctionType, options: TraceOptions) -> FunctionType:
    """Return a function that does what `fn` does, with a span over its body while there is a tracer provider."""
    tracing = _tracing(fn, options)
    made: dict[str, Any] = {}
    exec(_compiled(*_written(stages_of(fn)[0].parameters)), made)
    shell = made["make"](fn, run, tracing, provider_holder())
    # With the handler's own globals, for the annotations that name a key are evaluated there.
    shell = FunctionType(shell.__code__, fn.__globals__, fn.__name__, fn.__defaults__, shell.__closure__)
    shell.__kwdefaults__ = fn.__kwdefaults__ and dict(fn.__kwdefaults__)
    shell = answering_like(shell, tracing.kind)
    update_wrapper(shell, fn)
    shell.__dict__[TRACING] = tracing
    return shell


@lru_cache(maxsize=1024)
def _compiled(*lines: str) -> CodeType:
    return compile("\n".join(lines) + "\n", SOURCE, "exec")


def _written(parameters: tuple[Parameter, ...]) -> list[str]:
    """Write a function of these parameters, without their defaults, which are no part of a function's code."""
    mine = "_"
    while any(parameter.name.startswith(mine) for parameter in parameters):
        mine += "_"
    kinds = [parameter.kind for parameter in parameters]
    signature: list[str] = []
    positions: list[str] = []
    keywords: list[tuple[str, str]] = []
    for number, (name, kind) in enumerate((parameter.name, parameter.kind) for parameter in parameters):
        if kind is Parameter.KEYWORD_ONLY:
            if kind not in kinds[:number] and Parameter.VAR_POSITIONAL not in kinds:
                signature.append("*")
            keywords.append((f"{name}={name}", f"{name!r}: {name}"))
        elif kind is Parameter.VAR_KEYWORD:
            name = f"**{name}"
            keywords.append((name, name))
        else:
            name = f"*{name}" if kind is Parameter.VAR_POSITIONAL else name
            positions.append(name)
        signature.append(name)
        if kind is Parameter.POSITIONAL_ONLY and kind not in kinds[number + 1 :]:
            signature.append("/")
    arguments = ", ".join([*positions, *(written for written, _ in keywords)])
    given = "".join(f"{name}, " for name in positions), ", ".join(item for _, item in keywords)
    return [
        f"def make({mine}fn, {mine}run, {mine}tracing, {mine}trace):",
        f"    def {mine}traced({', '.join(signature)}):",
        f"        if {mine}trace._TRACER_PROVIDER is None:",
        f"            return {mine}fn({arguments})",
        f"        return {mine}run({mine}tracing, ({given[0]}), {{{given[1]}}})",
        f"    return {mine}traced",
    ]


@final
class TracedObject(_Wrapper):
    """A callable object, partial, class or builtin with a span over the body of its calls."""

    def __init__(self, fn: Any, options: TraceOptions) -> None:
        tracing = _tracing(fn, options)
        super().__init__(fn, _traced_call(tracing, provider_holder()))
        self._self_tracing: Tracing = tracing

    def __get__(self, instance: object, owner: Any = None) -> Any:
        if instance is None or not hasattr(cast("Any", type(self.__wrapped__)), "__get__"):
            return self  # callable objects, partials and classes do not bind
        return TracedObject(self.__wrapped__.__get__(instance, owner), self._self_tracing.options)

    def __reduce_ex__(self, protocol: object) -> str:
        return str(self.__qualname__)  # by reference, as functions are pickled

    def __reduce__(self) -> str:
        return str(self.__qualname__)

    def __copy__(self) -> TracedObject:
        return self

    def __deepcopy__(self, memo: object) -> TracedObject:
        return self


def _traced_call(tracing: Tracing, holder: Any) -> Callable[..., Any]:
    def call(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs) if holder._TRACER_PROVIDER is None else run(tracing, args, kwargs)

    return call
