"""Act on a module as soon as it is whole: now, or when its import ends.

Nothing is imported here. A module is in one of three states: not imported; half imported, which
is in ``sys.modules`` while its code is still running, perhaps because it is what imports us; or whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from threading import local
from types import ModuleType
from typing import Final, TypeAlias, final

from ctxruntime.guarding import guard

__all__ = ["Watch"]

_OURS: Final = "ctxruntime"
"""What the names of our modules begin with, those of integrations too."""
_here: Final = local()


def _is_reporting() -> bool:
    """Tell whether this thread is inside a report, of whichever watch."""
    return getattr(_here, "reporting", False)


Finder: TypeAlias = Callable[[str, Sequence[str] | None, ModuleType | None], ModuleSpec | None]


@final
class Watch:
    """Call ``ready(module)`` once for each module named, before whoever imports it goes on.

    Args:
        names: the modules' full names.
        ready: what to do with a module; an error of it is guarded.
    """

    def __init__(self, names: Iterable[str], ready: Callable[[ModuleType], None]) -> None:
        self._pending = dict.fromkeys(names)  # claimed by pop, which is atomic: no lock
        self._ready = ready

    @property
    def pending(self) -> frozenset[str]:
        """The modules that are not whole yet."""
        return frozenset(self._pending)

    def start(self) -> None:
        """Take the modules that are whole, and see the others coming; can be called twice."""
        if self not in sys.meta_path:
            # First, as the finder that finds a module keeps the others from being asked.
            sys.meta_path.insert(0, self)
        self.settle()

    def stop(self) -> None:
        """See no module coming any more; can be called twice."""
        self._pending.clear()
        while self in sys.meta_path:  # two threads may have started it at once
            sys.meta_path.remove(self)

    def settle(self) -> None:
        """Take what became whole unseen, as other finders may have been asked before this one."""
        for name in tuple(self._pending):
            module = sys.modules.get(name)
            if module is None:
                continue
            spec = getattr(module, "__spec__", None)
            if getattr(spec, "_initializing", False):
                self._announce(spec)
            if not getattr(spec, "_initializing", False):
                self.take(name)

    def take(self, name: str) -> None:
        """Hand a module over that is whole, if nobody has."""
        module = sys.modules.get(name)
        if module is not None and self._pending.pop(name, self) is None:
            nested, _here.reporting = _is_reporting(), True
            try:
                with guard(f"imports: {name}"):
                    self._ready(module)
            finally:
                _here.reporting = nested

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Find what the other finders find, and be told when it is whole: ``sys.meta_path`` asks."""
        # What `ready` imports is looked for here too. Were another module reported before it is found, whose report
        # imports the same, that would be run twice, and there would be two of each of its classes.
        if self._pending and not _is_reporting() and not name.startswith(_OURS):
            with guard("imports: watch"):
                self.settle()
        if name not in self._pending:
            return None
        for finder in sys.meta_path:
            find_spec: Finder | None = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec and finder is not self else None
            if spec is not None:
                with guard("imports: watch"):
                    self._announce(spec)
                return spec
        return None

    def _announce(self, spec: object) -> None:
        if type(spec) is ModuleSpec:
            spec.__class__ = AnnouncingSpec
            vars(spec)["_ctxruntime_watch"] = self


@final
class AnnouncingSpec(ModuleSpec):
    """The spec of a module that is watched: it tells when the import system has run the module's code.

    That is the one event that exists for a module whose code is running already: its loader was asked before
    we were there. The import system sets ``_initializing`` to False then, under the module's import lock.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name == "_initializing" and not value:
            with guard("imports: watch"):
                watch = vars(self).pop("_ctxruntime_watch", None)
                self.__class__ = ModuleSpec  # type: ignore[assignment] # nothing is left to announce
                if isinstance(watch, Watch):
                    watch.take(self.name)
        ModuleSpec.__setattr__(self, name, value)  # no super(): of this class it is no more
