"""Being told when a module of a host is whole; the modules here are a host's stand-ins."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ctxruntime.guarding import fault_counts
from ctxruntime.hops.watching import Watch

Names = Callable[..., Any]  # a started Watch


@pytest.fixture(autouse=True)
def clean_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The test's modules are found in its own directory, and the import system is afterwards as before."""
    monkeypatch.syspath_prepend(tmp_path)
    before, finders = set(sys.modules), list(sys.meta_path)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]
    assert sys.meta_path == finders


@pytest.fixture
def host(tmp_path: Path) -> Callable[[str, str], str]:
    """Write a module; return its name."""

    def write(name: str, body: str) -> str:
        (tmp_path / f"{name}.py").write_text(body)
        importlib.invalidate_caches()
        return name

    return write


@pytest.fixture
def seen() -> list[tuple[str, bool]]:
    """Which modules were reported, and whether they had their last name then."""
    return []


@pytest.fixture
def watch(seen: list[tuple[str, bool]]) -> Iterator[Names]:
    watches: list[Watch] = []

    def make(*names: str) -> Watch:
        watches.append(Watch(names, lambda module: seen.append((module.__name__, hasattr(module, "last")))))
        watches[-1].start()
        return watches[-1]

    yield make
    for one in watches:
        one.stop()


def test_module_is_reported_when_its_import_ends(host: Any, watch: Names, seen: list[Any]) -> None:
    """It is whole when it is reported, and its importer has not gone on."""
    name = host("host_later", "last = 1")
    one = watch(name)
    assert seen == []

    importlib.import_module(name)

    assert seen == [(name, True)]
    assert one.pending == frozenset()


def test_module_that_is_whole_is_reported_at_once(host: Any, watch: Names, seen: list[Any]) -> None:
    """What was imported before is reported when the watch starts."""
    name = host("host_before", "last = 1")
    importlib.import_module(name)

    watch(name)

    assert seen == [(name, True)]


def test_module_in_the_middle_of_its_import_is_reported_when_it_is_whole(
    host: Any, watch: Names, seen: list[Any]
) -> None:
    """A module that itself starts the watch is reported at its end, without any further import."""
    name = host("host_half", "import sys\nsys.modules['the_test'].start()\nlast = 1")
    test = ModuleType("the_test")
    test.start = lambda: watch(name)
    sys.modules["the_test"] = test

    importlib.import_module(name)

    assert seen == [(name, True)]


def test_module_that_fails_is_reported_when_it_succeeds(host: Any, watch: Names, seen: list[Any]) -> None:
    """An import that raises reports nothing; the next attempt does."""
    name = host("host_failing", "import sys\nassert 'now' in sys.modules\nlast = 1")
    watch(name)
    with pytest.raises(AssertionError):
        importlib.import_module(name)
    assert seen == []

    sys.modules["now"] = ModuleType("now")
    importlib.import_module(name)

    assert seen == [(name, True)]


def test_module_that_another_finder_found_first_is_reported_with_the_next_import(
    host: Any, watch: Names, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finder before ours keeps ours from being asked; what it found is noticed later."""
    name = host("host_elsewhere", "last = 1")
    other = host("host_unwatched", "")
    one = watch(name)

    class Before:
        find_spec = staticmethod(importlib.machinery.PathFinder.find_spec)

    before: Any = Before()
    sys.meta_path.insert(0, before)
    importlib.import_module(name)
    assert seen == []

    sys.meta_path.remove(before)
    importlib.import_module(other)

    assert seen == [(name, True)]
    assert one.pending == frozenset()


def test_missing_module_stays_missing(watch: Names) -> None:
    """Watching a module does not make it findable."""
    watch("host_missing")

    with pytest.raises(ModuleNotFoundError, match="host_missing"):
        importlib.import_module("host_missing")


def test_module_keeps_its_loader_and_an_ordinary_spec(host: Any, watch: Names) -> None:
    """Nothing of ours is left on a module that was reported."""
    name = host("host_plain", "last = 1")
    watch(name)

    module = importlib.import_module(name)

    spec: Any = module.__spec__
    assert type(spec) is importlib.machinery.ModuleSpec
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert not [attribute for attribute in vars(spec) if "ctxruntime" in attribute]


def test_error_of_the_callback_does_not_reach_the_importer(host: Any) -> None:
    """A fault of ours costs the patch, not the host's import."""
    name = host("host_with_fault", "last = 1")
    watch = Watch([name], lambda module: 1 / 0)
    watch.start()
    try:
        assert importlib.import_module(name).last == 1
    finally:
        watch.stop()
    assert fault_counts()[f"imports: {name}"] == 1


def test_stopped_watch_reports_nothing(host: Any, watch: Names, seen: list[Any]) -> None:
    """After `stop`, which can be called twice, imports are not looked at."""
    name = host("host_unseen", "last = 1")
    one = watch(name)
    one.stop()
    one.stop()

    importlib.import_module(name)

    assert seen == []


def test_module_imported_by_many_threads_is_reported_once(host: Any, watch: Names, seen: list[Any]) -> None:
    """Every thread sees the module as it is after the report."""
    name = host("host_threads", "import time\ntime.sleep(0.01)\nlast = 1")
    watch(name)
    reported: list[int] = []

    def use() -> None:
        importlib.import_module(name)
        reported.append(len(seen))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert reported == [1] * 8
