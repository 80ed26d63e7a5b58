"""The tables, by what is done in them."""

from __future__ import annotations

from typing import Final

from measuring import Table

from tables.handlers import ASYNC_HANDLERS, HANDLERS, METHODS
from tables.hops import HOPS
from tables.scale import SCALES
from tables.scopes import OTHER_SCOPES, SCOPES
from tables.spans import ATTRIBUTES, TURNS
from tables.steps import STEPS
from tables.untraced import UNTRACED

__all__ = ["ALL", "TABLES"]

ALL: Final[tuple[Table, ...]] = (
    HANDLERS,
    METHODS,
    ASYNC_HANDLERS,
    SCOPES,
    OTHER_SCOPES,
    *HOPS,
    STEPS,
    ATTRIBUTES,
    *UNTRACED,
    TURNS,
    *SCALES,
)
TABLES: Final[dict[str, Table]] = {table.name: table for table in ALL}
