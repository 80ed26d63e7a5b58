"""What is kept for two conversations that become one: item by item, and the one that stays wins."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from ctxruntime.conversation.steps import Board
from ctxruntime.conversation.stores.base import NO_DOC, Change, Doc, Store
from ctxruntime.conversation.values import items_of

__all__ = ["with_documents"]


def with_documents(store: Store, namespace: str, change: Change, board: Board) -> Change:
    """Return the change with the documents of what was absorbed, based on all documents being as they are now.

    Raises:
        StoreCorruptError: one of two that have to become one is none.
    """
    found = {
        draft.id: store.docs(namespace, draft.id) for pair in board.absorbed for draft in pair if draft.was is not None
    }
    kept: dict[str, dict[str, Doc]] = {}
    for draft, other in board.absorbed:
        mine = kept.setdefault(draft.id, dict(found.get(draft.id, {})))
        for name, doc in (kept.get(other.id) or found[other.id]).items():
            mine[name] = _merged(name, {draft.id: mine.get(name, NO_DOC), other.id: doc})
    return change._replace(
        if_docs={id: {name: doc.version or b"" for name, doc in docs.items()} for id, docs in found.items()},
        docs={id: _written(docs, found.get(id, {})) for id, docs in kept.items() if id in change.rows},
    )


def _merged(name: str, both: Mapping[str, Doc]) -> Doc:
    """Return one document of two, by conversation: of the one that stays, and of the other."""
    mine, other = both.values()
    if mine is NO_DOC:
        return other._replace(version=os.urandom(8))
    kept, added = (items_of(doc.body, state=name, conversation=id) for id, doc in both.items())
    return Doc(os.urandom(8), json.dumps(added | kept, separators=(",", ":")))


def _written(docs: Mapping[str, Doc], before: Mapping[str, Doc]) -> dict[str, Doc]:
    return {name: doc for name, doc in docs.items() if before.get(name) != doc}
