"""A conversation as its users see it, and as a store keeps it."""

from __future__ import annotations

import json
from typing import Any, NoReturn, final

from ctxruntime.conversation.stores.base import KEY, SESSION, Ref

__all__ = ["Conversation"]


@final
class Conversation:
    """What stays the same while session ids rotate: a value, as it was when a bridge returned it.

    Two are equal if they are the same conversation, whatever was learned of it in between.
    """

    __slots__ = ("created_at", "gateway_keys", "id", "inherited_key", "parent", "root", "session_ids")

    id: str
    """A random name of its own."""
    gateway_keys: tuple[str, ...]
    """The gateway keys that point to it, the one bound last at the end; its parent's is not among them."""
    session_ids: tuple[str, ...]
    """The session ids that it had, the one bound last at the end."""
    parent: str | None
    """The id of the conversation that it was branched from, or is a sub-agent of; that one may be gone."""
    root: str
    """The id of the first of its ancestors, as known when it was last told of its parent; its own, if it has none."""
    inherited_key: str | None
    """The gateway key of its parent, as known when it was made."""
    created_at: float
    """When it was made, in seconds since the epoch, by the store's clock."""

    def __init__(
        self,
        id: str,
        keys: tuple[str, ...],
        session_ids: tuple[str, ...],
        parent: str | None,
        root: str,
        inherited_key: str | None,
        created_at: float,
    ) -> None:
        put = object.__setattr__
        put(self, "id", id)
        put(self, "gateway_keys", keys)
        put(self, "session_ids", session_ids)
        put(self, "parent", parent)
        put(self, "root", root)
        put(self, "inherited_key", inherited_key)
        put(self, "created_at", created_at)

    @property
    def gateway_key(self) -> str | None:
        """The gateway key bound last, else its parent's; None if there is none."""
        return self.gateway_keys[-1] if self.gateway_keys else self.inherited_key

    @property
    def current(self) -> str | None:
        """The session id bound last; None while there is none."""
        return self.session_ids[-1] if self.session_ids else None

    @property
    def refs(self) -> list[Ref]:
        """What points to it."""
        return [*((KEY, key) for key in self.gateway_keys), *((SESSION, one) for one in self.session_ids)]

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Conversation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Conversation is a value, which cannot be changed: tell the bridge what changed")

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    def __reduce__(self) -> tuple[type[Conversation], tuple[object, ...]]:
        known = self.gateway_keys, self.session_ids, self.parent, self.root, self.inherited_key, self.created_at
        return Conversation, (self.id, *known)

    def __repr__(self) -> str:
        return f"<Conversation {self.id} of {len(self.gateway_keys)} keys and {len(self.session_ids)} session ids>"

    def record(self) -> str:
        """Return what a store keeps: ASCII, as some stores refuse texts that JSON can hold escaped."""
        return json.dumps(
            {
                "keys": self.gateway_keys,
                "ids": self.session_ids,
                "parent": self.parent,
                "root": self.root,
                "inherited": self.inherited_key,
                "created": self.created_at,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_record(cls, id: str, record: str) -> Conversation:
        """Make it again from what a store kept.

        Raises:
            ValueError, LookupError, TypeError: this is no record.
        """
        try:
            known: dict[str, Any] = json.loads(record)
        except RecursionError as error:
            raise ValueError("it is nested without end") from error
        return cls(
            id,
            tuple(known["keys"]),
            tuple(known["ids"]),
            known["parent"],
            known["root"],
            known["inherited"],
            known["created"],
        )
