"""Many turns, and many threads at once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

import ctxruntime as ctx

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


MILLION_TURNS = """
import gc, tracemalloc
import ctxruntime as ctx

def run(turns):
    for number in range(turns):
        with ctx.session(gateway_session_key="k", user_id="u"), ctx.bind(frontend="f"):
            ctx.amend(session_id=f"s{number}")

gc.collect()
gc.disable()
tracemalloc.start()
run(10_000)  # fills the interpreter's free lists
before = tracemalloc.get_traced_memory()[0]
run(1_000_000)
grown = tracemalloc.get_traced_memory()[0] - before
tracemalloc.stop()
print(grown, gc.collect())
"""


def test_a_million_turns_grow_nothing() -> None:
    """A million turns in sequence, with a bind and an amend in each, leave no memory and no cycle uncollected."""
    # In a process of its own: threads of other packages' pytest plugins allocate too.
    output = subprocess.run([sys.executable, "-c", MILLION_TURNS], capture_output=True, text=True, check=True).stdout
    grown, cycles = map(int, output.split())

    assert grown < 1000
    assert cycles < 20


def serve(number: int, pool: ThreadPoolExecutor, closers: ThreadPoolExecutor, chance: random.Random) -> None:
    """Serve one turn with everything that can go wrong, and see only one's own session everywhere."""
    own = f"s{number}"
    scope = ctx.session(gateway_session_key=f"k{number}")
    turn = scope.open()
    snapshot = ctx.capture()
    job = pool.submit(ctx.carry(ctx.GATEWAY_SESSION_KEY.get))
    pool.submit(snapshot.run, ctx.amend, session_id=own).result()
    assert ctx.SESSION_ID.get() == own
    with ctx.bind(session_id=f"child-{number}"):
        assert pool.submit(ctx.carry(ctx.SESSION_ID.get)).result() == f"child-{number}"
        assert turn.get(ctx.SESSION_ID) == own
    assert job.result() == f"k{number}"
    if chance.random() < 0.5:
        closers.submit(scope.close).result()
    else:
        scope.close()
    assert dict(ctx.current()) == {}
    with snapshot:
        assert ctx.SESSION_ID.get() == own
    assert turn.ended


def test_sessions_never_mix_under_load() -> None:
    """For twenty seconds, turns on eight threads over shared pools never read a session other than their own."""
    end = time.monotonic() + 20
    served = 0
    lock = threading.Lock()

    def work(seed: int) -> None:
        nonlocal served
        chance = random.Random(seed)
        number = seed * 1_000_000
        while time.monotonic() < end:
            number += 1
            copy_context().run(serve, number, pool, closers, chance)
        with lock:
            served += number - seed * 1_000_000

    with ThreadPoolExecutor(4) as pool, ThreadPoolExecutor(2) as closers, ThreadPoolExecutor(8) as workers:
        for future in [workers.submit(work, seed) for seed in range(8)]:
            future.result()

    assert served > 1000
