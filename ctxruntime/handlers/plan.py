"""What will be passed to one handler, decided once from its signature.

A handler may be a function in any wrapping: a method, a partial, a callable object, a class, decorated by
`functools.wraps` or wrapt. Each wrapping is a *stage* that the call goes through, and a key is passed only if
every stage lets it through to the one that names it.
"""

from __future__ import annotations

from inspect import Parameter
from typing import Any, Final, final

from ctxruntime.errors import UnknownKeyError
from ctxruntime.handlers.options import Options
from ctxruntime.handlers.stages import Stage, describe, stages_of
from ctxruntime.keys import ANYWHERE, KEYS, Key, find
from ctxruntime.layers import UNSET


@final
class Injected:
    """The type of INJECTED."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "INJECTED"

    def __reduce__(self) -> str:
        return "INJECTED"


# Any: as a default it stands for a value of whatever type the parameter has.
INJECTED: Final[Any] = Injected()
"""The default of a parameter that the caller does not give: `session_id: str = INJECTED`."""


@final
class Passed:
    """One parameter that a key goes to."""

    __slots__ = ("default", "how", "index", "key", "name", "stage")

    def __init__(self, name: str, key: Key[Any], how: str, stage: int, default: object, index: int | None) -> None:
        self.name: str = name
        self.key: Key[Any] = key
        self.how: str = how
        self.stage: int = stage
        self.default: object = default
        """What the parameter keeps when the key is unbound; UNSET if it is required."""
        self.index: int | None = index
        """Its position among the caller's arguments, if it can be given so."""


@final
class Plan:
    """What will be passed to one handler, from where, and why not. `str()` is for people."""

    __slots__ = ("anywhere", "handler", "kept_back", "location", "passed", "stages", "var_keyword")

    def __init__(self, fn: Any, options: Options) -> None:
        self.handler: str
        self.location: str
        self.handler, self.location = describe(fn)
        self.stages: list[Stage] = stages_of(fn)
        self.kept_back: dict[str, str] = {}
        """Why a parameter, or a key, gets nothing, by name."""
        self.passed: dict[str, Passed] = {}
        for number, stage in enumerate(self.stages):
            for parameter in stage.parameters:
                self._plan(parameter, stage, number, options)
        self.anywhere: list[Key[Any]] = (
            ANYWHERE if options.keys is None else [key for key in ANYWHERE if options.allow(key)]
        )
        """The keys that go into `**kwargs`; without a host's narrowing, also those that are defined later."""
        self.var_keyword: bool = self._takes_any(options)
        """Whether the bound keys with `inject="any"` go into `**kwargs`."""
        if options.strict:
            self._check_aliases(options)

    def _plan(self, parameter: Parameter, stage: Stage, number: int, options: Options) -> None:
        name = parameter.name
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) or name in self.passed:
            return
        key, how = self._key_for(parameter, stage, options)
        if key is None:
            if how:
                self.kept_back.setdefault(name, how)
            return
        if blocked := self._blocked(parameter, number):
            self.kept_back.setdefault(name, blocked)
            return
        default = UNSET if parameter.default in _NO_DEFAULT else parameter.default
        if default is UNSET:
            default = key.default
        self.passed[name] = Passed(name, key, how, number, default, stage.index_of(name))
        self.kept_back.pop(name, None)

    def _key_for(self, parameter: Parameter, stage: Stage, options: Options) -> tuple[Key[Any] | None, str]:
        """Return the key for a parameter and how it was found, or None and why there is none."""
        name = parameter.name
        marked = stage.marker(name)
        if marked is None and name in options.aliases:
            marked, how = options.aliases[name], "alias"
        else:
            how = "marker"
        if marked is None and parameter.default is INJECTED:
            marked = KEYS.get(name)
            if marked is None:
                self._misspelt(name)
        if marked is not None:
            return (None, f"key {marked.name!r} is never injected") if marked.inject == "never" else (marked, how)
        key = KEYS.get(name)
        if key is None:
            return None, ""
        if key.inject not in ("any", "named"):
            return None, f"key {name!r} goes only where it is marked"
        if not options.allow(key):
            return None, f"the host does not give key {name!r} to parameters without a marker"
        return key, "name"

    def _misspelt(self, name: str) -> None:
        try:
            find(name)
        except UnknownKeyError as error:
            raise UnknownKeyError(
                name, f"{error.advice} ({self.handler}, {self.location}, marks a parameter so)"
            ) from None

    def _blocked(self, parameter: Parameter, number: int) -> str:
        """Say why a parameter of a stage cannot be reached; nothing if it can."""
        if parameter.name in self._given():
            return "a partial binds it"
        if number == 0:
            return ""
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            return "it is positional-only behind another wrapping"
        for outer in self.stages[:number]:
            if not outer.lets_through(parameter.name):
                return f"{outer.name} around it does not let it through"
        return ""

    def _given(self) -> frozenset[str]:
        return frozenset[str]().union(*(stage.given for stage in self.stages))

    def _takes_any(self, options: Options) -> bool:
        if options.var_keyword == "none" or not self.anywhere or not self.stages:
            return False
        return all(stage.takes_any and stage.invites for stage in self.stages)

    def _check_aliases(self, options: Options) -> None:
        for name in options.aliases:
            if name not in self.passed and not any(stage.has(name) for stage in self.stages):
                raise UnknownKeyError(
                    name, f"{self.handler} ({self.location}) has no parameter of this name for its alias"
                )

    @property
    def anything(self) -> bool:
        """Whether anything will be passed at all."""
        return bool(self.passed) or self.var_keyword

    def excluded(self) -> frozenset[str]:
        """Return the names that never go into `**kwargs`: passed already, kept back, or given by a partial."""
        named = frozenset(parameter.name for stage in self.stages for parameter in stage.parameters)
        return named | self._given()

    def __str__(self) -> str:
        lines = [f"{self.handler} ({self.location})"]
        for passed in self.passed.values():
            otherwise = "required" if passed.default is UNSET else "else its default"
            lines.append(f"  {passed.name}: key {passed.key.name!r}, by {passed.how}, {otherwise}")
        if self.var_keyword:
            names = ", ".join(key.name for key in self.anywhere if key.name not in self.excluded())
            lines.append(f"  **kwargs: {names or 'nothing'}, where bound")
        lines += [f"  {name}: nothing, because {why}" for name, why in self.kept_back.items()]
        if len(lines) == 1:
            lines.append("  nothing: no parameter names a key")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Plan {self.handler}: {', '.join(self.passed) or 'nothing'}>"


class _NoDefault:
    """Compares by identity: a handler's defaults are never compared, they may be anything."""

    __slots__ = ()

    def __contains__(self, default: object) -> bool:
        return default is Parameter.empty or default is INJECTED


_NO_DEFAULT: Final = _NoDefault()
