"""The lock that threads and tasks queue for together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ctxruntime.conversation import turnstile
from ctxruntime.conversation.turnstile import Turnstile

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def lock() -> Iterator[Turnstile]:
    lock = Turnstile()
    yield lock
    assert lock.is_free


def waiting(lock: Turnstile) -> int:
    return len(lock._waiting)


def until(claim: Callable[[], bool]) -> None:
    while not claim():
        threading.Event().wait(0.001)


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def run_in_thread(work: Callable[[], Any]) -> Any:
    seen: list[Any] = []
    in_thread(lambda: seen.append(work())).join(10)
    return seen[0]


def test_a_free_lock_is_taken_at_once(lock: Turnstile) -> None:
    """It is taken by whoever comes, tried for or waited for, and is free again when it is released."""
    assert lock.is_free
    assert lock.try_acquire()
    assert not lock.is_free
    assert not lock.try_acquire()
    lock.release()
    lock.acquire()
    assert not run_in_thread(lock.try_acquire)
    lock.release()


def test_threads_and_tasks_have_one_queue(lock: Turnstile) -> None:
    """First come first served, whether it is a thread that waits, or a task of one loop or of another."""
    served: list[int] = []

    def by_thread(number: int) -> None:
        lock.acquire()
        served.append(number)
        lock.release()

    def by_task(number: int) -> None:
        async def main() -> None:
            await lock.acquire_async()
            served.append(number)
            lock.release()

        asyncio.run(main())

    lock.acquire()
    threads: list[threading.Thread] = []
    for number, way in enumerate([by_thread, by_task, by_thread, by_task, by_task, by_thread]):
        threads.append(in_thread(lambda way=way, number=number: way(number)))
        until(lambda: waiting(lock) == len(threads))
    lock.release()
    for thread in threads:
        thread.join(10)

    assert served == list(range(6))


def test_tasks_of_one_loop_are_served_in_order(lock: Turnstile) -> None:
    """Tasks that came while it was held get it one after the other, and nobody who comes later gets in between."""
    served: list[int] = []

    async def take(number: int) -> None:
        await lock.acquire_async()
        served.append(number)
        await asyncio.sleep(0)
        lock.release()

    async def main() -> None:
        await lock.acquire_async()
        tasks = [asyncio.create_task(take(number)) for number in range(20)]
        await asyncio.sleep(0)
        lock.release()
        assert not lock.try_acquire()
        await asyncio.gather(*tasks)

    asyncio.run(main())

    assert served == list(range(20))


def test_only_one_is_in_at_a_time(lock: Turnstile) -> None:
    """Threads and tasks that increment what is no atomic counter lose no increment."""
    count = [0]

    def increment() -> None:
        before = count[0]
        threading.Event().wait(0.0001)
        count[0] = before + 1

    def by_threads() -> None:
        for _ in range(50):
            lock.acquire()
            increment()
            lock.release()

    async def by_task() -> None:
        for _ in range(10):
            await lock.acquire_async()
            increment()
            await asyncio.sleep(0)
            lock.release()

    async def main() -> None:
        await asyncio.gather(*(by_task() for _ in range(5)))

    threads = [in_thread(by_threads) for _ in range(4)] + [in_thread(lambda: asyncio.run(main())) for _ in range(2)]
    for thread in threads:
        thread.join(20)

    assert count == [4 * 50 + 2 * 5 * 10]


def test_a_task_that_is_cancelled_leaves_the_queue(lock: Turnstile) -> None:
    """Who waits no more is passed over."""

    async def main() -> None:
        await lock.acquire_async()
        first, second = (asyncio.create_task(lock.acquire_async()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        assert waiting(lock) == 1
        lock.release()
        await second
        lock.release()

    asyncio.run(main())


def test_who_is_cancelled_with_the_lock_in_hand_passes_it_on(lock: Turnstile) -> None:
    """A task that was handed the lock, and is cancelled before it runs, gives it to the next."""

    async def main() -> None:
        await lock.acquire_async()
        first, second = (asyncio.create_task(lock.acquire_async()) for _ in range(2))
        await asyncio.sleep(0)
        lock.release()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await asyncio.wait_for(second, 5)
        lock.release()

    asyncio.run(main())


def test_who_is_cancelled_after_it_was_woken_passes_it_on(lock: Turnstile) -> None:
    """The same where the loop has taken note already that the task may go on."""

    async def main() -> None:
        await lock.acquire_async()
        first = asyncio.create_task(lock.acquire_async())
        await asyncio.sleep(0)
        lock.release()
        asyncio.get_running_loop().call_soon(first.cancel)  # right after what wakes it
        with pytest.raises(asyncio.CancelledError):
            await first
        assert lock.is_free

    asyncio.run(main())


def test_who_waits_on_a_closed_loop_is_passed_over(lock: Turnstile) -> None:
    """A waiter whose event loop was closed gets nothing, and the next one does."""
    loop = asyncio.new_event_loop()
    lock.acquire()
    lost = run_in_thread(lambda: begin(loop, lock.acquire_async()))
    loop.close()
    taken = threading.Event()  # by a thread that may well have the ended one's number
    thread = in_thread(lambda: (lock.acquire(), taken.set()))
    until(lambda: waiting(lock) == 2)
    lock.release()

    assert taken.wait(10)
    thread.join(10)
    lost.close()
    assert not lock.is_free  # it was passed over, and has nothing to pass on
    lock.release()


def begin(loop: asyncio.AbstractEventLoop, work: Any) -> Any:
    """Take the first step of a coroutine on a loop that is never run again."""

    async def main() -> None:
        work.send(None)

    loop.run_until_complete(main())
    return work


def test_a_thread_that_would_wait_for_itself_is_told(lock: Turnstile) -> None:
    """Taking it twice in one thread raises, and does not wait for ever."""
    lock.acquire()
    with pytest.raises(RuntimeError, match="this thread would wait for itself"):
        lock.acquire()
    lock.release()


def test_a_task_that_would_wait_for_itself_is_told(lock: Turnstile) -> None:
    """Taking it twice in one task raises; another task of the loop waits."""

    async def main() -> None:
        await lock.acquire_async()
        with pytest.raises(RuntimeError, match="this task would wait for itself"):
            await lock.acquire_async()
        other = asyncio.create_task(lock.acquire_async())
        await asyncio.sleep(0)
        lock.release()
        await other
        lock.release()

    asyncio.run(main())


def test_what_runs_an_event_loop_with_the_lock_in_hand_is_told(lock: Turnstile) -> None:
    """A thread that took it, and then runs a loop, would never come to release it: the task is told."""
    lock.acquire()
    with pytest.raises(RuntimeError, match="what runs its event loop"):
        asyncio.run(lock.acquire_async())
    lock.release()


def test_blocking_a_loop_that_holds_it_is_refused(lock: Turnstile) -> None:
    """A plain `acquire` in a coroutine, while another task of the loop holds the lock, raises."""

    async def main() -> None:
        await lock.acquire_async()
        with pytest.raises(RuntimeError, match="use `async with`"):
            await asyncio.create_task(blocking())
        lock.release()

    async def blocking() -> None:
        lock.acquire()

    asyncio.run(main())


def test_blocking_a_loop_that_is_to_have_it_is_refused(lock: Turnstile) -> None:
    """So it does while a task of the loop is in the queue for what another thread holds: it would never run again."""
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        lock.acquire()
        held.set()
        let_go.wait(10)
        lock.release()

    async def main() -> None:
        queued = asyncio.create_task(lock.acquire_async())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="use `async with`"):
            lock.acquire()
        let_go.set()
        await queued
        lock.release()

    thread = in_thread(hold)
    assert held.wait(10)
    asyncio.run(main())
    thread.join(10)


def test_it_can_be_released_from_elsewhere(lock: Turnstile) -> None:
    """What one thread took another may release, and then take."""
    lock.acquire()
    in_thread(lock.release).join(10)
    lock.acquire()
    lock.release()


def test_an_interrupted_thread_leaves_the_queue(lock: Turnstile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread whose wait is interrupted, in the moment in which it is handed the lock, passes it on."""

    class Interrupted:
        def set(self) -> None: ...

        def wait(self) -> None:
            lock.release()
            raise KeyboardInterrupt

    def wait() -> bool:
        with pytest.raises(KeyboardInterrupt):
            lock.acquire()
        return lock.is_free

    lock.acquire()
    monkeypatch.setattr(turnstile, "threading", SimpleNamespace(Event=Interrupted, get_ident=threading.get_ident))

    assert run_in_thread(wait)


def test_under_trio_waiting_is_refused(lock: Turnstile) -> None:
    """Tasks of trio cannot queue here: they are told so, also while the lock is free."""
    trio = pytest.importorskip("trio")
    with pytest.raises(RuntimeError, match="no running event loop"):
        trio.run(lock.acquire_async)
