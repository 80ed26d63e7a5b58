"""What child processes import: jobs that answer what they see, and the keys that they know."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from enum import Enum, IntFlag
from multiprocessing.process import current_process
from typing import Any
from uuid import UUID

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.keys import Link


class Mode(Enum):
    QUICK = "quick"
    DEEP = object()  # no plain data: it is known by its name


class Rights(IntFlag):
    READ = 1
    WRITE = 2


MODE = ctx.Key("process_mode", Mode)
RIGHTS = ctx.Key("process_rights", Rights)
RUN = ctx.Key("process_run", UUID)
AT = ctx.Key("process_at", datetime)
PARTS = ctx.Key("process_parts", tuple[Mode, int])
MODES = ctx.Key("process_modes", tuple[Mode, ...])
MIXED = ctx.Key("process_mixed", tuple)
WEIGHT = ctx.Key("process_weight", float)
RAW = ctx.Key("process_raw", bytes)
HOSTS: contextvars.ContextVar[str] = contextvars.ContextVar("process_hosts", default="host default")
LINKED = ctx.Key("process_linked", str, link=Link(HOSTS, unset="none"))

seen_at_birth: Any = "no initializer"


def seen(*_: object) -> dict[str, object] | None:
    """Return what is in effect; None where no turn is, so that a turn that knows nothing differs."""
    return dict(ctx.current()) if ctx.current() or ctx.current_turn() else None


async def aseen() -> dict[str, object] | None:
    return seen()


def seen_with_id(argument: object, *_: object) -> tuple[object, object]:
    return argument, ctx.SESSION_ID.get(None)


def seen_then_amended(argument: object) -> tuple[object, object]:
    before = ctx.SESSION_ID.get(None)
    ctx.amend(session_id="amended in the child")
    return argument, before


def described(value: object = None) -> object:
    """Return type and text of values, by default of what is in effect: some of them pickle into others."""
    value = dict(ctx.current()) if value is None else value
    if isinstance(value, dict):
        return {name: described(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(described, value))
    return type(value).__name__, value.name if isinstance(value, Enum) else str(value)


def linked_variable() -> str:
    return HOSTS.get()


def remember_birth() -> None:
    global seen_at_birth
    seen_at_birth = seen()


def born_with() -> object:
    return seen_at_birth


class BornWith:
    def answer(self) -> object:
        return seen_at_birth


def born_with_as_object() -> BornWith:
    return BornWith()


def open_turn(session_id: str) -> None:
    ctx.session(session_id=session_id).open()


def ended(turn_seen: list[Any]) -> object:
    turn_seen.append(ctx.current_turn())
    return seen()


def define(name: str, kind: type[Any]) -> None:
    ctx.Key(name, kind)


def faults() -> dict[str, int]:
    return fault_counts()


def failing() -> None:
    raise LookupError("the job's own", 7)


def wait_for_writer(path: str) -> None:
    with open(path, "rb") as pipe:
        pipe.read()


def call(fn: Callable[..., Any], *args: object) -> object:
    return fn(*args)


def run_steps(fn: Callable[[], Awaitable[object]]) -> object:
    import asyncio

    async def main() -> object:
        return await fn()

    return asyncio.run(main())


def answer(answers: Any, *args: object) -> None:
    answers.put((seen(), args, "run" in vars(current_process())))


def start_another(answers: Any, method: str) -> None:
    import multiprocessing

    child = multiprocessing.get_context(method).Process(target=answer, args=(answers, "grandchild"))
    child.start()
    child.join()


class Answering:
    """For processes that override `run`; mixed with the process class of each start method."""

    def __init__(self, answers: Any, method: str) -> None:
        super().__init__()
        self.answers = answers

    def run(self) -> None:
        answer(self.answers, type(self).__name__)


def process_class(method: str) -> type[Any]:
    import multiprocessing

    return multiprocessing.get_context(method).Process


class ForkProcess(Answering, process_class("fork")):
    pass


class SpawnProcess(Answering, process_class("spawn")):
    pass


class ForkserverProcess(Answering, process_class("forkserver")):
    pass


class ByAttributes(process_class("spawn")):
    """Pickles itself by what it holds."""

    def __reduce__(self) -> Any:
        return rebuilt, (dict(vars(self)),)


def rebuilt(attributes: dict[str, Any]) -> ByAttributes:
    process = ByAttributes.__new__(ByAttributes)
    vars(process).update(attributes)
    return process


OVERRIDING: dict[str, Any] = {"fork": ForkProcess, "spawn": SpawnProcess, "forkserver": ForkserverProcess}


class Unpicklable:
    def __reduce__(self) -> Any:
        raise ValueError("not me")


def pid() -> int:
    return os.getpid()
