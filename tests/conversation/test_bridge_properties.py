"""Whatever is done to a bridge, in whatever order its steps fall, is what a simple sequential model says.

The model is written from the rules in the documentation, and shares nothing with the code but the names.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Semaphore, Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores import MemoryStore, Store, open_store
from ctxruntime.conversation.stores.base import Doc

KEYS = ("k1", "k2", "k3")
IDS = ("A", "B", "C", "D", "E")
NAMES = ("notes", "cart")
MAX_IDS = 2


@dataclass(eq=False)
class Talk:
    """A conversation in the model."""

    keys: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    docs: dict[str, dict[str, int]] = field(default_factory=dict)
    parent: Talk | None = None
    inherited: str | None = None
    root: Talk = field(init=False)

    def __post_init__(self) -> None:
        self.root = self

    @property
    def key(self) -> str | None:
        """The key bound last, or its parent's."""
        return self.keys[-1] if self.keys else self.inherited

    def ancestors(self, living: list[Talk]) -> Iterator[Talk]:
        """Yield its parent, its parent's parent and so on, as far as they live."""
        talk = self.parent
        while talk is not None and talk in living:
            yield talk
            talk = talk.parent


class Model:
    """All conversations, one operation at a time."""

    def __init__(self) -> None:
        self.talks: list[Talk] = []

    def of_key(self, key: str | None) -> Talk | None:
        """Return the conversation that lists this key."""
        return next((talk for talk in self.talks if key in talk.keys), None)

    def of_id(self, id: str | None) -> Talk | None:
        """Return the conversation that lists this session id."""
        return next((talk for talk in self.talks if id in talk.ids), None)

    def find(self, key: str | None, id: str | None) -> Talk | None:
        """Look up by the id if there is one, else by the key."""
        return self.of_id(id) if id is not None else self.of_key(key)

    def resolve(self, key: str | None, id: str | None, parent: str | None) -> Talk:
        """Look up, or bind."""
        if parent is not None:
            assert id is not None
            return self.sub_agent(id, parent, key)
        if key is not None and id is not None:
            return self.bind(key, id)
        found = self.find(key, id)
        if found is None:
            found = self.made()
            if key is not None:
                found.keys.append(key)
            if id is not None:
                found.ids.append(id)
        return found

    def bind(self, key: str, id: str) -> Talk:
        """Say that this chat is in this session now."""
        talk, half = self.of_id(id), self.of_key(key)
        if talk is None:
            talk = half if half is not None and not half.ids else self.made()
        elif half is not None and half is not talk and not half.ids and not talk.keys and talk.parent is None:
            self.absorb(talk, half)
        self.take_id(talk, id)
        self.take_key(talk, key)
        return talk

    def sub_agent(self, id: str, parent: str, key: str | None) -> Talk:
        """Find or make the conversation of a sub-agent, and that of its parent."""
        above = self.resolve(None, parent, None)
        talk = self.resolve(None, id, None)
        if talk.parent is None and above is not talk and talk not in above.ancestors(self.talks):
            talk.parent = above
        if talk.parent is above:
            talk.root, talk.inherited = above.root, talk.inherited or above.key or key
        return talk

    def rotate(self, old: str | None, new: str | None, key: str | None) -> Talk:
        """Say that a conversation goes on under another id."""
        talk = self.resolve(key, old, None)
        if new is not None:
            other = self.of_id(new)
            if other is not None and other is not talk and other.ids == [new]:
                self.absorb(talk, other)
            self.take_id(talk, new)
        return talk

    def switch(self, old: str | None, new: str | None, key: str | None, branch: bool) -> Talk:
        """Say that a key is in another conversation now."""
        before = self.of_id(old)
        if key is None and before is not None and before.ids[-1] == old and len(before.keys) == 1:
            [key] = before.keys
        half = self.of_key(key)
        told = new is None and before is not None and half is not None and not half.ids  # told already, that is
        talk = half if told else self.of_id(new)
        if talk is None:
            talk = self.made()
            if branch and before is not None:
                talk.parent, talk.root, talk.inherited = before, before.root, before.key
        if new is not None:
            self.take_id(talk, new)
        if key is not None:
            self.take_key(talk, key)
        return talk

    def forget(self, key: str | None, id: str | None) -> bool:
        """Remove a conversation; tell whether there was one."""
        talk = self.find(key, id)
        if talk is not None:
            self.talks.remove(talk)
        return talk is not None

    def write(self, talk: Talk, name: str, item: str, value: int) -> bool:
        """Set an item of a document; tell whether its conversation was there."""
        if talk not in self.talks:
            return False
        talk.docs.setdefault(name, {})[item] = value
        return True

    def made(self) -> Talk:
        """Make a conversation."""
        talk = Talk()
        self.talks.append(talk)
        return talk

    def take_id(self, talk: Talk, id: str) -> None:
        """Make this id the current one of a conversation, which it belongs to from now on."""
        before = self.of_id(id)
        if before is not None:
            before.ids.remove(id)
            self.drop_unreachable(before, talk)
        talk.ids.append(id)
        del talk.ids[:-MAX_IDS]

    def take_key(self, talk: Talk, key: str) -> None:
        """Make this key the newest one of a conversation, which it belongs to from now on."""
        before = self.of_key(key)
        if before is not None:
            before.keys.remove(key)
            self.drop_unreachable(before, talk)
        talk.keys.append(key)
        del talk.keys[:-MAX_IDS]

    def drop_unreachable(self, talk: Talk, but: Talk) -> None:
        """Remove a conversation that has nothing left that points to it."""
        if talk is not but and not talk.keys and not talk.ids:
            self.talks.remove(talk)

    def absorb(self, talk: Talk, other: Talk) -> None:
        """Make another conversation part of this one, whose items win."""
        talk.keys += other.keys
        talk.ids += other.ids
        del talk.keys[:-MAX_IDS]
        del talk.ids[:-MAX_IDS]
        for name, items in other.docs.items():
            talk.docs[name] = {**items, **talk.docs.get(name, {})}
        self.talks.remove(other)


Op = tuple[Any, ...]
State = frozenset[tuple[Any, ...]]


def in_model(model: Model, op: Op, held: list[Talk | None]) -> object:
    """Do an operation in the model; return what it answers."""
    match op:
        case "resolve", key, id, parent:
            answer = model.resolve(key, id, parent)
        case "rotate", old, new, key:
            answer = model.rotate(old, new, key)
        case "switch", old, new, key, branch:
            answer = model.switch(old, new, key, branch)
        case "forget", key, id:
            return model.forget(key, id)
        case "hold", key, id:
            held[0] = found = model.find(key, id)
            return found and (tuple(found.keys), tuple(found.ids), found.key)
        case "write", name, item, value:
            return held[0] is not None and model.write(held[0], name, item, value)
    return tuple(answer.keys), tuple(answer.ids), answer.key


def in_bridge(bridge: Bridge, op: Op, held: list[Conversation | None]) -> object:
    """Do an operation in a bridge; return what it answers."""
    match op:
        case "resolve", key, id, parent:
            answer = bridge.resolve(gateway_session_key=key, session_id=id, parent_session_id=parent)
        case "rotate", old, new, key:
            answer = bridge.rotate(old, new, continues=True, gateway_session_key=key)
        case "switch", old, new, key, branch:
            answer = bridge.rotate(old, new, continues=False, gateway_session_key=key, branch=branch)
        case "forget", key, id:
            return bridge.forget(gateway_session_key=key, session_id=id)
        case "hold", key, id:
            held[0] = found = bridge.find(gateway_session_key=key, session_id=id)
            return found and (found.gateway_keys, found.session_ids, found.gateway_key)
        case "write", name, item, value:
            return held[0] is not None and written(bridge, held[0].id, name, {item: value})
    return answer.gateway_keys, answer.session_ids, answer.gateway_key


def written(bridge: Bridge, id: str, name: str, items: dict[str, int]) -> bool:
    """Set items of a document, however often others write it meanwhile; tell whether its conversation is there."""
    while True:
        doc = bridge.store.get_doc(bridge.namespace, id, name)
        if doc is None:
            return False
        body = json.dumps({**json.loads(doc.body), **items})
        done = bridge.store.put_doc(bridge.namespace, id, name, Doc(os.urandom(8), body), doc.version)
        if done is not False:
            return bool(done)


def state_of_model(model: Model) -> State:
    """Return all that can be seen of the model."""

    def named(talk: Talk | None) -> object:
        return talk and ("gone" if talk not in model.talks else (tuple(talk.keys), tuple(talk.ids)))

    return frozenset(
        (named(talk), talk.key, named(talk.parent), named(talk.root), frozen(talk.docs)) for talk in model.talks
    )


def state_of_bridge(bridge: Bridge) -> State:
    """Return all that can be seen through a bridge, where each key and id leads to the conversation that lists it."""
    all = {each.id: each for each in bridge.conversations()}
    for key in KEYS:
        assert bridge.find(gateway_session_key=key) == only(each for each in all.values() if key in each.gateway_keys)
    for id in IDS:
        assert bridge.find(session_id=id) == only(each for each in all.values() if id in each.session_ids)

    def named(id: str | None) -> object:
        return id and ("gone" if id not in all else (all[id].gateway_keys, all[id].session_ids))

    return frozenset(
        (
            named(each.id),
            each.gateway_key,
            named(each.parent),
            named(each.root),
            frozen({name: json.loads(doc.body) for name, doc in bridge.store.docs(bridge.namespace, each.id).items()}),
        )
        for each in all.values()
    )


def only(candidates: Iterable[Conversation]) -> Conversation | None:
    """Return the one that there is, or None if there is none."""
    found = [*candidates]
    assert len(found) < 2
    return found[0] if found else None


def frozen(docs: dict[str, dict[str, int]]) -> frozenset[tuple[str, frozenset[tuple[str, int]]]]:
    """Return documents as a value."""
    return frozenset((name, frozenset(items.items())) for name, items in docs.items())


def operations(keys: Sequence[str], ids: Sequence[str]) -> st.SearchStrategy[Op]:
    """Return what draws an operation; which of them say enough is decided by `is_clear`."""
    key, id = st.sampled_from([None, *keys]), st.sampled_from([None, *ids])
    op: st.SearchStrategy[Op] = st.one_of(
        st.tuples(st.just("resolve"), key, id, st.none()),
        st.tuples(st.just("resolve"), key, id, id),
        st.tuples(st.just("rotate"), id, id, key),
        st.tuples(st.just("switch"), id, id, key, st.booleans()),
        st.tuples(st.just("forget"), key, id),
        st.tuples(st.just("hold"), key, id),
        st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from("xy"), st.integers(0, 99)),
    )
    return op.filter(is_clear)


def is_clear(op: Op) -> bool:
    """Tell whether an operation says which conversation it means."""
    match op:
        case "resolve", key, id, parent:
            return id is not None or (key is not None and parent is None)
        case "rotate", old, _, key:
            return old is not None or key is not None
        case "switch", _, new, key, _:
            return new is not None or key is not None
        case "forget" | "hold", key, id:
            return (key is None) != (id is None)
    return True


def check_sequence(bridge: Bridge, ops: list[Op], *, each: bool) -> None:
    """Do the same in the model and in the bridge, and compare: after each operation, or at the end."""
    model = Model()
    talks: list[Talk | None] = [None]
    held: list[Conversation | None] = [None]
    for op in ops:
        assert in_bridge(bridge, op, held) == in_model(model, op, talks), op
        if each:
            assert state_of_bridge(bridge) == state_of_model(model), op
    assert state_of_bridge(bridge) == state_of_model(model)


@given(st.lists(operations(KEYS, IDS), max_size=25))
@settings(max_examples=500, deadline=None)
def test_any_sequence_is_what_the_model_says(ops: list[Op]) -> None:
    """Each operation answers what the model answers, and leaves what the model leaves."""
    check_sequence(Bridge(MemoryStore(), max_ids=MAX_IDS), ops, each=True)


@given(ops=st.lists(operations(KEYS, IDS), max_size=25))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_is_the_same_on_every_store(store: Store, ops: list[Op]) -> None:
    """What the model says, each store says."""
    check_sequence(Bridge(store, f"tests-{os.urandom(4).hex()}", max_ids=MAX_IDS), ops, each=False)


class Stepped:
    """A store where each call waits for its turn: what is between two calls cannot be told apart from outside."""

    blocks = False

    def __init__(self, store: Store, wait: Callable[[], None]) -> None:
        self._store = store
        self._wait = wait

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def called(*args: Any) -> Any:
            self._wait()
            return method(*args)

        return called


class Schedule:
    """Three programs in threads of which one runs at a time, changed at each `wait` as was drawn."""

    def __init__(self, picks: list[int], programs: Sequence[Callable[[Callable[[], None]], None]]) -> None:
        self._picks = iter(picks)
        self._back = Semaphore(0)
        self._go = [Semaphore(0) for _ in programs]
        self._alive = list(range(len(programs)))
        self._errors: list[BaseException] = []
        for number, program in enumerate(programs):
            Thread(target=self._live, args=(number, program), daemon=True).start()

    def run(self) -> None:
        """Run them all to their ends; once nothing is drawn any more, one after the other."""
        while self._alive:
            self._go[self._alive[next(self._picks, 0) % len(self._alive)]].release()
            assert self._back.acquire(timeout=30)
        assert self._errors == []

    def _live(self, number: int, program: Callable[[Callable[[], None]], None]) -> None:
        def wait() -> None:
            self._back.release()
            assert self._go[number].acquire(timeout=30)

        self._go[number].acquire(timeout=30)
        try:
            program(wait)
        except BaseException as error:  # noqa: BLE001 - a thread's failure is raised where it is waited for
            self._errors.append(error)
        finally:
            self._alive.remove(number)
            self._back.release()


@dataclass
class Done:
    """An operation of one process: what it answered, and when it began and ended."""

    op: Op
    answer: object
    began: int
    ended: int


def interleaved(store: Store, namespace: str, programs: Sequence[Sequence[Op]], picks: list[int]) -> list[list[Done]]:
    """Run each program on a bridge of its own, their store calls in the order drawn; return what each has done."""
    clock = itertools.count()
    histories: list[list[Done]] = [[] for _ in programs]

    def program(history: list[Done], ops: Sequence[Op]) -> Callable[[Callable[[], None]], None]:
        def run(wait: Callable[[], None]) -> None:
            bridge = Bridge(Stepped(store, wait), namespace, max_ids=MAX_IDS)
            held: list[Conversation | None] = [None]
            for op in ops:
                began = next(clock)
                answer = in_bridge(bridge, op, held)
                history.append(Done(op, answer, began, next(clock)))

        return run

    Schedule(picks, [program(*each) for each in zip(histories, programs, strict=True)]).run()
    return histories


def is_explained(histories: list[list[Done]], final: State, order: tuple[int, ...] = ()) -> bool:
    """Tell whether some sequence of the operations gives these answers and this state, as each process had them.

    An operation that ended before another began is before it in the sequence, too.
    """
    model = Model()
    held: list[list[Talk | None]] = [[None] for _ in histories]
    ahead = [iter(history) for history in histories]
    for process in order:
        done = next(ahead[process])
        if in_model(model, done.op, held[process]) != done.answer:
            return False
    left = {process: list(rest) for process, rest in enumerate(ahead)}
    waiting = {process: rest[0] for process, rest in left.items() if rest}
    if not waiting:
        return state_of_model(model) == final
    first_end = min(done.ended for done in waiting.values())
    return any(
        is_explained(histories, final, (*order, process))
        for process, done in waiting.items()
        if done.began <= first_end
    )


def check_interleaving(store: Store, programs: Sequence[Sequence[Op]], picks: list[int]) -> None:
    """Run them, and find a sequence that explains what came of it."""
    namespace = f"tests-{os.urandom(4).hex()}"
    histories = interleaved(store, namespace, programs, picks)
    final = state_of_bridge(Bridge(store, namespace, max_ids=MAX_IDS))
    assert is_explained(histories, final), (histories, final)


FEW = operations(KEYS[:2], IDS[:3])
PROGRAMS = st.tuples(*[st.lists(FEW, min_size=1, max_size=3)] * 3)
PICKS = st.lists(st.integers(0, 5), max_size=40)


@given(PROGRAMS, PICKS)
@settings(max_examples=400, deadline=None)
def test_any_interleaving_is_some_sequence(programs: Sequence[Sequence[Op]], picks: list[int]) -> None:
    """Whatever order the store calls of three processes fall in, it is as if each operation was done in one step."""
    check_interleaving(MemoryStore(), programs, picks)


@given(programs=PROGRAMS, picks=PICKS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_interleaving_is_some_sequence_in_a_file(
    tmp_path: Path, programs: Sequence[Sequence[Op]], picks: list[int]
) -> None:
    """So it is where the processes share a file."""
    store = open_store(f"sqlite:{tmp_path}/conversations.db")
    try:
        check_interleaving(store, programs, picks)
    finally:
        store.close()


@pytest.mark.parametrize("round", range(5))
def test_no_acknowledged_write_is_lost_in_a_merge(store: Store, namespace: str, round: int) -> None:
    """Items written one after the other, while their conversation becomes part of another, are all there."""
    bridge = Bridge(store, namespace)
    bridge.resolve(session_id="old")
    bridge.resolve(session_id="new")
    acknowledged: dict[str, int] = {}
    is_begun, is_merged = Event(), Event()

    def write() -> None:
        own = Bridge(store, namespace)
        for number in itertools.count():
            if written(own, own.resolve(session_id="new").id, "notes", {str(number): number}):
                acknowledged[str(number)] = number
            if number == 3 * round:
                is_begun.set()
            if is_merged.is_set():
                break

    writer = Thread(target=write, daemon=True)
    writer.start()
    is_begun.wait(30)
    merged = bridge.rotate("old", "new", continues=True)
    is_merged.set()
    writer.join(30)

    assert not writer.is_alive()
    assert json.loads(store.docs(namespace, merged.id)["notes"].body) == acknowledged


@given(PICKS)
@settings(max_examples=200, deadline=None)
def test_no_acknowledged_write_is_lost_wherever_a_merge_falls(picks: list[int]) -> None:
    """Wherever the steps of a merge fall between those of two writers, each item is there, and no more."""
    store = MemoryStore()
    bridge = Bridge(store)
    for id in ("A", "B"):
        written(bridge, bridge.resolve(session_id=id).id, "notes", {"begun": ord(id)})
    acknowledged: dict[str, int] = {"begun": ord("A")}

    def writer(number: int) -> Callable[[Callable[[], None]], None]:
        def run(wait: Callable[[], None]) -> None:
            own = Bridge(Stepped(store, wait))
            for item in range(number, number + 4):
                if written(own, own.resolve(session_id="B").id, "notes", {str(item): item}):
                    acknowledged[str(item)] = item

        return run

    def merger(wait: Callable[[], None]) -> None:
        Bridge(Stepped(store, wait)).rotate("A", "B", continues=True)

    Schedule(picks, [merger, writer(10), writer(20)]).run()

    notes = json.loads(store.docs("default", bridge.resolve(session_id="B").id)["notes"].body)
    assert notes == acknowledged
