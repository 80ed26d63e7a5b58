"""`ctxruntime conversations`: list what is in a store, show one of them, forget one.

The exit code is 0 if it was done, 1 if there is no such conversation or it was not confirmed, 2 if it could not be
tried, which one line on stderr explains.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Annotated, Final, Literal, TypeAlias

import typer

from ctxruntime.conversation.bridge import Bridge
from ctxruntime.conversation.listing import Entry, State, print_json, print_one, print_table
from ctxruntime.conversation.records import Conversation
from ctxruntime.conversation.stores.opening import open_store
from ctxruntime.errors import CtxRuntimeError

__all__ = ["conversations"]

conversations: Final = typer.Typer(
    help="Look into a store of conversations, and delete from it.", no_args_is_help=True, add_completion=False
)
SHORTEST: Final = 6
"""How many characters of a conversation's id are enough to show it, if no other begins alike."""

Url: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="sqlite:PATH, redis://HOST:PORT/DB or postgresql://USER@HOST/DATABASE.",
        show_default=False,
    ),
]
Named: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The conversation's own id, its gateway key or a session id.", show_default=False
    ),
]
Kind: TypeAlias = Annotated[
    Literal["id", "key", "session"] | None,
    typer.Option("--is", help="What NAME is, where it could be several.", show_default=False),
]
Namespace: TypeAlias = Annotated[str, typer.Option(help="Where in the store they are.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, a line for each conversation.")]


@conversations.command("ls")
def ls(
    store: Url,
    namespace: Namespace = "default",
    limit: Annotated[int, typer.Option(min=0, help="How many at most, the newest ones; 0 for all.")] = 50,
    as_json: Json = False,
) -> None:
    """List the conversations of a namespace, the newest first."""
    with _bridge(store, namespace) as bridge:
        count = 0

        def entries() -> Iterator[Entry]:
            nonlocal count
            for count, (id, row) in enumerate(bridge.store.rows(namespace), 1):  # noqa: B007 - it is what was counted
                yield Entry.of(id, row)

        newest = heapq.nlargest(limit, entries(), key=_made) if limit else sorted(entries(), key=_made, reverse=True)
        now, _, _ = bridge.store.look(namespace, ())
    if as_json:
        print_json(newest)
    elif newest:
        print_table(newest, now)
    if not newest:
        typer.echo(f"ctxruntime: there are no conversations in the namespace {namespace!r}", err=True)
    elif len(newest) < count:
        typer.echo(f"the newest {len(newest)} of {count}: --limit 0 lists all", err=True)


@conversations.command("show")
def show(
    store: Url,
    name: Named,
    namespace: Namespace = "default",
    kind: Kind = None,
    values: Annotated[bool, typer.Option("--values", help="Show what the states hold, not only their sizes.")] = False,
    as_json: Json = False,
) -> None:
    """Show one conversation: its keys and session ids, its parent, its states with their sizes.

    The first characters of its own id are enough, as `ls` prints them.
    """
    with _bridge(store, namespace) as bridge:
        found = _one(bridge, name, kind) or _beginning(bridge, name, kind)
        if found is None:
            raise _nothing(name, namespace)
        states = _states(bridge, found)
        parent = bridge.get(found.parent) if found.parent is not None else None
        now, _, rows = bridge.store.look(namespace, (), (found.id,))
    if found.id not in rows:  # it went this moment
        raise _nothing(name, namespace)
    entry = Entry.of(found.id, rows[found.id])
    if as_json:
        print_json([entry], states, values=values)
    else:
        print_one(entry, states, now, parent=parent, values=values)


@conversations.command("forget")
def forget(
    store: Url,
    name: Named,
    namespace: Namespace = "default",
    kind: Kind = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it without being asked.")] = False,
) -> None:
    """Delete one conversation: its keys, its session ids, and what the states hold."""
    with _bridge(store, namespace) as bridge:
        found = _one(bridge, name, kind)
        if found is None:
            raise _nothing(name, namespace)
        what = _summary(found, _states(bridge, found))
        if not yes and not typer.confirm(f"Delete {what}?", err=True):
            typer.echo("ctxruntime: nothing was deleted", err=True)
            raise typer.Exit(1)
        if not bridge.forget(found):
            raise _nothing(name, namespace)
    typer.echo(f"Deleted {what}.")


@contextmanager
def _bridge(url: str, namespace: str) -> Generator[Bridge, None, None]:
    """Open a store that is there; whatever goes wrong with it is one line, and the exit code 2."""
    try:
        _check(url)
        bridge = Bridge(open_store(url), namespace)
        try:
            yield bridge
        finally:
            bridge.store.close()
    except (CtxRuntimeError, ValueError) as error:
        raise _refused(str(error)) from None


def _check(url: str) -> None:
    """Refuse what has nothing to show.

    Raises:
        ValueError: it is in memory, or no file; nothing is made in its place.
    """
    kind, _, place = url.partition(":")
    if kind == "memory":
        raise ValueError("what is in memory is seen by its own process alone: give the URL of a file or a server")
    if kind == "sqlite" and place and not any(_has_content(f"{place}{end}") for end in ("", "-wal", "-journal")):
        raise ValueError(f"there is no store at {os.path.abspath(place)}: give the path of one that was used before")


def _has_content(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except (OSError, ValueError):
        return False


def _one(bridge: Bridge, name: str, kind: str | None) -> Conversation | None:
    """Return the conversation of this name; of several, leave."""
    wanted: dict[str, Callable[[], Conversation | None]] = {
        "id": lambda: bridge.get(name),
        "key": lambda: bridge.find(gateway_session_key=name),
        "session": lambda: bridge.find(session_id=name),
    }
    found = {each: look() for each, look in wanted.items() if kind in (None, each)}
    kinds = [each for each, one in found.items() if one is not None]
    if len({one for one in found.values() if one is not None}) > 1:
        listed = " or ".join(f"--is {each}" for each in kinds)
        raise _refused(f"{name!r} is of several conversations: say which by {listed}")
    return found[kinds[0]] if kinds else None


def _beginning(bridge: Bridge, start: str, kind: str | None) -> Conversation | None:
    """Return the conversation whose id begins like this; of several, leave."""
    if kind not in (None, "id") or len(start) < SHORTEST:
        return None
    ids = [id for id, _ in bridge.store.rows(bridge.namespace) if id.startswith(start)]
    if len(ids) > 1:
        raise _refused(f"{start!r} begins the ids of {len(ids)} conversations: give more of it")
    return bridge.get(ids[0]) if ids else None


def _states(bridge: Bridge, conversation: Conversation) -> list[State]:
    docs = bridge.store.docs(bridge.namespace, conversation.id)
    return [State(name, docs[name].body) for name in sorted(docs)]


def _summary(conversation: Conversation, states: list[State]) -> str:
    parts = [
        _counted(len(conversation.gateway_keys), "key"),
        _counted(len(conversation.session_ids), "session id"),
        _counted(len(states), "state"),
    ]
    return f"conversation {conversation.id} with {parts[0]}, {parts[1]} and {parts[2]}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _made(entry: Entry) -> float:
    return entry.created_at


def _nothing(name: str, namespace: str) -> typer.Exit:
    typer.echo(
        f"ctxruntime: no conversation in the namespace {namespace!r} has the id, gateway key or session id {name!r}",
        err=True,
    )
    return typer.Exit(1)


def _refused(why: str) -> typer.Exit:
    typer.echo(f"ctxruntime: {why}", err=True)
    return typer.Exit(2)
