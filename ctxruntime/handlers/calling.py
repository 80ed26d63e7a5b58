"""The host's side: call somebody else's handler with what it accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from inspect import isawaitable
from types import FunctionType, MethodType
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from ctxruntime.handlers.codegen import compile_adapter
from ctxruntime.handlers.plan import Options, Plan, VarKeyword
from ctxruntime.keys import Key

F = TypeVar("F", bound=Callable[..., Any])
Adapter = Callable[..., Any]

OPTIONS: Final = "__ctxruntime_options__"
"""Where an adapter, or an injected handler, keeps how it was made."""


def options_of(fn: Any) -> Options | None:
    """Return how a handler that injects by itself was made; None if it does not."""
    try:
        options = getattr(fn, OPTIONS, None)
    except Exception:  # noqa: BLE001  # a callable object may answer anything to getattr
        return None
    return options if isinstance(options, Options) else None


def plain(fn: Any) -> Any:
    """Return the handler behind one that injects by itself."""
    if type(fn) is MethodType:
        return MethodType(fn.__func__.__wrapped__, fn.__self__)
    return fn.__wrapped__


def require_callable(fn: Any, verb: str) -> None:
    """Refuse what cannot be called."""
    if not callable(fn):
        raise TypeError(f"{verb} takes a callable handler, not {type(fn).__name__}: give the function itself")


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
    own = options_of(fn)
    if own is not None:
        if not missing and keys is None:
            return fn
        aliases = {**own.aliases, **(aliases or {})}
        var_keyword = own.var_keyword
        fn = plain(fn)
    options = Options(aliases, var_keyword, keys, missing)
    plan = Plan(fn, options)
    if not plan.anything:
        return fn
    adapter = compile_adapter(plan, fn, options.missing)
    update_wrapper(adapter, fn)
    setattr(adapter, OPTIONS, options)
    return cast("F", adapter)


def call(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
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
    return fn(*args, **kwargs) if adapter is None else adapter(fn, *args, **kwargs)


async def acall(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a handler as `call` does, and await what it returns if that is awaitable."""
    result = call(fn, *args, **kwargs)
    return await result if isawaitable(result) else result


def explain(fn: Callable[..., Any], /, **options: Any) -> Plan:
    """Return what would be passed to a handler, from where, and why not. It takes the options of `adapt`.

    >>> print(explain(lambda raw, session_id=None: None))  # doctest: +ELLIPSIS
    ctxruntime.handlers.calling.<lambda> (...)
      session_id: key 'session_id', by name, else its default
    """
    require_callable(fn, "explain")
    own = options_of(fn)
    if own is not None:
        options = {"aliases": own.aliases, "var_keyword": own.var_keyword, **options}
        fn = plain(fn)
    return Plan(fn, Options(**options))


# One adapter per handler, for as long as the handler lives

_functions: Final[WeakKeyDictionary[Any, Adapter | None]] = WeakKeyDictionary()
_methods: Final[WeakKeyDictionary[Any, Adapter | None]] = WeakKeyDictionary()
_instances: Final[WeakKeyDictionary[Any, Adapter | None]] = WeakKeyDictionary()


def _adapter_for(fn: Any) -> Adapter | None:
    """Return the adapter that takes this handler first; None if the handler takes no key, or injects itself."""
    require_callable(fn, "call")
    if type(fn) is FunctionType:
        cache, owner = _functions, fn
    elif type(fn) is MethodType and type(fn.__func__) is FunctionType:
        cache, owner = _methods, fn.__func__
    elif not isinstance(fn, type) and type(getattr(type(fn), "__call__", None)) is FunctionType:
        if hasattr(fn, "__wrapped__"):
            return _new_adapter(fn)
        cache, owner = _instances, type(fn)
    else:
        cache, owner = _functions, fn
    try:
        if owner in cache:
            return cache[owner]
        adapter = cache[owner] = _new_adapter(fn)
    except TypeError:  # it takes no weak reference, or no hash
        return _new_adapter(fn)
    return adapter


def _new_adapter(fn: Any) -> Adapter | None:
    if options_of(fn) is not None:
        return None
    plan = Plan(fn, Options())
    return compile_adapter(plan, fn, (), "fn") if plan.anything else None
