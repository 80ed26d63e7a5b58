"""The file of a SQLite store: what may be at its path, and what becomes of it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import (
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
)
from ctxruntime.conversation.stores import SQLiteStore
from ctxruntime.conversation.stores.base import Doc
from ctxruntime.conversation.stores.sqlite_errors import store_error
from ctxruntime.conversation.stores.sqlite_files import StoreFile

CHAT = ("k", "chat")


def run(program: str, *arguments: object, before: tuple[str, ...] = ()) -> list[str]:
    """Return the lines that a program printed, in a process of its own."""
    command = [*before, sys.executable, "-c", program, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def raw(path: Path) -> closing[sqlite3.Connection]:
    """Return a connection that knows nothing of stores."""
    return closing(sqlite3.connect(path, isolation_level=None))


def contents(folder: Path) -> dict[str, bytes]:
    """Return all that is in a folder."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store is to be."""
    return tmp_path / "x.db"


@pytest.fixture
def filled(path: Path) -> Path:
    """Return the path of a store with a few hundred conversations, closed."""
    store = SQLiteStore(path)
    bridge = Bridge(store)
    for number in range(300):
        bridge.resolve(gateway_session_key=f"chat-{number}", session_id=f"s{number}")
    store.close()
    return path


# A file that is made


def test_nothing_is_opened_before_the_first_call(path: Path) -> None:
    """A store that was only made has no file; the first call makes it."""
    store = SQLiteStore(path)
    assert not path.exists()

    store.look("n", [CHAT])

    assert path.exists()
    store.close()


def test_a_path_is_relative_to_where_the_store_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the working directory is when the file is opened does not matter."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = SQLiteStore("x.db")
    monkeypatch.chdir(tmp_path / "elsewhere")

    store.look("n", [CHAT])
    store.close()

    assert contents(tmp_path).keys() == {"x.db"}
    assert store.path == str(tmp_path / "x.db")


@pytest.mark.parametrize("name", ["a b.db", "50%25.db", "what?mode=ro", "x#1.db", "ключ 🔑.db", ":memory:", "a'b.db"])
def test_any_name_is_that_of_a_file(tmp_path: Path, name: str) -> None:
    """No character of a path means anything."""
    store = SQLiteStore(tmp_path / name)

    store.look("n", [CHAT])
    store.close()

    assert contents(tmp_path).keys() == {name}


@pytest.mark.parametrize("bad", [{"path": ""}, {"path": "a\0b"}, {"timeout": 0.0}, {"synchronous": "OFF"}])
def test_arguments_are_checked_at_once(bad: dict[str, object]) -> None:
    """What can never work is refused where it is written."""
    arguments = {"path": "x.db"} | bad

    with pytest.raises(ValueError, match=next(iter(bad))):
        SQLiteStore(**arguments)  # type: ignore[arg-type]


def test_the_schema_is_the_one_with_the_number_1(filled: Path) -> None:
    """A file says whose it is and which schema it has, and has that; to change it is to give it another number."""
    with raw(filled) as connection:
        owner, schema = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        columns = {
            table: [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }

    assert (owner.to_bytes(4, "big"), schema) == (b"ctxr", 1)
    assert columns == {
        "refs": ["ns", "kind", "name", "conv"],
        "convs": ["ns", "id", "version", "expires", "record"],
        "docs": ["ns", "conv", "name", "version", "body"],
    }


def test_whose_it_is_stands_in_the_file_itself(path: Path) -> None:
    """A file whose `-wal` is lost, or not read yet, is known as ours."""
    store = SQLiteStore(path)
    store.look("n", [CHAT])

    assert path.read_bytes()[68:72] == b"ctxr"
    store.close()


@pytest.mark.parametrize(("synchronous", "level"), [("NORMAL", 1), ("FULL", 2)])
def test_a_file_is_in_wal(path: Path, synchronous: str, level: int) -> None:
    """Readers and a writer do not wait for each other, and how much of a power loss is survived is a choice."""
    store = SQLiteStore(path, synchronous=synchronous)  # type: ignore[arg-type]

    with store._writer as cursor:
        assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert cursor.execute("PRAGMA synchronous").fetchone() == (level,)
    store.close()


NO_WAL = """
import os, resource, sys
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.stores import SQLiteStore

resource.setrlimit(resource.RLIMIT_FSIZE, (28 * 1024, 28 * 1024))  # the shared memory of a WAL takes 32 KiB
store = SQLiteStore(sys.argv[1])
made = Bridge(store).resolve(gateway_session_key="chat")
assert Bridge(SQLiteStore(sys.argv[1])).find(gateway_session_key="chat") == made
with store._writer as cursor:
    print(*(cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")))
print(*os.listdir(os.path.dirname(sys.argv[1])))
"""


def test_where_there_can_be_no_wal_there_is_a_journal(path: Path) -> None:
    """A store works where WAL does not, with `synchronous=FULL`, and leaves nothing of the attempt."""
    assert run(NO_WAL, path) == ["delete 2", "x.db"]


def test_a_file_that_is_not_in_wal_is_switched_when_it_can_be(path: Path) -> None:
    """What could not be in WAL when it was made is, once it can."""
    run(NO_WAL, path)

    with closing(SQLiteStore(path)) as store:
        assert Bridge(store).find(gateway_session_key="chat") is not None

    assert path.read_bytes()[18:20] == b"\2\2"


def test_the_switch_to_wal_waits_for_a_moment_but_not_for_ever(path: Path) -> None:
    """Who holds the file while it would be switched keeps it, and the store works as it is."""
    run(NO_WAL, path)
    with raw(path) as reader, closing(SQLiteStore(path)) as store:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM refs").fetchall()
        began = time.monotonic()

        assert store.look("default", [CHAT])[1].keys() == {CHAT}

        assert 0.5 < time.monotonic() - began < 3  # the timeout is 5
        assert path.read_bytes()[18:20] == b"\1\1"


ENDS = """
import sys
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.stores import SQLiteStore
bridge = Bridge(SQLiteStore(sys.argv[1]))
bridge.resolve(session_id="s")
"""


def test_a_program_that_ends_closes_its_stores(path: Path) -> None:
    """What it wrote is in the one file then, without a warning about connections that were left open."""
    run(ENDS, path, before=("env", "PYTHONWARNINGS=error"))

    assert contents(path.parent).keys() == {"x.db"}


OTHER_TRIES = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_opening_a_store_keeps_the_locks_of_its_process(path: Path) -> None:
    """What else this process has locked in the file stays locked: a `close` of the file in passing would end that."""
    run(NO_WAL, path)
    with raw(path) as writer, closing(SQLiteStore(path)) as store:
        writer.execute("BEGIN IMMEDIATE")

        store.look("n", [CHAT])

        assert run(OTHER_TRIES, path) == ["database is locked"]


# A file that is none of ours


def _other_program(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE t (a)")


def _other_program_with_an_id(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA application_id = 7")


def _other_program_that_counts_schemas(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA user_version = 1")


def _other_program_in_wal(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (a)")


def _other_program_that_crashed(path: Path) -> None:
    """Leave a `-wal` that the next connection would write into the file, and delete."""
    with raw(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (a)")
        connection.execute("PRAGMA wal_checkpoint")
        connection.execute("INSERT INTO t VALUES (1)")
        kept = contents(path.parent)
    for name in ("x.db", "x.db-wal"):
        (path.parent / name).write_bytes(kept[name])


def _text(path: Path) -> None:
    path.write_text("remember the milk\n" * 300)


def _short_text(path: Path) -> None:
    path.write_text("milk")


def _ours(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        bridge = Bridge(store)
        for number in range(300):
            bridge.resolve(gateway_session_key=f"chat-{number}")


def _truncated(path: Path) -> None:
    _ours(path)
    os.truncate(path, path.stat().st_size // 2)


def _truncated_within_the_first_page(path: Path) -> None:
    _ours(path)
    os.truncate(path, 1000)


def _without_its_beginning(path: Path) -> None:
    _ours(path)
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])


def _without_a_table(path: Path) -> None:
    _ours(path)
    with raw(path) as connection:
        connection.execute("DROP TABLE docs")


def _emptied_but_for_the_wal(path: Path) -> None:
    path.write_bytes(b"")
    path.with_name("x.db-wal").write_bytes(b"what was written last")


@pytest.mark.parametrize(
    "made",
    [
        _other_program,
        _other_program_with_an_id,
        _other_program_that_counts_schemas,
        _other_program_in_wal,
        _other_program_that_crashed,
        _text,
        _short_text,
        _truncated,
        _truncated_within_the_first_page,
        _without_its_beginning,
        _without_a_table,
        _emptied_but_for_the_wal,
    ],
    ids=lambda made: made.__name__[1:],
)
def test_what_is_no_store_is_named_and_left_alone(path: Path, made: Callable[[Path], None]) -> None:
    """A foreign or damaged file is refused by every call, by name, with what to do; no byte of it changes."""
    made(path)
    before = contents(path.parent)
    store = SQLiteStore(path)

    for call in (lambda: store.look("n", [CHAT]), lambda: Bridge(store).resolve(session_id="s")):
        with pytest.raises(StoreCorruptError, match="move it away") as caught:
            call()
        assert str(caught.value).startswith(f"SQLite store '{path}' ")
    store.close()

    assert contents(path.parent) == before


def test_a_newer_schema_is_left_alone(filled: Path) -> None:
    """A file of a newer ctxruntime is refused with both versions, and not written to."""
    with raw(filled) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = contents(filled.parent)

    with pytest.raises(StoreVersionError, match="has schema 2, and this ctxruntime knows 1: upgrade") as caught:
        SQLiteStore(filled).look("n", [CHAT])

    assert (caught.value.found, caught.value.known) == (2, 1)
    assert contents(filled.parent) == before


def test_a_newer_schema_is_seen_before_it_is_in_the_file(filled: Path) -> None:
    """What a newer ctxruntime has just written is in the `-wal` file alone, and counts."""
    with raw(filled) as newer:
        newer.execute("PRAGMA user_version = 2")
        assert filled.read_bytes()[60:64] == b"\0\0\0\1"

        with pytest.raises(StoreVersionError, match="schema 2"):
            SQLiteStore(filled).look("n", [CHAT])


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """What has nothing in it, as `mkstemp` makes it, can be overwritten."""
    path.touch()

    with closing(SQLiteStore(path)) as store:
        assert Bridge(store).resolve(session_id="s").current == "s"


def test_who_comes_second_makes_no_tables(filled: Path) -> None:
    """Of two processes that find no file both go to make it, one after the other, and the second leaves it alone."""
    with raw(filled) as connection:
        before = connection.execute("SELECT count(*) FROM convs").fetchone()

        StoreFile(str(filled), 5, "NORMAL")._make(connection)

        assert connection.execute("SELECT count(*) FROM convs").fetchone() == before == (300,)


def test_damage_found_later_is_named(filled: Path) -> None:
    """A page that is damaged behind a good first one is told by the call that comes upon it, and can be moved away."""
    size = filled.stat().st_size
    with filled.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))

    with closing(SQLiteStore(filled)) as store:
        with pytest.raises(StoreCorruptError, match=r"malformed.*move it away") as caught:
            store.look("default", [("k", "chat-1")])
        assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)

        filled.rename(filled.with_name("damaged.db"))

        assert store.look("default", [("k", "chat-1")])[1] == {}


def test_a_text_that_is_none_is_damage(filled: Path) -> None:
    """What cannot be text is told as damage."""
    with raw(filled) as connection:
        connection.execute("UPDATE convs SET record = CAST(x'ff' AS TEXT)")

    with closing(SQLiteStore(filled)) as store, pytest.raises(StoreCorruptError, match="UTF-8"):
        store.look("default", [("k", "chat-1")])


def test_a_store_that_was_moved_away_begins_anew(filled: Path) -> None:
    """The advice works: without another start of the program."""
    os.truncate(filled, 5000)
    store = SQLiteStore(filled)
    with pytest.raises(StoreCorruptError):
        store.look("n", [CHAT])

    filled.rename(filled.with_name("damaged.db"))

    assert Bridge(store).resolve(session_id="s").current == "s"
    store.close()


# A place that cannot be used


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """A folder is not made: its name may be a mistake."""
    with pytest.raises(StoreUnavailableError, match=f"has no folder '{tmp_path}/no' to be in: make the folder"):
        SQLiteStore(tmp_path / "no" / "x.db").look("n", [CHAT])

    assert contents(tmp_path) == {}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """A path through a file has no folder either."""
    (tmp_path / "file").touch()

    with pytest.raises(StoreUnavailableError, match="has no folder"):
        SQLiteStore(tmp_path / "file" / "x.db").look("n", [CHAT])


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """The path of a folder is told as that."""
    with pytest.raises(StoreUnavailableError, match="is a folder: give the path of a file"):
        SQLiteStore(tmp_path).look("n", [CHAT])


@pytest.fixture
def public() -> Iterator[Path]:
    """Yield a folder that any user can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


AS_NOBODY = """
import os, sys
from pathlib import Path
from ctxruntime.conversation import merging
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import StoreError
from ctxruntime.conversation.stores import SQLiteStore
from ctxruntime.conversation.stores.base import Doc
from ctxruntime.values import problem_of

Path("/").as_uri()  # what it loads a private Python may not be able to load any more
if os.getuid() == 0:  # who is not root can be kept out as they are
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
store = SQLiteStore(sys.argv[1])
bridge = Bridge(store)
for call in (
    lambda: len(bridge.find(gateway_session_key="chat-7").session_ids),
    lambda: len(list(store.rows("default"))),
    lambda: store.get_doc("default", bridge.find(session_id="s7").id, "x").body,
    lambda: len(store.docs("default", bridge.find(session_id="s7").id)),
    lambda: bridge.resolve(session_id="new"),
    lambda: store.put_doc("default", bridge.find(session_id="s7").id, "x", Doc(b"12345678", "{}"), None),
):
    try:
        print(call())
    except StoreError as error:
        print(type(error).__name__, "permission" in str(error), isinstance(error, PermissionError))
"""
REFUSED = "StoreReadOnlyError True True"


@pytest.mark.parametrize("writable_folder", [True, False], ids=["writable-folder", "read-only-folder"])
def test_what_may_only_be_read_is_read(public: Path, filled: Path, writable_folder: bool) -> None:
    """A file without permission to write can be read; a write is refused as a matter of permission."""
    path = Path(shutil.copy(filled, public))
    keeper = sqlite3.connect(path)  # another user's process, which has it open
    keeper.execute("SELECT * FROM refs").fetchall()
    for file in public.iterdir():
        file.chmod(0o444)
    public.chmod(0o777 if writable_folder else 0o555)

    assert run(AS_NOBODY, path) == ["1", "300", "{}", "0", REFUSED, REFUSED]
    keeper.close()


def test_a_rollback_journal_store_is_read_without_permission(public: Path, filled: Path) -> None:
    """In the other mode nothing has to be beside a file to read it."""
    with raw(filled) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    path = Path(shutil.copy(filled, public))
    path.chmod(0o444)
    public.chmod(0o555)

    assert run(AS_NOBODY, path) == ["1", "300", "{}", "0", REFUSED, REFUSED]


@pytest.mark.parametrize("case", ["unreadable-file", "no-file", "closed-folder", "closed-above"])
def test_a_missing_permission_is_named(public: Path, filled: Path, case: str) -> None:
    """Where there is no permission to read, make or even find the file, every call says so."""
    path = public / "sub" / "x.db" if case == "closed-above" else public / "x.db"
    path.parent.mkdir(exist_ok=True)
    if case != "no-file":
        shutil.copy(filled, path)
        path.chmod(0o000 if case == "unreadable-file" else 0o644)
    closed = 0o700 if os.getuid() == 0 else 0o000
    public.chmod(closed if case.startswith("closed") else 0o555)

    assert run(AS_NOBODY, path) == [REFUSED] * 6


def on_a_disk_of(size: str, folder: Path) -> tuple[str, ...]:
    """Return what starts a program for which, and for nobody else, a folder is a disk of this size."""
    alone = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--user", "--map-root-user"])]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:  # in a chroot: all mounts are private there
        alone += ["--propagation", "unchanged"]
    script = f'mount -t tmpfs -o size={size} tmpfs "$0" || exit 9; "$@"; ended=$?; umount "$0"; exit $ended'
    return (*alone, "sh", "-c", script, str(folder))


FILL = """
import os, sys
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.errors import StoreFullError
from ctxruntime.conversation.stores import SQLiteStore
from ctxruntime.conversation.stores.base import Doc

spare = sys.argv[1] + "/spare"
with open(spare, "wb") as file:
    file.write(bytes(64 * 1024))
store = SQLiteStore(sys.argv[1] + "/x.db")
bridge = Bridge(store)
known, was, done = bridge.resolve(session_id="s"), None, 0
try:
    while done < 1000:
        version = os.urandom(8)
        assert store.put_doc("default", known.id, "state", Doc(version, f'{{"n":{done:01000d}}}'), was)
        was, done = version, done + 1
except StoreFullError as error:
    print("free some space" in str(error))
print(done > 5, store.get_doc("default", known.id, "state").version in (was, version))
os.unlink(spare)
was = store.get_doc("default", known.id, "state").version
print(store.put_doc("default", known.id, "state", Doc(b"12345678", "{}"), was))
with store._writer as cursor:
    print(*cursor.execute("PRAGMA integrity_check").fetchone())
"""


def test_a_full_disk_is_named_and_survived(tmp_path: Path) -> None:
    """A write for which there is no room fails as that; the file is whole, and once there is room writes go on."""
    assert run(FILL, tmp_path, before=on_a_disk_of("256k", tmp_path)) == ["True", "True True", "True", "ok"]


def test_a_disk_that_is_full_from_the_start_is_named(tmp_path: Path) -> None:
    """Not even the tables fit: the call fails as a matter of room, and not of damage."""
    program = """
import sys
from ctxruntime.conversation.errors import StoreError
from ctxruntime.conversation.stores import SQLiteStore
for _ in range(2):
    try:
        SQLiteStore(sys.argv[1] + "/x.db").look("n", [("k", "chat")])
    except StoreError as error:
        print(type(error).__name__)
"""
    assert run(program, tmp_path, before=on_a_disk_of("8k", tmp_path)) == ["StoreFullError", "StoreFullError"]


def test_a_disk_that_is_full_when_a_store_is_opened_is_named(tmp_path: Path) -> None:
    """A file in WAL cannot even be read where there is no room for what belongs beside it: a matter of room too."""
    program = """
import os, sys
from contextlib import suppress
from ctxruntime.conversation.errors import StoreError
from ctxruntime.conversation.stores import SQLiteStore
store = SQLiteStore(sys.argv[1] + "/x.db")
store.look("n", [("k", "chat")])
store.close()
with suppress(OSError), open(sys.argv[1] + "/spare", "wb", buffering=0) as file:
    while True:
        file.write(bytes(4096))
try:
    store.look("n", [("k", "chat")])
except StoreError as error:
    print(type(error).__name__)
os.unlink(sys.argv[1] + "/spare")
print(store.look("n", [("k", "chat")])[1])
"""
    assert run(program, tmp_path, before=on_a_disk_of("256k", tmp_path)) == ["StoreFullError", "{}"]


def test_a_database_that_is_overwritten_is_damage(path: Path) -> None:
    """What SQLite takes for no database at all, whenever it comes upon it, is damage."""
    _text(path)

    with raw(path) as connection, pytest.raises(sqlite3.DatabaseError) as caught:
        connection.execute("SELECT * FROM refs")

    assert isinstance(store_error(str(path), caught.value), StoreCorruptError)


def test_every_error_is_one_of_ours(path: Path) -> None:
    """What SQLite raises and we know nothing of is a `StoreError` too, chained to it, and nothing was written."""
    with closing(SQLiteStore(path)) as store:
        known = Bridge(store).resolve(session_id="s")

        with pytest.raises(StoreError) as caught:
            store.put_doc("default", known.id, "x", Doc(b"12345678", object()), None)  # type: ignore[arg-type]

        assert isinstance(caught.value.__cause__, sqlite3.Error)
        assert store.docs("default", known.id) == {}
