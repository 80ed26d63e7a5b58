"""The host's side: call somebody else's handler with what it accepts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import update_wrapper
from inspect import isawaitable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from ctxruntime.handlers.codegen import compile_adapter
from ctxruntime.handlers.options import OPTIONS, Options, VarKeyword, options_of, require_callable, taken_apart
from ctxruntime.handlers.plan import Plan
from ctxruntime.handlers.stages import call_of
from ctxruntime.keys import Key

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
Adapter = Callable[..., Any]


def adapt(
    fn: F,
    /,
    *,
    aliases: Mapping[str, Key[Any]] | None = None,
    var_keyword: VarKeyword = "any",
    keys: Iterable[Key[Any]] | None = None,
    missing: Iterable[object] = (),
) -> F:
    """Return a plain callable for a host's registry, which calls `fn` with the keys that it accepts.

    A handler that accepts none is returned itself.

    Args:
        fn: the handler, of any kind.
        aliases: keys for parameters of other names.
        var_keyword: whether `**kwargs` gets the bound keys with `inject="any"`.
        keys: the only keys that go to parameters without a marker.
        missing: what the host passes for "unknown": `("",)`. A key that is bound takes its place.

    Raises:
        TypeError: `fn` is not callable.
        UnknownKeyError: a parameter is marked INJECTED and names no key, or an alias is for no Key.
    """
    require_callable(fn, "adapt")
    options = Options(aliases, var_keyword, keys, missing)
    if options_of(fn) is not None and options.say_nothing():
        return fn
    handler, options = taken_apart(fn, options)
    plan = Plan(handler, options)
    if not plan.anything:
        return cast("F", handler)
    adapter = compile_adapter(plan, handler, options.missing)
    update_wrapper(adapter, handler)
    setattr(adapter, OPTIONS, options)
    return cast("F", adapter)


def call(fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    """Call somebody's handler, once, with what the caller gives and the keys that it accepts.

    Raises:
        UnboundKeyError: the handler requires a key that is not bound here.
        TypeError: `fn` is not callable, or the call does not fit it. Its own errors pass unchanged.

    >>> from ctxruntime import session
    >>> with session(session_id="s1"):
    ...     call(lambda raw, session_id: (raw, session_id), "hello")
    ('hello', 's1')
    """
    adapter = _adapter_for(fn)
    return fn(*args, **kwargs) if adapter is None else cast("R", adapter(fn, *args, **kwargs))


@overload
async def acall(fn: Callable[..., Awaitable[R]], /, *args: Any, **kwargs: Any) -> R: ...
@overload
async def acall(fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> R: ...
async def acall(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a handler as `call` does, and await what it returns if that is awaitable."""
    result = call(fn, *args, **kwargs)
    return await result if isawaitable(result) else result


def explain(
    fn: Callable[..., Any],
    /,
    *,
    aliases: Mapping[str, Key[Any]] | None = None,
    var_keyword: VarKeyword = "any",
    keys: Iterable[Key[Any]] | None = None,
    missing: Iterable[object] = (),
) -> Plan:
    """Return what would be passed to a handler, from where, and why not. It takes the options of `adapt`.

    >>> print(explain(lambda raw, session_id=None: None))  # doctest: +ELLIPSIS
    ctxruntime.handlers.calling.<lambda> (...)
      session_id: key 'session_id', by name, else its default
    """
    require_callable(fn, "explain")
    return Plan(*taken_apart(fn, Options(aliases, var_keyword, keys, missing)))


# One adapter per handler, for as long as the handler lives

_functions: Final[WeakKeyDictionary[Any, Adapter | None]] = WeakKeyDictionary()
_methods: Final[WeakKeyDictionary[Any, Adapter | None]] = WeakKeyDictionary()
_instances: Final[WeakKeyDictionary[Any, Adapter | None]] = WeakKeyDictionary()


def _adapter_for(fn: Any) -> Adapter | None:
    """Return the adapter that takes this handler first; None if the handler takes no key, or injects itself."""
    require_callable(fn, "call")
    owner: Any
    kind = cast("Any", type(fn))
    if type(fn) is FunctionType:
        cache, owner = _functions, fn
    elif type(fn) is MethodType and type(fn.__func__) is FunctionType:
        cache, owner = _methods, fn.__func__
    elif not isinstance(fn, type) and type(call_of(fn)) is FunctionType:
        if hasattr(fn, "__wrapped__"):
            return _new_adapter(fn)
        cache, owner = _instances, kind
    elif kind.__hash__ is object.__hash__ or kind is BuiltinFunctionType:
        cache, owner = _functions, fn
    else:
        return _new_adapter(fn)  # what it is equal to is its own affair
    try:
        return cache[owner]
    except KeyError:
        adapter = _new_adapter(fn)
    except TypeError:  # it takes no weak reference
        return _new_adapter(fn)
    cache[owner] = adapter
    return adapter


def _new_adapter(fn: Any) -> Adapter | None:
    if options_of(fn) is not None:
        return None
    plan = Plan(fn, Options())
    return compile_adapter(plan, fn, (), callee_first=True) if plan.anything else None
