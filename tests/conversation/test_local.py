"""Objects for each conversation, in this process."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

import ctxruntime as ctx
from ctxruntime.conversation import (
    Bridge,
    ConversationLocal,
    MemoryStore,
    NoConversationError,
    StoreUnavailableError,
    local,
    notices,
    use,
)
from ctxruntime.conversation.turnstile import Turnstile

pytestmark = pytest.mark.timeout(60)


class Thing:
    """What a plugin keeps: it knows how often it was cleaned up."""

    made = 0

    def __init__(self) -> None:
        self.cleaned = 0
        Thing.made += 1

    def clean(self) -> None:
        self.cleaned += 1


@pytest.fixture
def things() -> ConversationLocal[Thing]:
    return ConversationLocal(Thing, cleanup=Thing.clean)


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    bridge = Bridge()
    with use(bridge):
        yield bridge


class Clock:
    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(local, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def until(claim: Callable[[], bool]) -> None:
    while not claim():
        threading.Event().wait(0.001)


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def in_threads(many: int, work: Callable[[], object]) -> None:
    threads = [in_thread(work) for _ in range(many)]
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def waiting(things: ConversationLocal[Any], id: str) -> int:
    return len(things._kept[id].lock._waiting)


# Whose object it is


def test_each_conversation_has_its_own(bridge: Bridge, things: ConversationLocal[Thing]) -> None:
    """By key, by id and after a rotation it is the same object, in another conversation another one."""
    with ctx.session(gateway_session_key="chat"):
        kept = things.get()
        ctx.amend(session_id="s1")
        assert things.get() is kept
        bridge.rotate("s1", "s2", continues=True)
        ctx.amend(session_id="s2")
        assert things.get() is kept
        with ctx.bind(session_id="child"):
            assert things.get() is not kept
    with ctx.session(session_id="other"):
        assert things.get() is not kept

    assert things.get(bridge.resolve(session_id="s1")) is things.get(bridge.resolve(session_id="s2").id) is kept
    assert len(things) == 3


def test_without_a_conversation_there_is_none(things: ConversationLocal[Thing]) -> None:
    """Outside any turn, and without a bridge in use, it says to enter a session; a conversation may be named."""

    async def enter() -> None:
        async with things.locked():
            pass

    for call in (things.get, things.discard, things.locked().__enter__, lambda: asyncio.run(enter())):
        with pytest.raises(NoConversationError, match=r"a ConversationLocal needs a conversation.*session"):
            call()
        with use(Bridge()), pytest.raises(NoConversationError, match="session"):
            call()
    assert things.get("c1") is things.get("c1")


def test_the_bounds_are_checked() -> None:
    """A time to live above 0, and room for one at least."""
    for bounds in ({"ttl": 0}, {"ttl": float("nan")}, {"max_size": 0}):
        with pytest.raises(ValueError, match="ttl is a number of seconds above 0"):
            ConversationLocal(Thing, **bounds)  # type: ignore[arg-type]  # what is checked


def test_asking_for_the_conversation_does_not_block_the_loop() -> None:
    """Where the conversation has to be asked for, `async with` waits for the store in another thread."""
    threads: set[int] = set()

    class Slow:
        blocks = True

        def __init__(self) -> None:
            self.memory = MemoryStore()

        def look(self, *args: Any) -> Any:
            threads.add(threading.get_ident())
            return self.memory.look(*args)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.memory, name)

    things = ConversationLocal(Thing)
    loop_thread = threading.get_ident()

    async def main() -> None:
        async with things.locked() as thing:
            assert thing is things.get()

    with ctx.session(session_id="s1"), use(Bridge(cast("Any", Slow()))):
        asyncio.run(main())
    assert threads
    assert loop_thread not in threads


def test_a_store_that_fails_is_the_callers_to_know() -> None:
    """Where the conversation has to be asked for, and the store fails, its error is raised and nothing is built."""

    class Down:
        blocks = False

        def look(self, *args: Any) -> Any:
            raise StoreUnavailableError("the store", "did not answer", "start it")

    things = ConversationLocal(Thing)
    with use(Bridge(cast("Any", Down()))), ctx.session(session_id="s1"), pytest.raises(StoreUnavailableError):
        things.get()
    assert len(things) == 0


# Building


def test_it_is_built_once_whoever_asks_at_once() -> None:
    """Of threads that ask at one time one builds, and all have its object."""
    built: list[object] = []
    started = threading.Event()

    def build() -> object:
        started.wait(10)
        built.append(object())
        return built[-1]

    things = ConversationLocal(build)
    seen: list[object] = []
    threads = [in_thread(lambda: seen.append(things.get("c1"))) for _ in range(8)]
    started.set()
    for thread in threads:
        thread.join(10)

    assert seen == built * 8
    assert len(built) == 1


def test_a_factory_that_fails_is_tried_again() -> None:
    """Its error reaches whoever asked, nothing is kept, and the next one who asks builds."""
    failing = [True]

    def build() -> str:
        if failing:
            raise LookupError("no browser")
        return "built"

    things = ConversationLocal(build)
    with pytest.raises(LookupError, match="no browser"):
        things.get("c1")
    with pytest.raises(LookupError, match="no browser"), things.locked("c1"):
        pass
    assert things._kept == {}
    failing.clear()

    assert things.get("c1") == "built"
    with things.locked("c1") as thing:
        assert thing == "built"


def test_who_waits_for_what_cannot_be_built_builds_it(things: ConversationLocal[Thing]) -> None:
    """A failure is that of one caller: those in the queue behind it try anew."""
    tries: list[int] = []

    def build() -> int:
        tries.append(1)
        until(lambda: waiting(numbers, "c1") == 2 or len(tries) > 1)
        if len(tries) == 1:
            raise LookupError("no browser")
        return len(tries)

    numbers = ConversationLocal(build)
    seen: list[object] = []

    def take() -> None:
        try:
            with numbers.locked("c1") as number:
                seen.append(number)
        except LookupError:
            seen.append("failed")

    in_threads(3, take)

    assert seen == ["failed", 2, 2]


def test_a_factory_may_use_another_conversations_object() -> None:
    """Also where there is room for one: what is being built is not pushed out."""
    things: ConversationLocal[list[Any]] = ConversationLocal(lambda: built(), max_size=1)
    depth: list[int] = []

    def built() -> list[Any]:
        depth.append(1)
        return [things.get("c2")] if len(depth) == 1 else ["inner"]

    assert things.get("c1") == [["inner"]]


# Alone with it


def test_locked_is_first_come_first_served(bridge: Bridge, things: ConversationLocal[Thing]) -> None:
    """Threads and tasks queue together for the object of a conversation, and each has it alone."""
    conversation = bridge.resolve(session_id="s1")
    served: list[int] = []
    inside: list[int] = []

    def by_thread(number: int) -> None:
        with ctx.session(session_id="s1"), things.locked():
            enter(number)

    def by_task(number: int) -> None:
        async def main() -> None:
            async with ctx.session(session_id="s1"), things.locked():
                enter(number)
                await asyncio.sleep(0.001)

        asyncio.run(main())

    def enter(number: int) -> None:
        inside.append(number)
        assert inside == [number]
        served.append(number)
        inside.clear()

    threads: list[threading.Thread] = []
    with things.locked(conversation):
        for number, way in enumerate([by_thread, by_task, by_task, by_thread]):
            threads.append(in_thread(lambda way=way, number=number: way(number)))
            until(lambda: waiting(things, conversation.id) == len(threads))
        with things.locked("another"):
            pass
    for thread in threads:
        thread.join(10)

    assert served == [0, 1, 2, 3]


def test_waiting_for_oneself_is_refused(things: ConversationLocal[Thing]) -> None:
    """The same thread, the same task, and a plain `with` on the loop of the holder raise; the lock stays as it was."""

    async def main() -> None:
        async with things.locked("c1"):
            with pytest.raises(RuntimeError, match="this task would wait"):
                async with things.locked("c1"):
                    pass
            with pytest.raises(RuntimeError, match="use `async with`"):
                await asyncio.create_task(plainly())

    async def plainly() -> None:
        with things.locked("c1"):
            pass

    with things.locked("c1"), pytest.raises(RuntimeError, match="this thread would wait"), things.locked("c1"):
        pass
    asyncio.run(main())
    assert things._kept["c1"].lock.is_free


def test_one_locked_object_serves_many_conversations(bridge: Bridge, things: ConversationLocal[Thing]) -> None:
    """What `locked()` returned can be kept, and entered by turns of different conversations at once."""
    lock = things.locked()

    async def turn(number: int) -> None:
        async with ctx.session(session_id=f"s{number}"), lock as thing:
            assert thing is things.get()
            await asyncio.sleep(0.01 if number % 2 else 0.001)
            conversation = bridge.resolve(session_id=f"s{number}").id
            assert not things._kept[conversation].lock.is_free

    async def main() -> None:
        await asyncio.gather(*(turn(number % 4) for number in range(16)))

    asyncio.run(main())
    assert all(kept.lock.is_free for kept in things._kept.values())
    with ctx.session(session_id="a"), lock as outer, ctx.bind(session_id="b"), lock as inner:
        assert outer is not inner
    assert all(kept.lock.is_free for kept in things._kept.values())


def test_the_lock_is_released_when_the_body_fails(things: ConversationLocal[Thing]) -> None:
    """An exception, or a cancellation, in the body leaves nobody locked out; and leaving twice is harmless."""

    async def cancelled() -> None:
        async with things.locked("c1"):
            raise asyncio.CancelledError

    with pytest.raises(ZeroDivisionError), things.locked("c1"):
        raise ZeroDivisionError
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    lock = things.locked("c1")
    with lock:
        lock.__exit__(None, None, None)
        assert things._kept["c1"].lock.is_free


# Dropping


def discard(things: ConversationLocal[Thing], bridge: Bridge) -> None:
    things.discard(bridge.resolve(gateway_session_key="chat"))


def forget(things: ConversationLocal[Thing], bridge: Bridge) -> None:
    bridge.forget(gateway_session_key="chat")


def lose_a_merge(things: ConversationLocal[Thing], bridge: Bridge) -> None:
    things.get(bridge.resolve(session_id="s1"))
    bridge.resolve(gateway_session_key="chat", session_id="s1")


WAYS = [discard, forget, lose_a_merge]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_dropped_is_cleaned_up_once(bridge: Bridge, things: ConversationLocal[Thing], way: Any) -> None:
    """An object that nobody uses is cleaned up at once, and never again."""
    thing = things.get(bridge.resolve(gateway_session_key="chat"))
    way(things, bridge)
    assert thing.cleaned == 1
    discard(things, bridge)
    assert things.get(bridge.resolve(gateway_session_key="chat")) is not thing
    assert thing.cleaned == 1


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_dropped_while_locked_is_cleaned_up_when_it_is_released(
    bridge: Bridge, things: ConversationLocal[Thing], way: Any
) -> None:
    """Nobody loses an object in use; those who queued for it have the new one, and find the old one cleaned up."""
    seen: list[Thing] = []

    def queue() -> None:
        with ctx.session(gateway_session_key="chat"), things.locked() as thing:
            seen.append(thing)

    chat = bridge.resolve(gateway_session_key="chat")
    with things.locked(chat) as thing:
        kept = things._kept[chat.id]
        thread = in_thread(queue)
        until(lambda: len(kept.lock._waiting) == 1)
        way(things, bridge)
        assert thing.cleaned == 0
    thread.join(10)

    assert thing.cleaned == 1
    assert thing not in seen
    assert [one.cleaned for one in seen] == [0]


def test_what_is_dropped_is_cleaned_up_if_the_last_waiter_gives_up(things: ConversationLocal[Thing]) -> None:
    """A task that is handed the lock of a dropped object, and cancelled in the same moment, leaves no object behind."""

    async def wait() -> None:
        async with things.locked("c1"):
            pytest.fail("it was cancelled")

    async def main() -> Thing:
        scope = things.locked("c1")
        async with scope as thing:
            kept = things._kept["c1"]
            first = asyncio.create_task(wait())
            await asyncio.sleep(0)
            until(lambda: len(kept.lock._waiting) == 1)
        first.cancel()
        things.discard("c1")  # while the lock is handed to who will not take it
        assert thing.cleaned == 0
        with pytest.raises(asyncio.CancelledError):
            await first
        return thing

    assert asyncio.run(main()).cleaned == 1


def test_what_is_dropped_in_the_moment_of_its_release_is_cleaned_up(things: ConversationLocal[Thing]) -> None:
    """Whoever lets go looks again afterwards: a drop that found it locked has left the cleanup to it."""

    class DroppedMeanwhile(Turnstile):  # type: ignore[misc]  # final, to all but a test of one moment
        def release(self) -> None:
            things.discard("c1")
            cleaned.append(thing.cleaned)
            super().release()

    thing, cleaned = things.get("c1"), list[int]()
    things._kept["c1"].lock = DroppedMeanwhile()  # type: ignore[misc]  # as above
    with things.locked("c1") as locked:
        assert locked is thing
    assert (cleaned[0], thing.cleaned) == (0, 1)


def test_what_is_dropped_while_it_is_built_is_cleaned_up() -> None:
    """A discard during the factory is of the object that it makes: whoever asked has a new one."""
    building, go_on = threading.Event(), threading.Event()
    made: list[Thing] = []

    def build() -> Thing:
        made.append(Thing())
        building.set()
        assert go_on.wait(10)
        return made[-1]

    things = ConversationLocal(build, cleanup=Thing.clean)
    seen: list[Thing] = []
    asking = in_thread(lambda: seen.append(things.get("c1")))
    assert building.wait(10)
    kept = things._kept["c1"]
    dropping = in_thread(lambda: things.discard("c1"))
    until(lambda: kept.gone)
    go_on.set()
    asking.join(10)
    dropping.join(10)

    assert [thing.cleaned for thing in made] == [1, 0]
    assert seen == [made[1]]


def test_an_idle_object_is_dropped_at_the_next_use_of_any(clock: Clock) -> None:
    """What nobody used for its time is gone, its own conversation's next use included; what was used is kept."""
    things = ConversationLocal(Thing, ttl=10, cleanup=Thing.clean)
    one, two = things.get("c1"), things.get("c2")
    clock.now += 9
    assert things.get("c2") is two
    clock.now += 1
    three = things.get("c3")
    assert (one.cleaned, two.cleaned, three.cleaned, len(things)) == (1, 0, 0, 2)
    clock.now += 10
    assert things.get("c2") is not two
    assert (one.cleaned, two.cleaned, three.cleaned, len(things)) == (1, 1, 1, 1)


def test_the_time_of_an_object_begins_when_its_lock_is_released(clock: Clock) -> None:
    """What is locked is not idle, however long; and one that is idle behind it is dropped all the same."""
    things = ConversationLocal(Thing, ttl=10, cleanup=Thing.clean)
    with things.locked("c1") as one:
        two = things.get("c2")
        clock.now += 100
        things.get("c3")
        assert (one.cleaned, two.cleaned) == (0, 1)
        four = things.get("c4")
        clock.now += 9
    assert things.get("c1") is one
    clock.now += 2
    things.get("c5")
    assert (one.cleaned, four.cleaned) == (0, 1)


def test_the_longest_unused_are_pushed_out() -> None:
    """Beyond the room there is, the object that was used the longest ago goes, never one that is locked."""
    things = ConversationLocal(Thing, max_size=2, cleanup=Thing.clean)
    one, two = things.get("c1"), things.get("c2")
    assert things.get("c1") is one
    three = things.get("c3")
    assert (one.cleaned, two.cleaned, three.cleaned) == (0, 1, 0)
    with things.locked("c1"):
        four, five = things.get("c4"), things.get("c5")
        assert (one.cleaned, three.cleaned, four.cleaned, five.cleaned, len(things)) == (0, 1, 1, 0, 2)


def test_with_room_for_one_everything_works(bridge: Bridge) -> None:
    """Locked objects are kept beside the one that there is room for, and the surplus goes at the next use."""
    things = ConversationLocal(Thing, max_size=1, cleanup=Thing.clean)
    with things.locked("c1") as one:
        two = things.get("c2")
        assert things.get("c2") is two
        with things.locked("c3") as three:
            assert things.get("c2") is not two
            assert (one.cleaned, two.cleaned, three.cleaned) == (0, 1, 0)
            assert things.get("c1") is one
    four = things.get("c4")
    assert (one.cleaned, three.cleaned, four.cleaned, len(things)) == (1, 1, 0, 1)


def test_a_cleanup_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Each error of a cleanup is logged, with its traceback, and harms nobody; no object is cleaned up again."""
    cleaned: list[object] = []

    def fail(thing: object) -> None:
        cleaned.append(thing)
        raise ZeroDivisionError("no cleanup")

    things = ConversationLocal(object, cleanup=fail)
    both = [things.get("c1"), things.get("c2")]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            things.discard("c1")
            things.discard("c2")

    assert cleaned == both
    assert [record.name for record in caplog.records] == ["ctxruntime"] * 2
    assert all("conversation" in record.getMessage() and record.exc_info for record in caplog.records)


def test_an_interrupted_cleanup_keeps_no_other_from_being_cleaned_up(clock: Clock) -> None:
    """What is no exception of the cleanup's passes, after the other objects that go have been cleaned up."""
    cleaned: list[Thing] = []

    def interrupted(thing: Thing) -> None:
        cleaned.append(thing)
        raise KeyboardInterrupt

    things = ConversationLocal(Thing, ttl=10, cleanup=interrupted)
    both = [things.get("c1"), things.get("c2")]
    clock.now += 10
    with pytest.raises(KeyboardInterrupt):
        things.get("c3")
    assert cleaned == both


def test_a_cleanup_sees_no_turn(bridge: Bridge) -> None:
    """It may run in the turn of another conversation, and would take that for its own."""
    seen: list[dict[str, object]] = []
    things = ConversationLocal(object, max_size=1, cleanup=lambda _: seen.append(dict(ctx.current())))
    for session_id in ("s1", "s2"):
        with ctx.session(session_id=session_id):
            things.get()
            assert ctx.SESSION_ID.get() == session_id

    assert seen == [{}]


def test_a_cleanup_may_use_the_local(bridge: Bridge) -> None:
    """No lock is held that it could need: it may get the object of the same conversation, which is a new one."""
    renewed: list[Thing] = []
    things = ConversationLocal(Thing, cleanup=lambda _: renewed.append(things.get("c1")))
    with things.locked("c1") as thing:
        things.discard("c1")
    assert renewed == [things.get("c1")]
    assert thing not in renewed


# Following


def test_an_object_goes_over_where_two_become_one(bridge: Bridge, things: ConversationLocal[Thing]) -> None:
    """Where the conversation that stays has none, it has the object of the other, also while that is locked."""
    chat = bridge.resolve(gateway_session_key="chat")
    with ctx.session(gateway_session_key="chat"), things.locked() as thing:
        kept = bridge.resolve(session_id="s1")
        bridge.resolve(gateway_session_key="chat", session_id="s1")
        assert things.get() is things.get(kept) is thing
        assert not things._kept[kept.id].lock.is_free

    assert chat.id not in things._kept
    assert (things.get(kept), thing.cleaned) == (thing, 0)


def test_of_two_objects_that_of_the_conversation_that_stays_is_kept(
    bridge: Bridge, things: ConversationLocal[Thing]
) -> None:
    """Where both have one the other is cleaned up, and both conversations' turns have the one that stays."""
    lost = things.get(bridge.resolve(gateway_session_key="chat"))
    stays = things.get(bridge.resolve(session_id="s1"))
    with ctx.session(gateway_session_key="chat"):
        bridge.resolve(gateway_session_key="chat", session_id="s1")
        assert things.get() is stays

    assert (lost.cleaned, stays.cleaned) == (1, 0)


def test_an_object_is_found_by_what_became_part_of_another(bridge: Bridge, things: ConversationLocal[Thing]) -> None:
    """Whoever found the conversation just before two became one, or holds its value, gets the object of the one."""
    early = bridge.resolve(gateway_session_key="chat")
    middle = bridge.resolve(session_id="s1")
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    last = bridge.resolve(session_id="s0")
    bridge.rotate("s0", "s1", continues=True)
    thing = things.get(last)

    assert things.get(early) is things.get(early.id) is things.get(middle) is thing
    with things.locked(early) as locked:
        assert locked is thing
    things.discard(early)
    assert len(things) == 0


def test_what_became_part_of_another_is_remembered_within_bounds(bridge: Bridge) -> None:
    """Of merges the newest thousand are known: enough for who was just about to use one of the two."""
    assert notices.kept_of("unknown") == "unknown"
    for number in range(notices.REMEMBERED + 5):
        other = bridge.resolve(gateway_session_key=f"chat-{number}")
        kept = bridge.resolve(session_id=f"s{number}")
        assert notices.kept_of(other.id) == other.id
        bridge.resolve(gateway_session_key=f"chat-{number}", session_id=f"s{number}")
        assert notices.kept_of(other.id) == kept.id

    assert len(notices._MERGED) == notices.REMEMBERED == 1000


def test_an_object_that_is_not_built_yet_is_no_object(bridge: Bridge) -> None:
    """Where the conversation that stays is only about to have one, the other's goes over, and nothing is lost."""
    building, go_on = threading.Event(), threading.Event()
    made: list[Thing] = []

    def build() -> Thing:
        made.append(Thing())
        if len(made) == 2:
            building.set()
            assert go_on.wait(10)
        return made[-1]

    things = ConversationLocal(build, cleanup=Thing.clean)
    moving, stays = things.get(bridge.resolve(gateway_session_key="chat")), bridge.resolve(session_id="s1")
    seen: list[Thing] = []
    asking = in_thread(lambda: seen.append(things.get(stays)))
    assert building.wait(10)
    merging = in_thread(lambda: bridge.resolve(gateway_session_key="chat", session_id="s1"))
    until(lambda: stays.id in things._kept and things._kept[stays.id].object is moving)
    go_on.set()
    asking.join(10)
    merging.join(10)

    assert seen == [moving]
    assert [thing.cleaned for thing in made] == [0, 1]


def test_an_object_ends_when_its_conversation_expires(things: ConversationLocal[Thing]) -> None:
    """What the bridge finds to be expired has its object cleaned up."""
    clock = [1_000_000.0]
    bridge = Bridge(MemoryStore(clock=lambda: clock[0]), ttl=100)
    with use(bridge):
        with ctx.session(session_id="s1"):
            thing = things.get()
        clock[0] += 1000
        with ctx.session(session_id="s2"):
            pass
        assert thing.cleaned == 1


# Threads, processes and memory


def test_nothing_is_lost_or_cleaned_up_twice(bridge: Bridge) -> None:
    """Threads that get, lock, discard, forget and push out at once: of all objects made, each is cleaned up once."""
    made: list[Thing] = []
    counting = threading.Lock()

    def build() -> Thing:
        with counting:
            made.append(Thing())
            return made[-1]

    def clean(thing: Thing) -> None:
        with counting:
            thing.cleaned += 1

    things = ConversationLocal(build, max_size=2, cleanup=clean)
    inside: list[Thing] = []

    def work() -> None:
        for number in range(150):
            name = f"c{number % 4}"
            with things.locked(name) as thing:
                assert thing.cleaned == 0
                with counting:
                    assert thing not in inside
                    inside.append(thing)
                if number % 7 == 0:
                    things.discard(name)
                    assert thing.cleaned == 0
                with counting:
                    inside.remove(thing)
            things.get(f"c{number % 3}")
            if number % 5 == 0:
                things.discard(f"c{number % 2}")

    def as_tasks() -> None:
        async def task(number: int) -> None:
            for count in range(30):
                try:
                    async with asyncio.timeout(0.001 if count % 5 == 0 else 10), things.locked(f"c{number}") as thing:
                        assert thing.cleaned == 0
                        await asyncio.sleep(0)
                        things.discard(f"c{number}")
                        await asyncio.sleep(0)
                        assert thing.cleaned == 0
                except TimeoutError:
                    pass

        async def main() -> None:
            await asyncio.gather(*(task(number % 4) for number in range(8)))

        asyncio.run(main())

    errors: list[BaseException] = []

    def checked(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # it is raised again below
            errors.append(error)

    threads = [in_thread(lambda: checked(work)) for _ in range(4)]
    threads += [in_thread(lambda: checked(as_tasks)) for _ in range(2)]
    for thread in threads:
        thread.join(50)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    for number in range(4):
        things.discard(f"c{number}")

    assert {thing.cleaned for thing in made} == {1}
    assert things._kept == {}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_starts_with_none() -> None:
    """The objects are the parent's, and so are the locks: the child is not blocked by one, and cleans nothing up."""
    things = ConversationLocal(Thing, cleanup=Thing.clean)
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with things.locked("c1"):
            held.set()
            let_go.wait(30)

    thread = in_thread(hold)
    assert held.wait(10)
    thing = things.get("c1")
    mine = things.locked("c2")
    mine.__enter__()
    child = os.fork()
    if child == 0:  # pragma: no cover  # another process
        try:
            assert len(things) == 0
            mine.__exit__(None, None, None)
            with things.locked("c1") as other:
                assert other is not thing
            things.discard("c1")
            assert (thing.cleaned, other.cleaned) == (0, 1)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    mine.__exit__(None, None, None)
    let_go.set()
    thread.join(10)

    assert os.waitstatus_to_exitcode(status) == 0
    assert things.get("c1") is thing


def test_a_local_that_nobody_holds_is_collected() -> None:
    """It is known to nobody but its owner, and there is no cycle in it: no collector is needed."""
    things = ConversationLocal(Thing, cleanup=Thing.clean)
    things.get("c1")
    with things.locked("c2"):
        pass
    gc.collect()
    gc.disable()
    try:
        gone = weakref.ref(things)
        del things
        assert gone() is None
    finally:
        gc.enable()
