"""What is special about Redis as a store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import StoreBusyError, StoreCorruptError, StoreFullError, StoreReadOnlyError
from ctxruntime.conversation.stores import Store, open_store
from ctxruntime.conversation.stores.base import Change, Doc, Row

pytestmark = pytest.mark.server


@pytest.fixture
def kind() -> str:
    """Return the one kind of store that these tests are about."""
    return "redis"


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    """Return a client of the session's server."""
    import redis

    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def own_client(own_redis: Any) -> Iterator[Any]:
    """Return a client of a server of the test's own."""
    import redis

    with redis.Redis.from_url(own_redis.url) as client:
        yield client


def changed(store: Store, namespace: str, id: str, expires: float, **more: Any) -> bool:
    """Write a conversation with one session id and one document that expires at this time."""
    change = Change({}, {}, {}, {id: Row(b"versionA", expires, "{}")}, [], {("i", id): id}, [], {})
    return store.commit(namespace, change._replace(**more))


def test_a_namespace_cannot_reach_into_another(store: Store) -> None:
    """What would be the same key if it were put together without quoting is not."""
    pairs = [("x}:k:y", "z"), ("x", "y}:k:z"), ("x}:k", "y:k:z"), ("x%7D:k:y", "z")]

    found = {Bridge(store, namespace).resolve(gateway_session_key=key).id for namespace, key in pairs}

    assert len(found) == len(pairs)
    assert [len(list(store.rows(namespace))) for namespace, _ in pairs] == [1, 1, 1, 1]


def test_a_namespace_is_no_pattern(store: Store) -> None:
    """Listing a namespace whose name would be a pattern lists no other's conversations."""
    for namespace in ("glob-a", "glob-b", "glob-[ab]", "glob-*", "glob-?", "glob-\\*"):
        assert changed(store, namespace, f"in {namespace}", time.time() + 100)

    for namespace in ("glob-[ab]", "glob-*", "glob-?", "glob-\\*"):
        assert [id for id, _ in store.rows(namespace)] == [f"in {namespace}"]


def test_many_conversations_are_listed_once_each(store: Store, namespace: str) -> None:
    """A listing goes on over as many batches as it takes."""
    ids = {f"c{number}" for number in range(1300)}
    for id in ids:
        assert changed(store, namespace, id, time.time() + 100)

    listed = [id for id, _ in store.rows(namespace)]

    assert len(listed) == len(ids)
    assert set(listed) == ids


def test_every_key_expires_with_its_conversation(store: Store, namespace: str, client: Any) -> None:
    """Row, refs and documents have the row's expiry, the documents also if the row is prolonged without them."""
    soon, late = float(int(time.time()) + 500), float(int(time.time()) + 900)
    assert changed(store, namespace, "c", soon)
    assert store.put_doc(namespace, "c", "notes", Doc(b"version1", "{}"), None)
    keys = client.keys(f"ctx:{{{namespace}}}:*")
    assert {client.pexpiretime(key) for key in keys} == {int(soon * 1000)}

    assert changed(store, namespace, "c", late)

    assert len(keys) == 3
    assert {client.pexpiretime(key) for key in keys} == {int(late * 1000)}

    assert changed(store, namespace, "d", late, docs={"d": {"cart": Doc(b"version2", "{}")}})
    assert client.pexpiretime(f"ctx:{{{namespace}}}:d:d") == int(late * 1000)


def test_all_keys_of_a_namespace_are_in_one_slot(store: Store, namespace: str, client: Any) -> None:
    """Whatever the keys and ids are, a cluster keeps a namespace on one node."""
    from redis.crc import key_slot

    other = namespace + "}{x"
    for place in (namespace, other):
        found = Bridge(store, place).resolve(gateway_session_key="{a}", session_id="}b{")
        assert store.put_doc(place, found.id, "{c}", Doc(b"version1", "{}"), None)

    slots: dict[bytes, set[int]] = {}
    for key in client.keys(f"ctx:{{{namespace}*"):
        slots.setdefault(key.split(b"}")[0], set()).add(key_slot(key))

    assert sorted(map(len, slots.values())) == [1, 1]


def test_a_server_that_forgot_the_scripts_is_given_them_again(store: Store, namespace: str, client: Any) -> None:
    """Scripts are called by their sum, and sent whole where a server, flushed or new, does not know it."""
    assert changed(store, namespace, "c", time.time() + 100)
    client.script_flush()

    assert store.look(namespace, [("i", "c")])[1] == {("i", "c"): "c"}
    assert changed(store, namespace, "c", time.time() + 200)


def test_a_url_cannot_change_what_the_store_needs(redis_url: str, namespace: str) -> None:
    """Options in the URL that would decode versions, or wait longer, do not: the store's own are used."""
    store: Any = open_store(f"{redis_url}?decode_responses=true&socket_timeout=99&retry_on_timeout=true", timeout=3)

    assert changed(store, namespace, "c", time.time() + 100)

    assert store.look(namespace, [("i", "c")])[2]["c"].version == b"versionA"
    assert store._options["socket_timeout"] == 3
    store.close()


def test_a_full_server_is_named_and_nothing_is_half_written(own_redis: Any, own_client: Any) -> None:
    """A server without memory left refuses a change as a whole, even one that would begin by deleting."""
    store = open_store(own_redis.url)
    assert changed(store, "n", "c", time.time() + 100)
    own_client.config_set("maxmemory", 1)

    with pytest.raises(StoreFullError, match=r"has no memory left: raise its maxmemory"):
        changed(store, "n", "d", time.time() + 100)
    with pytest.raises(StoreFullError):
        store.put_doc("n", "c", "notes", Doc(b"version1", "{}"), None)

    assert store.look("n", [("i", "c"), ("i", "d")])[1] == {("i", "c"): "c"}
    assert dict(store.docs("n", "c")) == {}
    store.close()


def test_a_replica_is_read_and_not_written(own_redis: Any, own_client: Any) -> None:
    """A replica answers what is asked, and a write is refused with what to do."""
    store = open_store(own_redis.url)
    assert changed(store, "n", "c", time.time() + 100)
    own_client.replicaof("127.0.0.1", 1)

    with pytest.raises(StoreReadOnlyError, match=r"is a replica, and takes no writes: name the primary in the URL"):
        changed(store, "n", "d", time.time() + 100)

    assert store.look("n", [("i", "c")])[1] == {("i", "c"): "c"}
    store.close()


def test_a_user_without_the_right_is_told_so(own_redis: Any, own_client: Any) -> None:
    """What the server does not permit to the user is refused by name."""
    own_client.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+get", "+select")
    store = open_store(f"redis://reader:pw@127.0.0.1:{own_redis.port}/3")

    with pytest.raises(StoreReadOnlyError, match="does not permit this to the user"):
        store.look("n", [("i", "c")])


def test_a_server_held_up_by_a_script_is_busy(own_redis: Any, own_client: Any) -> None:
    """While somebody's script runs on and on, the store is busy, in time; after it, it works."""
    import redis

    store = open_store(own_redis.url, timeout=5)
    own_client.config_set("busy-reply-threshold", 50)

    def hold() -> None:
        with redis.Redis.from_url(own_redis.url, socket_timeout=60) as client, pytest.raises(redis.ResponseError):
            client.eval("while true do end", 0)

    holding = threading.Thread(target=hold, daemon=True)
    holding.start()
    try:
        deadline = time.monotonic() + 10

        def look() -> None:
            while time.monotonic() < deadline:
                store.look("n", [("i", "c")])

        with pytest.raises(StoreBusyError, match="is held up by a script"):
            look()
    finally:
        own_client.script_kill()
        holding.join(20)

    store.look("n", [("i", "c")])
    store.close()


def test_keys_of_somebody_else_are_not_taken_for_ours(store: Store, namespace: str, client: Any) -> None:
    """Where a key of ours would be there is another kind of thing: that is said, and it is left alone."""
    key = f"ctx:{{{namespace}}}:i:x"
    client.rpush(key, "theirs")

    with pytest.raises(StoreCorruptError, match="has something else where our keys are"):
        store.look(namespace, [("i", "x")])

    assert client.lrange(key, 0, -1) == [b"theirs"]
