"""Greenlets, bare ones and gevent's: each is born with the keys, and nothing else, of where it was spawned.

Natively a greenlet runs in a context of its own, which is empty. What is spawned:

- a bare greenlet, when it is constructed. The class is C's, so that a derived one stands in its place; who did
  ``from greenlet import greenlet`` earlier keeps the plain one, as do gevent's modules;
- a greenlet of gevent's, when it is started, however that is done: gevent calls back for each;
- the callback of a pool's ``apply_async``, when it is handed over;
- a job of ``gevent.threadpool``, when it is spawned; the pool's threads are born with nothing;
- a thread under ``gevent.monkey``: as any other thread, so that what gevent makes of it adds nothing.

Callbacks of gevent's hub (watchers, ``Greenlet.link``) have nothing in effect: they are C's, and ``carry(fn)``
is for them.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Callable, Sequence
from contextvars import Context
from importlib import import_module
from threading import Thread
from types import ModuleType
from typing import Any, Final, final

from ctxruntime.guarding import guard
from ctxruntime.hops.denied import is_denied_target
from ctxruntime.hops.jobs import keys_alone, keys_job
from ctxruntime.hops.patching import Patch, Undoable
from ctxruntime.layers import CURRENT, NOTHING, current


def greenlet_patches() -> Sequence[Undoable]:
    """Return what makes bare greenlets carry, not yet applied."""
    import greenlet

    return [_GreenletClass(greenlet)]


def gevent_patches() -> Sequence[Undoable]:
    """Return the patches of what `import gevent` loads, not yet applied."""
    import gevent
    import gevent.hub

    # Two references to one function.
    spawn_raw = [Patch(module, "spawn_raw", _spawn_raw) for module in (gevent.hub, gevent)]
    return [_SpawnCallback(gevent.Greenlet), *spawn_raw]


def gevent_thread_patches() -> Sequence[Undoable]:
    """Return the patches of `gevent.thread`, which stands in for `_thread` under `gevent.monkey`."""
    thread = import_module("gevent.thread")

    return [Patch(thread, "_start_new_greenlet", _for_threads)]


def gevent_pool_patches() -> Sequence[Undoable]:
    """Return the patches of `gevent.pool`, not yet applied."""
    from gevent.pool import GroupMappingMixin

    return [Patch(GroupMappingMixin, "apply_async", _with_callback)]


def gevent_threadpool_patches() -> Sequence[Undoable]:
    """Return the patches of `gevent.threadpool`, not yet applied."""
    from gevent.threadpool import ThreadPool

    return [Patch(ThreadPool, "spawn", _per_job), Patch(ThreadPool, "adjust", _with_nothing)]


def _give_keys(greenlet: Any) -> None:
    """Let a greenlet that was not started yet begin with the keys in effect here."""
    layer = current()
    if layer is not NOTHING and greenlet.gr_context is None:  # else the host has decided
        greenlet.gr_context = keys_alone(layer, Context())


# Bare greenlets


# Who must get the plain class: C code (which has no frame of its own, so that the one of the import system is
# the nearest) derives from it and checks types by it, and gevent keeps greenlets that serve everybody.
_PLAIN_FOR: Final = ("importlib", "gevent")


@final
class _GreenletClass:
    """Let Python code that asks the module for `greenlet.greenlet` get a class that carries.

    The attribute is taken out of the module, whose `__getattr__` then answers by who asks. (A property, in a class
    given to the module, is not asked by the specialised code of 3.14; and nothing else of the module gets slower.)
    """

    __slots__ = ("_carrying", "_getattr_before", "_module", "_plain", "active")

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._plain: type = module.greenlet
        self._carrying = _carrying(self._plain, self)
        self._getattr_before: Any = None
        self.active = False

    def apply(self) -> None:
        names = vars(self._module)
        if self.active or names.get("greenlet") is not self._plain:
            return  # somebody else's class is there: it stays
        self.active = True
        self._getattr_before = names.get("__getattr__")
        names["__getattr__"] = self._answer
        del names["greenlet"]

    def undo(self) -> None:
        if not self.active:
            return
        self.active = False
        names = vars(self._module)
        if names.get("greenlet", self._carrying) is self._carrying:
            names["greenlet"] = self._plain
        if names.get("__getattr__") == self._answer:
            del names["__getattr__"]
            if self._getattr_before is not None:
                names["__getattr__"] = self._getattr_before

    def _answer(self, name: str) -> object:
        if name == "greenlet":
            asking = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # documented
            module: str = asking.f_globals.get("__name__", "")
            return self._plain if module.partition(".")[0] in _PLAIN_FOR else self._carrying
        if self._getattr_before is not None:
            return self._getattr_before(name)
        raise AttributeError(f"module {self._module.__name__!r} has no attribute {name!r}")


def _carrying(plain: Any, patch: _GreenletClass) -> type:
    """Derive the class that gives each new greenlet its keys; every greenlet passes for an instance of it."""

    class Kind(ABCMeta):  # so that a host's class may have it and an abstract one for bases
        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, plain) if cls is carrying else super().__subclasscheck__(subclass)

    def new(cls: type, *args: object, **kwargs: object) -> object:
        made: object = plain.__new__(cls, *args, **kwargs)
        if patch.active:  # classes that a host derived outlive an undo
            with guard("greenlet.greenlet"):
                _give_keys(made)
        return made

    looks = {name: getattr(plain, name) for name in ("__doc__", "__module__", "__qualname__")}
    carrying: type = Kind(plain.__name__, (plain,), {"__slots__": (), "__new__": new, **looks})
    return carrying


# gevent's


@final
class _SpawnCallback:
    """Have gevent call for every greenlet of its own that is started; its class is C's."""

    __slots__ = ("_class",)

    def __init__(self, cls: Any) -> None:
        self._class = cls

    def apply(self) -> None:
        self._class.add_spawn_callback(_at_start)  # of equal ones gevent keeps one

    def undo(self) -> None:
        self._class.remove_spawn_callback(_at_start)


def _at_start(greenlet: object) -> None:
    with guard("gevent.Greenlet.start"):
        _give_keys(greenlet)


def _spawn_raw(original: Callable[..., Any]) -> Callable[..., Any]:
    def spawn_raw(*args: Any, **kwargs: Any) -> Any:
        greenlet = original(*args, **kwargs)
        with guard("gevent.spawn_raw"):
            _give_keys(greenlet)  # it starts in the hub's next round
        return greenlet

    return spawn_raw


def _with_callback(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_async(
        self: object, func: object, args: object = None, kwds: object = None, callback: Any = None
    ) -> object:
        # Where the group is full it is called by the greenlet that waits for a place; else by the hub.
        return original(self, func, args, kwds, keys_job(callback))

    return apply_async


def _per_job(original: Callable[..., Any]) -> Callable[..., Any]:
    def spawn(self: object, func: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, keys_job(func), *args, **kwargs)

    return spawn


def _for_threads(original: Callable[..., Any]) -> Callable[..., Any]:
    with_nothing = _with_nothing(original)

    def start_new_greenlet(function: Any, *args: Any, **kwargs: Any) -> Any:
        # What a `Thread` begins with, the hop of threads decides. A bare thread is seen by that hop, too, unless
        # gevent replaced `_thread.start_new_thread` later than we.
        for_itself = isinstance(getattr(function, "__self__", None), Thread) or is_denied_target(function)
        return (with_nothing if for_itself else original)(function, *args, **kwargs)

    return start_new_greenlet


def _with_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Call it with no keys in effect: what it starts serves everybody, or is carried by a hop of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        current()  # what was left elsewhere is settled before something stands on top of it
        token = CURRENT.set(NOTHING)
        try:
            return original(*args, **kwargs)
        finally:
            CURRENT.reset(token)
            current()

    return call
