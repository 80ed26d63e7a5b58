"""What PostgreSQL is asked: schema 1, and one statement for everything that a store does.

The schema is called ``ctxruntime``, so that it is found whatever the search path is, and dropped in one go. Who may not
create schemas in the database has it made by somebody who may: ``CREATE SCHEMA ctxruntime AUTHORIZATION bot``.

An index takes 2.7 kB, and a name may be longer: namespaces, keys and session ids are there as `fold` makes them.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Final, LiteralString
from zlib import crc32

__all__ = [
    "COMMIT", "DOCS", "GET_DOC", "LOCK", "MAKE", "PUT_DOC", "ROWS", "SCHEMA", "SWEEP", "VERSION", "fold", "look",
    "stripe",
]  # fmt: skip

SCHEMA: Final = 1
_LONGEST: Final = 600
"""The most bytes of a name that are stored as they are."""
STRIPES: Final = 2048
"""How many locks there are for all names together: the server's table of locks is small (6,400 by default)."""

VERSION: Final[LiteralString] = "SELECT to_regclass('ctxruntime.meta') IS NOT NULL"
MAKE: Final[tuple[LiteralString, ...]] = (
    "SELECT pg_advisory_xact_lock(1668577394, -1)",  # two first users at once
    "DO $$ BEGIN IF to_regnamespace('ctxruntime') IS NULL THEN CREATE SCHEMA ctxruntime; END IF; END $$",
    "CREATE TABLE IF NOT EXISTS ctxruntime.meta (schema integer NOT NULL)",
    """CREATE TABLE IF NOT EXISTS ctxruntime.convs (
        ns text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL,
        version bytea NOT NULL, expires double precision NOT NULL, record text NOT NULL, PRIMARY KEY (ns, id))""",
    """CREATE TABLE IF NOT EXISTS ctxruntime.refs (
        ns text COLLATE "C" NOT NULL, kind text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,
        conv text COLLATE "C" NOT NULL, PRIMARY KEY (ns, kind, name),
        FOREIGN KEY (ns, conv) REFERENCES ctxruntime.convs ON DELETE CASCADE)""",
    """CREATE TABLE IF NOT EXISTS ctxruntime.docs (
        ns text COLLATE "C" NOT NULL, conv text COLLATE "C" NOT NULL, folded text COLLATE "C" NOT NULL,
        name text NOT NULL, version bytea NOT NULL, body text NOT NULL, PRIMARY KEY (ns, conv, folded),
        FOREIGN KEY (ns, conv) REFERENCES ctxruntime.convs ON DELETE CASCADE)""",
    "CREATE INDEX IF NOT EXISTS convs_expires ON ctxruntime.convs (expires)",
    "CREATE INDEX IF NOT EXISTS refs_conv ON ctxruntime.refs (ns, conv)",
    "INSERT INTO ctxruntime.meta SELECT 1 WHERE NOT EXISTS (SELECT FROM ctxruntime.meta)",
)

LOCK: Final[LiteralString] = "SELECT pg_advisory_xact_lock(1668577394, stripe) FROM unnest(%s::int[]) AS stripe"
"""Taken in order, and before the statement that reads, so that this sees what the lock's last holder has written."""

COMMIT: Final[LiteralString] = """
WITH input AS MATERIALIZED (SELECT %s::text AS ns, %s::json AS change),
clock AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 AS now),
living AS NOT MATERIALIZED (
    SELECT id, version FROM ctxruntime.convs
    WHERE ns = (SELECT ns FROM input) AND expires > (SELECT now FROM clock)
),
same AS MATERIALIZED (SELECT NOT EXISTS (
    SELECT FROM input, json_to_recordset(change->'if_refs') AS was(kind text, name text, id text)
    LEFT JOIN ctxruntime.refs ON refs.ns = (SELECT ns FROM input) AND refs.kind = was.kind AND refs.name = was.name
    LEFT JOIN living ON living.id = refs.conv
    WHERE living.id IS DISTINCT FROM was.id
) AND NOT EXISTS (
    SELECT FROM input, json_to_recordset(change->'if_versions') AS was(id text, version text)
    LEFT JOIN living ON living.id = was.id
    WHERE encode(living.version, 'hex') IS DISTINCT FROM was.version
) AND NOT EXISTS (
    SELECT FROM input, json_to_recordset(change->'if_docs') AS was(id text, docs jsonb)
    LEFT JOIN living ON living.id = was.id
    WHERE living.id IS NULL OR was.docs <> (
        SELECT coalesce(jsonb_object_agg(docs.name, encode(docs.version, 'hex')), '{}') FROM ctxruntime.docs
        WHERE docs.ns = (SELECT ns FROM input) AND docs.conv = was.id
    )
) AS ok),
todo AS MATERIALIZED (SELECT ns, change FROM input, same WHERE ok),
drop_rows AS (
    DELETE FROM ctxruntime.convs USING todo, json_to_recordset(change->'gone') AS gone(id text)
    WHERE convs.ns = todo.ns AND convs.id = gone.id
),
drop_refs AS (
    DELETE FROM ctxruntime.refs USING todo, json_to_recordset(change->'no_refs') AS gone(kind text, name text)
    WHERE refs.ns = todo.ns AND refs.kind = gone.kind AND refs.name = gone.name
),
write_rows AS (
    INSERT INTO ctxruntime.convs SELECT ns, id, decode(version, 'hex'), expires, record
    FROM todo, json_to_recordset(change->'rows') AS row(id text, version text, expires float8, record text)
    ON CONFLICT (ns, id) DO UPDATE
    SET version = excluded.version, expires = excluded.expires, record = excluded.record
),
write_refs AS (
    INSERT INTO ctxruntime.refs SELECT ns, kind, name, id
    FROM todo, json_to_recordset(change->'refs') AS ref(kind text, name text, id text)
    ON CONFLICT (ns, kind, name) DO UPDATE SET conv = excluded.conv WHERE refs.conv <> excluded.conv
),
write_docs AS (
    INSERT INTO ctxruntime.docs SELECT ns, id, folded, name, decode(version, 'hex'), body
    FROM todo, json_to_recordset(change->'docs')
        AS doc(id text, folded text, name text, version text, body text)
    ON CONFLICT (ns, conv, folded) DO UPDATE SET version = excluded.version, body = excluded.body
)
SELECT ok FROM same"""
"""The deletion of a row takes along what is left of its refs and documents."""

SWEEP: Final[LiteralString] = """
DELETE FROM ctxruntime.convs WHERE (ns, id) IN (
    SELECT ns, id FROM ctxruntime.convs WHERE expires <= extract(epoch FROM clock_timestamp())::float8
    ORDER BY expires LIMIT 4 FOR UPDATE SKIP LOCKED)"""

PUT_DOC: Final[LiteralString] = """
WITH input AS MATERIALIZED (SELECT %s::text AS ns, %s::text AS conv, %s::text AS folded, %s::text AS name,
    %s::bytea AS version, %s::text AS body, %s::bytea AS was),
alive AS MATERIALIZED (
    SELECT input.* FROM input JOIN ctxruntime.convs ON convs.ns = input.ns AND convs.id = input.conv
    WHERE expires > extract(epoch FROM clock_timestamp())::float8
),
written AS (
    INSERT INTO ctxruntime.docs
    SELECT alive.ns, alive.conv, alive.folded, alive.name, alive.version, alive.body
    FROM alive LEFT JOIN ctxruntime.docs USING (ns, conv, folded)
    WHERE docs.version IS NOT DISTINCT FROM alive.was OR docs.version = alive.version
    ON CONFLICT (ns, conv, folded) DO UPDATE SET version = excluded.version, body = excluded.body
    RETURNING 1
)
SELECT EXISTS (SELECT FROM written), EXISTS (SELECT FROM alive)"""

GET_DOC: Final[LiteralString] = """
SELECT docs.version, docs.body
FROM ctxruntime.convs LEFT JOIN ctxruntime.docs ON docs.ns = convs.ns AND docs.conv = convs.id AND docs.folded = %s
WHERE convs.ns = %s AND convs.id = %s AND convs.expires > extract(epoch FROM now())::float8"""

DOCS: Final[LiteralString] = """
SELECT docs.name, docs.version, docs.body
FROM ctxruntime.convs JOIN ctxruntime.docs ON docs.ns = convs.ns AND docs.conv = convs.id
WHERE convs.ns = %s AND convs.id = %s AND convs.expires > extract(epoch FROM now())::float8"""

ROWS: Final[LiteralString] = """
SELECT id, version, expires, record FROM ctxruntime.convs
WHERE ns = %s AND id > %s AND expires > extract(epoch FROM now())::float8 ORDER BY id LIMIT 500"""

_REF: Final[LiteralString] = "(%s::int, %s::text, %s::text, NULL::text)"
_ID: Final[LiteralString] = "(-1, NULL, NULL, %s::text)"


@cache
def look(refs: int, ids: int) -> LiteralString:
    """Return the statement that looks at so many refs and so many ids, one row of the answer for each.

    It takes the namespace twice, then a number, a kind and a name for each ref, then the ids.
    """
    each: list[LiteralString] = [*[_REF] * refs, *[_ID] * ids] or ["(-1, NULL, NULL, NULL::text)"]
    asked: LiteralString = ", ".join(each)
    return (
        "SELECT extract(epoch FROM now())::float8, asked.at, convs.id, convs.version, convs.expires, convs.record "
        "FROM (VALUES " + asked + ") AS asked(at, kind, name, id) "
        "LEFT JOIN ctxruntime.refs ON refs.ns = %s AND refs.kind = asked.kind AND refs.name = asked.name "
        "LEFT JOIN ctxruntime.convs ON convs.ns = %s AND convs.id = coalesce(refs.conv, asked.id) "
        "AND convs.expires > extract(epoch FROM now())::float8"
    )


def fold(name: str) -> str:
    """Return a name as an index can hold it: itself, or what no name is."""
    if len(name) * 4 <= _LONGEST or len(encoded := name.encode()) <= _LONGEST:
        return name
    return "\x01" + hashlib.sha256(encoded).hexdigest()


def stripe(namespace: str, kind: str, name: str) -> int:
    """Return the lock that this name shares with some others."""
    return crc32(f"{namespace}\0{kind}{name}".encode()) % STRIPES
