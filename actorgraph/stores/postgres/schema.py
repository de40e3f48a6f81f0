"""Tables of a store in PostgreSQL and every statement over them.

Texts are compared as bytes (COLLATE "C"), so that ranges of namespaces are the same as in SQLite.
`value` is text and not jsonb, which can hold neither NUL nor the difference of 1.0 and 1.
"""

SCHEMA_VERSION = 2
LOCK = "SELECT pg_advisory_xact_lock(7305164201)"
# Writers share this lock. One that was rolled back for a deadlock or conflict takes it exclusively
# for its next attempt, which then can't conflict with another writer.
LOCK_SHARED = "SELECT pg_advisory_xact_lock_shared(730516, hashtext(current_schema()))"
LOCK_ALONE = "SELECT pg_advisory_xact_lock(730516, hashtext(current_schema()))"
UPGRADE = (
    "ALTER TABLE memory_items RENAME COLUMN ttl TO minutes",
    "ALTER TABLE memory_items ADD COLUMN IF NOT EXISTS crc bigint",
    "ALTER TABLE memory_vectors ADD COLUMN IF NOT EXISTS crc bigint",
    "INSERT INTO memory_migrations VALUES (2) ON CONFLICT DO NOTHING",
)
"""From version 1: adds checksums, which its rows don't have. A process that still uses version 1
would change items and not their checksums: renaming a column makes its statements fail.
"""
SELECT_VERSION = "SELECT max(version) FROM memory_migrations"
SELECT_TABLES = "SELECT to_regclass('memory_migrations') IS NOT NULL"
FORMAT_CREATE_SCHEMA = "SELECT format('CREATE SCHEMA IF NOT EXISTS %%I', %s::text)"
SETUP = (
    "CREATE TABLE IF NOT EXISTS memory_migrations (version integer PRIMARY KEY)",
    """
    CREATE TABLE IF NOT EXISTS memory_items (
        namespace text COLLATE "C" NOT NULL,
        key       text COLLATE "C" NOT NULL,
        value     text NOT NULL,
        created   bigint NOT NULL,
        updated   bigint NOT NULL,
        seq       bigserial,
        ttl       double precision,
        expires   bigint,
        PRIMARY KEY (namespace, key)
    )
    """,
    "CREATE INDEX IF NOT EXISTS idx_memory_items_seq ON memory_items (seq)",
    """
    CREATE INDEX IF NOT EXISTS idx_memory_items_expires ON memory_items (expires)
    WHERE expires IS NOT NULL
    """,
    """
    CREATE TABLE IF NOT EXISTS memory_vectors (
        namespace text COLLATE "C" NOT NULL,
        key       text COLLATE "C" NOT NULL,
        path      text COLLATE "C" NOT NULL,
        vector    bytea NOT NULL,
        PRIMARY KEY (namespace, key, path),
        FOREIGN KEY (namespace, key) REFERENCES memory_items ON DELETE CASCADE
    )
    """,
    "INSERT INTO memory_migrations VALUES (1) ON CONFLICT DO NOTHING",
)

_COLUMNS = "i.namespace, i.key, i.value, i.created, i.updated, i.minutes, i.expires, i.crc"
_VISIBLE = "(%(visible)s::bigint IS NULL OR i.expires IS NULL OR i.expires > %(visible)s)"
_BELOW = """(%(prefix)s = '' OR i.namespace = %(prefix)s
    OR (i.namespace >= %(first)s AND i.namespace < %(end)s))"""
# Necessary conditions of the filter. Values that jsonb can't hold pass: the filter itself is
# applied to the rows that come back.
_MAY_FIT = r"""(%(contains)s::text IS NULL OR CASE
    WHEN i.value ~ '\\u0000|\\ud[89a-f]' THEN true
    ELSE i.value::jsonb @> %(contains)s::jsonb END)"""
SELECT_ITEM = f"""
SELECT {_COLUMNS} FROM memory_items i
WHERE i.namespace = %(namespace)s AND i.key = %(key)s AND {_VISIBLE}
"""  # noqa: S608 - the only things put in are constants of this file
SELECT_BELOW = f"""
SELECT {_COLUMNS} FROM memory_items i WHERE {_BELOW} AND {_VISIBLE} AND {_MAY_FIT}
ORDER BY i.seq DESC LIMIT %(rows_max)s
"""  # noqa: S608 - as above
SELECT_VECTORS = f"""
SELECT v.namespace, v.key, v.vector, v.path, v.crc, CASE WHEN %(filtered)s THEN i.value END
FROM memory_items i
JOIN memory_vectors v ON v.namespace = i.namespace AND v.key = i.key
WHERE {_BELOW} AND {_VISIBLE} AND {_MAY_FIT}
"""  # noqa: S608 - as above
SELECT_NAMESPACES = f"""
SELECT DISTINCT i.namespace FROM memory_items i WHERE {_BELOW} AND {_VISIBLE}
"""  # noqa: S608 - as above
PUT_ITEM = """
INSERT INTO memory_items (namespace, key, value, created, updated, minutes, expires, crc)
VALUES (%(namespace)s, %(key)s, %(value)s, %(now)s, %(now)s, %(ttl)s, %(expires)s, %(crc)s)
ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, updated = excluded.updated,
    seq = excluded.seq, minutes = excluded.minutes, expires = excluded.expires,
    crc = excluded.crc - excluded.created + memory_items.created
"""
DELETE_ITEM = "DELETE FROM memory_items WHERE namespace = %s AND key = %s"
DELETE_VECTORS = "DELETE FROM memory_vectors WHERE namespace = %s AND key = %s"
PUT_VECTOR = """
INSERT INTO memory_vectors (namespace, key, path, vector, crc) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (namespace, key, path) DO UPDATE SET vector = excluded.vector, crc = excluded.crc
"""
UPDATE_EXPIRY = """
UPDATE memory_items SET expires = %(now)s + trunc(minutes * 60000000)::bigint,
    crc = crc - coalesce(expires, 0) + %(now)s + trunc(minutes * 60000000)::bigint
WHERE namespace = %(namespace)s AND key = %(key)s AND minutes BETWEEN 0 AND 1e11 AND expires > 0
"""
"""In between are all times to live that a put takes: 1e11 minutes are about 190,000 years. Beyond
them a damaged number is too large for the time, and would fail the statement."""
DELETE_EXPIRED = "DELETE FROM memory_items WHERE expires IS NOT NULL AND expires <= %s"
