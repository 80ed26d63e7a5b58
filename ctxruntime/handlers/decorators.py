"""The plugin author's side: `@inject` on a handler, and the keys that its signature accepts arrive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from inspect import Signature, signature
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from wrapt import FunctionWrapper

from ctxruntime.handlers.codegen import compile_adapter
from ctxruntime.handlers.options import OPTIONS, Options, VarKeyword, options_of, require_callable, taken_apart
from ctxruntime.handlers.plan import Plan
from ctxruntime.keys import Key

F = TypeVar("F", bound=Callable[..., Any])


def _name(handler: Any) -> str:
    return str(handler.__qualname__)


if TYPE_CHECKING:
    _Wrapper: TypeAlias = FunctionWrapper[..., Any]  # generic in the stubs alone
else:
    _Wrapper = FunctionWrapper


class InjectedHandler(_Wrapper):
    """A handler that fills in its keys itself; each has a class of its own, whose `__call__` is compiled for it."""

    def __reduce_ex__(self, protocol: object) -> str:
        return _name(self)  # by reference, as functions are pickled

    def __reduce__(self) -> str:
        return _name(self)

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
        return partial(inject, aliases=aliases, var_keyword=var_keyword, hide=hide)
    if isinstance(fn, (staticmethod, classmethod)):
        inner = inject(cast("Any", fn).__func__, aliases=aliases, var_keyword=var_keyword, hide=hide)
        return type(cast("Any", fn))(inner)
    require_callable(fn, "inject")
    options = Options(aliases, var_keyword, hide=hide, strict=True)
    if isinstance(fn, InjectedHandler) and options.say_nothing():
        return fn
    handler, options = taken_apart(fn, options)
    return _injected_class(handler, Plan(handler, options), options)(handler, _forward)


def _injected_class(fn: Any, plan: Plan, options: Options) -> Callable[..., Any]:
    adapter: Any = fn
    members: dict[str, Any] = {OPTIONS: options}
    if plan.anything:
        adapter = update_wrapper(compile_adapter(plan, fn, options.missing), fn)
        setattr(adapter, OPTIONS, options)
        # Static: the adapter has the handler's own signature, and nothing is bound on the way to it.
        members["__call__"] = staticmethod(adapter)
    # Past wrapt's way of binding, which is slower.
    members["__get__"] = _binder(adapter) if type(fn) is FunctionType else _get_otherwise
    if options.hide:
        visible = _visible(fn, plan)
        members["__signature__"] = property(lambda self: visible)
        members["__annotations__"] = property(lambda self: _annotations(visible))
        if plan.anything:  # what a method binds is the adapter
            adapter.__signature__, adapter.__annotations__ = visible, _annotations(visible)
    return type("InjectedHandler", (InjectedHandler,), members)


def _binder(adapter: Any) -> Callable[..., Any]:
    def get(self: Any, instance: object, owner: object = None) -> Any:
        return self if instance is None else MethodType(adapter, instance)

    return get


def _get_otherwise(self: Any, instance: object, owner: object = None) -> Any:
    wrapped = self.__wrapped__
    if instance is None or not hasattr(cast("Any", type(wrapped)), "__get__"):
        return self  # callable objects, partials and classes do not bind
    options = cast("Options", options_of(self))
    bound = wrapped.__get__(instance, owner)
    return inject(bound, aliases=options.aliases, var_keyword=options.var_keyword, hide=options.hide)


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
