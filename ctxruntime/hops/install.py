"""`install()`: carry over every hop of the process, without touching a call site."""

from __future__ import annotations

import os
from _thread import RLock
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import ModuleType, TracebackType
from typing import Final, TypeAlias, cast, final

from ctxruntime.guarding import guard
from ctxruntime.hops import denied
from ctxruntime.hops.patching import Undoable
from ctxruntime.hops.watching import Watch
from ctxruntime.layers import renew_in_child

__all__ = ["Installation", "install", "installed"]

SWITCH: Final = "CTXRUNTIME_DISABLED"
"""The environment variable that makes `install()` do nothing, if it is `1`, `true`, `yes` or `on`."""

Hops: TypeAlias = tuple[tuple[str, str], ...]
"""Modules, each with what makes the patches of it."""

_HOPS: Final[Hops] = (
    ("threading", "ctxruntime.hops.threads:patches"),
    ("concurrent.futures.thread", "ctxruntime.hops.pools:patches"),
    ("concurrent.futures.process", "ctxruntime.hops.processes:executor_patches"),
    ("multiprocessing.process", "ctxruntime.hops.processes:process_patches"),
    ("multiprocessing.pool", "ctxruntime.hops.worker_pools:patches"),
    ("asyncio.base_events", "ctxruntime.hops.loops:asyncio_patches"),
    ("uvloop", "ctxruntime.hops.loops:uvloop_patches"),
    ("greenlet", "ctxruntime.hops.greenlets:greenlet_patches"),
    ("gevent", "ctxruntime.hops.greenlets:gevent_patches"),
    ("gevent.thread", "ctxruntime.hops.greenlets:gevent_thread_patches"),
    ("gevent.pool", "ctxruntime.hops.greenlets:gevent_pool_patches"),
    ("gevent.threadpool", "ctxruntime.hops.greenlets:gevent_threadpool_patches"),
)
_OPT_IN: Final[Hops] = (
    ("subprocess", "ctxruntime.hops.subprocesses:patches"),
    ("gevent.subprocess", "ctxruntime.hops.subprocesses:gevent_patches"),
    ("uvloop", "ctxruntime.hops.subprocesses:uvloop_patches"),
)

_lock = RLock()
renew_in_child(globals(), "_lock")
_patches: Final[dict[str, Sequence[Undoable]]] = {}
"""By what makes them: made once, so that an undone patch that somebody wrapped is woken up, not put in twice."""
_installed: Installation | None = None


@final
class Installation:
    """The carrying of a process; `install()` makes it, and `uninstall()` ends it.

    As a context manager it ends when the outermost of its blocks is left.
    """

    __slots__ = ("_depth", "_in_place", "_wanted", "_watch")

    def __init__(self) -> None:
        self._depth = 0
        self._wanted: dict[str, str] = {}  # modules, by what makes the patches of them
        self._in_place: dict[str, str] = {}
        self._watch = Watch((name for name, _ in _HOPS + _OPT_IN), self._imported)

    @property
    def active(self) -> bool:
        """Whether this is the installation in place."""
        return self is _installed

    @property
    def patched(self) -> tuple[str, ...]:
        """The modules that are patched now; what is not imported yet follows when it is."""
        return tuple(dict.fromkeys(self._in_place.values()))

    def uninstall(self) -> None:
        """Put back what was there; again is harmless.

        Flows that took their state over before keep it. If somebody has wrapped what we put in place, theirs
        stays, and ours passes every call on.
        """
        global _installed
        with _lock:
            if not self.active:
                return
            _installed = None
            denied.reset()
            self._watch.stop()
            for source in reversed(self._in_place):
                for patch in _patches.get(source, ()):
                    with guard(f"uninstall {source}"):
                        patch.undo()
            self._in_place.clear()

    def __enter__(self) -> Installation:
        with _lock:
            self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        with _lock:
            self._depth -= 1
            if self._depth == 0:
                self.uninstall()

    def __repr__(self) -> str:
        return f"<Installation {', '.join(self.patched) or 'not in place'}>"

    def add(self, hops: Hops) -> None:
        """Patch what is imported of these, and the rest as it comes; can be called twice.

        Call it without the lock: a thread that imports one of these modules holds the import system's lock of it
        when it comes here, and what makes patches imports.
        """
        with _lock:
            self._wanted.update((source, name) for name, source in hops)
        self._watch.start()
        for name, source in hops:
            if name not in self._watch.pending:  # another thread may have claimed it, and not be done
                self._put_in_place(source)
        with _lock:
            if not self.active:
                self._watch.stop()

    def _imported(self, module: ModuleType) -> None:
        for source, name in self._wanted.copy().items():
            if name == module.__name__:
                self._put_in_place(source)

    def _put_in_place(self, source: str) -> None:
        if not self.active:
            return
        made: Sequence[Undoable] = ()
        with guard(f"install {source}"):
            made = _patches.get(source) or _made_by(source)
        with _lock:
            if not self.active:
                return
            if made:
                self._in_place[source] = self._wanted[source]
            for patch in _patches.setdefault(source, made) if made else ():
                with guard(f"install {source}"):
                    patch.apply()


def _made_by(source: str) -> Sequence[Undoable]:
    module, function = source.split(":")
    make: Callable[[], Sequence[Undoable]] = getattr(import_module(module), function)
    return make()


def installed() -> Installation | None:
    """Return the installation in place; None where nothing is installed."""
    return _installed


def install(*, deny: Iterable[str] = (), subprocesses: bool = False, enabled: bool = True) -> Installation:
    """Carry over every hop of the process: threads, pools, callbacks, processes, greenlets, event loops.

    Call it early, once. There is one installation per process: calling again returns it, and adds what is asked
    for. A library that is imported later is patched then. What is handed over is captured where it is handed
    over, and a worker of any pool shows nothing but its job's state.

    Args:
        deny: further threads that live as long as the process and must be born with nothing, each as the exact
            qualified name of its target or of a class of it: `"acme.poller.Poller.run"`.
        subprocesses: also give child processes that `subprocess` starts the keys that are defined with
            `wire=True`, in their environment; see `ctxruntime.wire.child_env`.
        enabled: False to do nothing. So does the environment variable `CTXRUNTIME_DISABLED`, set to `1`, `true`,
            `yes` or `on` when this is called.

    Raises:
        TypeError: a name in `deny` is no text.
        ValueError: a name in `deny` is not qualified.

    >>> from threading import Thread
    >>> from ctxruntime import SESSION_ID, install, session
    >>> with install(), session(session_id="s1"):
    ...     thread = Thread(target=lambda: print(SESSION_ID.get()))
    ...     thread.start()
    ...     thread.join()
    s1
    """
    global _installed
    names = _checked(deny)
    if not enabled or os.environ.get(SWITCH, "").strip().lower() in ("1", "true", "yes", "on"):
        return Installation()
    with _lock:
        if _installed is None:
            _installed = Installation()
        installation = _installed
        denied.extend(names)
    installation.add(_HOPS + _OPT_IN if subprocesses else _HOPS)
    return installation


def _checked(deny: Iterable[str]) -> list[str]:
    if isinstance(deny, str):
        raise TypeError(f"deny takes several names: write deny=({deny!r},)")
    names: list[object] = list(deny)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"deny takes qualified names, not {type(name).__name__}: give 'package.module.Class.run'")
        if "." not in name:
            raise ValueError(f"deny takes qualified names, and {name!r} has no module: give 'package.module.{name}'")
    return cast("list[str]", names)
