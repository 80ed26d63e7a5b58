"""Replace what a host calls so that it can be undone.

What every patch and every integration uses, and exists only here:

- ``Patch`` puts a function of ours in the place of an attribute of a class or a module, and back;
- ``Undoable`` is what an installation needs of a patch, whatever it replaces.
"""

from __future__ import annotations

import sys
from _thread import RLock  # threading would cost what `import ctxruntime` must not
from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType, ModuleType
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, final

from ctxruntime.layers import renew_in_child

__all__ = ["Patch", "Undoable"]

# Any: the signature is the host's.
AnyCallable: TypeAlias = Callable[..., Any]
Kind: TypeAlias = Literal["unbound", "static", "class", "method"]

_COROUTINE: Final = 0x80  # inspect.CO_COROUTINE, without inspect
_PATCH: Final = "__ctxruntime_patch__"
_NOTHING: Final = object()

_patching = RLock()
renew_in_child(globals(), "_patching")


class Undoable(Protocol):
    """What can be put in place and taken back, each as often as one likes."""

    def apply(self) -> object:
        """Put it in place, if it is not there."""
        ...

    def undo(self) -> None:
        """Take it back, if it is there."""
        ...


@final
class Patch:
    """Replace the attribute ``name`` of a class or module by ``make(original)``, and undo it.

    ``make`` gets a callable that does what was there, called as a plain function: with ``self`` or the class
    first where the attribute takes one, whatever it is (a method, another library's wrapper, inherited). It
    returns what is to run in its place. ``make`` runs once; static and class methods stay what they are.

    Undoing puts the very object back that was there, or removes ours where the attribute was inherited. If
    somebody else has wrapped ours since, theirs stays, and ours passes every call on; so it does for
    whoever kept a reference to it. Applying again wakes the same function up, and never wraps twice.

    Args:
        owner: the class or the module.
        name: the attribute. One that is missing is an ``AttributeError``, a data attribute a ``TypeError``,
            when the patch is applied.
        make: from the original to its replacement.
        plain: for what is called often: the replacement itself stands in the attribute, without a function of
            ours around it. ``make`` then gets this patch too, and its replacement does what the original does
            while ``patch.active`` is false.

    >>> class Greeter:
    ...     def greet(self, name):
    ...         return f"Hello {name}"
    >>> def louder(original):
    ...     return lambda self, name: original(self, name) + "!"
    >>> patch = Patch(Greeter, "greet", louder).apply()
    >>> Greeter().greet("you")
    'Hello you!'
    >>> patch.undo()
    >>> Greeter().greet("you")
    'Hello you'
    """

    __slots__ = ("_before", "_code", "_installed", "_make", "_plain", "_turn", "active", "name", "owner")

    active: bool
    """Whether calls of the attribute run the replacement; `apply` and `undo` alone write it."""

    def __init__(
        self, owner: type | ModuleType, name: str, make: Callable[..., AnyCallable], *, plain: bool = False
    ) -> None:
        self.owner: Final = owner
        self.name: Final = name
        self._make: Final = make
        self._plain: Final = plain
        self.active = False
        self._before: object = _NOTHING  # what the owner itself had: nothing, where the attribute is inherited
        self._installed: object = _NOTHING
        self._code: object = None  # ddtrace wraps a function by changing its code, and then ours has to stay
        self._turn: Callable[[bool], object] = bool  # until something is installed, there is nothing to turn

    def __repr__(self) -> str:
        owner = getattr(self.owner, "__qualname__", self.owner.__name__)
        return f"<Patch {owner}.{self.name}, {'applied' if self.active else 'not applied'}>"

    def apply(self) -> Patch:
        """Put the replacement in place, if it is not there; return this patch."""
        with _patching:
            if not self.active:
                self._install()
                self._turn(True)
                self.active = True
        return self

    def undo(self) -> None:
        """Let the original be called again; can be called twice, and before `apply`."""
        with _patching:
            if not self.active:
                return
            self.active = False
            self._turn(False)
            current, before = self._current(), self._last_alive()
            if current is self._installed and _code_of(current) is self._code:
                self._put(before)
            elif before is not _NOTHING:
                _take_out_below(current, self._installed, before)

    def _install(self) -> None:
        current = self._current()
        if _wraps(current, self._installed):
            return  # undone while somebody else's wrapper was above it, which calls it still
        if self._installed is _NOTHING or current is not self._before:
            self._installed, self._turn = self._build(current)
            self._before = current
        self._code = _code_of(self._installed)
        self._put(self._installed)

    def _current(self) -> object:
        return vars(self.owner).get(self.name, _NOTHING)

    def _put(self, value: object) -> None:
        if value is _NOTHING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, value)

    def _last_alive(self) -> object:
        """Return what was there, without patches that were undone earlier and could not be removed then."""
        before = self._before
        while True:
            patch = getattr(before, "__dict__", {}).get(_PATCH)
            # functools.wraps copies our mark onto the wrappers of others.
            if not isinstance(patch, Patch) or patch.active or patch._installed is not before:
                return before
            before = patch._before

    def _build(self, current: object) -> tuple[object, Callable[[bool], object]]:
        reachable: Any = getattr(self.owner, self.name)  # Any: what the host has there
        if not callable(reachable):
            raise TypeError(f"{self!r}: the attribute is not callable")
        found: Any = current if current is not _NOTHING else _inherited(self.owner, self.name, reachable)
        kind = _kind(self.owner, found)
        if current is _NOTHING and isinstance(self.owner, type):
            original = _looked_up_above(self.owner, self.name, kind)
        elif kind in ("unbound", "static") or type(found) is FunctionType:
            original = reachable
        else:
            original = _through_descriptor(found, kind)
        switch, turn = self._switch(original, getattr(found, "__func__", found))
        if kind == "static":
            return staticmethod(switch), turn
        return classmethod(switch) if kind == "class" else switch, turn

    def _switch(self, original: AnyCallable, found: AnyCallable) -> tuple[AnyCallable, Callable[[bool], object]]:
        """Return what stands in the attribute, and what turns it to the replacement or to the original.

        It is always there, as references to it (bound methods in a host's registry) outlive an undo.
        """
        if self._plain:
            return self._marked(self._make(original, self), found), bool
        target = original
        replacement = self._make(original)

        def turn(on: bool) -> None:
            nonlocal target
            target = replacement if on else original

        def switch(*args: object, **kwargs: object) -> object:
            return target(*args, **kwargs)

        async def coroutine_switch(*args: object, **kwargs: object) -> object:
            return await target(*args, **kwargs)

        # iscoroutinefunction() stays true, which hosts decide by.
        both_async = _makes_coroutines(found) and _makes_coroutines(replacement)
        return self._marked(coroutine_switch if both_async else switch, found), turn

    def _marked(self, ours: AnyCallable, found: AnyCallable) -> AnyCallable:
        update_wrapper(ours, found)
        vars(ours)[_PATCH] = self
        return ours


def _inherited(owner: type | ModuleType, name: str, reachable: object) -> object:
    bases = owner.__mro__ if isinstance(owner, type) else ()
    # A metaclass, or a module's __getattr__, may serve what is in no __dict__.
    return next((vars(base)[name] for base in bases if name in vars(base)), reachable)


def _kind(owner: type | ModuleType, found: object) -> Kind:
    """Say what attribute access adds. A proxy (wrapt's) claims to be what it wraps, which is right here."""
    if not isinstance(owner, type):
        return "unbound"
    if isinstance(found, staticmethod) or not hasattr(found, "__get__"):
        return "static"
    return "class" if isinstance(found, classmethod) else "method"


def _looked_up_above(owner: type[object], name: str, kind: Kind) -> AnyCallable:
    """Call what is inherited as found per call: the base may be patched, or that undone, after us."""

    def inherited(*args: Any, **kwargs: object) -> object:
        bound_to, rest = (owner, args) if kind == "static" else (args[0], args[1:])
        above: object = super(owner, bound_to)
        return getattr(above, name)(*rest, **kwargs)

    return inherited


def _through_descriptor(found: Any, kind: Kind) -> AnyCallable:  # Any: what has a __get__
    """Call it as attribute access would: another library's wrapper, called bare, mistakes self for data."""

    def bound(self: Any, /, *args: object, **kwargs: object) -> object:
        method = found.__get__(None, self) if kind == "class" else found.__get__(self, type(self))
        return method(*args, **kwargs)

    return bound


def _makes_coroutines(function: object) -> bool:
    return bool(getattr(_code_of(function), "co_flags", 0) & _COROUTINE)


def _code_of(found: object) -> object:
    return getattr(getattr(found, "__func__", found), "__code__", None)


def _wraps(top: object, wanted: object) -> bool:
    """Whether ``wanted`` is ``top``, or among what ``top`` says it wraps."""
    wanted = getattr(wanted, "__func__", wanted)
    for _ in range(100):  # a chain that somebody tied into a circle ends too
        if top is None or top is _NOTHING:
            return False
        if getattr(top, "__func__", top) is wanted:
            return True
        top = getattr(top, "__wrapped__", None)
    return False


def _take_out_below(top: object, ours: object, before: object) -> None:
    """Take ours out from under the wrappers of wrapt above it, so that undoing those puts back what was there."""
    wrapt = sys.modules.get("wrapt")
    proxy: Any = getattr(wrapt, "BaseObjectProxy", None) or getattr(wrapt, "ObjectProxy", None)  # up to 1.x the latter
    while proxy is not None and issubclass(type(top), proxy):  # a proxy's __class__ is what it wraps
        below: object = getattr(top, "__wrapped__", None)
        if below is ours:
            cast("Any", top).__wrapped__ = before
            return
        top = below
