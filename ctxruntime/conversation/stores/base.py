"""What a store is: seven methods, and no rule of ours in any of them.

In a *namespace* a store holds *rows* (one for each conversation: a version, an expiry, a record that it does not
read), *refs* (a gateway key or a session id, and the conversation that lists it) and *documents* (a state's name in
a conversation: a version, a body that it does not read). What is in them is decided by `steps`; a store only reads
consistently, and writes a change whole, or not at all.

Versions are random, never counted: a counter would start again after a delete, and a version names one content.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

__all__ = ["FOREVER", "KEY", "NO_DOC", "SESSION", "Change", "Doc", "Look", "Ref", "Row", "Store"]

KEY: Final = "k"
SESSION: Final = "i"
Ref: TypeAlias = tuple[Literal["k", "i"], str]
"""A gateway key, or a session id: its kind, and its text."""

FOREVER: Final = 1e12
"""The expiry of what does not expire, in seconds since the epoch: the year 33658, and exact in any store."""


class Row(NamedTuple):
    """What is stored of one conversation."""

    version: bytes
    """Eight random bytes, new for every write."""
    expires: float
    """When it is gone, in seconds since the epoch by the store's clock."""
    record: str
    """ASCII; what it says is not the store's business."""


class Doc(NamedTuple):
    """A state of one conversation."""

    version: bytes | None
    """Eight random bytes, new for every write; None if it was never written."""
    body: str
    """ASCII, as `Row.record`."""


NO_DOC: Final = Doc(None, "{}")
"""What `get_doc` returns of a living conversation where nothing was written."""


Look: TypeAlias = tuple[float, Mapping[Ref, str], Mapping[str, Row]]
"""What one consistent read has found: the store's clock, in seconds since the epoch; which conversation each ref that
was asked for points to; the rows of these conversations, and of those asked for by id. What is not there, or has
expired, is left out. (A plain tuple: a class of its own would cost a quarter of a look-up in memory.)"""


class Change(NamedTuple):
    """What to write, if everything that it is based on is unchanged; what has expired counts as not there."""

    if_refs: Mapping[Ref, str | None]
    """Where each of these refs has to point still."""
    if_versions: Mapping[str, bytes]
    """Which version each of these conversations has to have still."""
    if_docs: Mapping[str, Mapping[str, bytes]]
    """Which documents, in which versions, each of these conversations has to have still: these, and no others."""
    rows: Mapping[str, Row]
    """The conversations to write."""
    gone: Collection[str]
    """The conversations to delete, with their documents. The refs to them are named in `refs` or `no_refs`."""
    refs: Mapping[Ref, str]
    """The refs to point to a conversation, all of those of a row whose expiry changed among them."""
    no_refs: Collection[Ref]
    """The refs to delete."""
    docs: Mapping[str, Mapping[str, Doc]]
    """The documents to write, by conversation and name; those that are not named stay."""


class Store(Protocol):
    """Where the conversations are kept. Every method may be called by many threads at once.

    Raises:
        StoreError: whatever goes wrong, within the store's timeout. A call that raised may have been done.
    """

    blocks: ClassVar[bool]
    """Whether a call may take as long as a file or a network: such are not made on an event loop."""

    def look(self, namespace: str, refs: Sequence[Ref], ids: Sequence[str] = ()) -> Look:
        """Return, as of one moment, where these refs point and the rows of those and these conversations."""
        ...

    def commit(self, namespace: str, change: Change) -> bool:
        """Write all of a change in one step, and return True; nothing, and False, if what it is based on changed."""
        ...

    def get_doc(self, namespace: str, conversation: str, name: str) -> Doc | None:
        """Return a document, `NO_DOC` if there is no such; None if the conversation is gone."""
        ...

    def put_doc(self, namespace: str, conversation: str, name: str, doc: Doc, was: bytes | None) -> bool | None:
        """Write a document if its version is `was` still; return whether it was. None if the conversation is gone.

        A document that has the version to be written already was written by this call's first attempt.
        """
        ...

    def docs(self, namespace: str, conversation: str) -> Mapping[str, Doc]:
        """Return all documents of a conversation, as of one moment; none if it is gone."""
        ...

    def rows(self, namespace: str) -> Iterator[tuple[str, Row]]:
        """Yield the conversations, with their ids; what changes meanwhile may or may not be among them."""
        ...

    def close(self) -> None:
        """Let go of what it holds; a later call opens it again. Again is harmless."""
        ...
