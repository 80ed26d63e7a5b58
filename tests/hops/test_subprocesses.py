"""Child processes: what they are told of the keys, and that nothing else about starting them changes."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anyio
import pytest
import trio

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.hops import subprocesses
from ctxruntime.hops.install import Installation, install
from ctxruntime.hops.patching import Patch

TENANT = ctx.Key("subprocesses_tenant", wire=True)
TOPIC = ctx.Key("subprocesses_topic", wire=True)
CARRIERS = ("BAGGAGE", "TRACEPARENT", "TRACESTATE")

TELL = f"import json, os; print(json.dumps([os.environ.get(name) for name in ({', '.join(map(repr, CARRIERS))})]))"
COMMAND = [sys.executable, "-c", TELL]
SHELL = " ".join(f"'{part}'" if " " in part else part for part in COMMAND).replace(f"'{TELL}'", f'"{TELL}"')


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    for name in CARRIERS:
        monkeypatch.delenv(name, raising=False)
    was = subprocess.Popen.__init__
    with install(subprocesses=True) as installation:
        yield installation
    assert subprocess.Popen.__init__ is was


def by_run(**options: Any) -> str:
    return subprocess.run(COMMAND, stdout=subprocess.PIPE, text=True, check=True, timeout=60, **options).stdout


def by_check_output(**options: Any) -> str:
    return subprocess.check_output(COMMAND, text=True, timeout=60, **options)


def by_popen(**options: Any) -> str:
    with subprocess.Popen(args=COMMAND, stdout=subprocess.PIPE, text=True, **options) as process:
        return process.communicate(timeout=60)[0]


def by_position(env: Mapping[str, str] | None = None) -> str:
    arguments: Any = (COMMAND, -1, None, None, subprocess.PIPE, None, None, True, False, None, env)
    with subprocess.Popen(*arguments) as process:
        return str(process.communicate(timeout=60)[0], "utf-8")


def by_shell(**options: Any) -> str:
    return subprocess.run(
        SHELL, shell=True, stdout=subprocess.PIPE, text=True, check=True, timeout=60, **options
    ).stdout


async def by_exec(**options: Any) -> str:
    process = await asyncio.create_subprocess_exec(*COMMAND, stdout=asyncio.subprocess.PIPE, **options)
    return (await process.communicate())[0].decode()


async def by_async_shell(**options: Any) -> str:
    process = await asyncio.create_subprocess_shell(SHELL, stdout=asyncio.subprocess.PIPE, **options)
    return (await process.communicate())[0].decode()


async def by_anyio(**options: Any) -> str:
    return (await anyio.run_process(COMMAND, **options)).stdout.decode()


async def by_trio(**options: Any) -> str:
    return (await trio.run_process(COMMAND, capture_stdout=True, **options)).stdout.decode()


def on_asyncio(work: Callable[..., Any]) -> Callable[..., str]:
    return lambda **options: asyncio.run(work(**options))


def on_trio(work: Callable[..., Any]) -> Callable[..., str]:
    async def main(options: dict[str, Any]) -> str:
        return str(await work(**options))

    return lambda **options: trio.run(main, options)


def on_uvloop(work: Callable[..., Any]) -> Callable[..., str]:
    def run(**options: Any) -> str:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return str(runner.run(work(**options)))

    return run


WAYS = {
    "run": by_run,
    "check_output": by_check_output,
    "Popen": by_popen,
    "positional": by_position,
    "shell": by_shell,
    "asyncio_exec": on_asyncio(by_exec),
    "asyncio_shell": on_asyncio(by_async_shell),
    "anyio": on_asyncio(by_anyio),
    "trio": on_trio(by_trio),
    "uvloop_exec": on_uvloop(by_exec),
    "uvloop_shell": on_uvloop(by_async_shell),
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@ways
def test_a_child_is_told_what_is_bound(way: Callable[..., str]) -> None:
    """However a child is started, it finds the keys of the turn that starts it, though no `env` is given."""
    with ctx.session({TENANT: "acme"}):
        assert json.loads(way()) == ["subprocesses_tenant=acme", None, None]


@ways
def test_a_stale_name_does_not_reach_a_child(way: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the parent's environment says of keys that are not bound, or of an old trace, is removed."""
    monkeypatch.setenv("BAGGAGE", "subprocesses_tenant=old-chat,subprocesses_topic=old-topic")
    monkeypatch.setenv("TRACEPARENT", "old")

    with ctx.session({TENANT: "live-chat"}):
        assert json.loads(way()) == ["subprocesses_tenant=live-chat", None, None]
    assert json.loads(way()) == [None, None, None]


@ways
def test_an_environment_that_is_given_is_overlaid(way: Callable[..., str]) -> None:
    """The caller's mapping goes to the child with what is bound, and is not changed itself."""
    given = {**os.environ, "BAGGAGE": "theirs=1,subprocesses_topic=old", "TRACESTATE": "old=1"}
    before = dict(given)

    with ctx.session({TENANT: "acme"}):
        assert json.loads(way(env=given)) == ["theirs=1,subprocesses_tenant=acme", None, None]
    assert given == before


def test_each_turn_tells_its_own_children() -> None:
    """Children started at the same time by several turns are told of their own, not of the last one bound."""

    async def main() -> list[str]:
        async def turn(name: str) -> str:
            async with ctx.session({TENANT: name}):
                return await by_exec()

        return await asyncio.gather(turn("chat-A"), turn("chat-B"))

    told = [json.loads(text)[0] for text in asyncio.run(main())]
    assert told == ["subprocesses_tenant=chat-A", "subprocesses_tenant=chat-B"]


# Nothing else changes


@pytest.fixture
def seen(installed: Installation) -> Iterator[list[Any]]:
    """What reaches the attribute that was there before ours: the arguments of each start."""
    calls: list[Any] = []
    installed.uninstall()

    def recording(original: Any) -> Any:
        def __init__(self: object, /, *args: Any, **kwargs: Any) -> None:
            calls.append((args, kwargs))
            original(self, *args, **kwargs)

        return __init__

    below = Patch(subprocess.Popen, "__init__", recording).apply()
    ours = [patch.apply() for patch in subprocesses.patches()]
    yield calls
    for patch in ours:
        patch.undo()
    below.undo()


@pytest.mark.parametrize("env", [None, {"A": "b"}, {"BAGGAGE": " theirs=1", "A": ""}, {b"A": b"\xff"}])
def test_an_environment_that_is_right_stays_the_object_it_was(env: Any, seen: list[Any]) -> None:
    """With nothing bound and nothing stale, `subprocess` gets exactly what the caller gave, None included."""
    faults = fault_counts()
    subprocess.run([sys.executable, "-c", ""], env=env, check=False, timeout=60)
    arguments: Any = ([sys.executable, "-c", ""], -1, None, None, None, None, None, True, False, None, env)
    subprocess.Popen(*arguments).wait(60)
    subprocess.Popen([sys.executable, "-c", ""]).wait(60)

    (_, by_keyword), (by_position, no_keywords), (_, none) = seen
    assert by_keyword["env"] is env
    assert by_position is not arguments
    assert [ours is given for ours, given in zip(by_position, arguments, strict=True)] == [True] * 11
    assert no_keywords == none == {}
    assert fault_counts() == faults


def test_only_the_environment_changes(seen: list[Any]) -> None:
    """Every other argument reaches `subprocess` as it was given, in its place."""
    arguments: Any = ([sys.executable, "-c", ""], -1, None, None, None, None, None, True, False, None, {"A": "b"}, None)
    with ctx.session({TENANT: "acme"}):
        subprocess.Popen(*arguments, umask=-1).wait(60)

    ((args, kwargs),) = seen
    assert args == (*arguments[:10], {"A": "b", "BAGGAGE": "subprocesses_tenant=acme"}, None)
    assert kwargs == {"umask": -1}


def refusal(env: Any) -> str:
    with pytest.raises((TypeError, AttributeError)) as refused:
        subprocess.Popen(COMMAND, env=env)
    return repr(refused.value)


@pytest.mark.parametrize("env", [3, "text", [("A", "b")]])
def test_what_is_no_environment_is_refused_as_ever(env: Any, installed: Installation) -> None:
    """What `subprocess` does not take as an environment it does not get from us as one, and nothing is our fault."""
    before = fault_counts()

    with ctx.session({TENANT: "acme"}):
        said = refusal(env)
        installed.uninstall()
        assert said == refusal(env)

    assert fault_counts() == before


@pytest.mark.parametrize("env", [{"BAGGAGE": 3}, {"BAGGAGE": object(), "A": "b"}])
def test_a_fault_of_ours_leaves_the_start_to_subprocess(env: Any, installed: Installation) -> None:
    """An environment that we cannot read is given on as it is, and refused by `subprocess` in its own words."""
    before = fault_counts().get("subprocesses: Popen", 0)

    with ctx.session({TENANT: "acme"}):
        said = refusal(env)
        installed.uninstall()
        assert said == refusal(env)

    assert fault_counts()["subprocesses: Popen"] == before + 1


def test_the_environment_of_this_process_is_never_written_to() -> None:
    """Starting children leaves `os.environ` byte for byte as it was."""
    before = dict(os.environ)

    with ctx.session({TENANT: "acme"}):
        by_run()
        by_run(env=os.environ)
        on_asyncio(by_exec)()

    assert dict(os.environ) == before


def test_errors_of_the_host_pass() -> None:
    """A program that is not there, and a call that is wrong, raise what they always did."""
    with ctx.session({TENANT: "acme"}):
        with pytest.raises(FileNotFoundError):
            subprocess.run(["/nowhere/at/all"], check=False)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'args'"):
            subprocess.Popen()  # type: ignore[call-overload]  # the mistake that is tested


def test_a_class_of_the_hosts_is_covered() -> None:
    """A subclass of Popen that calls its base gets the environment once."""

    class Popen(subprocess.Popen[str]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, text=True, stdout=subprocess.PIPE, **kwargs)

    with ctx.session({TENANT: "acme"}), Popen(COMMAND) as process:
        assert json.loads(process.communicate(timeout=60)[0]) == ["subprocesses_tenant=acme", None, None]


def test_undone_patches_tell_nothing(installed: Installation) -> None:
    """After the undo, a child inherits what it always did."""
    installed.uninstall()

    with ctx.session({TENANT: "acme"}):
        assert [json.loads(way())[0] for way in WAYS.values() if way is not WAYS["trio"]] == [None] * (len(WAYS) - 1)


def test_patches_are_made_and_not_applied() -> None:
    """Asking for the patches changes nothing; applying and undoing is the caller's."""
    was = subprocess.Popen.__init__

    assert [patch.active for patch in subprocesses.patches()] == [False] * len(subprocesses.patches())
    assert subprocess.Popen.__init__ is was


def test_popen_looks_as_it_did() -> None:
    """The signature of `Popen` stays what tools read."""
    assert list(inspect.signature(subprocess.Popen).parameters)[:2] == ["args", "bufsize"]
    assert list(inspect.signature(subprocess.Popen).parameters)[10] == "env"


GEVENT = """
import json, subprocess, sys
import ctxruntime as ctx
{first}
import gevent.subprocess
{then}
TENANT = ctx.Key("subprocesses_tenant", wire=True)
{last}
command = [sys.executable, "-c", "import os; print(os.environ.get('BAGGAGE'))"]
with ctx.session({{TENANT: "acme"}}):
    for module in (subprocess, gevent.subprocess):
        print(module.check_output(command, text=True).strip())
"""


INSTALL, MONKEY = "ctx.install(subprocesses=True)", "import gevent.monkey; gevent.monkey.patch_all()"


@pytest.mark.parametrize(
    ("first", "then", "last"),
    [("", "", INSTALL), (MONKEY, "", INSTALL), (INSTALL, "", ""), (INSTALL, MONKEY, "")],
    ids=["installed last", "patched and installed", "installed first", "installed and patched"],
)
def test_children_of_gevent_are_told(first: str, then: str, last: str) -> None:
    """gevent's own Popen is covered, whether it took the place of the standard one or not, before ours or after."""
    program = GEVENT.format(first=first, then=then, last=last)

    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False, timeout=60
    )

    assert (told.stdout.split(), told.stderr) == (["subprocesses_tenant=acme"] * 2, "")
