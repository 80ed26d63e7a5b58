"""`ctxruntime conversations`: what is in a store, as people and programs see it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ctxruntime.cli import main
from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores import Store
from ctxruntime.conversation.stores.base import FOREVER, KEY, Change, Doc, Row
from ctxruntime.conversation.stores.sqlite import SQLiteStore

T0 = 1_800_000_000.0


class Run(NamedTuple):
    """What a command left behind."""

    code: object
    out: str
    err: str


class Program:
    """The command, run in this process, 80 columns wide, and what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.delenv("FORCE_COLOR", raising=False)

    def __call__(self, *words: str, typed: str = "") -> Run:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        with pytest.raises(SystemExit) as left:
            main(["conversations", *words])
        return Run(left.value.code, *self._capsys.readouterr())


@pytest.fixture
def conversations(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    """Return what runs the command."""
    return Program(capsys, monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return the URL of a file that is not there yet."""
    return f"sqlite:{tmp_path}/store.db"


@pytest.fixture
def bridge(file: str) -> Bridge:
    """Return a bridge over that file."""
    return Bridge(file)


def write(bridge: Bridge, conversation: Conversation, name: str, **items: object) -> None:
    """Write a document of a conversation."""
    doc = Doc(os.urandom(8), json.dumps(items))
    assert bridge.store.put_doc(bridge.namespace, conversation.id, name, doc, None) is True


# ls


def test_ls_lists_the_newest_first(tmp_path: Path, file: str, conversations: Program) -> None:
    """Each line has the id's beginning, the newest key and id, how many ids, age, remaining time, and the parent."""
    clock = [T0]
    store = SQLiteStore(tmp_path / "store.db", clock=lambda: clock[0])
    now = store_clock()
    clock[0] = now - 2 * 86_400 - 60
    bridge = Bridge(store)
    bridge.resolve(gateway_session_key="agent:main:discord:dm:7", session_id="20261130_0911_ab12")
    first = bridge.rotate("20261130_0911_ab12", "20261130_0955_cd34", continues=True)
    clock[0] = now - 3 * 3_600 - 60
    child = bridge.resolve(session_id="child", parent_session_id="20261130_0911_ab12")
    clock[0] = now - 90
    chat = Bridge(store, ttl=None).resolve(gateway_session_key="chat")
    store.close()

    run = conversations("ls", file)

    assert (run.code, run.err) == (0, "")
    assert [line.split() for line in run.out.splitlines() if line.strip(" ─")] == [
        ["id", "gateway", "key", "current", "session", "ids", "age", "left", "parent"],
        [chat.id[:8], "chat", "-", "0", "1m", "-", "-"],
        [child.id[:8], "agent:main:discord:dm:7", "child", "1", "3h", "33d", first.id[:8]],
        [first.id[:8], "agent:main:discord:dm:7", "20261130_0955_cd34", "2", "2d", "31d", "-"],
    ]


def store_clock() -> float:
    """Return the time by the clock that the command's own store has."""
    now, _, _ = Bridge().store.look("default", ())
    return now


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_ls_fits_the_terminal(
    bridge: Bridge, file: str, conversations: Program, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """What is too long loses its middle: beginnings and ends are what tells keys apart."""
    monkeypatch.setenv("COLUMNS", str(columns))
    for number in range(3):
        bridge.resolve(gateway_session_key=f"{'agent:' * 40}{number}", session_id=f"20261130_{'漢' * 200}_{number}")

    lines = conversations("ls", file).out.splitlines()

    assert {len(line) + line.count("漢") for line in lines} == {columns}
    rows = [line for line in lines if "agent:" in line]
    assert [line.count("…") for line in rows] == [2, 2, 2]
    assert [line.split()[1][-1] for line in rows] == ["2", "1", "0"]


def test_ls_shows_names_as_they_are(bridge: Bridge, file: str, conversations: Program) -> None:
    """A key that looks like markup is shown, not obeyed."""
    bridge.resolve(gateway_session_key="[bold]chat[/bold] :smile:")

    assert "[bold]chat[/bold] :smile:" in conversations("ls", file).out


def test_ls_is_bounded(bridge: Bridge, file: str, conversations: Program) -> None:
    """The newest 50 are listed, or as many as asked for, and how many there are is said; 0 lists all."""
    for number in range(52):
        bridge.resolve(session_id=f"s-{number}-")

    by_default = conversations("ls", file)
    three = conversations("ls", file, "--limit", "3")
    all = conversations("ls", file, "--limit", "0")

    assert by_default.out.count(" s-") == 50
    assert by_default.err == "the newest 50 of 52: --limit 0 lists all\n"
    assert [word for word in three.out.split() if word.startswith("s-")] == ["s-51-", "s-50-", "s-49-"]
    assert three.err == "the newest 3 of 52: --limit 0 lists all\n"
    assert [word for word in all.out.split() if word.startswith("s-")] == [f"s-{51 - number}-" for number in range(52)]
    assert all.err == ""


def test_ls_has_lines_for_programs(bridge: Bridge, file: str, conversations: Program) -> None:
    """With --json each line is one conversation, whole."""
    talk = bridge.resolve(gateway_session_key="ключ", session_id="s1")
    child = Bridge(file, ttl=None).resolve(session_id="c1", parent_session_id="s1")
    rows = dict(bridge.store.rows("default"))

    run = conversations("ls", file, "--json")

    assert (run.code, run.err, run.out.isascii()) == (0, "", True)
    assert [json.loads(line) for line in run.out.splitlines()] == [
        {
            "id": child.id,
            "gateway_key": "ключ",
            "gateway_keys": [],
            "session_ids": ["c1"],
            "current": "c1",
            "parent": talk.id,
            "root": talk.id,
            "created_at": child.created_at,
            "expires_at": None,
        },
        {
            "id": talk.id,
            "gateway_key": "ключ",
            "gateway_keys": ["ключ"],
            "session_ids": ["s1"],
            "current": "s1",
            "parent": None,
            "root": talk.id,
            "created_at": talk.created_at,
            "expires_at": None if rows[talk.id].expires >= FOREVER else rows[talk.id].expires,
        },
    ]


def test_ls_stays_in_its_namespace(bridge: Bridge, file: str, conversations: Program) -> None:
    """Another namespace's conversations are listed if it is named; in an empty one it is said that there are none."""
    Bridge(file, "other").resolve(session_id="elsewhere")

    assert "elsewhere" in conversations("ls", file, "--namespace", "other").out
    run = conversations("ls", file)
    assert run == (0, "", "ctxruntime: there are no conversations in the namespace 'default'\n")


def test_ls_names_a_damaged_record(bridge: Bridge, file: str, conversations: Program) -> None:
    """One record that is none does not hide the others."""
    bridge.resolve(session_id="s1")
    row = Row(b"12345678", FOREVER, "{}")
    bridge.store.commit("default", Change({}, {}, {}, {"c1": row}, (), {(KEY, "chat"): "c1"}, (), {}))

    run = conversations("ls", file)
    shown = conversations("show", file, "c1")

    assert (run.code, run.out.count("s1"), run.out.count("(damaged record)")) == (0, 1, 1)
    assert '{"id": "c1", "damaged": true}' in conversations("ls", file, "--json").out
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert "holds a record of conversation c1 that is none" in shown.err


def test_looking_changes_nothing(bridge: Bridge, file: str, conversations: Program) -> None:
    """No row is written by ls and show, and so nothing is prolonged."""
    Bridge(file, ttl=1000).resolve(gateway_session_key="chat", session_id="s1")
    before = [*bridge.store.rows("default")]

    conversations("ls", file)
    conversations("show", file, "chat")

    assert [*bridge.store.rows("default")] == before


# show


@pytest.mark.parametrize("by", ["id", "beginning", "key", "session", "older session"])
def test_show_finds_by_any_name(bridge: Bridge, file: str, conversations: Program, by: str) -> None:
    """A conversation is shown by its own id or the beginning of it, by a key, and by any of its session ids."""
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    talk = bridge.rotate("s1", "s2", continues=True)
    bridge.resolve(session_id="other")
    names = {"id": talk.id, "beginning": talk.id[:8], "key": "chat", "session": "s2", "older session": "s1"}

    run = conversations("show", file, names[by])

    assert (run.code, run.err) == (0, "")
    assert run.out.splitlines()[0].split() == ["id", talk.id]


def test_show_tells_everything_but_content(bridge: Bridge, file: str, conversations: Program) -> None:
    """Keys, ids, parent, times, and the states with their sizes are shown; what they hold is not."""
    parent = bridge.resolve(gateway_session_key="chat", session_id="s1")
    bridge.resolve(session_id="c1", parent_session_id="s1")
    bridge.resolve(gateway_session_key="phone", session_id="c1")
    bridge.resolve(gateway_session_key="desk", session_id="c1")
    talk = bridge.rotate("c1", "c2", continues=True)
    write(bridge, talk, "notes", text="private")
    write(bridge, talk, "cart", items=["private"] * 100)

    run = conversations("show", file, "c1")

    lines = [line.split() for line in run.out.splitlines()]
    assert run.code == 0
    assert lines[:7] == [
        ["id", talk.id],
        ["gateway", "keys", "phone"],
        ["desk", "(current)"],
        ["session", "ids", "c1"],
        ["c2", "(current)"],
        ["parent", parent.id],
        ["root", parent.id],
    ]
    assert [line[0] for line in lines[7:9]] == ["made", "expires"]
    assert (lines[7][-1], lines[8][-2:]) == ("ago)", ["(in", "33d)"])
    assert [line for line in lines[9:] if line][0::2] == [["state", "bytes"], ["cart", "1111"]]
    assert ["notes", "19"] in lines
    assert "private" not in run.out


def test_show_tells_what_is_not_there(bridge: Bridge, file: str, conversations: Program) -> None:
    """Without keys, parent, end and states it says so; a parent that was forgotten is gone, its key still known."""
    Bridge(file, ttl=None).resolve(session_id="s1")
    parent = bridge.resolve(gateway_session_key="chat", session_id="p1")
    bridge.resolve(session_id="c1", parent_session_id="p1")
    bridge.forget(parent)

    alone = conversations("show", file, "s1").out
    child = conversations("show", file, "c1").out

    for line in ("gateway keys  none", "session ids   s1", "parent        none", "root          itself"):
        assert line in alone
    for line in ("expires       never", "states        none"):
        assert line in alone
    assert "gateway keys  chat (inherited)" in child
    assert f"parent        {parent.id} (gone)" in child


def test_show_shows_values_if_asked(bridge: Bridge, file: str, conversations: Program) -> None:
    """With --values what the states hold is printed, as ASCII JSON: nothing in it reaches the terminal as it is."""
    write(bridge, bridge.resolve(session_id="s1"), "notes", text="[red]private\x1b[31m\ud800")

    run = conversations("show", file, "s1", "--values")

    assert r'{"text": "[red]private\u001b[31m\ud800"}' in run.out


@pytest.mark.parametrize("values", [False, True])
def test_show_has_a_line_for_programs(bridge: Bridge, file: str, conversations: Program, values: bool) -> None:
    """With --json it is one line; the states have what they hold in it only if that is asked for."""
    talk = bridge.resolve(gateway_session_key="chat", session_id="s1")
    write(bridge, talk, "notes", text="private")

    run = conversations("show", file, "chat", "--json", *(["--values"] if values else []))

    [line] = run.out.splitlines()
    told = json.loads(line)
    assert (told["id"], told["gateway_keys"], told["session_ids"]) == (talk.id, ["chat"], ["s1"])
    assert told["states"] == {"notes": {"bytes": 19} | ({"value": {"text": "private"}} if values else {})}


def test_a_name_of_several_has_to_be_made_clear(bridge: Bridge, file: str, conversations: Program) -> None:
    """Where a name is a key here and a session id there, nothing is shown or deleted before it is said which."""
    by_key = bridge.resolve(gateway_session_key="x")
    by_session = bridge.resolve(session_id="x")

    for words in (("show", file, "x"), ("forget", file, "x", "--yes")):
        assert conversations(*words) == (
            2,
            "",
            "ctxruntime: 'x' is of several conversations: say which by --is key or --is session\n",
        )
    assert by_key.id in conversations("show", file, "x", "--is", "key").out
    assert by_session.id in conversations("show", file, "x", "--is", "session").out
    assert conversations("show", file, "x", "--is", "id").code == 1
    assert conversations("forget", file, "x", "--is", "key", "--yes").code == 0
    assert [*bridge.conversations()] == [by_session]


def test_a_beginning_of_several_is_not_enough(bridge: Bridge, file: str, conversations: Program) -> None:
    """Where two ids begin alike more of one is asked for; a few characters are no beginning."""
    rows = {id: Row(b"12345678", FOREVER, Bridge().resolve(session_id="s").record()) for id in ("abcdef01", "abcdef02")}
    bridge.store.commit("default", Change({}, {}, {}, rows, (), {}, (), {}))

    run = conversations("show", file, "abcdef")

    assert run == (2, "", "ctxruntime: 'abcdef' begins the ids of 2 conversations: give more of it\n")
    assert conversations("show", file, "abcdef02").code == 0
    assert conversations("show", file, "abcde").code == 1


# forget


def test_forget_deletes_what_was_confirmed(bridge: Bridge, file: str, conversations: Program) -> None:
    """It asks, names what would go, and says what has gone."""
    bridge.resolve(gateway_session_key="chat", session_id="s1")
    talk = bridge.rotate("s1", "s2", continues=True)
    write(bridge, talk, "notes", text="private")
    other = bridge.resolve(session_id="other")
    what = f"conversation {talk.id} with 1 key, 2 session ids and 1 state"

    kept = conversations("forget", file, "s1", typed="n\n")
    unanswered = conversations("forget", file, "s1")
    assert (kept.code, kept.out.strip(), unanswered.code, unanswered.out.strip()) == (1, "", 1, "")
    assert kept.err.startswith(f"Delete {what}? [y/N]:")
    assert kept.err.endswith("nothing was deleted\n")
    assert bridge.find(session_id="s1") == talk

    done = conversations("forget", file, "s1", typed="y\n")
    assert (done.code, done.out.strip()) == (0, f"Deleted {what}.")
    assert [*bridge.conversations()] == [other]


def test_forget_can_do_without_asking(bridge: Bridge, file: str, conversations: Program) -> None:
    """With --yes nothing is asked."""
    talk = bridge.resolve(session_id="s1")

    run = conversations("forget", file, talk.id, "--yes")

    assert run == (0, f"Deleted conversation {talk.id} with 0 keys, 1 session id and 0 states.\n", "")
    assert [*bridge.conversations()] == []


def test_forget_takes_no_beginning(bridge: Bridge, file: str, conversations: Program) -> None:
    """What is to be deleted is named in full."""
    talk = bridge.resolve(session_id="s1")

    assert conversations("forget", file, talk.id[:8], "--yes").code == 1
    assert [*bridge.conversations()] == [talk]


# What cannot be done


@pytest.mark.parametrize("words", [("show",), ("forget", "--yes")])
def test_what_is_not_there_is_said(bridge: Bridge, file: str, conversations: Program, words: tuple[str, ...]) -> None:
    """Of a name that nothing has one line says so, and the exit code is 1."""
    bridge.resolve(session_id="s1")

    assert conversations(words[0], file, "nobody", *words[1:]) == (
        1,
        "",
        "ctxruntime: no conversation in the namespace 'default' has the id, gateway key or session id 'nobody'\n",
    )


def test_memory_has_nothing_to_show(conversations: Program) -> None:
    """What is in memory is not this process's to list."""
    assert conversations("ls", "memory:") == (
        2,
        "",
        "ctxruntime: what is in memory is seen by its own process alone: give the URL of a file or a server\n",
    )


@pytest.mark.parametrize("words", [("ls",), ("show", "s1"), ("forget", "s1", "--yes")])
@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
def test_a_file_that_is_not_there_is_not_made(
    tmp_path: Path, file: str, conversations: Program, words: tuple[str, ...], content: bytes | None
) -> None:
    """A slip in a path is told as such; no store is made, and an empty file stays empty."""
    path = tmp_path / "store.db"
    if content is not None:
        path.write_bytes(content)

    run = conversations(words[0], file, *words[1:])

    assert run == (2, "", f"ctxruntime: there is no store at {path}: give the path of one that was used before\n")
    assert [each.name for each in tmp_path.iterdir()] == ([] if content is None else ["store.db"])
    assert content is None or path.read_bytes() == content


def test_a_file_of_somebody_else_is_told_in_a_line(tmp_path: Path, conversations: Program) -> None:
    """What is no store of ours is named, and left as it is."""
    (tmp_path / "letter.txt").write_text("Dear Sir or Madam,\n" * 100, encoding="utf-8")

    run = conversations("ls", f"sqlite:{tmp_path}/letter.txt")

    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    assert run.err.startswith("ctxruntime: ")
    assert "letter.txt" in run.err
    assert [each.name for each in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nope:x", "no store has a URL of the kind 'nope'"),
        ("store.db", "no store has such a URL: give"),
        ("password=hunter2 host=bots", "no store has such a URL: give"),
        ("sqlite:", "no store has a URL of the kind 'sqlite'"),
    ],
)
def test_a_url_of_no_store_is_told_in_a_line(conversations: Program, url: str, message: str) -> None:
    """It says which URLs there are, and of this one what may be shown: its kind."""
    run = conversations("ls", url)

    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    assert message in run.err
    assert "hunter2" not in run.err


def test_what_is_no_name_is_told_in_a_line(bridge: Bridge, file: str, conversations: Program) -> None:
    """A namespace or a name that nothing can have is refused as everywhere else."""
    bridge.resolve(session_id="s1")

    for words in (("ls", file, "--namespace", ""), ("show", file, "a\nb"), ("show", file, "")):
        run = conversations(*words)
        assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
        assert run.err.startswith("ctxruntime: key ")


@pytest.mark.parametrize("url", ["redis://:s3cret@127.0.0.1:1/0", "postgresql://me:s3cret@127.0.0.1:1/x"])
def test_a_server_that_is_not_there_is_told_in_a_line(conversations: Program, url: str) -> None:
    """No traceback and no password is shown."""
    run = conversations("ls", url)

    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    assert run.err.startswith("ctxruntime: ")
    assert "s3cret" not in run.err


WITHOUT = """
import sys
sys.modules[{missing!r}] = None  # importing it fails, as if it were not there

from ctxruntime.cli import main
main(["conversations", "ls", {url!r}])
"""


@pytest.mark.parametrize(
    ("missing", "url", "extra"),
    [("redis", "redis://127.0.0.1:1/0", "redis"), ("psycopg", "postgresql://127.0.0.1:1/x", "postgres")],
)
def test_without_a_client_one_line_says_which_extra(missing: str, url: str, extra: str) -> None:
    """Where the client of a store is not installed it says how to install it."""
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing, url=url)], capture_output=True, text=True, timeout=60
    )

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("ctxruntime: this store needs ")
    assert run.stderr.endswith(f"which is not installed: pip install 'ctxruntime[{extra}]'\n")
    assert run.stderr.count("\n") == 1


def test_what_has_no_character_is_printed_as_an_escape(bridge: Bridge, file: str) -> None:
    """A terminal that knows ASCII alone gets a table in it."""
    bridge.resolve(gateway_session_key=f"ключ {'x' * 100}", session_id="s1")

    run = subprocess.run(
        [sys.executable, "-m", "ctxruntime", "conversations", "ls", file],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
        capture_output=True,
        timeout=60,
    )

    assert (run.returncode, run.stderr, run.stdout.isascii()) == (0, b"", True)
    assert rb"\u043a" in run.stdout


LASTING = pytest.mark.parametrize(
    "kind",
    ["sqlite", pytest.param("redis", marks=pytest.mark.server), pytest.param("postgres", marks=pytest.mark.server)],
    indirect=True,
)
"""The kinds of store that other processes, and other store objects, see."""


@LASTING
def test_it_works_on_every_store_that_lasts(url: str, store: Store, namespace: str, conversations: Program) -> None:
    """What is listed, shown and deleted is the same whatever keeps it."""
    bridge = Bridge(store, namespace)
    talk = bridge.resolve(gateway_session_key="chat", session_id="s1")
    write(bridge, talk, "notes", text="private")

    listed = conversations("ls", url, "--namespace", namespace, "--json")
    shown = conversations("show", url, "chat", "--namespace", namespace, "--json", "--values")
    forgotten = conversations("forget", url, "s1", "--namespace", namespace, "--yes")

    assert json.loads(listed.out)["id"] == json.loads(shown.out)["id"] == talk.id
    assert json.loads(shown.out)["states"] == {"notes": {"bytes": 19, "value": {"text": "private"}}}
    assert forgotten.code == 0
    assert bridge.find(session_id="s1") is None
