"""How a handler wants its keys, or how a host gives them; and which handlers inject by themselves already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MethodType
from typing import Any, Final, Literal, TypeAlias, cast, final

from ctxruntime.keys import Key, require_key

VarKeyword: TypeAlias = Literal["any", "none"]

OPTIONS: Final = "__ctxruntime_options__"
"""Where an adapter, or an injected handler, keeps how it was made."""
SOURCE: Final = "<ctxruntime adapter>"
"""The file name of compiled code: in tracebacks, and by which an adapter is known."""


@final
class Options:
    """What `inject` and `adapt` were given."""

    __slots__ = ("aliases", "hide", "keys", "missing", "strict", "var_keyword")

    def __init__(
        self,
        aliases: Mapping[str, Key[Any]] | None = None,
        var_keyword: VarKeyword = "any",
        keys: Iterable[Key[Any]] | None = None,
        missing: Iterable[object] = (),
        *,
        hide: bool = False,
        strict: bool = False,
    ) -> None:
        self.aliases: Mapping[str, Key[Any]] = {name: require_key(key) for name, key in (aliases or {}).items()}
        self.var_keyword: VarKeyword = var_keyword
        self.keys: frozenset[Key[Any]] | None = None if keys is None else frozenset(require_key(key) for key in keys)
        self.missing: tuple[object, ...] = tuple(missing)
        self.hide: bool = hide
        self.strict: bool = strict
        """Whether an alias for a parameter that is not there is an error."""
        if var_keyword not in ("any", "none"):
            raise ValueError(f"var_keyword is 'any' or 'none', not {var_keyword!r}")

    def allow(self, key: Key[Any]) -> bool:
        """Tell whether the host lets a key go to parameters that have no marker."""
        return self.keys is None or key in self.keys

    def say_nothing(self) -> bool:
        """Tell whether they are what one gets without giving any."""
        return not (self.aliases or self.missing or self.hide) and self.keys is None and self.var_keyword == "any"

    def on_top_of(self, own: Options) -> Options:
        """Return these for a handler that was made with `own` before: nothing that was said is forgotten."""
        keys = own.keys if self.keys is None else self.keys
        return Options(
            {**own.aliases, **self.aliases},
            self.var_keyword if own.var_keyword == "any" else own.var_keyword,
            keys if keys is None or own.keys is None else keys & own.keys,
            (*own.missing, *self.missing),
            hide=own.hide or self.hide,
            strict=self.strict,
        )


def options_of(fn: Any) -> Options | None:
    """Return how a handler that injects by itself was made; None if it does not.

    Only the handler itself counts: `functools.wraps` copies what is in its `__dict__`, and proxies forward to it.
    """
    function = fn.__func__ if type(fn) is MethodType else fn
    if type(function) is not FunctionType:
        return cast("Options | None", getattr(cast("Any", type(function)), OPTIONS, None))
    return function.__dict__.get(OPTIONS) if function.__code__.co_filename == SOURCE else None


def plain(fn: Any) -> Any:
    """Return the handler behind one that injects by itself."""
    if type(fn) is MethodType:
        return MethodType(cast("Any", fn.__func__).__wrapped__, fn.__self__)
    return fn.__wrapped__


def taken_apart(fn: Any, options: Options) -> tuple[Any, Options]:
    """Return the handler behind `fn`, and all that was ever said of it."""
    own = options_of(fn)
    return (fn, options) if own is None else (plain(fn), options.on_top_of(own))


def require_callable(fn: Callable[..., Any], verb: str) -> None:
    """Refuse what cannot be called."""
    if not callable(fn):
        raise TypeError(f"{verb} takes a callable handler, not {type(fn).__name__}: give the function itself")
