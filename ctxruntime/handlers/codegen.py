"""The adapter of a handler: a function with the handler's own signature, compiled from its plan.

For `def block(raw, session_id=None)` the source is, but for the names:

    def block(raw, session_id=UNSET):
        layer = here()
        if session_id is UNSET:
            session_id = layer.session_id
            if session_id is UNSET:
                session_id = default
        return handler(raw, session_id)

So what the caller passed wins by the language's own binding, the handler is called exactly once, and its errors
are nobody's but its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import Parameter
from types import CodeType
from typing import Any, Final, final

from ctxruntime.errors import UnboundKeyError
from ctxruntime.generators import answering_like, kind_of
from ctxruntime.handlers.options import SOURCE
from ctxruntime.handlers.plan import Passed, Plan
from ctxruntime.keys import Key
from ctxruntime.layers import CURRENT, ELSEWHERE, UNSET, Layer, settle

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def compile_adapter(plan: Plan, fn: Any, missing: tuple[object, ...], *, callee_first: bool = False) -> Any:
    """Compile the adapter of `fn`.

    Args:
        plan: what to pass.
        fn: the handler.
        missing: what the caller passes for "unknown".
        callee_first: take the handler as the first argument: such an adapter refers to no handler, and can be
            kept for as long as the handler lives.
    """
    writer = _Writer(plan, missing, callee_first=callee_first)
    source = writer.source()
    namespace = writer.namespace
    if not callee_first:
        namespace[writer.fn] = fn
    exec(_compiled(source), namespace)
    return answering_like(namespace.pop(writer.name), kind_of(fn))


@lru_cache(maxsize=1024)
def _compiled(source: str) -> CodeType:
    return compile(source, SOURCE, "exec")


@final
class _Writer:
    """Writes the source of one adapter and gathers the objects that it names."""

    def __init__(self, plan: Plan, missing: tuple[object, ...], *, callee_first: bool) -> None:
        self.plan = plan
        self.callee_first = callee_first
        self.missing = missing
        self.parameters = plan.stages[0].parameters
        self.prefix = "_"
        while any(parameter.name.startswith(self.prefix) for parameter in self.parameters):
            self.prefix += "_"
        self.name = f"{self.prefix}adapter"
        self.fn = f"{self.prefix}fn"
        self.namespace: dict[str, Any] = {}
        self.outer = {name: passed for name, passed in plan.passed.items() if passed.stage == 0}
        self.inner = [passed for passed in plan.passed.values() if passed.stage > 0]

    def use(self, name: str, thing: object) -> str:
        """Name an object of ours in the source."""
        self.namespace[self.prefix + name] = thing
        return self.prefix + name

    def source(self) -> str:
        unset, here = self.use("UNSET", UNSET), self.use("here", CURRENT.get)
        layer = f"{self.prefix}layer"
        lines = [f"def {self.name}({self.signature()}):"]
        lines += self.required()
        lines.append(f"{layer} = {here}()")
        if len(self.outer) > 1 or self.inner or self.plan.var_keyword:
            # One layer is read more than once: reading a left one settles, and would answer the rest from it.
            left = f"{layer}.token is {self.use('ELSEWHERE', ELSEWHERE)}"
            lines.append(f"if {left}: {layer} = {self.use('settle', settle)}()")
        for number, passed in enumerate(self.outer.values()):
            lines += self.fill(passed, number, layer, unset)
        if self.inner or self.plan.var_keyword:
            lines += self.fill_keywords(layer, unset)
        lines.append(f"return {self.fn}({self.arguments()})")
        return "\n    ".join(lines) + "\n"

    def signature(self) -> str:
        kinds = [parameter.kind for parameter in self.parameters]
        written = [self.fn] if self.callee_first else []
        if written and Parameter.POSITIONAL_ONLY not in kinds:
            written.append("/")
        optional = False
        for number, parameter in enumerate(self.parameters):
            first_keyword = Parameter.KEYWORD_ONLY not in kinds[:number]
            if parameter.kind is Parameter.KEYWORD_ONLY and first_keyword and Parameter.VAR_POSITIONAL not in kinds:
                written.append("*")
            optional = optional or (parameter.kind in _POSITIONAL and self.is_optional(parameter))
            written.append(self.parameter(parameter, number, after_optional=optional))
            if parameter.kind is Parameter.POSITIONAL_ONLY and parameter.kind not in kinds[number + 1 :]:
                written.append("/")
        return ", ".join(written)

    def is_optional(self, parameter: Parameter) -> bool:
        return parameter.name in self.outer or parameter.default is not Parameter.empty

    def parameter(self, parameter: Parameter, number: int, *, after_optional: bool) -> str:
        name = parameter.name
        if parameter.kind is Parameter.VAR_POSITIONAL:
            return f"*{name}"
        if parameter.kind is Parameter.VAR_KEYWORD:
            return f"**{name}"
        if name in self.outer:
            return f"{name}={self.prefix}UNSET"
        if parameter.default is not Parameter.empty:
            return f"{name}={self.use(f'given{number}', parameter.default)}"
        if parameter.kind in _POSITIONAL and after_optional:
            return f"{name}={self.use('required', _REQUIRED)}"
        return name

    def required(self) -> list[str]:
        """Write the check of required parameters that stand behind one that has become optional."""
        lines: list[str] = []
        optional = False
        for parameter in self.parameters:
            if parameter.kind not in _POSITIONAL:
                break
            if optional and not self.is_optional(parameter):
                fail = self.use("fail", _missing_argument(self.plan.handler, self.plan.location))
                lines.append(f"if {parameter.name} is {self.prefix}required: {fail}({parameter.name!r})")
            optional = optional or self.is_optional(parameter)
        return lines

    def fill(self, passed: Passed, number: int, layer: str, unset: str) -> list[str]:
        name = passed.name
        found = f"{self.prefix}found"
        otherwise = f"{name} = {self.otherwise(passed, number)}"
        if not self.missing:
            return [
                f"if {name} is {unset}:",
                f"    {name} = {self.read(passed, number, layer)}",
                f"    if {name} is {unset}: {otherwise}",
            ]
        unknown = self.use("unknown", _unknown(self.missing))
        return [
            f"if {name} is {unset} or {unknown}({name}):",
            f"    {found} = {self.read(passed, number, layer)}",
            f"    if {found} is not {unset}: {name} = {found}",
            f"    elif {name} is {unset}: {otherwise}",
        ]

    def read(self, passed: Passed, number: int, layer: str) -> str:
        """Write how a key is read from the layer."""
        return self.reading(passed.key, f"read{number}", layer)

    def reading(self, key: Key[Any], reader: str, layer: str) -> str:
        if key.place is not None and key.link is None:
            return f"{layer}.{key.place}"
        return f"{self.use(reader, _reader(key))}({layer})"

    def otherwise(self, passed: Passed, number: int) -> str:
        """Write what an unbound key leaves the parameter with."""
        if passed.default is UNSET:
            fail = _unbound(passed.key.name, self.plan.handler, self.plan.location)
            return f"{self.use(f'unbound{number}', fail)}()"
        return self.use(f"default{number}", passed.default)

    def fill_keywords(self, layer: str, unset: str) -> list[str]:
        stage = self.plan.stages[0]
        keywords = next(p.name for p in self.parameters if p.kind is Parameter.VAR_KEYWORD)
        rest = next((p.name for p in self.parameters if p.kind is Parameter.VAR_POSITIONAL), None)
        lines: list[str] = []
        if self.inner:
            # A wrapping that takes anything passes positions on as they are, as far as one can know.
            count = f"len({rest})" if rest is not None and stage.parameters[0].name == rest else "0"
            fill = self.use("fill", _filler(self.plan, self.inner, self.missing))
            lines.append(f"{fill}({layer}, {keywords}, {count})")
        return lines + (self.fill_anywhere(layer, unset, keywords) if self.plan.var_keyword else [])

    def fill_anywhere(self, layer: str, unset: str, keywords: str) -> list[str]:
        """Write what adds the keys for everybody to `**kwargs`; those that are defined later are looked up per call."""
        excluded, found = self.plan.excluded(), f"{self.prefix}found"
        known = tuple(self.plan.anywhere)
        lines: list[str] = []
        for number, key in enumerate(known):
            if key.name in excluded:
                continue
            absent = f"{key.name!r} not in {keywords}"
            if self.missing:
                absent += f" or {self.use('unknown', _unknown(self.missing))}({keywords}[{key.name!r}])"
            lines += [
                f"if {absent}:",
                f"    {found} = {self.reading(key, f'anywhere{number}', layer)}",
                f"    if {found} is not {unset}: {keywords}[{key.name!r}] = {found}",
            ]
        anywhere = self.use("anywhere", self.plan.anywhere)
        later = self.use("later", _later(self.plan, len(known), self.missing))
        return [*lines, f"if len({anywhere}) > {len(known)}: {later}({layer}, {keywords})"]

    def arguments(self) -> str:
        written: list[str] = []
        for parameter in self.parameters:
            name = parameter.name
            if parameter.kind is Parameter.KEYWORD_ONLY:
                written.append(f"{name}={name}")
            elif parameter.kind is Parameter.VAR_POSITIONAL:
                written.append(f"*{name}")
            elif parameter.kind is Parameter.VAR_KEYWORD:
                written.append(f"**{name}")
            else:
                written.append(name)
        return ", ".join(written)


_REQUIRED: Final = object()


def _reader(key: Key[Any]) -> Callable[[Layer], Any]:
    def read(layer: Layer) -> Any:
        value = key.of(layer)
        return value if value is not UNSET else key.linked()

    return read


def _unknown(missing: tuple[object, ...]) -> Callable[[object], bool]:
    pairs = tuple((type(none), none) for none in missing)

    def is_unknown(value: object) -> bool:
        # Types come first: a value of another one may have any idea of what equality is.
        return (type(value), value) in pairs

    return is_unknown


def _unbound(key: str, handler: str, location: str) -> Callable[[], object]:
    def fail() -> object:
        raise UnboundKeyError(key, handler, location)

    return fail


def _missing_argument(handler: str, location: str) -> Callable[[str], None]:
    def fail(name: str) -> None:
        raise TypeError(f"{handler} ({location}) is missing its required argument {name!r}")

    return fail


def _filler(
    plan: Plan, inner: list[Passed], missing: tuple[object, ...]
) -> Callable[[Layer, dict[str, Any], int], None]:
    """Return what adds the keys that a further stage names to a call's `**kwargs`."""
    named = [(passed, _reader(passed.key)) for passed in inner]
    handler, location = plan.handler, plan.location  # the plan itself knows the handler, and would keep it alive
    is_unknown = _unknown(missing)

    def fill(layer: Layer, keywords: dict[str, Any], positions: int) -> None:
        for passed, read in named:
            name = passed.name
            given = name in keywords or (passed.index is not None and positions > passed.index)
            if given and not (name in keywords and is_unknown(keywords[name])):
                continue
            value = read(layer)
            if value is not UNSET:
                keywords[name] = value
            elif not given and passed.default is UNSET:
                raise UnboundKeyError(passed.key.name, handler, location)
            elif not given and passed.default is passed.key.default and passed.default is not UNSET:
                keywords[name] = passed.default

    return fill


def _later(plan: Plan, known: int, missing: tuple[object, ...]) -> Callable[[Layer, dict[str, Any]], None]:
    """Return what adds the keys for everybody that were defined after the first `known` to a call's `**kwargs`."""
    excluded, anywhere = plan.excluded(), plan.anywhere
    is_unknown = _unknown(missing)

    def fill(layer: Layer, keywords: dict[str, Any]) -> None:
        for key in anywhere[known:]:
            name = key.name
            if name not in excluded and (name not in keywords or is_unknown(keywords[name])):
                value = _reader(key)(layer)
                if value is not UNSET:
                    keywords[name] = value

    return fill
