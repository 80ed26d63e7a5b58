"""What a bridge promises around its rules: bounds, expiry, names, several bridges at once, and who is told."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from threading import Barrier, Thread
from typing import Any

import pytest

from ctxruntime.conversation import bridge as bridge_module
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import StoreBusyError, StoreCorruptError
from ctxruntime.conversation.notices import watch
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores import MemoryStore, Store
from ctxruntime.conversation.stores.base import FOREVER, KEY, SESSION, Change, Doc, Row
from ctxruntime.errors import InvalidValueError

Timed = Callable[[], tuple[MemoryStore, list[float]]]


def write(bridge: Bridge, conversation: Conversation, name: str = "notes", **items: object) -> None:
    """Write a document of a conversation."""
    doc = Doc(os.urandom(8), json.dumps(items))
    assert bridge.store.put_doc(bridge.namespace, conversation.id, name, doc, None) is True


def read(bridge: Bridge, conversation: Conversation, name: str = "notes") -> object:
    """Return the items of a document; None where its conversation is gone."""
    doc = bridge.store.get_doc(bridge.namespace, conversation.id, name)
    return None if doc is None else json.loads(doc.body)


# Bounds


def test_the_newest_ids_and_keys_are_kept(store: Store, namespace: str) -> None:
    """Of more ids, or keys, than a conversation may have the oldest are let go: they lead nowhere."""
    bridge = Bridge(store, namespace, max_ids=3)
    for number in range(5):
        talk = bridge.rotate("s0" if not number else f"s{number - 1}", f"s{number}", continues=True)
    for number in range(5):
        talk = bridge.resolve(gateway_session_key=f"k{number}", session_id="s4")

    assert talk.session_ids == ("s2", "s3", "s4")
    assert talk.gateway_keys == ("k2", "k3", "k4")
    assert bridge.find(session_id="s1") is bridge.find(gateway_session_key="k1") is None
    assert [*bridge.conversations()] == [talk]


def test_two_that_become_one_keep_the_newest_ids(store: Store, namespace: str) -> None:
    """A merge goes no further than the bound, either."""
    bridge = Bridge(store, namespace, max_ids=2)
    bridge.rotate("s1", "s2", continues=True, gateway_session_key="chat")
    for key in ("phone", "desk"):
        bridge.resolve(gateway_session_key=key, session_id="s3")

    told = bridge.rotate("s2", "s3", continues=True)

    assert (told.session_ids, told.gateway_keys) == (("s2", "s3"), ("phone", "desk"))
    assert bridge.find(session_id="s1") is bridge.find(gateway_session_key="chat") is None


def test_memory_keeps_the_last_used() -> None:
    """Of more conversations than fit in memory the one that was longest unused goes, with all of it."""
    bridge = Bridge(MemoryStore(3))
    talks = [bridge.resolve(gateway_session_key=f"k{number}", session_id=f"s{number}") for number in range(3)]
    bridge.resolve(session_id="s0")

    fourth = bridge.resolve(session_id="s3")

    assert {*bridge.conversations()} == {talks[0], talks[2], fourth}
    assert bridge.find(gateway_session_key="k1") is bridge.find(session_id="s1") is None
    assert bridge.resolve(gateway_session_key="k1", session_id="s1") != talks[1]


def test_the_bounds_are_sensible() -> None:
    """A bridge that could keep nothing is refused where it is made."""
    for wrong in ({"ttl": 0}, {"ttl": -1}, {"ttl": float("nan")}, {"max_ids": 0}):
        with pytest.raises(ValueError, match="ttl is a number of seconds above 0, or None; max_ids is at least 1"):
            Bridge(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_conversations is at least 1"):
        MemoryStore(0)


# Expiry


def test_a_conversation_lives_for_its_time_after_its_last_use(memory: Timed) -> None:
    """It is there for `ttl` seconds after the last resolve, and gone at 9/8 of it."""
    store, clock = memory()
    bridge = Bridge(store, ttl=800)
    talk = bridge.resolve(gateway_session_key="chat", session_id="s1")

    clock[0] += 899
    assert bridge.find(session_id="s1") == talk
    clock[0] += 1

    assert bridge.find(session_id="s1") is bridge.find(gateway_session_key="chat") is bridge.get(talk.id) is None
    assert [*bridge.conversations()] == []
    assert bridge.resolve(session_id="s1") != talk


@pytest.mark.parametrize("by", ["key", "id", "both", "parent", "rotate", "switch"])
def test_each_use_prolongs(memory: Timed, by: str) -> None:
    """Whatever uses a conversation, it lives for its whole time from then on."""
    store, clock = memory()
    bridge = Bridge(store, ttl=800)
    talk = bridge.resolve(gateway_session_key="chat", session_id="s1")
    use: dict[str, Callable[[], Conversation]] = {
        "key": lambda: bridge.resolve(gateway_session_key="chat"),
        "id": lambda: bridge.resolve(session_id="s1"),
        "both": lambda: bridge.resolve(gateway_session_key="chat", session_id="s1"),
        "parent": lambda: bridge.resolve(session_id="child", parent_session_id="s1"),
        "rotate": lambda: bridge.rotate("s1", "s2", continues=True),
        "switch": lambda: bridge.rotate("s0", "s1", continues=False, gateway_session_key="chat"),
    }

    clock[0] += 700
    use[by]()
    clock[0] += 800

    assert bridge.find(session_id="s1") == bridge.find(gateway_session_key="chat") == bridge.get(talk.id) == talk


def test_a_use_writes_once_in_an_eighth_of_the_time(memory: Timed) -> None:
    """Uses within `ttl / 8` of the last write write nothing; the next one does."""
    store, clock = memory()
    bridge = Bridge(store, ttl=800)
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    [(_, first)] = store.rows("default")

    for _ in range(10):
        clock[0] += 10
        bridge.resolve(gateway_session_key="chat", session_id="s1")
    assert [row for _, row in store.rows("default")] == [first]

    clock[0] += 1
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    assert [row.expires for _, row in store.rows("default")] == [clock[0] + 900]


def test_what_another_takes_from_prolongs_nothing(memory: Timed) -> None:
    """A conversation that loses a key or an id to another was not used by that."""
    store, clock = memory()
    bridge = Bridge(store, ttl=800)
    old = bridge.rotate("s1", "s2", continues=True, gateway_session_key="chat")
    clock[0] += 500

    bridge.resolve(gateway_session_key="chat", session_id="s3")
    bridge.rotate("s3", "s2", continues=True)

    assert bridge.get(old.id).refs == [(SESSION, "s1")]  # type: ignore[union-attr]
    assert dict(store.rows("default"))[old.id].expires == clock[0] + 400


def test_finding_prolongs_nothing(memory: Timed) -> None:
    """Who only looks, by whatever, does not keep a conversation alive."""
    store, clock = memory()
    bridge = Bridge(store, ttl=800)
    talk = bridge.resolve(gateway_session_key="chat", session_id="s1")
    [(_, before)] = store.rows("default")

    clock[0] += 890
    assert bridge.find(session_id="s1") == bridge.find(gateway_session_key="chat") == bridge.get(talk.id) == talk
    assert bridge.find(gateway_session_key="chat", session_id="s1") == talk

    assert [*store.rows("default")] == [(talk.id, before)]


def test_documents_prolong_nothing(memory: Timed) -> None:
    """What is kept for a conversation goes with it, however late it was written."""
    store, clock = memory()
    bridge = Bridge(store, ttl=800)
    talk = bridge.resolve(session_id="s1")
    clock[0] += 890
    write(bridge, talk, a=1)
    clock[0] += 10

    assert read(bridge, talk) is None


def test_without_an_end_a_conversation_stays(memory: Timed) -> None:
    """With `ttl=None` nothing ever expires, and nothing is prolonged."""
    store, clock = memory()
    bridge = Bridge(store, ttl=None)
    talk = bridge.resolve(session_id="s1")
    [(_, before)] = store.rows("default")

    clock[0] += 1e9

    assert bridge.resolve(session_id="s1") == talk
    assert [row for _, row in store.rows("default")] == [before]
    assert before.expires == FOREVER


@pytest.mark.parametrize("ttl", [float("inf"), 1e300, 1e13], ids=str)
def test_a_time_that_no_clock_reaches_is_for_ever(store: Store, namespace: str, ttl: float) -> None:
    """A conversation that is to live longer than a store can count has no end, and is not written again for it."""
    bridge = Bridge(store, namespace, ttl=ttl)
    talk = bridge.resolve(gateway_session_key="chat", session_id="s1")
    before = store.look(namespace, (), [talk.id])[2]
    assert before[talk.id].expires == FOREVER

    assert bridge.resolve(gateway_session_key="chat", session_id="s1") == talk

    assert store.look(namespace, (), [talk.id])[2] == before


def test_an_id_of_what_has_expired_is_free(memory: Timed) -> None:
    """A session id whose conversation has expired belongs to whoever is bound to it next."""
    store, clock = memory()
    bridge = Bridge(store, ttl=800)
    old = bridge.resolve(gateway_session_key="chat", session_id="s1")
    clock[0] += 900

    fresh = bridge.resolve(gateway_session_key="phone", session_id="s1")

    assert fresh != old
    assert (fresh.gateway_keys, fresh.session_ids) == (("phone",), ("s1",))
    assert bridge.find(gateway_session_key="chat") is None


# What is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda bridge: bridge.resolve(), "takes a gateway_session_key, a session_id, or both"),
        (lambda bridge: bridge.resolve(parent_session_id="s1"), "a parent is a session_id's"),
        (lambda bridge: bridge.resolve(gateway_session_key="k", parent_session_id="s1"), "a parent is a session_id's"),
        (lambda bridge: bridge.find(), "takes a gateway_session_key, a session_id, or both"),
        (lambda bridge: bridge.rotate(None, None, continues=False), "takes the old session id, or"),
        (lambda bridge: bridge.rotate(None, "s1", continues=True), "takes the old session id, or"),
        (lambda bridge: bridge.forget(), "one of them"),
        (lambda bridge: bridge.forget(session_id="s1", gateway_session_key="k"), "one of them"),
        (lambda bridge: bridge.forget(bridge.resolve(session_id="s1"), session_id="s1"), "one of them"),
    ],
)
def test_too_little_or_too_much_is_a_type_error(bridge: Bridge, call: Callable[[Bridge], object], message: str) -> None:
    """A call that does not say which conversation it means is told what to give."""
    with pytest.raises(TypeError, match=message):
        call(bridge)


BAD = ["", "a\nb", "\0", "\x7f", "\ud800", "x" * 1025, 7, b"s1", ["s1"]]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: ascii(bad)[:12])
def test_what_is_no_name_is_refused(bridge: Bridge, bad: Any) -> None:
    """A key or an id is 1 to 1024 characters of clean text, wherever it is given; nothing is made of another."""
    calls: list[Callable[[], object]] = [
        lambda: bridge.resolve(session_id=bad),
        lambda: bridge.resolve(gateway_session_key=bad),
        lambda: bridge.resolve(gateway_session_key="chat", session_id=bad),
        lambda: bridge.resolve(gateway_session_key=bad, session_id="s1"),
        lambda: bridge.resolve(session_id="s1", parent_session_id=bad),
        lambda: bridge.find(session_id=bad),
        lambda: bridge.find(gateway_session_key=bad),
        lambda: bridge.rotate(bad, "s2", continues=True),
        lambda: bridge.rotate("s1", bad, continues=False),
        lambda: bridge.rotate("s1", "s2", continues=True, gateway_session_key=bad),
        lambda: bridge.forget(session_id=bad),
        lambda: bridge.forget(gateway_session_key=bad),
        lambda: Bridge(namespace=bad),
    ]

    for call in calls:
        with pytest.raises(InvalidValueError) as refused:
            call()
        assert str(bad) not in str(refused.value) or len(str(bad)) < 3
    assert [*bridge.conversations()] == []


@pytest.mark.parametrize("name", ["x" * 1024, "🔑" * 1024, "a b", "é", "e\u0301", "{}:%", "\u00a0", "'"], ids=ascii)
def test_what_is_a_name_is_kept_as_it_is(bridge: Bridge, name: str) -> None:
    """Any clean text is a key, an id, and a namespace, and comes back as it was given."""
    talk = bridge.resolve(gateway_session_key=name, session_id=name)
    elsewhere = Bridge(bridge.store, name)

    found = bridge.find(gateway_session_key=name)
    assert found == talk
    assert (found.gateway_keys, found.session_ids) == ((name,), (name,))
    elsewhere.forget(session_id=name)
    assert elsewhere.find(session_id=name) is None


# Namespaces, and several bridges


def test_namespaces_are_apart(store: Store, namespace: str) -> None:
    """Equal keys and ids in two namespaces of a store are two conversations."""
    one, other = Bridge(store, namespace), Bridge(store, f"{namespace}-other")

    first = one.resolve(gateway_session_key="chat", session_id="s1")

    assert other.find(gateway_session_key="chat") is other.get(first.id) is None
    second = other.resolve(gateway_session_key="chat", session_id="s1")
    assert second != first
    assert other.forget(first) is False
    assert other.forget(second) is True
    assert one.find(session_id="s1") == first


def test_bridges_over_one_store_agree(store: Store, namespace: str) -> None:
    """What one bridge was told, another over the same store knows at once."""
    one, other = Bridge(store, namespace), Bridge(store, namespace)
    talk = one.resolve(gateway_session_key="chat", session_id="s1")
    assert other.resolve(gateway_session_key="chat", session_id="s1") == talk

    one.rotate("s1", "s2", continues=True)
    seen = other.resolve(gateway_session_key="chat")

    assert (seen, seen.session_ids) == (talk, ("s1", "s2"))
    other.forget(session_id="s2")
    assert one.find(gateway_session_key="chat") is None


def test_a_bridge_has_a_store_of_its_own_by_default() -> None:
    """Without a store a bridge is alone, in memory; with a URL it opens that."""
    one, other = Bridge(), Bridge("memory:")

    one.resolve(session_id="s1")

    assert other.find(session_id="s1") is None
    assert {type(one.store), type(other.store)} == {MemoryStore}
    assert Bridge(one.store).find(session_id="s1") is not None


def test_many_threads_agree_on_one_conversation(store: Store, namespace: str) -> None:
    """Of threads that see a chat and its session at the same time each has the same conversation."""
    barrier = Barrier(6)
    seen: list[set[Conversation]] = []

    def serve() -> None:
        bridge = Bridge(store, namespace)
        barrier.wait(30)
        seen.append({bridge.resolve(gateway_session_key=f"k{each}", session_id=f"s{each}") for each in range(10)})

    threads = [Thread(target=serve, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(seen) == 6
    assert {frozenset(each) for each in seen} == {frozenset(Bridge(store, namespace).conversations())}
    assert len(seen[0]) == 10


class Contended:
    """A store where another commits first, as often as told."""

    blocks = False

    def __init__(self, store: Store, losses: float) -> None:
        self._store = store
        self.losses = losses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, namespace: str, change: Change) -> bool:
        """Refuse, or do it."""
        self.losses -= 1
        return self.losses < 0 and self._store.commit(namespace, change)


def test_a_step_is_taken_again_until_it_is_done() -> None:
    """What others changed meanwhile is looked at again, and the step is done on that."""
    store = Contended(MemoryStore(), 5)

    talk = Bridge(store).resolve(gateway_session_key="chat", session_id="s1")

    assert store.losses == -1
    assert Bridge(store).find(session_id="s1") == talk


def test_a_store_that_is_never_done_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some time a step is given up, and nothing was done."""
    monkeypatch.setattr(bridge_module, "PATIENCE", 0.02)
    bridge = Bridge(Contended(MemoryStore(), float("inf")))

    with pytest.raises(StoreBusyError, match="changed by others again and again: try again") as busy:
        bridge.resolve(session_id="s1")

    assert isinstance(busy.value, ConnectionError)
    assert [*bridge.conversations()] == []


@pytest.mark.parametrize("record", ["", "{}", "[]", "null", '{"keys":["chat"]}', "not JSON", "7"])
def test_a_record_that_is_none_is_a_damaged_store(bridge: Bridge, record: str) -> None:
    """What another program wrote there is not taken for a conversation, and not overwritten."""
    row = Row(b"12345678", FOREVER, record)
    change = Change({}, {}, {}, {"c1": row}, (), {(KEY, "chat"): "c1", (SESSION, "s1"): "c1"}, (), {})
    assert bridge.store.commit(bridge.namespace, change) is True

    for call in (
        lambda: bridge.resolve(gateway_session_key="chat"),
        lambda: bridge.resolve(gateway_session_key="chat", session_id="s1"),
        lambda: bridge.find(session_id="s1"),
        lambda: bridge.get("c1"),
        lambda: bridge.rotate("s1", "s2", continues=True),
        lambda: [*bridge.conversations()],
    ):
        with pytest.raises(StoreCorruptError, match="holds a record of conversation c1 that is none: move it away"):
            call()
    assert [*bridge.store.rows(bridge.namespace)] == [("c1", row)]


# Event loops


def test_the_async_twins_do_the_same(bridge: Bridge) -> None:
    """On an event loop each operation has a twin, with the same answer."""

    async def program() -> tuple[object, ...]:
        talk = await bridge.aresolve(gateway_session_key="chat", session_id="s1")
        child = await bridge.aresolve(session_id="c1", parent_session_id="s1")
        rotated = await bridge.arotate("s1", "s2", continues=True, reason="compression")
        found = await bridge.afind(gateway_session_key="chat")
        branched = await bridge.arotate("s2", "s3", continues=False, gateway_session_key="chat", branch=True)
        assert talk == rotated == found
        assert child.parent == branched.parent == talk.id
        assert bridge.find(gateway_session_key="chat") == branched
        return await bridge.aforget(talk), await bridge.aforget(session_id="s3"), await bridge.aforget(session_id="s1")

    assert asyncio.run(program()) == (True, True, False)


def test_a_store_that_blocks_is_not_called_on_the_loop() -> None:
    """A store that may take its time is called in a thread; one in memory is called at once."""
    callers: list[bool] = []

    class Noting(Contended):
        blocks = True

        def look(self, *args: Any) -> Any:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                callers.append(False)
            else:
                callers.append(True)
            return self._store.look(*args)

    store = Noting(MemoryStore(), 0)
    for blocks in (True, False):
        store.blocks = blocks
        asyncio.run(Bridge(store).afind(session_id="s1"))

    assert callers == [False, True]


# Who is told


class Watcher:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def merged(self, kept: Conversation, other: Conversation) -> None:
        """Note it."""
        self.told.append(("merged", kept.id, other.id, kept.session_ids))

    def ended(self, conversation: Conversation) -> None:
        """Note it."""
        self.told.append(("ended", conversation.id))


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    """Return a watcher that is told."""
    watcher = Watcher()
    stop = watch(watcher)
    yield watcher
    stop()
    stop()


def test_a_merge_is_told(bridge: Bridge, watcher: Watcher) -> None:
    """Who keeps things per conversation is told which became part of which, as it is afterwards."""
    kept = bridge.resolve(session_id="s1")
    begun = bridge.resolve(session_id="s2")
    assert watcher.told == []

    bridge.rotate("s1", "s2", continues=True)
    assert watcher.told == [("merged", kept.id, begun.id, ("s1", "s2"))]

    chat = bridge.resolve(gateway_session_key="chat")
    bridge.resolve(gateway_session_key="chat", session_id="s2")
    assert watcher.told[1:] == [("merged", kept.id, chat.id, ("s1", "s2"))]


def test_what_is_forgotten_is_told(bridge: Bridge, watcher: Watcher) -> None:
    """A conversation that is forgotten has ended, once."""
    talk = bridge.resolve(session_id="s1")

    bridge.forget(talk)
    bridge.forget(talk)

    assert watcher.told == [("ended", talk.id)]


def test_what_cannot_be_reached_any_more_is_told(bridge: Bridge, watcher: Watcher) -> None:
    """A conversation that lost its last key, and had no id, has ended."""
    early = bridge.resolve(gateway_session_key="chat")

    bridge.rotate(None, "s1", continues=False, gateway_session_key="chat")

    assert watcher.told == [("ended", early.id)]


def test_what_has_expired_is_told(memory: Timed, watcher: Watcher) -> None:
    """That a conversation has expired is told when another is written; one that lives is not told."""
    store, clock = memory()
    bridge = Bridge(store, ttl=800)
    old = bridge.resolve(session_id="old")
    used = bridge.resolve(session_id="used")
    clock[0] += 200
    Bridge(store, ttl=800).resolve(session_id="used")  # as another process would prolong it
    clock[0] += 750

    bridge.resolve(session_id="new")

    assert watcher.told == [("ended", old.id)]
    assert bridge.find(session_id="used") == used
    bridge.resolve(session_id="newer")
    assert watcher.told == [("ended", old.id)]


def test_who_fails_when_told_breaks_nothing(bridge: Bridge, watcher: Watcher) -> None:
    """A watcher that raises costs neither the caller nor those who are told after it."""

    class Failing:
        def merged(self, kept: Conversation, other: Conversation) -> None:
            raise RuntimeError

        def ended(self, conversation: Conversation) -> None:
            raise RuntimeError

    stop, late = watch(Failing()), Watcher()
    stop_late = watch(late)
    try:
        talk = bridge.resolve(session_id="s1")
        assert bridge.forget(talk) is True
    finally:
        stop()
        stop_late()

    assert watcher.told == late.told == [("ended", talk.id)]
    bridge.resolve(session_id="s1")
    bridge.forget(session_id="s1")
    assert len(late.told) == 1


def test_what_cannot_be_told_costs_nothing_that_was_done(
    memory: Timed, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that fails while it is looked for what has expired does not make a failure of what is committed."""
    store, clock = memory()
    bridge = Bridge(store, ttl=80)
    old = bridge.resolve(session_id="s1")
    clock[0] += 100
    look = store.look

    def failing(namespace: str, refs: Any, ids: Any = ()) -> Any:
        if ids:
            raise StoreBusyError("the store", "is busy", "try again")
        return look(namespace, refs, ids)

    monkeypatch.setattr(store, "look", failing)
    talk = bridge.resolve(session_id="s2")
    assert (talk.current, watcher.told) == ("s2", [])

    monkeypatch.undo()
    bridge.resolve(session_id="s3")
    assert watcher.told == [("ended", old.id)]
