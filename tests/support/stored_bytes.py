"""Read the raw bytes that a saver has on its disk, whatever its tables show."""

import re
import sqlite3
from base64 import b64decode
from contextlib import closing

from tests.support.every_saver import Store

KINDS = ["sqlite", "jsonl", "postgres"]
"""The kinds that have something on a disk."""

RELATIONS = """
SELECT pg_read_binary_file(pg_relation_filepath(found.oid)) FROM pg_class AS found
LEFT JOIN pg_class AS owner ON owner.reltoastrelid = found.oid
WHERE %s IN (found.relnamespace::regnamespace::text, owner.relnamespace::regnamespace::text)
AND found.relkind IN ('r', 't', 'i')
"""

LOG = "SELECT pg_read_binary_file('pg_wal/' || name) FROM pg_ls_waldir() WHERE name !~ '[^0-9A-F]'"


def bytes_of(store: Store, *, logged: bool = True) -> bytes:
    """The bytes of every file of a store; of PostgreSQL those of its schema's relations.

    Args:
        logged: of PostgreSQL its write-ahead log too, which has what all schemas did lately.
    """
    if store.kind != "postgres":
        files = store.path.parent.rglob("*")
        found = [file.read_bytes() for file in files if file.is_file()]
        return b"".join([*found, *(_decoded(part) for part in found if store.kind == "jsonl")])
    import psycopg

    with psycopg.connect(store.url, autocommit=True) as db:
        db.execute("CHECKPOINT")
        found = [part for (part,) in db.execute(RELATIONS, (store.schema,), binary=True)]
        if logged:
            found += [part for (part,) in db.execute(LOG, binary=True)]
    return b"".join(found)


def _decoded(lines: bytes) -> bytes:
    """Content of lines of JSON that is base64."""
    texts = re.findall(rb'"([A-Za-z0-9+/]{8,}={0,2})"', lines)
    return b"".join(b64decode(text) for text in texts if len(text) % 4 == 0)


def modes_of(store: Store) -> set[tuple[bool, str]]:
    """Of every file and folder that a store has made: whether it is a folder, and its mode."""
    root = store.path.parent
    return {(p.is_dir(), oct(p.stat().st_mode & 0o777)) for p in root.rglob("*")}


ROWS = (
    "SELECT count(*) FROM checkpoints",
    "SELECT count(*) FROM blobs",
    "SELECT count(*) FROM ranges",
    "SELECT count(*) FROM writes",
)


def left_of(store: Store) -> int:
    """How many rows of threads a store has, files of JSON lines counting as one each."""
    if store.kind == "jsonl":
        return sum(1 for _ in store.path.parent.rglob("*.jsonl"))
    if store.kind == "postgres":
        import psycopg

        path = f"-csearch_path={store.schema}"
        with psycopg.connect(store.url, autocommit=True, options=path) as db:
            return sum(db.execute(statement).fetchone()[0] for statement in ROWS)
    if store.kind != "sqlite":
        return 0
    with closing(sqlite3.connect(store.path)) as file:
        return sum(file.execute(statement).fetchone()[0] for statement in ROWS)
