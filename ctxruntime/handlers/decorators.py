"""The plugin author's side: `@inject` on a handler, and the keys that its signature accepts arrive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from inspect import Signature, signature
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast, overload

from wrapt import FunctionWrapper

from ctxruntime.handlers.calling import OPTIONS, options_of, plain, require_callable
from ctxruntime.handlers.codegen import compile_adapter
from ctxruntime.handlers.plan import Options, Plan, VarKeyword
from ctxruntime.keys import Key

F = TypeVar("F", bound=Callable[..., Any])


class InjectedHandler(FunctionWrapper):  # type: ignore[misc, type-arg]  # wrapt ships partial types
    """A handler that fills in its keys itself; each has a class of its own, whose `__call__` is compiled for it."""

    def __reduce_ex__(self, protocol: object) -> str:
        return str(self.__qualname__)  # by reference, as functions are pickled

    def __reduce__(self) -> str:
        return str(self.__qualname__)

    def __copy__(self) -> InjectedHandler:
        return self

    def __deepcopy__(self, memo: object) -> InjectedHandler:
        return self


@overload
def inject(
    fn: F,
    /,
    *,
    aliases: Mapping[str, Key[Any]] | None = None,
    var_keyword: VarKeyword = "any",
    hide: bool = False,
) -> F: ...
@overload
def inject(
    *, aliases: Mapping[str, Key[Any]] | None = None, var_keyword: VarKeyword = "any", hide: bool = False
) -> Callable[[F], F]: ...
def inject(
    fn: Any = None,
    /,
    *,
    aliases: Mapping[str, Key[Any]] | None = None,
    var_keyword: VarKeyword = "any",
    hide: bool = False,
) -> Any:
    """Pass a handler the keys that its signature accepts, where the caller does not; nothing else changes.

    Args:
        fn: the handler: a function, method, static or class method, partial, callable object or class.
        aliases: keys for parameters of other names: `{"sid": SESSION_ID}`.
        var_keyword: whether `**kwargs` gets the bound keys with `inject="any"`.
        hide: take the injected parameters out of the visible signature, for frameworks that build schemas or
            command lines from it.

    Raises:
        TypeError: `fn` is not callable.
        UnknownKeyError: an alias is for no Key or no parameter, or a parameter marked INJECTED names no key.

    >>> from ctxruntime import session
    >>> @inject
    ... def block(raw, session_id=None):
    ...     return session_id
    >>> with session(session_id="s1"):
    ...     block("read_file"), block("read_file", session_id="mine")
    ('s1', 'mine')
    """
    if fn is None:
        return lambda fn: inject(fn, aliases=aliases, var_keyword=var_keyword, hide=hide)
    if isinstance(fn, (staticmethod, classmethod)):
        inner = inject(cast("Any", fn).__func__, aliases=aliases, var_keyword=var_keyword, hide=hide)
        return type(cast("Any", fn))(inner)
    require_callable(fn, "inject")
    if options_of(fn) is not None:
        if isinstance(fn, FunctionWrapper) and not aliases and var_keyword == "any" and not hide:
            return fn
        fn = plain(fn)
    options = Options(aliases, var_keyword, strict=True)
    return _injected_class(fn, Plan(fn, options), options, hide=hide)(fn, _forward)


def _injected_class(fn: Any, plan: Plan, options: Options, *, hide: bool) -> Callable[..., Any]:
    members: dict[str, Any] = {OPTIONS: options, "__get__": _descriptor(fn, plan, options)}
    if plan.anything:
        members["__call__"] = compile_adapter(plan, fn, (), "self")
    if hide:
        visible = _visible(fn, plan)
        members["__signature__"] = property(lambda self: visible)
        members["__annotations__"] = property(lambda self: _annotations(visible))
    return type("InjectedHandler", (InjectedHandler,), members)


def _descriptor(fn: Any, plan: Plan, options: Options) -> Callable[..., Any]:
    """Return the `__get__` of the wrapper: it binds where the handler would, past wrapt's slower way."""
    if type(fn) is not FunctionType:
        return _get_otherwise
    adapter = fn
    if plan.anything:
        adapter = compile_adapter(plan, fn, ())
        update_wrapper(adapter, fn)
        setattr(adapter, OPTIONS, options)

    def get(self: Any, instance: object, owner: object = None) -> Any:
        return self if instance is None else MethodType(adapter, instance)

    return get


def _get_otherwise(self: Any, instance: object, owner: object = None) -> Any:
    wrapped = self.__wrapped__
    if instance is None or not hasattr(type(wrapped), "__get__"):
        return self  # callable objects, partials and classes do not bind
    options = options_of(self)
    bound = wrapped.__get__(instance, owner)
    return bound if options is None else inject(bound, aliases=options.aliases, var_keyword=options.var_keyword)


def _forward(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _visible(fn: Any, plan: Plan) -> Signature:
    whole = signature(fn)
    kept = [parameter for name, parameter in whole.parameters.items() if name not in plan.passed]
    return whole.replace(parameters=kept)


def _annotations(visible: Signature) -> dict[str, Any]:
    annotations = {
        name: parameter.annotation
        for name, parameter in visible.parameters.items()
        if parameter.annotation is not parameter.empty
    }
    if visible.return_annotation is not visible.empty:
        annotations["return"] = visible.return_annotation
    return annotations
