"""What every store does: reads consistently, writes a change whole or not at all, and knows no rule of ours."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import pytest

from ctxruntime.conversation.stores import Store, open_store
from ctxruntime.conversation.stores.base import FOREVER, KEY, NO_DOC, SESSION, Change, Doc, Ref, Row

PAST = 1_000_000_000.0
CHAT: Ref = (KEY, "chat")
ONE: Ref = (SESSION, "s1")
TWO: Ref = (SESSION, "s2")
NASTY = [
    "plain",
    "{}",
    "x}:k:y",
    "a:b:c",
    "100%",
    "%25",
    'it\'s "quoted"',
    "back\\slash",
    "*?[a-z]",
    "_%",
    "k",
    "ключ 🔑",
    "e\u0301",
    "\u00e9",
    " ",
    "; DROP TABLE refs --",
    "x" * 1024,
    "🔑" * 1024,
    "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(1000)),  # no index can compress it
]


def v(number: int = 0) -> bytes:
    """Return a version: the same for the same number."""
    return number.to_bytes(8, "big") if number else os.urandom(8)


def row(number: int = 0, expires: float = FOREVER, record: str = "{}") -> Row:
    """Return a row with a version of this number."""
    return Row(v(number), expires, record)


def change(**parts: Any) -> Change:
    """Return a change that consists of these parts."""
    nothing: dict[str, Any] = {
        "if_refs": {},
        "if_versions": {},
        "if_docs": {},
        "rows": {},
        "gone": (),
        "refs": {},
        "no_refs": (),
        "docs": {},
    }
    return Change(**(nothing | parts))


@pytest.fixture
def commit(store: Store, namespace: str) -> Callable[..., bool]:
    """Return what commits a change that consists of the parts given."""
    return lambda **parts: store.commit(namespace, change(**parts))


Commit = Callable[..., bool]


# Looking


def test_an_empty_store_has_nothing(store: Store, namespace: str) -> None:
    """What was never written is not there, and asking for it is no error."""
    assert store.look(namespace, [CHAT, ONE], ["c1"])[1:] == ({}, {})
    assert [*store.rows(namespace)] == []
    assert store.docs(namespace, "c1") == {}
    assert store.get_doc(namespace, "c1", "notes") is None


def test_a_look_is_as_of_now(store: Store, namespace: str) -> None:
    """The store's clock is in seconds since the epoch, with parts of them, and goes on."""
    first, _, _ = store.look(namespace, [CHAT])
    time.sleep(0.01)
    second, _, _ = store.look(namespace, [CHAT])

    assert abs(first - time.time()) < 60
    assert first < second < first + 60


def test_a_look_finds_what_was_written(store: Store, namespace: str, commit: Commit) -> None:
    """A ref leads to its conversation, and that one's row is there as it was written."""
    written = row(record='{"keys":["chat"]}', expires=3e9 + 0.123456)
    assert commit(rows={"c1": written}, refs={CHAT: "c1", ONE: "c1"}) is True

    assert store.look(namespace, [ONE, TWO, CHAT])[1:] == ({ONE: "c1", CHAT: "c1"}, {"c1": written})


def test_a_look_finds_rows_by_id(store: Store, namespace: str, commit: Commit) -> None:
    """Rows are found by their conversations' ids, beside those that the refs lead to."""
    first, second, third = row(), row(), row()
    commit(rows={"c1": first, "c2": second, "c3": third}, refs={CHAT: "c1"})

    assert store.look(namespace, [], ["c2", "none"])[1:] == ({}, {"c2": second})
    assert store.look(namespace, [CHAT], ["c3", "c1"])[1:] == ({CHAT: "c1"}, {"c1": first, "c3": third})


def test_a_look_without_anything_is_a_look(store: Store, namespace: str) -> None:
    """Nothing asked for is nothing found."""
    assert store.look(namespace, [])[1:] == ({}, {})


def test_a_key_is_no_session_id(store: Store, namespace: str, commit: Commit) -> None:
    """A gateway key and a session id of the same text are two refs."""
    commit(rows={"c1": row(1), "c2": row(2)}, refs={(KEY, "x"): "c1", (SESSION, "x"): "c2"})

    assert store.look(namespace, [(KEY, "x"), (SESSION, "x")])[1] == {(KEY, "x"): "c1", (SESSION, "x"): "c2"}


def test_refs_of_two_conversations_are_found_at_once(store: Store, namespace: str, commit: Commit) -> None:
    """One look returns both rows where two refs lead to two conversations."""
    commit(rows={"c1": row(1), "c2": row(2)}, refs={CHAT: "c1", ONE: "c2"})

    assert store.look(namespace, [CHAT, ONE])[1:] == ({CHAT: "c1", ONE: "c2"}, {"c1": row(1), "c2": row(2)})


# Committing: what it is based on


def test_a_ref_that_leads_nowhere_still_is_as_expected(store: Store, namespace: str, commit: Commit) -> None:
    """A conversation is made where a ref led nowhere, once."""
    parts = {"if_refs": {CHAT: None}}

    assert commit(**parts, rows={"c1": row(1)}, refs={CHAT: "c1"}) is True
    assert commit(**parts, rows={"c2": row(2)}, refs={CHAT: "c2"}) is False
    assert store.look(namespace, [CHAT], ["c2"])[1:] == ({CHAT: "c1"}, {"c1": row(1)})


@pytest.mark.parametrize(("was", "done"), [("c1", True), ("c2", False), (None, False)])
def test_a_ref_has_to_point_where_it_did(
    store: Store, namespace: str, commit: Commit, was: str | None, done: bool
) -> None:
    """A change based on a ref is done if it points to the same conversation, and only then."""
    commit(rows={"c1": row(1), "c2": row(2)}, refs={CHAT: "c1"})

    assert commit(if_refs={CHAT: was}, refs={ONE: "c1"}, rows={"c1": row(3)}) is done
    assert store.look(namespace, [ONE])[1] == ({ONE: "c1"} if done else {})


def test_a_ref_that_was_deleted_leads_nowhere(commit: Commit) -> None:
    """Where a ref was expected to lead to a conversation, and it is deleted, nothing is done."""
    commit(rows={"c1": row(1)}, refs={CHAT: "c1", ONE: "c1"})
    commit(no_refs=[CHAT])

    assert commit(if_refs={CHAT: "c1"}) is False
    assert commit(if_refs={CHAT: None, ONE: "c1"}) is True


def test_a_conversation_has_to_have_its_version(store: Store, namespace: str, commit: Commit) -> None:
    """A change based on a version is done if nobody has written that conversation since."""
    commit(rows={"c1": row(1)}, refs={CHAT: "c1"})

    assert commit(if_versions={"c1": v(1)}, rows={"c1": row(2)}) is True
    assert commit(if_versions={"c1": v(1)}, rows={"c1": row(3)}) is False
    assert store.look(namespace, [CHAT])[2] == {"c1": row(2)}


def test_a_conversation_that_is_gone_has_no_version(store: Store, namespace: str, commit: Commit) -> None:
    """A change based on a conversation that is gone, or never was, is not done, and revives nothing."""
    commit(rows={"c1": row(1)}, refs={CHAT: "c1"})
    commit(gone=["c1"], no_refs=[CHAT])

    assert commit(if_versions={"c1": v(1)}, rows={"c1": row(2)}, refs={CHAT: "c1"}) is False
    assert commit(if_versions={"none": v(1)}, rows={"c1": row(2)}) is False
    assert store.look(namespace, [CHAT], ["c1"])[1:] == ({}, {})


@pytest.mark.parametrize(
    "versions",
    [{}, {"notes": 1}, {"notes": 1, "cart": 1}, {"notes": 1, "cart": 2, "more": 3}, {"notes": 2, "cart": 1}],
    ids=["none of them", "one less", "one changed", "one more", "swapped"],
)
def test_the_documents_have_to_be_the_same_set(
    store: Store, namespace: str, commit: Commit, versions: dict[str, int]
) -> None:
    """A change based on a conversation's documents is done for exactly these, in these versions."""
    docs = {"notes": Doc(v(1), "{}"), "cart": Doc(v(2), "{}")}
    commit(rows={"c1": row(1)}, refs={CHAT: "c1"}, docs={"c1": docs})

    assert commit(if_docs={"c1": {name: v(each) for name, each in versions.items()}}, no_refs=[CHAT]) is False
    assert store.look(namespace, [CHAT])[1] == {CHAT: "c1"}
    assert commit(if_docs={"c1": {"cart": v(2), "notes": v(1)}}, no_refs=[CHAT]) is True
    assert store.look(namespace, [CHAT])[1] == {}


def test_no_documents_are_a_set_too(store: Store, namespace: str, commit: Commit) -> None:
    """A change based on there being no document is not done once there is one."""
    commit(rows={"c1": row(1)}, refs={CHAT: "c1"})

    assert commit(if_docs={"c1": {}}) is True
    store.put_doc(namespace, "c1", "notes", Doc(v(1), "{}"), None)
    assert commit(if_docs={"c1": {}}) is False


def test_documents_of_a_conversation_that_is_gone_are_no_set(commit: Commit) -> None:
    """A change based on there being no document is not done where there is no conversation."""
    assert commit(if_docs={"c1": {}}) is False


def test_all_has_to_be_unchanged(store: Store, namespace: str, commit: Commit) -> None:
    """One condition that does not hold is enough, wherever it stands."""
    commit(rows={"c1": row(1), "c2": row(2)}, refs={CHAT: "c1", ONE: "c2"})
    holds: dict[str, Any] = {
        "if_refs": {CHAT: "c1", ONE: "c2", TWO: None},
        "if_versions": {"c1": v(1), "c2": v(2)},
        "if_docs": {"c1": {}, "c2": {}},
    }

    for part, broken in [
        ("if_refs", {CHAT: "c1", ONE: "c2", TWO: "c1"}),
        ("if_refs", {CHAT: "c2", ONE: "c2", TWO: None}),
        ("if_versions", {"c1": v(1), "c2": v(1)}),
        ("if_versions", {"c1": v(2), "c2": v(2)}),
        ("if_docs", {"c1": {}, "c2": {"notes": v(1)}}),
        ("if_docs", {"c1": {"notes": v(1)}, "c2": {}}),
    ]:
        assert commit(**(holds | {part: broken}), rows={"c1": row(3)}, refs={TWO: "c1"}) is False, broken
    assert commit(**holds, rows={"c1": row(3)}, refs={TWO: "c1"}) is True
    assert store.look(namespace, [TWO])[1] == {TWO: "c1"}


# Committing: what is written


def test_a_change_is_written_whole_or_not_at_all(store: Store, namespace: str, commit: Commit) -> None:
    """Of a change whose condition does not hold, no row, ref or document is written, and none is deleted."""
    commit(rows={"c1": row(1), "c2": row(2)}, refs={CHAT: "c1", ONE: "c2"}, docs={"c2": {"notes": Doc(v(1), "{}")}})
    parts: dict[str, Any] = {
        "rows": {"c1": row(3), "c3": row(4)},
        "gone": ["c2"],
        "refs": {TWO: "c3"},
        "no_refs": [CHAT, ONE],
        "docs": {"c1": {"notes": Doc(v(5), "[]")}},
    }

    assert commit(if_refs={TWO: "c3"}, **parts) is False
    assert store.look(namespace, [CHAT, ONE, TWO], ["c3"])[1:] == (
        {CHAT: "c1", ONE: "c2"},
        {"c1": row(1), "c2": row(2)},
    )
    assert (store.docs(namespace, "c1"), store.docs(namespace, "c2")) == ({}, {"notes": Doc(v(1), "{}")})

    assert commit(if_refs={TWO: None}, **parts) is True
    assert store.look(namespace, [CHAT, ONE, TWO], ["c1", "c2"])[1:] == ({TWO: "c3"}, {"c1": row(3), "c3": row(4)})
    assert (store.docs(namespace, "c1"), store.docs(namespace, "c2")) == ({"notes": Doc(v(5), "[]")}, {})


def test_a_ref_points_to_one_conversation(store: Store, namespace: str, commit: Commit) -> None:
    """A ref that is written again leads to the new conversation alone, and is not deleted with the old one."""
    commit(rows={"c1": row(1), "c2": row(2)}, refs={CHAT: "c1", ONE: "c1"})
    commit(rows={"c2": row(3)}, refs={CHAT: "c2"})
    commit(gone=["c1"], no_refs=[ONE])

    assert store.look(namespace, [CHAT, ONE])[1:] == ({CHAT: "c2"}, {"c2": row(3)})


def test_a_ref_moves_from_what_is_gone(store: Store, namespace: str, commit: Commit) -> None:
    """A conversation is deleted and its ref points to another in one change: the ref is there."""
    commit(rows={"c1": row(1), "c2": row(2)}, refs={CHAT: "c1"})

    commit(rows={"c2": row(3)}, gone=["c1"], refs={CHAT: "c2"})

    assert store.look(namespace, [CHAT], ["c1"])[1:] == ({CHAT: "c2"}, {"c2": row(3)})


def test_what_is_gone_takes_refs_and_documents_with_it(store: Store, namespace: str, commit: Commit) -> None:
    """After a conversation was deleted nothing of it is left, not even for one of the same id."""
    commit(rows={"c1": row(1)}, refs={CHAT: "c1", ONE: "c1"}, docs={"c1": {"notes": Doc(v(1), "{}")}})

    assert commit(if_versions={"c1": v(1)}, gone=["c1"], no_refs=[CHAT, ONE]) is True
    assert store.look(namespace, [CHAT, ONE], ["c1"])[1:] == ({}, {})
    assert store.get_doc(namespace, "c1", "notes") is None
    assert store.docs(namespace, "c1") == {}
    assert [*store.rows(namespace)] == []

    commit(rows={"c1": row(2)}, refs={TWO: "c1"})
    assert store.docs(namespace, "c1") == {}
    assert store.get_doc(namespace, "c1", "notes") == NO_DOC


def test_deleting_what_is_not_there_is_no_error(store: Store, namespace: str, commit: Commit) -> None:
    """A conversation and a ref that are gone already can be deleted again."""
    assert commit(gone=["c1"], no_refs=[CHAT]) is True


def test_documents_that_are_not_named_stay(store: Store, namespace: str, commit: Commit) -> None:
    """A change writes the documents it names, and leaves the others of that conversation."""
    commit(rows={"c1": row(1)}, docs={"c1": {"notes": Doc(v(1), "{}"), "cart": Doc(v(2), "{}")}})

    commit(rows={"c1": row(2)}, docs={"c1": {"notes": Doc(v(3), '{"a":1}')}})

    assert store.docs(namespace, "c1") == {"notes": Doc(v(3), '{"a":1}'), "cart": Doc(v(2), "{}")}


def test_a_row_that_is_written_again_keeps_its_documents(store: Store, namespace: str, commit: Commit) -> None:
    """A new version of a conversation is the same conversation: its documents and refs stay."""
    commit(rows={"c1": row(1)}, refs={CHAT: "c1"}, docs={"c1": {"notes": Doc(v(1), "{}")}})

    commit(rows={"c1": row(2, expires=4e9)}, refs={CHAT: "c1"})

    assert store.look(namespace, [CHAT])[1:] == ({CHAT: "c1"}, {"c1": row(2, expires=4e9)})
    assert store.docs(namespace, "c1") == {"notes": Doc(v(1), "{}")}


@pytest.mark.parametrize("count", [256])
def test_a_conversation_has_many_refs(store: Store, namespace: str, commit: Commit, count: int) -> None:
    """256 keys and 256 ids are written, looked at, moved and deleted in one change each."""
    refs: list[Ref] = [(kind, f"{kind}{number}") for kind in (KEY, SESSION) for number in range(count)]
    commit(rows={"c1": row(1)}, refs=dict.fromkeys(refs, "c1"))
    assert store.look(namespace, refs)[1] == dict.fromkeys(refs, "c1")

    assert commit(if_refs=dict.fromkeys(refs, "c1"), rows={"c2": row(2)}, gone=["c1"], refs=dict.fromkeys(refs, "c2"))
    assert store.look(namespace, refs)[1:] == (dict.fromkeys(refs, "c2"), {"c2": row(2)})

    assert commit(gone=["c2"], no_refs=refs) is True
    assert store.look(namespace, refs)[1:] == ({}, {})


# Expiry


def test_what_has_expired_is_not_there(store: Store, namespace: str, commit: Commit) -> None:
    """A conversation whose time is past is found by nothing, and has no documents."""
    commit(rows={"c1": row(1), "c2": row(2)}, refs={CHAT: "c1"}, docs={"c1": {"notes": Doc(v(1), "{}")}})
    commit(rows={"c1": row(3, expires=PAST)}, refs={CHAT: "c1"})

    assert store.look(namespace, [CHAT], ["c1"])[1:] == ({}, {})
    assert store.get_doc(namespace, "c1", "notes") is None
    assert store.docs(namespace, "c1") == {}
    assert store.put_doc(namespace, "c1", "notes", Doc(v(2), "{}"), v(1)) is None
    assert [*store.rows(namespace)] == [("c2", row(2))]


def test_what_has_expired_counts_as_not_there(store: Store, namespace: str, commit: Commit) -> None:
    """A ref to what has expired leads nowhere, and that one has no version and no documents to be based on."""
    commit(rows={"c1": row(1, expires=PAST)}, refs={CHAT: "c1"})

    assert commit(if_refs={CHAT: "c1"}) is False
    assert commit(if_versions={"c1": v(1)}) is False
    assert commit(if_docs={"c1": {}}) is False
    assert commit(if_refs={CHAT: None}, rows={"c2": row(2)}, refs={CHAT: "c2"}) is True
    assert store.look(namespace, [CHAT])[1:] == ({CHAT: "c2"}, {"c2": row(2)})


def test_a_conversation_expires_when_its_time_comes(store: Store, namespace: str, commit: Commit) -> None:
    """Until it expires it is there; after, it is not."""
    now, _, _ = store.look(namespace, [])
    commit(rows={"c1": row(1, expires=now + 1.0)}, refs={CHAT: "c1"}, docs={"c1": {"notes": Doc(v(1), "{}")}})
    assert store.look(namespace, [CHAT])[1] == {CHAT: "c1"}
    assert store.get_doc(namespace, "c1", "notes") == Doc(v(1), "{}")

    time.sleep(1.1)

    assert store.look(namespace, [CHAT], ["c1"])[1:] == ({}, {})
    assert store.get_doc(namespace, "c1", "notes") is None
    assert commit(if_refs={CHAT: None}) is True


def test_a_conversation_that_is_prolonged_lives_on_with_all_of_it(store: Store, namespace: str, commit: Commit) -> None:
    """A later expiry is that of the row, of the refs written with it, and of the documents."""
    now, _, _ = store.look(namespace, [])
    commit(rows={"c1": row(1, expires=now + 0.5)}, refs={CHAT: "c1"}, docs={"c1": {"notes": Doc(v(1), "{}")}})
    later = row(2, expires=now + 60.25)
    commit(if_versions={"c1": v(1)}, rows={"c1": later}, refs={CHAT: "c1"})

    time.sleep(0.7)

    assert store.look(namespace, [CHAT])[1:] == ({CHAT: "c1"}, {"c1": later})
    assert store.docs(namespace, "c1") == {"notes": Doc(v(1), "{}")}


def test_a_document_lives_as_long_as_its_conversation(store: Store, namespace: str, commit: Commit) -> None:
    """A document that is written late goes when its conversation does."""
    now, _, _ = store.look(namespace, [])
    commit(rows={"c1": row(1, expires=now + 0.6)}, refs={CHAT: "c1"})
    assert store.put_doc(namespace, "c1", "notes", Doc(v(1), "{}"), None) is True

    time.sleep(0.7)

    assert store.get_doc(namespace, "c1", "notes") is None
    commit(if_refs={CHAT: None}, rows={"c2": row(2)}, refs={CHAT: "c2"})
    assert store.docs(namespace, "c2") == {}


# Documents


def test_a_document_that_was_never_written_is_empty(store: Store, namespace: str, commit: Commit) -> None:
    """In a living conversation each document can be read, and has no version before it is written."""
    commit(rows={"c1": row(1)})

    assert store.get_doc(namespace, "c1", "notes") == NO_DOC
    assert store.docs(namespace, "c1") == {}


def test_a_document_is_written_over_the_version_that_was_read(store: Store, namespace: str, commit: Commit) -> None:
    """Whoever has read the version in place may write, and nobody else."""
    commit(rows={"c1": row(1)})

    assert store.put_doc(namespace, "c1", "notes", Doc(v(1), '{"a":1}'), None) is True
    assert store.put_doc(namespace, "c1", "notes", Doc(v(2), '{"a":2}'), None) is False
    assert store.put_doc(namespace, "c1", "notes", Doc(v(2), '{"a":2}'), v(9)) is False
    assert store.get_doc(namespace, "c1", "notes") == Doc(v(1), '{"a":1}')
    assert store.put_doc(namespace, "c1", "notes", Doc(v(2), '{"a":2}'), v(1)) is True
    assert store.get_doc(namespace, "c1", "notes") == Doc(v(2), '{"a":2}')


def test_a_document_that_is_not_there_has_no_version(store: Store, namespace: str, commit: Commit) -> None:
    """A version is not to be had from a document that was never written."""
    commit(rows={"c1": row(1)})

    assert store.put_doc(namespace, "c1", "notes", Doc(v(2), "{}"), v(1)) is False
    assert store.docs(namespace, "c1") == {}


def test_a_document_of_what_is_gone_is_not_written(store: Store, namespace: str, commit: Commit) -> None:
    """Where there is no conversation a document is not written, and revives none."""
    commit(rows={"c1": row(1)}, refs={CHAT: "c1"})
    commit(gone=["c1"], no_refs=[CHAT])

    assert store.put_doc(namespace, "c1", "notes", Doc(v(1), "{}"), None) is None
    assert store.put_doc(namespace, "never", "notes", Doc(v(1), "{}"), None) is None
    assert [*store.rows(namespace)] == []
    assert store.docs(namespace, "c1") == {}


def test_a_write_that_is_tried_again_is_done_once(store: Store, namespace: str, commit: Commit) -> None:
    """A client may send twice what it has no answer for: the second attempt finds its own version, and is content."""
    commit(rows={"c1": row(1)})

    for was in (None, v(1)):
        written = Doc(v(5) if was else v(1), '{"n":1}')
        assert store.put_doc(namespace, "c1", "notes", written, was) is True
        assert store.put_doc(namespace, "c1", "notes", written, was) is True
        assert store.get_doc(namespace, "c1", "notes") == written


def test_a_document_write_changes_no_row(store: Store, namespace: str, commit: Commit) -> None:
    """What is based on a conversation's version is not disturbed by documents."""
    commit(rows={"c1": row(1)}, refs={CHAT: "c1"})
    store.put_doc(namespace, "c1", "notes", Doc(v(1), "{}"), None)

    assert store.look(namespace, [CHAT])[2] == {"c1": row(1)}
    assert commit(if_versions={"c1": v(1)}, rows={"c1": row(2)}) is True


def test_documents_are_of_one_conversation(store: Store, namespace: str, commit: Commit) -> None:
    """Equal names in two conversations are two documents."""
    commit(rows={"c1": row(1), "c2": row(2)})
    store.put_doc(namespace, "c1", "notes", Doc(v(1), '{"of":1}'), None)
    store.put_doc(namespace, "c2", "notes", Doc(v(2), '{"of":2}'), None)

    assert store.docs(namespace, "c1") == {"notes": Doc(v(1), '{"of":1}')}
    assert store.docs(namespace, "c2") == {"notes": Doc(v(2), '{"of":2}')}


@pytest.mark.parametrize(
    "value",
    ["\0", "\ud800", "é", "🔑", '"\\', "\u2028", "x" * 262_144, "%s %% ? :name $1 {}"],
    ids=["nul", "lone surrogate", "accent", "astral", "quote", "separator", "large", "placeholders"],
)
def test_a_body_comes_back_as_it_was(store: Store, namespace: str, commit: Commit, value: str) -> None:
    """A body is ASCII, with whatever escapes JSON has: the store reads none of it."""
    body, record = json.dumps({value[:9]: value}), json.dumps([value])
    commit(rows={"c1": row(1, record=record)}, refs={CHAT: "c1"}, docs={"c1": {"cart": Doc(v(1), body)}})
    store.put_doc(namespace, "c1", "notes", Doc(v(2), body), None)

    assert store.docs(namespace, "c1") == {"cart": Doc(v(1), body), "notes": Doc(v(2), body)}
    assert store.get_doc(namespace, "c1", "notes") == Doc(v(2), body)
    assert store.look(namespace, [CHAT])[2]["c1"].record == record


@pytest.mark.parametrize("version", [bytes(8), b"\xff" * 8, b"\x00\xff\r\n\x80'\"\\", b"12345678"])
def test_a_version_is_any_eight_bytes(store: Store, namespace: str, commit: Commit, version: bytes) -> None:
    """Versions come back as bytes, and are compared as such."""
    commit(rows={"c1": Row(version, FOREVER, "{}")}, refs={CHAT: "c1"})
    store.put_doc(namespace, "c1", "notes", Doc(version, "{}"), None)

    assert store.look(namespace, [CHAT])[2] == {"c1": Row(version, FOREVER, "{}")}
    assert store.get_doc(namespace, "c1", "notes") == Doc(version, "{}")
    assert commit(if_versions={"c1": version}, if_docs={"c1": {"notes": version}}) is True
    assert commit(if_versions={"c1": version[::-1][1:] + b"?"}) is False


# Names and namespaces


def test_any_name_is_only_itself(store: Store, namespace: str, commit: Commit) -> None:
    """Keys, ids and document names of any characters are apart from each other, and come back unchanged."""
    refs: dict[Ref, str] = {(KEY, name): f"c{number}" for number, name in enumerate(NASTY)}
    docs = {name: Doc(v(number + 1), json.dumps({"n": number})) for number, name in enumerate(NASTY)}
    commit(rows={id: row(1) for id in refs.values()} | {"c": row(1)}, refs=refs, docs={"c": docs})

    for ref, id in refs.items():
        assert store.look(namespace, [ref, (SESSION, ref[1])])[1] == {ref: id}
    assert store.look(namespace, [*refs])[1] == refs
    assert store.docs(namespace, "c") == docs
    for name, doc in docs.items():
        assert store.get_doc(namespace, "c", name) == doc


def test_namespaces_do_not_reach_each_other(store: Store, namespace: str) -> None:
    """Whatever namespaces, keys and documents are called, what is written in one is in no other."""
    spaces = [f"{namespace}{name}" for name in NASTY]
    for number, space in enumerate(spaces, 1):
        parts = {"rows": {"c1": row(number)}, "refs": {(KEY, name): "c1" for name in NASTY}}
        assert store.commit(space, change(if_refs=dict.fromkeys(parts["refs"], None), **parts)) is True
        assert store.put_doc(space, "c1", "notes", Doc(v(number), "{}"), None) is True

    for number, space in enumerate(spaces, 1):
        assert store.look(space, [(KEY, name) for name in NASTY])[2] == {"c1": row(number)}
        assert [*store.rows(space)] == [("c1", row(number))]
        assert store.docs(space, "c1") == {"notes": Doc(v(number), "{}")}

    store.commit(spaces[0], change(gone=["c1"], no_refs=[(KEY, name) for name in NASTY]))
    assert [*store.rows(spaces[0])] == []
    assert [*store.rows(spaces[1])] == [("c1", row(2))]


def test_a_namespace_does_not_end_where_a_key_begins(store: Store, namespace: str) -> None:
    """No namespace and key are together what another namespace and key are."""
    pairs = [
        (f"{namespace}x}}:k:y", "z"),
        (f"{namespace}x", "y}:k:z"),
        (f"{namespace}x:k", "y"),
        (f"{namespace}x", "k:y"),
    ]
    for number, (space, key) in enumerate(pairs, 1):
        found = store.look(space, [(KEY, key)])[1]
        assert found == {}
        store.commit(space, change(rows={f"c{number}": row(number)}, refs={(KEY, key): f"c{number}"}))

    for number, (space, key) in enumerate(pairs, 1):
        assert store.look(space, [(KEY, key)])[1:] == ({(KEY, key): f"c{number}"}, {f"c{number}": row(number)})


# Rows


def test_rows_are_all_that_live(store: Store, namespace: str, commit: Commit) -> None:
    """Each conversation of the namespace is among the rows, once, however many there are."""
    rows = {f"c{number}": row(number + 1, record=json.dumps(number)) for number in range(1500)}
    commit(rows=rows, refs={(SESSION, id): id for id in rows})
    commit(rows={"late": row(9, expires=PAST)})

    found = [*store.rows(namespace)]

    assert len(found) == 1500
    assert dict(found) == rows


def test_what_changes_while_rows_are_read_is_no_error(store: Store, namespace: str, commit: Commit) -> None:
    """The store can be used, and rows deleted, while they are read; what stays is among them."""
    rows = {f"c{number}": row(number + 1) for number in range(1200)}
    commit(rows=rows)
    seen = []

    for number, (id, _) in enumerate(store.rows(namespace)):
        seen.append(id)
        if number == 3:
            commit(gone=["c0", "c1"], rows={"new": row(1)})

    assert {*rows} - {"c0", "c1"} <= {*seen} <= {*rows, "new"}


# Several at once, and afterwards


def test_one_of_many_threads_wins_a_ref(store: Store, namespace: str) -> None:
    """Of those who commit at the same time on a ref that leads nowhere one is told True, and its row is there."""
    barrier = Barrier(8)
    won: list[tuple[int, str]] = []

    def claim(number: int) -> None:
        for turn in range(10):
            ref: Ref = (KEY, f"key{turn}")
            barrier.wait(30)
            mine = change(if_refs={ref: None}, rows={f"c{turn}-{number}": row(1)}, refs={ref: f"c{turn}-{number}"})
            if store.commit(namespace, mine):
                won.append((turn, f"c{turn}-{number}"))

    in_threads(claim, 8)

    assert sorted(turn for turn, _ in won) == [*range(10)]
    assert store.look(namespace, [(KEY, f"key{turn}") for turn in range(10)])[1] == {
        (KEY, f"key{turn}"): id for turn, id in won
    }
    assert len([*store.rows(namespace)]) == 10


def test_no_increment_of_many_threads_is_lost(store: Store, namespace: str, commit: Commit) -> None:
    """A document that each thread reads and writes over what it has read counts every write that was done."""
    commit(rows={"c1": row(1)})

    def count(_: int) -> None:
        done = 0
        while done < 10:
            doc = store.get_doc(namespace, "c1", "count")
            assert doc is not None
            body = json.dumps({"n": json.loads(doc.body).get("n", 0) + 1})
            done += store.put_doc(namespace, "c1", "count", Doc(os.urandom(8), body), doc.version) is True

    in_threads(count, 4)

    assert json.loads(store.docs(namespace, "c1")["count"].body) == {"n": 40}


def test_a_look_never_sees_half_a_change(store: Store, namespace: str, commit: Commit) -> None:
    """While a ref moves to and fro between conversations, each look sees it at one, with that one's row."""
    commit(rows={"c0": row(1)}, refs={CHAT: "c0", ONE: "c0"})

    def move(number: int) -> None:
        for turn in range(60):
            if number:
                _, pointing, rows = store.look(namespace, [CHAT, ONE])
                assert pointing[CHAT] == pointing[ONE]
                assert [*rows] == [pointing[CHAT]]
            else:
                new, old = f"c{(turn + 1) % 2}", f"c{turn % 2}"
                assert commit(rows={new: row()}, gone=[old], refs={CHAT: new, ONE: new})

    in_threads(move, 3)


def test_a_store_that_was_closed_opens_again(store: Store, namespace: str, commit: Commit) -> None:
    """Closing twice is harmless, and what was written is there when the store is used again."""
    commit(rows={"c1": row(1)}, refs={CHAT: "c1"}, docs={"c1": {"notes": Doc(v(1), "{}")}})

    store.close()
    store.close()

    assert store.look(namespace, [CHAT])[1:] == ({CHAT: "c1"}, {"c1": row(1)})
    assert commit(if_versions={"c1": v(1)}, rows={"c1": row(2)}) is True
    assert store.docs(namespace, "c1") == {"notes": Doc(v(1), "{}")}


def test_two_stores_of_one_place_are_one(kind: str, url: str, store: Store, namespace: str) -> None:
    """What one store object has written, another of the same URL sees at once; in memory each is alone."""
    other = open_store(url)
    try:
        for number in (1, 2, 3):
            store.commit(namespace, change(rows={"c1": row(number)}, refs={CHAT: "c1"}))
            store.put_doc(namespace, "c1", f"doc{number}", Doc(v(number), "{}"), None)

            seen = {} if kind == "memory" else {"c1": row(number)}
            assert other.look(namespace, [CHAT])[2] == seen
            assert len(other.docs(namespace, "c1")) == (0 if kind == "memory" else number)
    finally:
        other.close()


LASTING = pytest.mark.parametrize(
    "kind",
    ["sqlite", pytest.param("redis", marks=pytest.mark.server), pytest.param("postgres", marks=pytest.mark.server)],
    indirect=True,
)
"""The kinds of store that other processes, and other store objects, see."""


@LASTING
def test_what_is_written_in_one_store_is_compared_in_another(url: str, store: Store, namespace: str) -> None:
    """A change based on what another store object of the same place has overwritten is not done."""
    other = open_store(url)
    try:
        store.commit(namespace, change(rows={"c1": row(1)}, refs={CHAT: "c1"}))
        assert other.look(namespace, [CHAT])[2] == {"c1": row(1)}
        store.commit(namespace, change(if_versions={"c1": v(1)}, rows={"c1": row(2)}))

        assert other.commit(namespace, change(if_versions={"c1": v(1)}, rows={"c1": row(3)})) is False
        assert other.look(namespace, [CHAT])[2] == {"c1": row(2)}
    finally:
        other.close()


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Do this work in that many threads at once, each with its number; raise what one of them raises."""
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - it is raised below, in the test's own thread
            failed.append(error)

    threads = [Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert not any(thread.is_alive() for thread in threads)
