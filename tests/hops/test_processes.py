"""Row "ProcessPoolExecutor, multiprocessing (fork, spawn, forkserver)" of the hop contract."""

from __future__ import annotations

import asyncio
import copy
import datetime
import functools
import importlib
import inspect
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import types
import typing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.managers import BaseManager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.hops.plain import plain_keys
from ctxruntime.hops.processes import Job, job_for_process, patches
from ctxruntime.layers import amending

sys.path.append(str(Path(__file__).parent))  # a spawned child looks for modules where its parent does
jobs: Any = importlib.import_module("process_jobs")

# From 3.12 on a fork says that it is unsafe beside threads, which every pool has.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

METHODS = [method for method in ("fork", "spawn", "forkserver") if method in multiprocessing.get_all_start_methods()]
FRESH = [method for method in METHODS if method != "fork"]
PATCHES = patches()
ORIGINALS = [vars(patch.owner)[patch.name] for patch in PATCHES]


@pytest.fixture(scope="module", autouse=True)
def patched() -> Iterator[None]:
    """Everything is patched, and what was there is there again afterwards."""
    with patching(True):
        yield
    assert [vars(patch.owner)[patch.name] for patch in PATCHES] == ORIGINALS


@contextmanager
def patching(on: bool) -> Iterator[None]:
    for patch in PATCHES:
        patch.apply() if on else patch.undo()
    try:
        yield
    finally:
        for patch in PATCHES:
            patch.undo() if on else patch.apply()


@pytest.fixture(scope="module", params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pool(method: str) -> Iterator[ProcessPoolExecutor]:
    """One warm worker, born while a session was in effect."""
    with new_pool(method, initializer=jobs.remember_birth) as pool:
        with ctx.session(session_id="birth", process_rights=jobs.Rights.READ):
            pool.submit(jobs.pid).result()
        yield pool


def new_pool(method: str, **options: Any) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context(method), **options)


def answer_of(process: BaseProcess, answers: Any) -> Any:
    process.start()
    try:
        return answers.get()
    finally:
        process.join()
        assert process.exitcode == 0


# ProcessPoolExecutor


def test_pool_job_has_the_state_of_its_submitter(pool: ProcessPoolExecutor) -> None:
    """Each job of a warm worker has the keys of the flow that submitted it, and no others."""
    with ctx.session(session_id="s1", user_id="u1"):
        one = pool.submit(jobs.seen)
    with ctx.session(session_id="s2"), ctx.bind(frontend="nested"):
        two = pool.submit(jobs.seen)

    assert one.result() == {"session_id": "s1", "user_id": "u1"}
    assert two.result() == {"session_id": "s2", "frontend": "nested"}


def test_pool_job_outside_any_turn_has_nothing(pool: ProcessPoolExecutor) -> None:
    """What is submitted outside any turn runs with nothing bound, after others' jobs in the same worker."""
    with ctx.session(session_id="s1"):
        pool.submit(jobs.seen).result()
    assert pool.submit(jobs.seen).result() is None
    with ctx.session(session_id="s1"), ctx.cleared():
        assert pool.submit(jobs.seen).result() is None


def test_pool_job_of_a_turn_that_knows_nothing_is_in_a_turn(pool: ProcessPoolExecutor) -> None:
    """A turn of which no key is known yet is a turn in the child, where facts can be added."""
    with ctx.session():
        assert pool.submit(jobs.seen_then_amended, 1).result() == (1, None)


def test_pool_workers_are_born_empty(pool: ProcessPoolExecutor) -> None:
    """A worker and its initializer have nothing, whatever was in effect where the first job was submitted."""
    with ctx.session(session_id="s1"):
        assert pool.submit(jobs.born_with).result() is None


def test_pool_job_sees_nothing_that_its_worker_has(method: str) -> None:
    """A job of an unset state has nothing bound in a worker that opened a turn for itself, and so has a turn's."""
    with new_pool(method, initializer=jobs.open_turn, initargs=("worker's own",)) as pool:
        assert pool.submit(jobs.seen).result() is None
        with ctx.session(user_id="u1"):
            assert pool.submit(jobs.seen).result() == {"user_id": "u1"}


def test_pool_job_captures_at_submit(pool: ProcessPoolExecutor, tmp_path: Path) -> None:
    """What the turn learns after `submit` is not seen by a job that waited for the worker meanwhile."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with ctx.session(session_id="s1"):
        pool.submit(jobs.wait_for_writer, str(fifo))
        queued = [pool.submit(jobs.seen) for _ in range(4)]  # the pool pickles no more than two ahead
        ctx.amend(session_id="s2")
        fifo.write_bytes(b"")
        assert [job.result() for job in queued] == [{"session_id": "s1"}] * 4


def test_pool_job_is_a_turn_of_its_own(pool: ProcessPoolExecutor) -> None:
    """What a job amends is seen neither by the turn here nor by the next job."""
    with ctx.session(session_id="s1"):
        assert pool.submit(jobs.seen_then_amended, 1).result() == (1, "s1")
        assert pool.submit(jobs.seen).result() == {"session_id": "s1"}
        assert ctx.SESSION_ID.get() == "s1"


@pytest.mark.asyncio
async def test_run_in_executor_has_the_state_of_its_submitter(pool: ProcessPoolExecutor) -> None:
    """`run_in_executor` submits: each task's job has the task's keys."""

    async def serve(name: str) -> Any:
        with ctx.session(session_id=name):
            return await asyncio.get_running_loop().run_in_executor(pool, jobs.seen)

    answers = await asyncio.gather(*map(serve, "abc"))
    assert answers == [{"session_id": name} for name in "abc"]


@pytest.mark.parametrize("chunksize", [1, 2])
def test_map_has_the_state_of_its_call(pool: ProcessPoolExecutor, chunksize: int) -> None:
    """Every item of a `map` has the keys of the flow that called it, whoever reads the results."""
    with ctx.session(session_id="s1"):
        results = pool.map(jobs.seen_with_id, range(3), "abc", chunksize=chunksize)
    with ctx.session(session_id="reader"):
        assert list(results) == [(number, "s1") for number in range(3)]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="map submits ahead of its reader from 3.14 on")
def test_map_with_a_buffer_has_the_state_of_its_call(pool: ProcessPoolExecutor) -> None:
    """Items that are submitted while the results are read have the keys of the call, not of the reader."""
    buffered: Any = {"buffersize": 1}
    with ctx.session(session_id="s1"):
        results = pool.map(jobs.seen_with_id, range(4), **buffered)
    with ctx.session(session_id="reader"):
        assert list(results) == [(number, "s1") for number in range(4)]


def test_items_of_a_chunk_are_turns_of_their_own(pool: ProcessPoolExecutor) -> None:
    """What one item of a chunk amends is not seen by the next."""
    with ctx.session(session_id="s1"):
        assert list(pool.map(jobs.seen_then_amended, range(3), chunksize=3)) == [(n, "s1") for n in range(3)]


@pytest.mark.parametrize("method", FRESH)
def test_each_worker_of_a_pool_that_renews_them_has_the_state_of_its_job(method: str) -> None:
    """With `max_tasks_per_child` a new worker has the keys of its job, and was born with nothing."""
    with new_pool(method, max_tasks_per_child=1, initializer=jobs.remember_birth) as pool:
        workers = set()
        for name in ("s1", "s2"):
            with ctx.session(session_id=name):
                seen, born, worker = (pool.submit(jobs.call, job) for job in (jobs.seen, jobs.born_with, jobs.pid))
                assert seen.result() == {"session_id": name}
                assert born.result() is None
                workers.add(worker.result())
        assert len(workers) == 2


@pytest.mark.parametrize(
    ("fn", "arguments"), [(lambda: None, ()), (jobs.seen, (jobs.Unpicklable(),))], ids=["function", "argument"]
)
def test_pool_that_cannot_pickle_says_so_as_without_us(
    pool: ProcessPoolExecutor, fn: Callable[..., Any], arguments: tuple[object, ...]
) -> None:
    """An error of pickling has the type that it has without us, and the pool lives on."""
    with patching(False):
        plain = pool.submit(fn, *arguments).exception()
    with ctx.session(session_id="s1"):
        carried = pool.submit(fn, *arguments).exception()
        assert type(carried) is type(plain)
        assert pool.submit(jobs.seen).result() == {"session_id": "s1"}


def test_error_of_a_pool_job_arrives_unchanged(pool: ProcessPoolExecutor) -> None:
    """What the job raises is what the future has."""
    with ctx.session(session_id="s1"):
        error = pool.submit(jobs.failing).exception()
    assert type(error) is LookupError
    assert error.args == ("the job's own", 7)


def test_wrong_submit_is_refused_as_without_us(pool: ProcessPoolExecutor) -> None:
    """A job that is missing or not callable is the pool's error, in words that do not name us."""
    submit: Any = pool.submit
    with pytest.raises(TypeError, match=r"submit\(\) missing 1 required positional argument: 'fn'"):
        submit()
    with ctx.session(session_id="s1"), pytest.raises(TypeError, match="'int' object is not callable"):
        submit(3).result()


# What arrives


def test_values_of_every_type_arrive(pool: ProcessPoolExecutor) -> None:
    """A key of each type that there is has in the child the value that it has here."""
    values = {
        "session_id": "späti",
        "process_mode": jobs.Mode.DEEP,
        "process_rights": jobs.Rights.READ | jobs.Rights.WRITE,
        "process_run": UUID(int=7),
        "process_at": datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC),
        "process_parts": (jobs.Mode.QUICK, 3),
        "process_modes": (jobs.Mode.QUICK, jobs.Mode.DEEP),
        "process_mixed": (jobs.Mode.QUICK, 1, b"raw", UUID(int=1)),
        "process_weight": 0.5,
        "process_raw": b"\x00",
    }
    with ctx.session(None, **values):
        assert pool.submit(jobs.described).result() == jobs.described(values)


@pytest.mark.parametrize("method", FRESH)
def test_key_that_the_child_does_not_define_is_dropped(method: str) -> None:
    """A key that only this process defines does not arrive, and the others do."""
    here_only = ctx.Key("process_here_only", str)
    with new_pool(method) as pool, ctx.session({here_only: "x"}, session_id="s1"):
        assert pool.submit(jobs.seen).result() == {"session_id": "s1"}


@pytest.mark.parametrize(("kind", "value"), [(str, "high"), (jobs.Mode, jobs.Mode.DEEP)], ids=["text", "enum"])
def test_value_that_the_childs_key_refuses_is_dropped(method: str, kind: type[Any], value: object) -> None:
    """A key that the child defines of another type gets no value, and that is counted there."""
    name = f"process_level_{method}_{kind.__name__.lower()}"
    with new_pool(method) as pool:
        pool.submit(jobs.define, name, int).result()
        ctx.Key(name, kind)
        with ctx.session(None, session_id="s1", **{name: value}):
            assert pool.submit(jobs.seen).result() == {"session_id": "s1"}
        assert pool.submit(jobs.faults).result()["hops: a value from plain data"] == 1


class LocalZone(datetime.tzinfo):
    def __reduce__(self) -> Any:
        raise ValueError("no zone leaves")

    def utcoffset(self, moment: datetime.datetime | None, /) -> datetime.timedelta:
        return datetime.timedelta(0)


def test_value_that_does_not_pickle_is_left_out(pool: ProcessPoolExecutor) -> None:
    """A value that cannot leave this process is left out and counted, and the job runs."""
    before = fault_counts().get("hops: a value as plain data", 0)
    with ctx.session({jobs.AT: datetime.datetime(2026, 1, 1, tzinfo=LocalZone())}, session_id="s1"):
        assert pool.submit(jobs.seen).result() == {"session_id": "s1"}
    assert fault_counts()["hops: a value as plain data"] == before + 1


OF_MAIN = """
import enum, multiprocessing, sys
sys.path.append({path!r})
from concurrent.futures import ProcessPoolExecutor
import ctxruntime as ctx, process_jobs
from ctxruntime.hops.processes import patches

class Plan(enum.Enum):
    FREE = "free"

ctx.Key("plan", Plan)
ctx.Key("plans", tuple)
for patch in patches():
    patch.apply()
with ProcessPoolExecutor(1, multiprocessing.get_context({method!r})) as pool:
    with ctx.session(session_id="s1", plan=Plan.FREE, plans=(Plan.FREE,)):
        print(pool.submit(process_jobs.seen_with_id, 1).result(), pool.submit(process_jobs.seen_with_id, 2).result())
"""


def test_enum_of_the_parents_main_breaks_no_pool(method: str) -> None:
    """A job arrives though a key's type is defined in a `__main__` that the child cannot import."""
    program = OF_MAIN.format(path=str(Path(__file__).parent), method=method)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("(1, 's1') (2, 's1')\n", 0), done.stderr


def test_job_is_loaded_without_the_classes_of_its_values() -> None:
    """A pickled job names no class of a value, not even of one that the key's type cannot make again."""
    values = {"process_mode": jobs.Mode.DEEP, "process_mixed": (jobs.Mode.QUICK,)}
    with ctx.session(None, session_id="s1", **values):
        data = pickle.dumps(job_for_process(ctx.current))

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            assert module.startswith("ctxruntime")
            return super().find_class(module, name)

    assert dict(Unpickler(io.BytesIO(data)).load()()) == {"session_id": "s1", **values}


def test_linked_variable_is_written_in_the_child(pool: ProcessPoolExecutor) -> None:
    """A host's variable has the value of the key that is linked to it, or its unset value in a turn without."""
    with ctx.session(process_linked="tied"):
        assert pool.submit(jobs.linked_variable).result() == "tied"
    with ctx.session(session_id="s1"):
        assert pool.submit(jobs.linked_variable).result() == "none"


def test_linked_variable_that_the_host_set_outside_any_turn_arrives(pool: ProcessPoolExecutor) -> None:
    """Outside any turn a linked key is what its variable holds, and so it is in the child."""
    token = jobs.HOSTS.set("the host's")
    try:
        assert pool.submit(jobs.linked_variable).result() == "the host's"
    finally:
        jobs.HOSTS.reset(token)


def test_turn_of_a_job_has_ended_after_it() -> None:
    """The turn that a job is ends with its call, also when that fails."""
    turns: list[Any] = []
    with ctx.session(session_id="s1"):
        job = job_for_process(jobs.ended)
    assert job(turns) == {"session_id": "s1"}
    assert job(turns) == {"session_id": "s1"}
    with ctx.session(session_id="s1"), pytest.raises(LookupError):
        job_for_process(jobs.failing)()

    assert [turn.ended for turn in turns] == [True, True]
    assert turns[0] is not turns[1]


def test_job_of_a_job_is_itself() -> None:
    """Handing a job on, or a chunk of calls of one, captures no second time."""
    job = job_for_process(jobs.seen)
    chunk = functools.partial(jobs.call, job)
    assert isinstance(job, Job)
    assert job_for_process(job) is job
    assert job_for_process(chunk) is chunk


def test_plain_keys_tell_no_turn_from_a_turn_that_knows_nothing() -> None:
    """Nothing in effect is None; a turn without keys is an empty tuple."""
    assert plain_keys() is None
    with ctx.session():
        assert plain_keys() == ()


# multiprocessing.Process


def test_process_has_the_state_of_its_starter(method: str) -> None:
    """A process has the keys of the flow that started it, as a turn of its own, and is itself there."""
    context: Any = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    with ctx.session(session_id="s1"), ctx.bind(frontend="nested"):
        process = context.Process(target=jobs.answer, args=(answers, 1))
        assert answer_of(process, answers) == ({"session_id": "s1", "frontend": "nested"}, (1,), False)
        assert "run" not in vars(process)


def test_process_that_overrides_run_has_the_state_of_its_starter(method: str) -> None:
    """A subclass that overrides `run` has the keys of the flow that started it."""
    answers = multiprocessing.get_context(method).SimpleQueue()
    with ctx.session(session_id="s1"):
        process = jobs.OVERRIDING[method](answers, method)
        seen, (name,), left = answer_of(process, answers)
    assert (seen, name, left) == ({"session_id": "s1"}, type(process).__name__, False)


def test_process_whose_run_was_set_has_the_state_of_its_starter(method: str) -> None:
    """A `run` that somebody put on the process is called, with the keys, and is there afterwards."""
    context: Any = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    process = context.Process()
    process.run = run = functools.partial(jobs.answer, answers, "set")
    with ctx.session(session_id="s1"):
        assert answer_of(process, answers) == ({"session_id": "s1"}, ("set",), True)
    assert process.run is run


def test_process_that_is_started_outside_has_nothing(method: str) -> None:
    """What counts is where the process is started, not where it was made."""
    context: Any = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    with ctx.session(session_id="s1"):
        process = context.Process(target=jobs.answer, args=(answers,))
    assert answer_of(process, answers) == (None, (), False)


def test_fork_in_a_cleared_scope_has_nothing(method: str) -> None:
    """A process that is started under `cleared()` has nothing."""
    context: Any = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    with ctx.session(session_id="s1"), ctx.cleared():
        assert answer_of(context.Process(target=jobs.answer, args=(answers,)), answers) == (None, (), False)


@pytest.mark.parametrize("method", FRESH)
def test_process_that_cannot_be_started_is_as_it_was(method: str) -> None:
    """An error in `start` is the one without us, and nothing stays on the process."""
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=jobs.seen, args=(jobs.Unpicklable(),))
    before = dict(vars(process))
    with ctx.session(session_id="s1"), pytest.raises(ValueError, match="not me"):
        process.start()
    assert set(vars(process)) - set(before) <= {"_popen"}
    assert "run" not in vars(process)


@pytest.mark.skipif("spawn" not in METHODS, reason="no spawn here")
def test_process_that_pickles_itself_by_its_attributes_starts() -> None:
    """A process class with a `__reduce__` of its own is pickled, and has the keys."""
    answers = multiprocessing.get_context("spawn").SimpleQueue()
    with ctx.session(session_id="s1"):
        process = jobs.ByAttributes(target=jobs.answer, args=(answers, 1))
        assert answer_of(process, answers) == ({"session_id": "s1"}, (1,), False)


@pytest.mark.skipif("fork" not in METHODS, reason="no fork here")
def test_process_of_a_forked_process_has_its_state() -> None:
    """A forked process starts another: it is patched as its parent is, and the keys go on."""
    answers = multiprocessing.get_context("fork").SimpleQueue()
    with ctx.session(session_id="s1"):
        process = multiprocessing.get_context("fork").Process(target=jobs.start_another, args=(answers, "fork"))
        assert answer_of(process, answers) == ({"session_id": "s1"}, ("grandchild",), False)


def test_workers_of_a_process_pool_are_born_empty(method: str) -> None:
    """Workers of `multiprocessing.Pool` and their initializer have nothing, whoever makes the pool."""
    with ctx.session(session_id="s1"), multiprocessing.get_context(method).Pool(1, jobs.remember_birth) as pool:
        assert pool.apply(jobs.born_with) is None
        assert pool.apply(jobs.seen) is None  # the pool itself is another module's to patch
        assert pool.apply(job_for_process(jobs.seen)) == {"session_id": "s1"}
        pool.close()
        pool.join()


class Manager(BaseManager):
    pass


Manager.register("born_with", callable=jobs.born_with_as_object)


def test_process_of_a_manager_is_born_empty(method: str) -> None:
    """A manager serves whoever asks: its process has nothing, whoever starts it."""
    with ctx.session(session_id="s1"):
        manager: Any = Manager(ctx=multiprocessing.get_context(method))
        manager.start(jobs.remember_birth)
        with manager:
            assert manager.born_with().answer() is None


def test_denied_process_is_born_empty(method: str) -> None:
    """A target, or a class of processes, that the program named in the deny list has nothing."""
    from ctxruntime.hops import denied

    answers = multiprocessing.get_context(method).SimpleQueue()
    cls = jobs.OVERRIDING[method]
    denied.extend([f"process_jobs.{cls.__name__}", "process_jobs.answer"])
    try:
        with ctx.session(session_id="s1"):
            assert answer_of(cls(answers, method), answers)[0] is None
            context: Any = multiprocessing.get_context(method)
            target = functools.partial(jobs.answer, answers)
            assert answer_of(context.Process(target=target), answers) == (None, (), False)
    finally:
        denied.reset()


# os.fork


def forked(child: Callable[[], object]) -> tuple[int, int]:
    """Call `child` in a forked process; return its id and where to read what it returned, as text."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        with suppress(BaseException):
            os.write(writer, repr(child()).encode())
    finally:
        os._exit(0)


def answered(pid: int, reader: int) -> str:
    with open(reader, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(pid, 0)
    return answer


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@needs_fork
def test_fork_keeps_the_state_of_the_flow() -> None:
    """A forked child is in the turn that it was forked in."""
    with ctx.session(session_id="s1"), ctx.bind(frontend="nested"):
        assert answered(*forked(jobs.seen)) == repr({"session_id": "s1", "frontend": "nested"})


@needs_fork
def test_fork_amends_and_closes_for_itself() -> None:
    """What a forked child amends and closes is not seen by its parent, nor the other way round."""
    scope = ctx.session(session_id="s1")
    turn = scope.open()
    reader, writer = os.pipe()

    def child() -> object:
        os.read(reader, 1)  # until the parent has amended and closed
        before = ctx.SESSION_ID.get(), turn.ended
        ctx.amend(session_id="child's")
        after = ctx.SESSION_ID.get()
        scope.close()
        return before, after, turn.ended, jobs.seen()

    pid, answer = forked(child)
    turn.amend(session_id="parent's")
    scope.close()
    os.write(writer, b"x")

    assert answered(pid, answer) == repr((("s1", False), "child's", True, None))
    assert turn.get(ctx.SESSION_ID) == "parent's"
    for end in (reader, writer):
        os.close(end)


@needs_fork
@pytest.mark.timeout(30)
def test_fork_while_another_thread_amends() -> None:
    """A lock that another thread holds during the fork holds nobody up in the child."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with amending():
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    with ctx.session(session_id="s1"):
        thread.start()
        held.wait()

        def child() -> object:
            import signal

            signal.alarm(10)
            ctx.amend(session_id="s2")
            return job_for_process(jobs.seen)()

        try:
            pid, answer = forked(child)
            assert answered(pid, answer) == repr({"session_id": "s2", "previous_session_id": "s1"})
        finally:
            release.set()
            thread.join()


# The explicit form: carry


def test_carry_takes_the_keys_to_a_pool(method: str) -> None:
    """Nothing is patched, and a carried job has the keys of where it was carried; the next one has nothing."""
    with patching(False), new_pool(method) as pool:
        with ctx.session(session_id="s1"):
            job = ctx.carry(jobs.seen_with_id)
        with ctx.session(session_id="submitter"):
            assert pool.submit(job, 1).result() == (1, "s1")
            assert pool.submit(functools.partial(job, 2)).result() == (2, "s1")
            assert pool.submit(jobs.call, job, 3).result() == (3, "s1")
            pool.submit(jobs.pid).result()


def test_carry_takes_values_of_every_type_to_a_pool(pool: ProcessPoolExecutor) -> None:
    """What a carried job takes along is plain data too."""
    with ctx.session(process_parts=(jobs.Mode.DEEP, 1)):
        job = ctx.carry(jobs.described)
    assert pool.submit(job).result() == jobs.described({"process_parts": (jobs.Mode.DEEP, 1)})


def test_carry_takes_the_keys_to_a_process(method: str) -> None:
    """Nothing is patched, and a carried target has the keys of where it was carried."""
    context: Any = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    with ctx.session(session_id="s1"):
        target = ctx.carry(jobs.answer)
    with patching(False):
        process = context.Process(target=target, args=(answers,))
        assert answer_of(process, answers) == ({"session_id": "s1"}, (), False)


def test_carry_takes_the_keys_to_an_initializer(method: str) -> None:
    """An initializer has nothing, unless it is carried."""
    with ctx.session(session_id="s1"):
        initializer = ctx.carry(jobs.remember_birth)
    with new_pool(method, initializer=initializer) as pool:
        assert pool.submit(jobs.born_with).result() == {"session_id": "s1"}


def test_carry_wins_over_the_submitter(pool: ProcessPoolExecutor) -> None:
    """What was carried keeps its keys in a pool that is patched."""
    with ctx.session(session_id="s1"):
        job = ctx.carry(jobs.seen)
    with ctx.session(session_id="submitter", user_id="u1"):
        assert pool.submit(job).result() == {"session_id": "s1"}


def test_carried_coroutine_function_has_the_keys_in_the_child(pool: ProcessPoolExecutor) -> None:
    """The keys are in effect during the whole body of a carried coroutine function."""
    with ctx.session(session_id="s1"):
        job = ctx.carry(jobs.aseen)
    assert pool.submit(jobs.run_steps, job).result() == {"session_id": "s1"}


def test_carried_function_is_pickled_again() -> None:
    """What arrived carried is carried on, with the same keys, and by the same name."""
    with ctx.session(session_id="s1"):
        job = ctx.carry(jobs.seen)
    further = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(job))))
    with ctx.session(session_id="other"):
        assert further() == {"session_id": "s1"}
    assert (further.__name__, further.__wrapped__) == ("seen", jobs.seen)


def test_carried_function_that_was_carried_outside_has_nothing() -> None:
    """A function that was carried outside any turn clears, also when it was pickled."""
    job = pickle.loads(pickle.dumps(ctx.carry(jobs.seen)))
    with ctx.session(session_id="other"):
        assert job() is None


@pytest.mark.parametrize("rebuild", [lambda job: job, lambda job: pickle.loads(pickle.dumps(job))], ids=["", "pickled"])
def test_carried_function_answers_as_the_function(rebuild: Callable[[Any], Any]) -> None:
    """A carried function has the name, signature, hints, code and kind of a function, and copies to itself."""
    job, coroutine_job = rebuild(ctx.carry(jobs.seen_with_id)), rebuild(ctx.carry(jobs.aseen))

    assert inspect.signature(job) == inspect.signature(jobs.seen_with_id)
    assert (job.__name__, job.__module__) == ("seen_with_id", "process_jobs")
    assert typing.get_type_hints(job) == typing.get_type_hints(jobs.seen_with_id)
    assert isinstance(job.__code__, types.CodeType)
    assert [inspect.iscoroutinefunction(each) for each in (job, coroutine_job)] == [False, True]
    assert copy.copy(job) is job
    assert copy.deepcopy(job) is job


def test_carried_function_is_a_method_where_a_function_is() -> None:
    """A carried function in a class gets the instance."""

    class Holder:
        method = ctx.carry(lambda self, value: (self, value))
        static = staticmethod(ctx.carry(lambda value: value))

    holder = Holder()
    assert holder.method(1) == (holder, 1)
    assert Holder.method(holder, 2) == (holder, 2)
    assert holder.static(3) == 3


def test_carry_of_a_static_method_stays_one() -> None:
    """A static method that is carried is one still."""
    assert isinstance(ctx.carry(staticmethod(jobs.seen)), staticmethod)


def test_carry_that_cannot_be_pickled_says_so_by_the_function() -> None:
    """A carried function that has no name to be found by fails as it would by itself."""

    def local() -> None: ...

    with pytest.raises((AttributeError, pickle.PicklingError)) as plain:
        pickle.dumps(local)
    with pytest.raises((AttributeError, pickle.PicklingError)) as carried:
        pickle.dumps(ctx.carry(local))
    assert (type(carried.value), str(carried.value)) == (type(plain.value), str(plain.value))
