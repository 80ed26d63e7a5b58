"""What a call goes through on its way into a handler: the code behind each wrapping, as it really binds."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Iterable
from inspect import Parameter
from typing import Annotated, Any, Final, cast, final, get_args, get_origin

from ctxruntime.handlers.options import options_of, plain
from ctxruntime.keys import Key

_SLOT_WRAPPERS: Final = (type(object.__init__), type(object().__str__), types.BuiltinFunctionType)
_DEEPEST: Final = 64
"""The most wrappings that are looked through; a cycle of `__wrapped__` ends here."""


@final
class Stage:
    """One callable on the way: the parameters that are left to the caller."""

    __slots__ = ("function", "given", "invites", "name", "parameters")

    def __init__(
        self,
        name: str,
        parameters: Iterable[Parameter],
        function: Any = None,
        given: frozenset[str] = frozenset(),
        *,
        invites: bool = True,
    ) -> None:
        self.name: str = name
        self.parameters: tuple[Parameter, ...] = tuple(parameters)
        self.function: Any = function
        self.given: frozenset[str] = given
        """The names that a partial binds by keyword."""
        self.invites: bool = invites
        """Whether its `**kwargs`, if it has any, are for keys: an `inject(var_keyword="none")` says no."""

    def has(self, name: str) -> bool:
        """Tell whether a parameter of this name is named here."""
        return any(parameter.name == name for parameter in self.parameters)

    @property
    def takes_any(self) -> bool:
        """Whether it takes `**kwargs`."""
        return any(parameter.kind is Parameter.VAR_KEYWORD for parameter in self.parameters)

    def without_var_keyword(self) -> Stage:
        """Return the stage with no key wanted in its `**kwargs`."""
        return Stage(self.name, self.parameters, self.function, self.given, invites=False)

    def lets_through(self, name: str) -> bool:
        """Tell whether a keyword that it does not name goes on to what it wraps."""
        return self.takes_any and not self.has(name)

    def index_of(self, name: str) -> int | None:
        """Return the position at which a caller may give a parameter; None if only by keyword."""
        for index, parameter in enumerate(self.parameters):
            if parameter.name == name:
                positional = parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
                return index if positional else None
        return None

    def marker(self, name: str) -> Key[Any] | None:
        """Return the key that the parameter's annotation is marked with."""
        function = self.function
        if function is None:
            return None
        return _marker(_annotation(function, name), function)

    def without_first(self, count: int = 1) -> Stage:
        """Return the stage with leading arguments bound."""
        left = list(self.parameters)
        while (
            count
            and left
            and left[0].kind
            in (
                Parameter.POSITIONAL_ONLY,
                Parameter.POSITIONAL_OR_KEYWORD,
            )
        ):
            left.pop(0)
            count -= 1
        return Stage(self.name, left, self.function, self.given, invites=self.invites)

    def with_keywords(self, names: Iterable[str]) -> Stage:
        """Return the stage with keywords bound: what follows such a parameter can be given by keyword only."""
        given = frozenset(names)
        parameters: list[Parameter] = []
        kind: Any = Parameter.POSITIONAL_OR_KEYWORD
        for parameter in self.parameters:
            if parameter.name in given:
                kind = Parameter.KEYWORD_ONLY
            elif parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
                parameters.append(parameter.replace(kind=kind))
            elif parameter.kind is not Parameter.VAR_POSITIONAL or kind is Parameter.POSITIONAL_OR_KEYWORD:
                parameters.append(parameter)
        parameters.sort(key=lambda parameter: parameter.kind)
        return Stage(self.name, parameters, self.function, self.given | given, invites=self.invites)


def describe(fn: Any) -> tuple[str, str]:
    """Return what people know a handler by: its dotted name, and its file and line."""
    if isinstance(fn, functools.partial):
        name, location = describe(cast("Any", fn).func)
        return f"partial of {name}", location
    code = getattr(_innermost(fn), "__code__", None) or getattr(call_of(fn), "__code__", None)
    named = fn if hasattr(fn, "__qualname__") else cast("Any", type(fn))
    module = getattr(named, "__module__", None)
    name = getattr(named, "__qualname__", type(fn).__name__)
    location = f"{code.co_filename}:{code.co_firstlineno}" if code else "no source"
    return (f"{module}.{name}" if module else name), location


def call_of(fn: Any) -> Any:
    """Return what a call of an object runs, as its class has it."""
    return getattr(cast("Any", type(fn)), "__call__", None)  # noqa: B004  # what it runs, not whether


def _innermost(fn: Any) -> Any:
    try:
        return inspect.unwrap(fn)
    except ValueError:  # its wrappings lead in a circle
        return fn


def stages_of(fn: Any, depth: int = _DEEPEST) -> list[Stage]:
    """Return the stages of a call, outermost first; none where nothing is known of how it binds."""
    if not depth:
        return []
    if (own := options_of(fn)) is not None:
        stages = stages_of(plain(fn), depth - 1)
        return stages if own.var_keyword == "any" else [stage.without_var_keyword() for stage in stages]
    if isinstance(fn, functools.partial):
        inner = stages_of(cast("Any", fn).func, depth - 1)
        return [stage.without_first(len(fn.args)).with_keywords(fn.keywords) for stage in inner]
    if isinstance(fn, type):
        return _class_stages(cast("type[Any]", fn), depth)
    if type(fn) is types.MethodType:
        return [stage.without_first() for stage in stages_of(fn.__func__, depth - 1)]
    if type(fn) is types.FunctionType:
        return [_function_stage(fn), *_wrapped_stages(fn, depth)]
    return _object_stages(fn, depth)


def _wrapped_stages(fn: Any, depth: int) -> list[Stage]:
    wrapped = getattr(fn, "__wrapped__", None)
    return [] if wrapped is None else stages_of(wrapped, depth - 1)


def _object_stages(fn: Any, depth: int) -> list[Stage]:
    call = call_of(fn)
    if type(call) is types.FunctionType:
        # As it was defined: a static method has no argument to bind.
        bound = inspect.getattr_static(cast("Any", type(fn)), "__call__").__get__(fn, type(fn))
        return stages_of(bound, depth - 1) + _wrapped_stages(fn, depth)
    if getattr(fn, "__wrapped__", None) is not None:
        return _wrapped_stages(fn, depth)  # lru_cache, wrapt: whatever it is given, it passes on
    if call is not None and not isinstance(call, _SLOT_WRAPPERS):
        return stages_of(call.__get__(fn, type(fn)), depth - 1)
    return _native_stages(fn)


def _class_stages(cls: type[Any], depth: int) -> list[Stage]:
    stages: list[Stage] = []
    for owner, name in ((type(cls), "__call__"), (cls, "__new__"), (cls, "__init__")):
        function = getattr(owner, name)
        if not isinstance(function, _SLOT_WRAPPERS):
            stages += [stage.without_first() for stage in stages_of(function, depth - 1)]
    return stages


def _native_stages(fn: Any) -> list[Stage]:
    try:
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return []
    return [Stage(getattr(fn, "__name__", type(fn).__name__), signature.parameters.values())]


def _function_stage(fn: types.FunctionType) -> Stage:
    """Read the parameters from the code: a `__signature__` may say anything, the code is what binds."""
    code = fn.__code__
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = iter(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    defaults = dict(zip(reversed(positional), reversed(fn.__defaults__ or ()), strict=False))
    defaults |= fn.__kwdefaults__ or {}

    def make(name: str, kind: Any) -> Parameter:
        return Parameter(name, kind, default=defaults.get(name, Parameter.empty))

    parameters = [
        make(name, Parameter.POSITIONAL_ONLY if i < code.co_posonlyargcount else Parameter.POSITIONAL_OR_KEYWORD)
        for i, name in enumerate(positional)
    ]
    if code.co_flags & inspect.CO_VARARGS:
        parameters.append(make(next(rest), Parameter.VAR_POSITIONAL))
    parameters += [make(name, Parameter.KEYWORD_ONLY) for name in keyword_only]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parameters.append(make(next(rest), Parameter.VAR_KEYWORD))
    return Stage(code.co_qualname, parameters, fn)


# Markers


def _annotation(function: Any, name: str) -> object:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(function, format=Format.FORWARDREF).get(name)
    return function.__annotations__.get(name)


def _marker(annotation: object, function: Any) -> Key[Any] | None:
    if isinstance(annotation, str):
        annotation = _evaluated(annotation, function)
    if get_origin(annotation) is Annotated:
        for extra in get_args(annotation)[1:]:
            if isinstance(extra, Key):
                return cast("Key[Any]", extra)  # type: ignore[redundant-cast]  # not to pyright
    for part in get_args(annotation) if get_origin(annotation) in _UNIONS else ():
        if (key := _marker(part, function)) is not None:
            return key
    return None


def _unions() -> tuple[object, ...]:
    from typing import Union

    return (Union, types.UnionType)


_UNIONS: Final = _unions()


def _evaluated(annotation: str, function: Any) -> object:
    """Evaluate one annotation by itself: another one that cannot be resolved costs it nothing."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    names: dict[str, object] = {}
    for name, cell in cells:
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    try:
        return eval(annotation, function.__globals__, names)
    except Exception:  # noqa: BLE001  # whatever an annotation raises, it is no marker
        return None
