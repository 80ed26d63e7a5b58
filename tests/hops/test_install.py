"""`install()`: one per process, switched off by those who want it off, and undone to the last attribute."""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import concurrent.futures.process
import multiprocessing.pool
import multiprocessing.process
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.hops import denied
from ctxruntime.hops import install as module
from ctxruntime.hops.install import Installation, install

PATCHED: list[tuple[Any, str]] = [
    (threading.Thread, "start"),
    (threading.Timer, "start"),
    (_thread, "start_new_thread"),
    (concurrent.futures.ThreadPoolExecutor, "submit"),
    (concurrent.futures.Future, "add_done_callback"),
    (concurrent.futures.Executor, "map"),
    (concurrent.futures.process.ProcessPoolExecutor, "submit"),
    (concurrent.futures.process.ProcessPoolExecutor, "map"),
    (multiprocessing.process.BaseProcess, "start"),
    (multiprocessing.pool.Pool, "apply_async"),
    (multiprocessing.pool.Pool, "map"),
    (multiprocessing.pool.Pool, "imap"),
    (asyncio.base_events.BaseEventLoop, "call_exception_handler"),
]


def standing() -> list[object]:
    """Return what stands in each attribute itself; None where it is inherited."""
    return [vars(owner).get(name) for owner, name in PATCHED]


def in_thread() -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ctx.SESSION_ID.get(None)))
    thread.start()
    thread.join(10)
    return answers[0]


@pytest.fixture(autouse=True)
def not_installed() -> Iterator[None]:
    before = standing()
    yield
    assert standing() == before
    assert module._installed is None
    assert fault_counts().keys().isdisjoint(f"install {source}" for _, source in module._HOPS)


def test_install_and_uninstall() -> None:
    """Installing carries, and uninstalling puts back the very objects that were there; again is harmless."""
    before = standing()
    installation = install()
    during = standing()
    with ctx.session(session_id="a"):
        assert in_thread() == "a"
        installation.uninstall()
        assert in_thread() is None or getattr(sys.flags, "thread_inherit_context", False)
    installation.uninstall()

    assert all(now is then for now, then in zip(standing(), before, strict=True))
    assert sum(now is not then for now, then in zip(during, before, strict=True)) >= len(PATCHED) - 2
    assert not installation.active


def test_install_is_one_per_process() -> None:
    """A second `install()` returns the first, and wraps nothing twice."""
    installation = install()
    during = standing()

    assert install() is installation
    assert standing() == during
    installation.uninstall()


def test_outermost_block_undoes_it() -> None:
    """As a context manager it ends when the outermost block is left, however."""
    outer = install()
    with pytest.raises(LookupError), outer:
        leave_by_an_error(outer)

    assert not outer.active


def leave_by_an_error(outer: Installation) -> None:
    with install() as inner:
        assert inner is outer
    assert outer.active
    raise LookupError


def test_install_again_after_uninstall() -> None:
    """Installing again puts the same functions back."""
    with install():
        first = standing()
    with install() as second:
        assert standing() == first
        with ctx.session(session_id="a"):
            assert in_thread() == "a"
    assert not second.active


def test_an_old_installation_does_not_end_a_new_one() -> None:
    """`uninstall()` of one that has ended leaves the one in place alone."""
    old = install()
    old.uninstall()
    with install() as new:
        old.uninstall()
        assert new.active


@pytest.mark.parametrize("value", ["1", "true", "TRUE", " yes ", "on"])
def test_environment_variable_switches_it_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """CTXRUNTIME_DISABLED is read at each call, and leaves everything as it is."""
    before = standing()
    monkeypatch.setenv("CTXRUNTIME_DISABLED", value)
    with install() as off:
        assert standing() == before
        assert not off.active
        assert off.patched == ()
    monkeypatch.delenv("CTXRUNTIME_DISABLED")
    with install() as on:
        assert on.active


@pytest.mark.parametrize("value", ["0", "false", "no", "off", ""])
def test_environment_variable_that_says_no_leaves_it_on(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Whoever sets CTXRUNTIME_DISABLED to no wants it."""
    monkeypatch.setenv("CTXRUNTIME_DISABLED", value)
    with install() as installation:
        assert installation.active


def test_not_enabled() -> None:
    """`install(enabled=False)` does nothing, and ends no installation of others."""
    before = standing()
    install(enabled=False).uninstall()
    with install() as installation:
        install(enabled=False).uninstall()
        assert installation.active
    assert standing() == before


@pytest.mark.parametrize(
    ("deny", "error", "says"),
    [
        ("acme.poll", TypeError, r"deny=\('acme.poll',\)"),
        ([5], TypeError, "not int"),
        (["poll"], ValueError, "package.module.poll"),
    ],
)
def test_bad_names_in_deny(deny: Any, error: type[Exception], says: str) -> None:
    """A name that could never match is refused, and nothing is installed."""
    with pytest.raises(error, match=says):
        install(deny=deny)
    assert module._installed is None


NOT_EVERYWHERE = {
    "aiosqlite.core.Connection",
    "opentelemetry.sdk._shared_internal.BatchProcessor.worker",
    "opentelemetry.sdk.trace.export.BatchSpanProcessor.worker",
}
"""What some releases that are in use have, and others have not."""


@pytest.mark.parametrize("name", sorted(denied.SHIPPED - NOT_EVERYWHERE))
def test_what_ships_is_denied_by_names_that_exist(name: str) -> None:
    """Every name on the deny list is one that its library has, as far as that is installed."""
    library, *rest = name.split(".")
    if find_spec(library) is None:
        return  # pytest's own environment need not have every library of the world
    parts = [library, *rest]
    if "<locals>" in parts:
        parts = parts[: parts.index("<locals>")]

    assert any(_found(parts, at) for at in range(1, len(parts))), name


def _found(parts: list[str], at: int) -> bool:
    try:
        found: Any = import_module(".".join(parts[:at]))
        for part in parts[at:]:
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    # A method is found in subclasses too, and counts where it is defined. uvloop's module is C's.
    return f"{found.__module__}.{found.__qualname__}" == ".".join(parts) or parts[0] == "uvloop"


LATE = """
import sys
import ctxruntime as ctx
with ctx.install() as installation:
    assert not {"multiprocessing.pool", "concurrent.futures.process", "gevent", "uvloop", "greenlet"} & set(sys.modules)
    import multiprocessing.pool
    assert "multiprocessing.pool" in installation.patched, installation
    with ctx.session(session_id="a"), multiprocessing.pool.ThreadPool(1) as pool:
        assert pool.apply(ctx.SESSION_ID.get) == "a"
import concurrent.futures.process as late
native = late.ProcessPoolExecutor.submit
assert native.__module__ == late.__name__ and not hasattr(native, "__wrapped__")
with ctx.install():
    assert late.ProcessPoolExecutor.submit is not native
assert late.ProcessPoolExecutor.submit is native
"""


def test_what_is_imported_later_is_patched_then() -> None:
    """Installing imports no library that the program does not, and reaches those that it imports afterwards."""
    subprocess.run([sys.executable, "-c", LATE], check=True, timeout=60)


EXECUTOR_FIRST = """
import sys
import ctxruntime as ctx
ctx.install()
assert "concurrent.futures.thread" not in sys.modules
from ctxruntime.hops import Executor
from concurrent.futures import ThreadPoolExecutor
with ctx.session(session_id="a"), ThreadPoolExecutor(1) as pool:
    assert pool.submit(ctx.SESSION_ID.get).result() == "a"
"""


def test_importing_the_executor_after_installing() -> None:
    """Who is the first to import what is waited for may be ours: every pool carries all the same."""
    subprocess.run([sys.executable, "-c", EXECUTOR_FIRST], check=True, timeout=60)


IMPORTED_BEFORE = """
import gc, concurrent.futures.process, concurrent.futures.thread, multiprocessing.pool
import ctxruntime as ctx
ctx.install()
jobs = [kind for kind in gc.get_objects() if isinstance(kind, type) and kind.__name__ == "Job"]
assert len(jobs) == 1, jobs
"""


def test_installing_runs_no_module_of_ours_twice() -> None:
    """There is one class of each kind, however many libraries were imported before: what is sent away pickles."""
    subprocess.run([sys.executable, "-c", IMPORTED_BEFORE], check=True, timeout=60)


WHILE_OTHERS_IMPORT = """
import threading
import ctxruntime as ctx
from ctxruntime.hops import denied

installation = ctx.install()
assert "multiprocessing.process" not in installation.patched
importing = threading.Thread(target=__import__, args=("multiprocessing.pool",))
extend = denied.extend

def extend_while_another_thread_imports(names):
    extend(names)
    importing.start()
    while "multiprocessing.process" in installation._watch.pending:
        threading.Event().wait(0.01)

denied.extend = extend_while_another_thread_imports
ctx.install()
assert "multiprocessing.process" in installation.patched
importing.join()
assert "multiprocessing.pool" in installation.patched
"""


def test_installing_while_another_thread_imports() -> None:
    """Neither waits for the other to end, and what is imported by then is patched when `install()` returns."""
    subprocess.run([sys.executable, "-c", WHILE_OTHERS_IMPORT], check=True, timeout=30)


def test_uninstalling_lets_flows_that_run_keep_their_state() -> None:
    """A thread that was started before keeps what it took over."""
    go = threading.Event()
    answers: list[Any] = []

    def work() -> None:
        go.wait(10)
        answers.append(ctx.SESSION_ID.get(None))

    with install(), ctx.session(session_id="a"):
        thread = threading.Thread(target=work)
        thread.start()
    go.set()
    thread.join(10)

    assert answers == ["a"]


def test_two_threads_install_at_once() -> None:
    """However many install at once, it is one installation."""
    together = threading.Barrier(8)
    installations: list[Installation] = []

    def work() -> None:
        together.wait(10)
        installations.append(install())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert len(set(map(id, installations))) == 1
    installations[0].uninstall()


EVERYWHERE = """
import concurrent.futures, multiprocessing, sys
import ctxruntime as ctx

def show(how):
    print(how, ctx.SESSION_ID.get(None), flush=True)

if __name__ == "__main__":
    import gevent, greenlet
    ctx.install()
    with ctx.session(session_id="a"):
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            pool.submit(show, "job").result(60)
        process = context.Process(target=show, args=("process",))
        process.start()
        process.join(60)
        with context.Pool(1) as processes:
            processes.apply(show, ("pool",))
        greenlet.greenlet(show).switch("greenlet")
        gevent.spawn(show, "gevent").join(10)
"""


def test_one_call_reaches_processes_and_greenlets(tmp_path: Path) -> None:
    """One `install()` carries to other processes and to greenlets, too."""
    program = tmp_path / "everywhere.py"
    program.write_text(EVERYWHERE, encoding="utf-8")
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=100)

    assert ran.stderr == ""
    assert ran.stdout.splitlines() == ["job a", "process a", "pool a", "greenlet a", "gevent a"]
