"""State for each conversation: JSON that comes back equal, in atomic steps, on a store of every kind."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterator
from enum import IntEnum
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxruntime as ctx
from ctxruntime.conversation import (
    Bridge,
    Conversation,
    ConversationGoneError,
    ConversationState,
    MemoryStore,
    NoConversationError,
    StateTooLargeError,
    StoreBusyError,
    StoreCorruptError,
    state,
    use,
)
from ctxruntime.conversation.stores.base import Doc
from ctxruntime.errors import InvalidValueError

# What a state can hold


class Small(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


def here(bridge: Bridge, session_id: str = "s1") -> ConversationState:
    """Return a state of a conversation of this bridge, outside any turn."""
    return ConversationState("notes", bridge=bridge).at(bridge.resolve(session_id=session_id))


@pytest.fixture
def notes(bridge: Bridge) -> ConversationState:
    return here(bridge)


@pytest.fixture
def kept() -> ConversationState:
    """Return a state in memory."""
    return here(Bridge())


def nested(depth: int, around: Callable[[Any], Any] = lambda value: [value]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = around(value)
    return value


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(repr(one) == repr(other)) if isinstance(one, float) else bool(one == other)


TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates and control characters too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda values: st.lists(values, max_size=4) | st.dictionaries(TEXTS, values, max_size=4),
    max_leaves=20,
)


@given(items=st.dictionaries(TEXTS, VALUES, max_size=4))
def test_any_json_comes_back_equal_or_is_refused(items: dict[str, Any]) -> None:
    """Values and names of any nesting come back equal, of the same types; but for surrogates that JSON would join."""
    notes = here(Bridge())
    if PAIR.search(text_in(items)):
        with pytest.raises(InvalidValueError, match="surrogates"):
            notes.update(lambda kept: kept.update(items))
    else:
        notes.update(lambda kept: kept.update(items))
        assert is_same(dict(notes.items()), items)


PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def text_in(value: Any) -> str:
    """Return all text that is in a value."""
    if isinstance(value, dict):
        return "|".join(map(text_in, (*value, *value.values())))
    return "|".join(map(text_in, value)) if isinstance(value, list) else str(value)


KEPT = [
    *(None, True, False, 0, 1, -1, 1.0, -0.0, 1e308, 5e-324, 2**64, -(2**14_283), 10**4299),
    *("", "a\u0000b", "\ud800", "\udc00\ud800", "😀", "ä", "\n\x1f\x7f\u2028"),
    *([], {}, [[], {}], {"": {"\u0000": [None]}}, nested(64), nested(64, lambda value: {"a": value})),
]


@pytest.mark.parametrize("value", KEPT, ids=lambda value: ascii(value)[:20])
def test_json_comes_back_equal(notes: ConversationState, value: Any) -> None:
    """What JSON can hold comes back equal, of the same types, from a store of every kind."""
    notes["value"] = value
    notes.set("again", value)
    assert is_same(notes["value"], value)
    assert is_same(notes.items(), [("value", value), ("again", value)])


itself: list[Any] = []
itself.append(itself)
SECRET = "s3cr3t"

REFUSED = [
    *((1, 2), [(1,)], float("nan"), float("inf"), [float("-inf")], b"s3cr3t", {1, 2}, Small.ONE, Text(SECRET)),
    *({1: SECRET}, {"a": {Text("a"): SECRET}}, {None: 1}, itself, 10**4999, -(10**4999), object(), 1j),
    *("s3cr3t\ud83d\ude00", {"\ud83d\ude00": 1}, nested(65), nested(65, lambda value: {"a": value})),
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_anything_else_is_refused(kept: ConversationState, value: Any) -> None:
    """What would not come back equal is refused: the error names the name, shows no value, and nothing is changed."""
    kept["before"] = 1
    for refused in (value, [value], {"deep": [value]}):
        with pytest.raises(InvalidValueError, match=r"key 'the name' .*: give what JSON can hold") as caught:
            kept["the name"] = refused
        assert SECRET not in str(caught.value)
    assert kept.items() == [("before", 1)]


@pytest.mark.parametrize("name", [1, None, b"a", Text("a"), Small.ONE])
def test_names_are_text(kept: ConversationState, name: Any) -> None:
    """A name that is no text, or a subclass of it, is refused, and called by its type."""
    with pytest.raises(InvalidValueError, match=f"key {type(name).__name__!r} has a name that is no text"):
        kept[name] = 1
    assert kept.items() == []


def test_a_name_that_would_be_joined_is_refused(kept: ConversationState) -> None:
    """Two lone surrogates in a name are one character to JSON."""
    with pytest.raises(InvalidValueError, match="surrogates"):
        kept["\ud83d\ude00"] = 1


# A mapping


def test_it_is_a_mapping(notes: ConversationState) -> None:
    """Get, set, delete, pop, clear, length, membership and iteration are a dict's, in the order of setting."""
    assert (len(notes), list(notes), notes.items(), notes.get("a"), notes.get("a", 7)) == (0, [], [], None, 7)
    notes["a"], notes["b"], notes["c"] = 1, [2], None
    assert (len(notes), list(notes), notes.items()) == (3, ["a", "b", "c"], [("a", 1), ("b", [2]), ("c", None)])
    assert ("a" in notes, "z" in notes, 1 in notes) == (True, False, False)
    assert (notes["c"], notes.get("c", 7)) == (None, None)
    del notes["a"]
    assert (notes.pop("b"), notes.pop("b", "none"), list(notes)) == ([2], "none", ["c"])
    for call in (lambda: notes["a"], lambda: notes.__delitem__("a"), lambda: notes.pop("a")):
        with pytest.raises(KeyError, match="'a'"):
            call()
    notes.clear()
    assert (len(notes), notes.items()) == (0, [])


def test_what_is_returned_is_a_copy(notes: ConversationState) -> None:
    """Changing a value that was read, or that was set, changes nothing."""
    value = {"list": [1]}
    notes["a"] = value
    value["list"].append(2)
    notes["a"]["list"].append(3)
    dict(notes.items())["a"]["list"].append(4)
    notes.update(lambda items: items["a"]["list"])  # reads, and gives a copy out
    notes.update(lambda items: items["a"]["list"]).append(5)
    assert notes["a"] == {"list": [1]}


def test_update_returns_what_the_function_returns(notes: ConversationState) -> None:
    """The function changes the dict that it is given, and its result is the call's."""
    assert notes.update(lambda items: items.setdefault("lines", []).append("one")) is None
    assert notes.update(lambda items: len(items["lines"])) == 1
    marker = object()
    assert notes.update(lambda _: marker) is marker


def test_an_update_that_raises_changes_nothing(notes: ConversationState) -> None:
    """An error of the function, or a value that is refused, reaches the caller, and all is as it was."""
    notes["a"] = 1

    def failing(items: dict[str, Any]) -> None:
        items["a"] = 2
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        notes.update(failing)
    with pytest.raises(InvalidValueError):
        notes.update(lambda items: items.update(a=2, b=(1,)))
    assert notes.items() == [("a", 1)]


def test_updates_at_once_lose_none(notes: ConversationState) -> None:
    """Eight threads that increment one number two hundred times each reach the exact sum."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(200):
                notes.update(lambda items: items.update(n=items.get("n", 0) + 1))
        except BaseException as error:  # noqa: BLE001  # it is raised again below
            errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)

    assert errors == []
    assert notes.items() == [("n", 1600)]


def test_an_update_is_not_tried_for_ever(kept: ConversationState, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others change it again and again, it gives up in the end, and says so."""
    now, tried = [0.0], list[float]()
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: now.__setitem__(0, now[0] + 1))
    monkeypatch.setattr(state, "time", clock)
    bridge, id = cast("Bridge", kept._bridge), cast("str", kept._at)

    def racing(items: dict[str, Any]) -> None:
        tried.append(now[0])
        other = bridge.store.get_doc("default", id, "notes")
        assert bridge.store.put_doc("default", id, "notes", Doc(os.urandom(8), "{}"), other and other.version)
        items["mine"] = True

    with pytest.raises(StoreBusyError, match="state 'notes' was changed by others again and again"):
        kept.update(racing)
    assert tried == list(range(22))
    assert kept.items() == []


def test_it_may_take_as_much_as_it_may(bridge: Bridge) -> None:
    """The limit is in bytes of JSON, and exact; what would take more is refused, and nothing is changed."""
    conversation = bridge.resolve(session_id="s1")
    notes = ConversationState("notes", bridge=bridge, max_bytes=20).at(conversation)
    notes["a"] = "x" * 12  # {"a":"xxxxxxxxxxxx"} takes 20
    with pytest.raises(StateTooLargeError, match="would take 21 bytes, and may take 20") as caught:
        notes["a"] = "x" * 13
    assert (caught.value.state, caught.value.size, caught.value.limit) == ("notes", 21, 20)
    assert notes["a"] == "x" * 12
    with pytest.raises(StateTooLargeError):
        notes["a"] = "ä" * 3  # six bytes each
    empty = ConversationState("empty", bridge=bridge, max_bytes=2).at(conversation)
    empty.clear()
    with pytest.raises(ValueError, match="max_bytes is at least 2"):
        ConversationState("notes", max_bytes=1)


def test_what_takes_too_much_can_shrink(bridge: Bridge) -> None:
    """Two that became one may have more than either could: what is removed is removed, and nothing is added."""
    conversation = bridge.resolve(session_id="s1")
    ConversationState("notes", bridge=bridge).at(conversation).update(
        lambda items: items.update(a="x" * 50, b="y" * 50)
    )
    notes = ConversationState("notes", bridge=bridge, max_bytes=20).at(conversation)
    del notes["a"]
    with pytest.raises(StateTooLargeError):
        notes["c"] = 1
    assert list(notes) == ["b"]


# Which one it is


def test_two_names_do_not_mix(bridge: Bridge) -> None:
    """Each name has a state of its own in a conversation, and equal names are the same state."""
    conversation = bridge.resolve(session_id="s1")
    one, other = (ConversationState(name, bridge=bridge).at(conversation) for name in ("one", "other"))
    one["a"], other["a"] = 1, 2
    assert (one["a"], other["a"]) == (1, 2)
    one.clear()
    assert other.items() == ConversationState("other", bridge=bridge).at(conversation.id).items() == [("a", 2)]


@pytest.mark.parametrize("name", ["", 1, None, "a\nb", "x" * 1025])
def test_a_name_of_a_state_is_checked(name: Any) -> None:
    """It is text that a store and a log can hold."""
    with pytest.raises(InvalidValueError, match="key 'state'"):
        ConversationState(name)


def test_it_is_found_by_conversation_and_by_id(bridge: Bridge) -> None:
    """`at` takes a conversation or its id, and one that is gone is refused by every call, never revived."""
    notes, conversation = ConversationState("notes", bridge=bridge), bridge.resolve(session_id="s1")
    there = notes.at(conversation)
    there["a"] = 1
    assert notes.at(conversation.id).items() == [("a", 1)]
    bridge.forget(conversation)
    calls: list[Callable[[], object]] = [
        *(there.items, there.clear, there.__len__, lambda: there.get("a"), lambda: "a" in there),
        *(lambda: there.set("a", 1), lambda: there.pop("a", None), lambda: asyncio.run(there.aget("a"))),
    ]
    for call in calls:
        with pytest.raises(ConversationGoneError, match=conversation.id):
            call()
    assert list(bridge.conversations()) == []


@pytest.mark.parametrize("nobody", [None, "", 1, "a\nb"])
def test_no_conversation_is_not_the_one_in_effect(nobody: Any) -> None:
    """`at(None)`, which the parent of a root is, is refused: it would be the state of the turn itself."""
    with use(Bridge()), ctx.session(session_id="s1"), pytest.raises(InvalidValueError, match=r"key 'at\(\)'"):
        ConversationState("notes").at(nobody)


def test_a_bridge_of_its_own_need_not_be_in_use(bridge: Bridge) -> None:
    """A state with a bridge asks that one, in any turn; whatever bridge is in use keeps its own."""
    notes, plain = ConversationState("notes", bridge=bridge), ConversationState("notes")
    with pytest.raises(NoConversationError, match=r"state 'notes' needs a conversation.*session"):
        notes.items()
    with ctx.session(gateway_session_key="chat"):
        notes["a"] = 1
        ctx.amend(session_id="s1")
        assert notes["a"] == 1
        with ctx.bind(session_id="child"):
            assert notes.items() == []
    with use(Bridge()), ctx.session(session_id="s1"):
        assert (notes["a"], plain.items()) == (1, [])
        assert plain.at(bridge.resolve(session_id="s1")).name == "notes"
        with pytest.raises(ConversationGoneError):
            plain.at(bridge.resolve(session_id="s1")).items()


def test_its_repr_says_which_one_it_is() -> None:
    """It names the state, and the conversation if there is a fixed one."""
    notes = ConversationState("notes")
    assert repr(notes) == "<ConversationState 'notes'>"
    assert repr(notes.at("c1")) == "<ConversationState 'notes' at c1>"


def test_writing_prolongs_the_conversation_and_reading_does_not(
    memory: Callable[[], tuple[MemoryStore, list[float]]],
) -> None:
    """A conversation lives for its time after a change of its state, whatever was read in between."""
    store, clock = memory()
    bridge = Bridge(store, ttl=80)
    notes = here(bridge)
    for _ in range(10):
        clock[0] += 60
        notes.update(lambda items: items.update(n=items.get("n", 0) + 1))
    clock[0] += 60
    assert notes["n"] == 10
    notes.update(lambda items: None)
    clock[0] += 60
    with pytest.raises(ConversationGoneError):
        notes.items()


def test_a_state_that_is_damaged_is_named(kept: ConversationState) -> None:
    """What is no JSON object in the store is a store that is corrupt, and is not written over."""
    bridge, id = cast("Bridge", kept._bridge), cast("str", kept._at)
    for body in ("{", "[]"):
        was = bridge.store.get_doc("default", id, "notes")
        assert bridge.store.put_doc("default", id, "notes", Doc(body.encode(), body), was and was.version)
        for call in (kept.items, lambda: kept.set("a", 1)):
            with pytest.raises(StoreCorruptError, match=f"holds a state 'notes' of conversation {id} that is none"):
                call()


# On an event loop


def test_the_twins_do_what_their_twins_do(bridge: Bridge) -> None:
    """`aget`, `aset`, `aitems` and `aupdate` see the turn in effect, also where the store has a thread for them."""
    notes = ConversationState("notes")

    async def main() -> None:
        async with ctx.session(session_id="s1"):
            assert await notes.aget("a") is None
            assert await notes.aget("a", 7) == 7
            await notes.aset("a", [1])
            assert await notes.aupdate(lambda items: items["a"].append(ctx.SESSION_ID.get())) is None
            assert await notes.aitems() == [("a", [1, "s1"])]
            with pytest.raises(InvalidValueError, match="'b'"):
                await notes.aset("b", cast("Any", (1,)))
        with pytest.raises(NoConversationError):
            await notes.aitems()

    with use(bridge):
        asyncio.run(main())
    assert here(bridge).items() == [("a", [1, "s1"])]
    with pytest.raises(NoConversationError):
        asyncio.run(notes.aget("a"))


class Blocking:
    """A store that blocks until it is let go, and remembers where it was called."""

    blocks = True

    def __init__(self) -> None:
        self.memory = MemoryStore()
        self.go_on = threading.Event()
        self.threads: set[int] = set()

    def get_doc(self, *where: str) -> Doc | None:
        self.threads.add(threading.get_ident())
        assert self.go_on.wait(10)
        return self.memory.get_doc(*where)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)


@pytest.fixture
def blocking() -> Iterator[Blocking]:
    store = Blocking()
    yield store
    store.go_on.set()


def test_the_twins_do_not_block_the_loop(blocking: Blocking) -> None:
    """While the store takes its time, the loop runs: here it is what lets the store go on."""
    notes = here(Bridge(cast("Any", blocking)))

    async def main() -> None:
        for twin in (notes.aget("a"), notes.aset("a", 1), notes.aitems(), notes.aupdate(len)):
            blocking.go_on.clear()
            asyncio.get_running_loop().call_later(0.01, blocking.go_on.set)
            await twin

    asyncio.run(main())

    assert blocking.threads
    assert threading.get_ident() not in blocking.threads


def test_a_conversation_is_all_that_at_needs() -> None:
    """A state can be made where its conversation is known from elsewhere, before anything is in use."""
    conversation = Conversation("c1", (), (), None, "c1", None, 0.0)
    there = ConversationState("notes").at(conversation)
    with pytest.raises(NoConversationError, match="state 'notes'"):
        there.items()
    with use(Bridge()), pytest.raises(ConversationGoneError, match="c1"):
        there.items()
