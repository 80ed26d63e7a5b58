"""What is special about PostgreSQL as a store."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import (
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreVersionError,
)
from ctxruntime.conversation.stores import open_store
from ctxruntime.conversation.stores.base import Change, Doc, Row
from ctxruntime.conversation.stores.postgres_sql import fold

pytestmark = pytest.mark.server


@pytest.fixture
def admin(postgres_url: str) -> Iterator[Any]:
    """Return a connection of the client's to the session's server."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def database(postgres_url: str, admin: Any, namespace: str) -> Iterator[Callable[..., str]]:
    """Return what makes a new database, and returns its URL."""
    made: list[str] = []

    def make(options: str = "") -> str:
        made.append(f"{namespace}-{len(made)}")
        admin.execute(f'CREATE DATABASE "{made[-1]}" {options}')
        return postgres_url.replace("/postgres", f"/{made[-1]}")

    yield make
    for name in made:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def asked(url: str, statement: str) -> list[Any]:
    """Return what a database answers."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def made(id: str, expires: float | None = None) -> Change:
    """Return the change that writes a conversation with one session id."""
    row = Row(b"versionA", time.time() + 1000 if expires is None else expires, "{}")
    return Change({}, {}, {}, {id: row}, [], {("i", id): id}, [], {})


def test_first_users_at_once_make_one_schema(database: Callable[..., str]) -> None:
    """Stores that meet an empty database at the same time make the schema once, and all work."""
    url, barrier = database(), threading.Barrier(8)
    faults: list[BaseException] = []

    def work(number: int) -> None:
        store = open_store(url, timeout=20)
        barrier.wait(20)
        try:
            assert store.commit("n", made(f"c{number}"))
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is looked at below
            faults.append(fault)
        store.close()

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)

    assert faults == []
    assert asked(url, "SELECT schema FROM ctxruntime.meta") == [(1,)]
    assert asked(url, "SELECT count(*) FROM ctxruntime.convs") == [(8,)]


def test_a_newer_schema_is_named_and_not_written_to(database: Callable[..., str]) -> None:
    """A database of a newer ctxruntime is refused with both versions, even if our functions are gone from it."""
    url = database()
    asked(url, "CREATE SCHEMA ctxruntime CREATE TABLE meta (schema integer)")
    asked(url, "INSERT INTO ctxruntime.meta VALUES (2)")
    store = open_store(url)

    with pytest.raises(StoreVersionError, match="has schema 2, and this ctxruntime knows 1: upgrade ctxruntime"):
        store.look("n", [("i", "x")])
    with pytest.raises(StoreVersionError):
        store.commit("n", made("c"))

    tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'ctxruntime'::regnamespace"
    assert asked(url, tables) == [(1,)]
    store.close()


def test_a_schema_of_somebody_else_is_named(database: Callable[..., str]) -> None:
    """A schema of our name that is none of ours is refused, with what to do, and not written to."""
    url = database()
    asked(url, "CREATE SCHEMA ctxruntime CREATE TABLE meta (theirs text)")

    with pytest.raises(StoreCorruptError, match="has a schema ctxruntime that is none of ours"):
        open_store(url).look("n", [("i", "x")])

    assert asked(url, "SELECT count(*) FROM pg_class WHERE relnamespace = 'ctxruntime'::regnamespace") == [(1,)]


def test_a_read_only_database_is_read_and_not_written(database: Callable[..., str]) -> None:
    """What the URL's own options say still holds: a read-only session looks, and is refused a write by name."""
    url = database()
    store = open_store(url)
    assert store.commit("n", made("c"))
    reader = open_store(f"{url}?options=-c%20default_transaction_read_only%3Don")

    with pytest.raises(StoreReadOnlyError, match="takes no writes: name the primary in the URL"):
        reader.commit("n", made("d"))

    assert reader.look("n", [("i", "c"), ("i", "d")])[1] == {("i", "c"): "c"}
    reader.close()
    store.close()


def test_a_user_who_may_not_make_the_schema_is_told_what_to_ask_for(database: Callable[..., str], admin: Any) -> None:
    """Without the right to create schemas there is a named error, and with a schema of the user's own all works."""
    url, role = database(), f"bot_{time.time_ns()}"
    admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pw'")
    before, _, place = url.partition("@")
    store = open_store(f"{before.partition('//')[0]}//{role}:pw@{place}")

    with pytest.raises(StoreReadOnlyError, match=r"does not permit this to the user: have the schema made for it"):
        store.look("n", [("i", "x")])

    asked(url, f"CREATE SCHEMA ctxruntime AUTHORIZATION {role}")
    assert store.commit("n", made("c"))
    store.close()


def test_a_lock_of_somebody_else_makes_the_store_busy(database: Callable[..., str]) -> None:
    """A call that waits for a lock fails within the timeout, and says that others hold the store."""
    import psycopg

    url = database()
    store = open_store(url, timeout=1)
    assert store.commit("n", made("c"))
    with psycopg.connect(url) as holder:
        holder.execute("LOCK TABLE ctxruntime.convs")
        start = time.monotonic()

        with pytest.raises(StoreBusyError, match="was held by others for too long"):
            store.commit("n", made("d"))

        assert time.monotonic() - start < 1.3

    assert store.commit("n", made("e"))
    store.close()


def test_a_password_in_what_the_server_says_is_not_shown(postgres_url: str) -> None:
    """The server names a user that it refuses: where that is the password, too, the whole chain shows neither."""
    place = postgres_url.rpartition("@")[2]

    with pytest.raises(StoreUnavailableError) as caught:
        open_store(f"postgresql://hunt%65r2:hunt%65r2@{place}").look("n", [("i", "x")])

    assert 'user "***"' in str(caught.value.__cause__)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_what_has_expired_is_swept(database: Callable[..., str]) -> None:
    """Each commit deletes a few conversations that have expired, of any namespace, with their refs and documents."""
    url = database()
    store = open_store(url)
    for number in range(6):
        assert store.commit("other", made(f"old{number}", time.time() + 0.5))
        assert store.put_doc("other", f"old{number}", "notes", Doc(b"version1", "{}"), None)
    time.sleep(0.6)

    for expected in (2, 0):
        assert store.commit("n", made("c"))
        left = asked(url, "SELECT count(*) FROM ctxruntime.convs WHERE ns = 'other'")
        assert left == asked(url, "SELECT count(*) FROM ctxruntime.refs WHERE ns = 'other'") == [(expected,)]
        assert asked(url, "SELECT count(*) FROM ctxruntime.docs") == [(expected,)]
    store.close()


def test_a_dropped_conversation_leaves_nothing(database: Callable[..., str]) -> None:
    """Forgetting deletes the row, its refs and its documents."""
    url = database()
    bridge = Bridge(url, "n")
    found = bridge.resolve(gateway_session_key="k", session_id="s")
    assert bridge.store.put_doc("n", found.id, "notes", Doc(b"version1", "{}"), None)

    assert bridge.forget(session_id="s")

    for table in ("convs", "refs", "docs"):
        assert asked(url, f"SELECT count(*) FROM ctxruntime.{table}") == [(0,)]
    bridge.store.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_names_in_a_database_of_another_encoding(database: Callable[..., str], encoding: str) -> None:
    """A name is kept as it is, or refused by name, whatever the encoding of the database; look-ups never mix it up."""
    url = database(f"ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    bridge = Bridge(url, "n")
    plain = bridge.resolve(session_id="grün")

    if encoding == "SQL_ASCII":
        assert bridge.resolve(session_id="緑") != plain
    else:
        with pytest.raises(StoreError, match="has a database that cannot hold every text: make one with ENCODING"):
            bridge.resolve(session_id="緑")

    assert bridge.find(session_id="grün") == plain
    bridge.store.close()


def test_what_is_no_text_is_not_there(database: Callable[..., str]) -> None:
    """An id that no conversation can have, with NUL or half a character, is not found, and no error."""
    store = open_store(database())

    for id in ("\0", "a\ud800"):
        assert store.look("n", [], [id])[2] == {}
        assert store.get_doc("n", id, "notes") is None
        assert store.put_doc("n", id, "notes", Doc(b"version1", "{}"), None) is None
        assert store.docs("n", id) == {}
    store.close()


def test_a_folded_name_is_no_name() -> None:
    """What stands for a long name begins with what no name has, and fits an index three times."""
    assert fold("x" * 600) == "x" * 600
    assert fold("x" * 601).startswith("\x01")
    assert fold("é" * 301) != fold("é" * 302)
    assert len(fold("緑" * 1024)) < 100


def test_a_call_that_interlocks_with_another_is_tried_again(database: Callable[..., str]) -> None:
    """Where the server undoes a commit for the sake of another transaction, the commit is made after that one."""
    import psycopg

    url = database()
    store = open_store(url, timeout=10)
    assert store.commit("n", made("a"))
    assert store.commit("n", made("b"))
    done: list[bool] = []
    with psycopg.connect(url) as other:
        other.execute("SET deadlock_timeout = '10s'")  # so that the other one is the victim
        other.execute("UPDATE ctxruntime.convs SET record = '[1]' WHERE id = 'b'")
        both = made("a")._replace(rows={**made("a").rows, **made("b").rows})
        thread = threading.Thread(target=lambda: done.append(store.commit("n", both)), daemon=True)
        thread.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        deadline = time.monotonic() + 10
        while asked(url, waits) != [(1,)] and time.monotonic() < deadline:
            time.sleep(0.01)
        other.execute("UPDATE ctxruntime.convs SET record = '[1]' WHERE id = 'a'")
    thread.join(20)

    assert done == [True]
    assert asked(url, "SELECT record FROM ctxruntime.convs") == [("{}",), ("{}",)]
    store.close()
