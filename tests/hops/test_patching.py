from __future__ import annotations

import functools
import inspect
import logging
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import wrapt

from ctxruntime.guarding import fault_counts, guard
from ctxruntime.hops import patching
from ctxruntime.hops.patching import Patch

Function = Callable[..., Any]


def tagged(tag: str) -> Callable[[Function], Function]:
    """A replacement that says it was there: it puts a tag in front of what the original returns."""

    def make(original: Function) -> Function:
        return lambda *args, **kwargs: (tag, *original(*args, **kwargs))

    return make


def wrapped_by_another(original: Function) -> Function:
    """What another library does on top of ours, in the ordinary way."""

    @functools.wraps(original)
    def theirs(*args: object, **kwargs: object) -> object:
        return ("theirs", *original(*args, **kwargs))

    return theirs


@wrapt.decorator
def wrapped_by_wrapt(wrapped: Function, instance: object, args: Any, kwargs: Any) -> object:
    return ("wrapt", *wrapped(*args, **kwargs))


class Base:
    def plain(self, *args: object, **kwargs: object) -> object:
        """The host's own words."""
        return (self, args, kwargs)

    @classmethod
    def of_class(cls, *args: object) -> object:
        return (cls, args)

    @staticmethod
    def static(*args: object) -> object:
        return (args,)

    async def awaited(self, value: object) -> object:
        return (self, value)

    answer = 42


@pytest.fixture
def owner() -> type[Any]:
    """A class of its own for each test, with every kind of attribute."""
    body = {name: value for name, value in vars(Base).items() if not name.startswith("__")}
    return type("Owner", (), body)


@pytest.fixture
def heir(owner: type[Any]) -> type[Any]:
    return type("Heir", (owner,), {})


@pytest.fixture
def module() -> types.ModuleType:
    module = types.ModuleType("hosts_module")
    exec("def work(*args):\n    return (args,)\n", vars(module))
    return module


@pytest.fixture(autouse=True)
def no_fault_of_ours(request: pytest.FixtureRequest) -> Iterator[None]:
    before = fault_counts()
    yield
    ours = {site for site in fault_counts() if not site.startswith(request.node.name)}
    assert ours == set(before) & ours


class TestPatch:
    def test_replacement_runs_in_place_of_a_method(self, owner: type[Any]) -> None:
        """The replacement is called with what the caller passed, self first, and calls the original so."""
        instance = owner()

        Patch(owner, "plain", tagged("ours")).apply()

        assert instance.plain(1, two=2) == ("ours", instance, (1,), {"two": 2})

    def test_replacement_runs_in_place_of_a_module_function(self, module: types.ModuleType) -> None:
        """A function of a module is replaced where the module's users look it up."""
        Patch(module, "work", tagged("ours")).apply()

        assert module.work(1) == ("ours", (1,))

    def test_class_method_stays_a_class_method(self, owner: type[Any], heir: type[Any]) -> None:
        """The replacement of a class method gets the class it was called on, an heir too."""
        Patch(owner, "of_class", tagged("ours")).apply()

        assert owner.of_class(1) == ("ours", owner, (1,))
        assert heir().of_class(1) == ("ours", heir, (1,))
        assert type(vars(owner)["of_class"]) is classmethod

    def test_static_method_stays_a_static_method(self, owner: type[Any]) -> None:
        """The replacement of a static method gets no instance."""
        Patch(owner, "static", tagged("ours")).apply()

        assert owner().static(1) == ("ours", (1,))
        assert type(vars(owner)["static"]) is staticmethod

    def test_callable_that_does_not_bind_is_called_without_an_instance(self, owner: type[Any]) -> None:
        """What a class has as a callable without `__get__` gets no self, before and after."""

        class Made:
            def __call__(self, *args: object) -> object:
                return (args,)

        owner.made = Made()

        Patch(owner, "made", tagged("ours")).apply()

        assert owner().made(1) == ("ours", (1,))

    def test_undo_puts_the_very_object_back(self, owner: type[Any], module: types.ModuleType) -> None:
        """After the undo the owner has the object that it had, not one that is like it."""
        names = ["plain", "of_class", "static", "awaited"]
        before = [vars(owner)[name] for name in names] + [module.work]
        patches = [Patch(owner, name, tagged("ours")).apply() for name in names]
        patches.append(Patch(module, "work", tagged("ours")).apply())

        for patch in patches:
            patch.undo()

        after = [vars(owner)[name] for name in names] + [module.work]
        assert all(was is now for was, now in zip(before, after, strict=True))

    @pytest.mark.parametrize("name", ["plain", "of_class", "static", "awaited"])
    def test_undo_removes_what_hid_an_inherited_attribute(self, heir: type[Any], name: str) -> None:
        """Where the owner had inherited the attribute, it inherits it again."""
        patch = Patch(heir, name, tagged("ours")).apply()
        assert name in vars(heir)

        patch.undo()

        assert name not in vars(heir)

    @pytest.mark.parametrize("name", ["plain", "of_class", "static"])
    def test_inherited_original_follows_a_later_patch_of_the_base(
        self, owner: type[Any], heir: type[Any], name: str
    ) -> None:
        """What is inherited is looked up per call, so that a patch that comes to the base later is seen."""
        Patch(heir, name, tagged("heir")).apply()

        base = Patch(owner, name, tagged("base")).apply()
        assert getattr(heir(), name)(1)[:2] == ("heir", "base")

        base.undo()
        assert getattr(heir(), name)(1)[:2] != ("heir", "base")

    def test_applying_twice_replaces_once(self, owner: type[Any]) -> None:
        """A patch that is applied already stays as it is."""
        patch = Patch(owner, "plain", tagged("ours"))

        patch.apply().apply()

        assert owner().plain()[:2] != ("ours", "ours")
        assert patch.active

    def test_undo_is_safe_at_any_time(self, owner: type[Any]) -> None:
        """An undo before applying, and a second one, do nothing."""
        patch = Patch(owner, "plain", tagged("ours"))
        before = vars(owner)["plain"]

        patch.undo()
        patch.apply().undo()
        patch.undo()

        assert vars(owner)["plain"] is before
        assert not patch.active

    def test_undo_leaves_a_wrapper_of_others_in_place(self, owner: type[Any]) -> None:
        """Who wrapped ours keeps being called, and ours passes the call on."""
        patch = Patch(owner, "plain", tagged("ours")).apply()
        owner.plain = theirs = wrapped_by_another(owner.plain)
        instance = owner()

        patch.undo()

        assert vars(owner)["plain"] is theirs
        assert instance.plain(1) == ("theirs", instance, (1,), {})

    @pytest.mark.parametrize("name", ["plain", "of_class", "static"])
    @pytest.mark.parametrize("wrapper", [wrapped_by_another, wrapped_by_wrapt], ids=["plain", "wrapt"])
    def test_applying_again_below_a_wrapper_of_others_wakes_ours_up(
        self, owner: type[Any], name: str, wrapper: Callable[[Function], Function]
    ) -> None:
        """Ours is still in the chain then, so that wrapping the chain again would run it twice."""
        patch = Patch(owner, name, tagged("ours")).apply()
        reachable = getattr(owner, name)
        setattr(owner, name, staticmethod(wrapper(reachable)) if name != "plain" else wrapper(reachable))
        patch.undo()

        patch.apply()

        result = getattr(owner(), name)(1)
        assert [tag for tag in result if tag == "ours"] == ["ours"]

    def test_undone_below_a_wrapper_of_wrapt_leaves_the_original_there(self, owner: type[Any]) -> None:
        """Undoing that wrapper puts back what it wraps, which is the very original then, and not one of ours."""
        original = vars(owner)["plain"]
        patch = Patch(owner, "plain", tagged("ours")).apply()
        theirs = wrapped_by_wrapt(vars(owner)["plain"])
        owner.plain = wrapped_by_wrapt(theirs)

        patch.undo()

        assert theirs.__wrapped__ is original
        assert vars(owner)["plain"].__wrapped__ is theirs

    def test_one_whose_code_somebody_changed_stays(self, owner: type[Any]) -> None:
        """A function may be wrapped by giving it other code (ddtrace does): taking it out would undo that, too."""

        def plain(original: Any, patch: Patch) -> Any:
            def ours(self: Any, value: int) -> Any:
                return ("ours", original(self, value)) if patch.active else original(self, value)

            return ours

        patch = Patch(owner, "plain", plain, plain=True).apply()
        ours: Any = vars(owner)["plain"]
        ours.__code__ = ours.__code__.replace(co_name="changed")

        patch.undo()

        assert vars(owner)["plain"] is ours
        assert owner().plain(1)[0] != "ours"

    def test_plain_one_stands_in_the_attribute_itself(self, owner: type[Any]) -> None:
        """What is called often has no function of ours around it, and asks the patch whether it is active."""

        def ours(self: Any, value: int) -> str:
            return f"ours {value}"

        patch = Patch(owner, "plain", lambda original, patch: ours, plain=True).apply()

        assert vars(owner)["plain"] is ours
        assert owner().plain(1) == "ours 1"
        patch.undo()
        assert patch.active is False

    def test_reference_kept_by_a_host_passes_calls_on_after_the_undo(self, owner: type[Any]) -> None:
        """A bound method that was taken while ours was there does what the original does."""
        patch = Patch(owner, "plain", tagged("ours")).apply()
        instance = owner()
        kept = instance.plain

        patch.undo()

        assert kept(1) == (instance, (1,), {})

    def test_reference_kept_by_a_host_is_ours_again_after_applying_again(self, owner: type[Any]) -> None:
        """Applying again puts the same function back, not a second one."""
        patch = Patch(owner, "plain", tagged("ours")).apply()
        kept = owner().plain
        patch.undo()

        patch.apply()

        assert kept(1)[0] == "ours"
        assert vars(owner)["plain"] is kept.__func__

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["below first", "above first"])
    def test_two_patches_of_one_attribute_are_undone_in_either_order(
        self, owner: type[Any], order: tuple[int, int]
    ) -> None:
        """The original object is back when both are undone."""
        before = vars(owner)["plain"]
        patches = [Patch(owner, "plain", tagged(tag)).apply() for tag in ("below", "above")]
        assert owner().plain()[:2] == ("above", "below")

        for index in order:
            patches[index].undo()

        assert vars(owner)["plain"] is before

    @pytest.mark.parametrize("name", ["plain", "of_class", "static"])
    def test_original_that_is_a_wrapper_of_others_is_called_through_its_descriptor(
        self, owner: type[Any], name: str
    ) -> None:
        """Called bare, a wrapt wrapper would take self for the first argument."""
        setattr(owner, name, wrapped_by_wrapt(vars(owner)[name]))
        before = vars(owner)[name]
        expected = getattr(owner, name)(*([owner()] if name == "plain" else []), 1)

        patch = Patch(owner, name, tagged("ours")).apply()
        instance = owner()
        result = getattr(instance, name)(1)
        patch.undo()

        assert result[:2] == ("ours", "wrapt")
        assert result[-2:][:1] == ((1,),) if name == "plain" else result[1:] == expected
        assert vars(owner)[name] is before

    def test_replaced_function_looks_like_the_original(self, owner: type[Any]) -> None:
        """Name, documentation and signature are the host's."""
        Patch(owner, "plain", tagged("ours")).apply()

        assert owner.plain.__qualname__ == "Base.plain"
        assert owner.plain.__doc__ == "The host's own words."
        assert str(inspect.signature(owner.plain)) == str(inspect.signature(Base.plain))

    @pytest.mark.asyncio
    async def test_coroutine_function_stays_one(self, owner: type[Any]) -> None:
        """A host that asks iscoroutinefunction decides as before, also once the patch is undone."""

        def make(original: Function) -> Function:
            async def replacement(self: object, value: object) -> object:
                return ("ours", *await original(self, value))

            return replacement

        patch = Patch(owner, "awaited", make).apply()
        instance = owner()
        kept = instance.awaited

        assert inspect.iscoroutinefunction(owner.awaited)
        assert await kept(1) == ("ours", instance, 1)
        patch.undo()
        assert await kept(1) == (instance, 1)

    def test_error_of_the_original_reaches_the_caller_unchanged(self, owner: type[Any]) -> None:
        """Nothing stands between the original's error and the caller."""
        error = TypeError("the host's own")

        def plain(self: object) -> object:
            raise error

        owner.plain = plain
        Patch(owner, "plain", tagged("ours")).apply()

        with pytest.raises(TypeError) as caught:
            owner().plain()
        assert caught.value is error

    def test_missing_attribute_is_refused(self, owner: type[Any], module: types.ModuleType) -> None:
        """An attribute that is not there is an AttributeError that names it, and nothing is changed."""
        with pytest.raises(AttributeError, match="has no attribute 'gone'"):
            Patch(owner, "gone", tagged("ours")).apply()
        with pytest.raises(AttributeError, match="has no attribute 'gone'"):
            Patch(module, "gone", tagged("ours")).apply()
        assert "gone" not in vars(owner)

    def test_data_is_refused(self, owner: type[Any]) -> None:
        """An attribute that cannot be called is a TypeError that names it."""
        with pytest.raises(TypeError, match=r"<Patch Owner\.answer, not applied>: .* not callable"):
            Patch(owner, "answer", tagged("ours")).apply()

    def test_replacement_that_cannot_be_made_leaves_the_owner_alone(self, owner: type[Any]) -> None:
        """When `make` raises, the attribute is what it was, and the patch can be applied later."""
        before = vars(owner)["plain"]
        attempts = iter([RuntimeError("not yet"), None])

        def make(original: Function) -> Function:
            if error := next(attempts):
                raise error
            return tagged("ours")(original)

        patch = Patch(owner, "plain", make)
        with pytest.raises(RuntimeError, match="not yet"):
            patch.apply()
        assert vars(owner)["plain"] is before

        patch.apply()
        assert owner().plain()[0] == "ours"

    def test_many_threads_apply_and_undo_one_patch(self, owner: type[Any]) -> None:
        """However they interleave, the original is back at the end and was wrapped at most once."""
        before = vars(owner)["plain"]
        patch = Patch(owner, "plain", tagged("ours"))
        results: set[object] = set()

        def work() -> None:
            for _ in range(200):
                patch.apply()
                results.add(owner().plain()[:2].count("ours"))
                patch.undo()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert vars(owner)["plain"] is before
        assert results <= {0, 1}


class TestGuard:
    def test_error_of_ours_ends_at_the_block(self, request: pytest.FixtureRequest) -> None:
        """An exception raised in the block does not reach the host."""
        reached = []

        with guard(request.node.name):
            raise ValueError("a fault of ours")
        reached.append("behind the block")

        assert reached == ["behind the block"]

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_what_is_no_exception_passes(self, request: pytest.FixtureRequest, error: type[BaseException]) -> None:
        """Cancellation and the end of the program are never swallowed."""
        with pytest.raises(error), guard(request.node.name):
            raise error

        assert request.node.name not in fault_counts()

    def test_fault_is_logged_once_and_counted_always(
        self, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One record with the traceback per site, to the logger ctxruntime; every fault is counted."""
        error = ValueError("a fault of ours")

        for _ in range(3):
            with guard(request.node.name):
                raise error

        (record,) = caplog.records
        assert (record.name, record.levelno) == ("ctxruntime", logging.WARNING)
        assert record.exc_info is not None
        assert record.exc_info[1] is error
        assert request.node.name in record.getMessage()
        assert fault_counts()[request.node.name] == 3

    def test_each_site_is_logged(self, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> None:
        """A fault at one site does not silence another site."""
        for site in ("a", "b"):
            with guard(f"{request.node.name} {site}"):
                raise ValueError

        assert len(caplog.records) == 2

    def test_logging_that_fails_does_not_reach_the_host(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A filter of the host's that raises is no reason to break its call."""

        def refuse(record: logging.LogRecord) -> bool:
            raise RuntimeError("the host's filter")

        logger = logging.getLogger("ctxruntime")
        logger.addFilter(refuse)
        try:
            with guard(request.node.name):
                raise ValueError
        finally:
            logger.removeFilter(refuse)

        assert fault_counts()[request.node.name] == 1

    def test_one_guard_serves_many_threads(self, request: pytest.FixtureRequest) -> None:
        """No count is lost between threads, and one guard object can be used by all of them."""
        shared = guard(request.node.name)

        def fail() -> None:
            for _ in range(500):
                with shared:
                    raise ValueError

        threads = [threading.Thread(target=fail) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert fault_counts()[request.node.name] == 2000

    def test_counts_are_a_copy(self, request: pytest.FixtureRequest) -> None:
        """Changing what was returned changes no count."""
        with guard(request.node.name):
            raise ValueError
        fault_counts()[request.node.name] = 100

        assert fault_counts()[request.node.name] == 1


def test_locks_held_at_a_fork_do_not_stop_the_child() -> None:
    """A child that was forked while another thread held a lock can patch and guard."""
    program = """
import os, threading
from ctxruntime import guarding
from ctxruntime.hops import patching

held, done = threading.Event(), threading.Event()

def hold():
    with patching._patching, guarding._counting:
        held.set()
        done.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()

class Owner:
    def work(self):
        return "host"

if (child := os.fork()) == 0:
    patching.Patch(Owner, "work", lambda original: lambda self: "ours").apply()
    with guarding.guard("child"):
        raise ValueError
    os._exit(0 if (Owner().work(), guarding.fault_counts()) == ("ours", {"child": 1}) else 1)
done.set()
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    if not hasattr(os, "fork"):
        pytest.skip("this platform does not fork")

    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=30, check=False)

    assert done.returncode == 0


def test_importing_it_stays_light() -> None:
    """The module that every hop stands on loads neither inspect nor logging nor anything of others."""
    program = (
        "import sys; before = set(sys.modules); import ctxruntime.hops.patching; "
        "new = set(sys.modules) - before; "
        "print(*sorted(new & {'inspect', 'logging', 'threading', 'wrapt', 'opentelemetry'}))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


def test_public_names_are_listed() -> None:
    """What may be used from elsewhere is in `__all__`, sorted, and documented."""
    assert patching.__all__ == sorted(patching.__all__)
    assert all(getattr(patching, name).__doc__ for name in patching.__all__)
