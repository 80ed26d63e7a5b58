"""What PostgreSQL is asked: schema 1, and one statement for everything that a store does.

Writing is done by functions in the schema: a statement alone would read what was there before it got its locks.

The schema is called ``ctxruntime``, so that it is found whatever the search path is, and dropped in one go. Who may not
create schemas in the database has it made by somebody who may: ``CREATE SCHEMA ctxruntime AUTHORIZATION bot``.

An index takes 2.7 kB, and a name may be longer: namespaces, keys and session ids are there as `fold` makes them.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Final, LiteralString
from zlib import crc32

from ctxruntime.conversation.stores.base import Ref

__all__ = [
    "COMMIT", "DOCS", "GET_DOC", "IS_MADE", "MAKE", "PUT_DOC", "ROWS", "SCHEMA", "VERSION", "fold", "folded", "look",
    "stripe",
]  # fmt: skip

SCHEMA: Final = 1
_LONGEST: Final = 600
"""The most bytes of a name that are stored as they are."""
STRIPES: Final = 2048
"""How many locks there are for all names together: the server's table of locks is small (6,400 by default)."""

IS_MADE: Final[LiteralString] = (
    "SELECT to_regclass('ctxruntime.meta') IS NOT NULL, to_regproc('ctxruntime.put_doc_1') IS NOT NULL"
)
VERSION: Final[LiteralString] = "SELECT schema FROM ctxruntime.meta"
TABLES: Final[tuple[LiteralString, ...]] = (
    "SELECT pg_advisory_xact_lock(1668577394, -1)",  # two first users at once
    "DO $$ BEGIN IF to_regnamespace('ctxruntime') IS NULL THEN CREATE SCHEMA ctxruntime; END IF; END $$",
    "CREATE TABLE IF NOT EXISTS ctxruntime.meta (schema integer NOT NULL)",
    "INSERT INTO ctxruntime.meta SELECT 1 WHERE NOT EXISTS (SELECT FROM ctxruntime.meta)",
    """CREATE TABLE IF NOT EXISTS ctxruntime.convs (
        ns text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL,
        version bytea NOT NULL, expires double precision NOT NULL, record text NOT NULL, PRIMARY KEY (ns, id))""",
    """CREATE TABLE IF NOT EXISTS ctxruntime.refs (
        ns text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, conv text COLLATE "C" NOT NULL,
        PRIMARY KEY (ns, name), FOREIGN KEY (ns, conv) REFERENCES ctxruntime.convs ON DELETE CASCADE)""",
    """CREATE TABLE IF NOT EXISTS ctxruntime.docs (
        ns text COLLATE "C" NOT NULL, conv text COLLATE "C" NOT NULL, folded text COLLATE "C" NOT NULL,
        name text NOT NULL, version bytea NOT NULL, body text NOT NULL, PRIMARY KEY (ns, conv, folded),
        FOREIGN KEY (ns, conv) REFERENCES ctxruntime.convs ON DELETE CASCADE)""",
    "CREATE INDEX IF NOT EXISTS convs_expires ON ctxruntime.convs (expires)",
    "CREATE INDEX IF NOT EXISTS refs_conv ON ctxruntime.refs (ns, conv)",
)

# Each statement of a function sees what was committed before it began: so what comes after the locks sees what their
# last holders have written. A function that changes gets another number, as older processes go on with the old one.
_COMMIT_1: Final[LiteralString] = """
CREATE OR REPLACE FUNCTION ctxruntime.commit_1(a_ns text, stripes int[], change jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE a_now float8;
BEGIN
    PERFORM pg_advisory_xact_lock(1668577394, stripe) FROM unnest(stripes) AS stripe;
    a_now := extract(epoch FROM clock_timestamp());
    IF EXISTS (
        SELECT FROM jsonb_to_recordset(change->'if_refs') AS was(name text, id text)
        LEFT JOIN ctxruntime.refs ON refs.ns = a_ns AND refs.name = was.name
        LEFT JOIN ctxruntime.convs ON convs.ns = a_ns AND convs.id = refs.conv AND expires > a_now
        WHERE convs.id IS DISTINCT FROM was.id
    ) THEN
        RETURN false;
    END IF;
    IF change ? 'if_versions' AND EXISTS (
        SELECT FROM jsonb_to_recordset(change->'if_versions') AS was(id text, version text)
        LEFT JOIN ctxruntime.convs ON convs.ns = a_ns AND convs.id = was.id AND expires > a_now
        WHERE encode(convs.version, 'hex') IS DISTINCT FROM was.version
    ) THEN
        RETURN false;
    END IF;
    IF change ? 'if_docs' AND EXISTS (
        SELECT FROM jsonb_to_recordset(change->'if_docs') AS was(id text, docs jsonb)
        LEFT JOIN ctxruntime.convs ON convs.ns = a_ns AND convs.id = was.id AND expires > a_now
        WHERE convs.id IS NULL OR was.docs <> (
            SELECT coalesce(jsonb_object_agg(docs.name, encode(docs.version, 'hex')), '{}') FROM ctxruntime.docs
            WHERE docs.ns = a_ns AND docs.conv = was.id
        )
    ) THEN
        RETURN false;
    END IF;
    IF change ? 'gone' THEN -- with what is left of their refs and documents
        DELETE FROM ctxruntime.convs
        WHERE ns = a_ns AND id = ANY (ARRAY(SELECT jsonb_array_elements_text(change->'gone')));
    END IF;
    IF change ? 'no_refs' THEN
        DELETE FROM ctxruntime.refs
        WHERE ns = a_ns AND name = ANY (ARRAY(SELECT jsonb_array_elements_text(change->'no_refs')));
    END IF;
    INSERT INTO ctxruntime.convs SELECT a_ns, id, decode(version, 'hex'), expires, record
    FROM jsonb_to_recordset(change->'rows') AS new(id text, version text, expires float8, record text)
    ON CONFLICT (ns, id) DO UPDATE
    SET version = excluded.version, expires = excluded.expires, record = excluded.record;
    INSERT INTO ctxruntime.refs SELECT a_ns, name, id
    FROM jsonb_to_recordset(change->'refs') AS new(name text, id text)
    ON CONFLICT (ns, name) DO UPDATE SET conv = excluded.conv WHERE refs.conv <> excluded.conv;
    IF change ? 'docs' THEN
        INSERT INTO ctxruntime.docs SELECT a_ns, id, folded, name, decode(version, 'hex'), body
        FROM jsonb_to_recordset(change->'docs')
            AS new(id text, folded text, name text, version text, body text)
        ON CONFLICT (ns, conv, folded) DO UPDATE SET version = excluded.version, body = excluded.body;
    END IF;
    DELETE FROM ctxruntime.convs WHERE (ns, id) IN ( -- a few that have expired, of any namespace
        SELECT ns, id FROM ctxruntime.convs WHERE expires <= a_now ORDER BY expires LIMIT 4 FOR UPDATE SKIP LOCKED
    );
    RETURN true;
END $$"""
_PUT_DOC_1: Final[LiteralString] = """
CREATE OR REPLACE FUNCTION ctxruntime.put_doc_1(
    a_ns text, stripe int, a_conv text, a_folded text, a_name text, a_version bytea, a_body text, was bytea
) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE found_version bytea;
BEGIN
    PERFORM pg_advisory_xact_lock(1668577394, stripe);
    PERFORM FROM ctxruntime.convs
    WHERE ns = a_ns AND id = a_conv AND expires > (SELECT extract(epoch FROM clock_timestamp())::float8);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT version INTO found_version FROM ctxruntime.docs
    WHERE ns = a_ns AND conv = a_conv AND folded = a_folded;
    IF found_version IS DISTINCT FROM was AND found_version IS DISTINCT FROM a_version THEN
        RETURN false;
    END IF;
    INSERT INTO ctxruntime.docs VALUES (a_ns, a_conv, a_folded, a_name, a_version, a_body)
    ON CONFLICT (ns, conv, folded) DO UPDATE SET version = excluded.version, body = excluded.body;
    RETURN true;
END $$"""
MAKE: Final[tuple[LiteralString, ...]] = (*TABLES, _COMMIT_1, _PUT_DOC_1)

COMMIT: Final[LiteralString] = "SELECT ctxruntime.commit_1(%s, %s::int[], %s::jsonb)"
PUT_DOC: Final[LiteralString] = "SELECT ctxruntime.put_doc_1(%s, %s::int, %s, %s, %s, %s, %s, %s)"

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

_REF: Final[LiteralString] = "(%s::int, %s::text, NULL::text)"
_ID: Final[LiteralString] = "(-1, NULL, %s::text)"


@cache
def look(refs: int, ids: int) -> LiteralString:
    """Return the statement that looks at so many refs and so many ids, one row of the answer for each.

    It takes a number and a name for each ref, then the ids, then the namespace twice.
    """
    none: LiteralString = "(-1, NULL, NULL::text)"
    asked: tuple[LiteralString, ...] = (*(_REF for _ in range(refs)), *(_ID for _ in range(ids)))
    return (
        "SELECT extract(epoch FROM now())::float8, asked.at, convs.id, convs.version, convs.expires, convs.record "
        "FROM (VALUES " + ", ".join(asked or (none,)) + ") AS asked(at, name, id) "
        "LEFT JOIN ctxruntime.refs ON refs.ns = %s AND refs.name = asked.name "
        "LEFT JOIN ctxruntime.convs ON convs.ns = %s AND convs.id = coalesce(refs.conv, asked.id) "
        "AND convs.expires > extract(epoch FROM now())::float8"
    )


def folded(ref: Ref) -> str:
    """Return a ref as an index can hold it."""
    return fold(f"{ref[0]}:{ref[1]}")


def fold(name: str) -> str:
    """Return a name as an index can hold it: itself, or what no name is."""
    if len(name) * 4 <= _LONGEST or len(encoded := name.encode()) <= _LONGEST:
        return name
    return "\x01" + hashlib.sha256(encoded).hexdigest()


def stripe(namespace: str, name: str) -> int:
    """Return the lock that this name, of a ref or a conversation, shares with some others."""
    return crc32(f"{namespace}\0{name}".encode()) % STRIPES
