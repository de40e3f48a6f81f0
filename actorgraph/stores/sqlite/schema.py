"""Tables of a store in SQLite and every statement over them."""

SCHEMA_VERSION = 2
SETUP = """
CREATE TABLE IF NOT EXISTS memory_format (version INTEGER NOT NULL);
INSERT INTO memory_format SELECT 2 WHERE NOT EXISTS (SELECT 1 FROM memory_format);
-- Times are microseconds since 1970. `seq` is the order of the last puts.
CREATE TABLE IF NOT EXISTS memory_items (
    namespace TEXT NOT NULL,     -- labels joined by periods
    key       TEXT NOT NULL,
    value     TEXT NOT NULL,     -- JSON
    created   INTEGER NOT NULL,
    updated   INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    minutes   REAL,              -- to live; NULL for ever
    expires   INTEGER,
    crc       INTEGER,           -- see `stores.item_values`; NULL in rows of version 1
    PRIMARY KEY (namespace, key)
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_memory_items_seq ON memory_items (seq);
CREATE INDEX IF NOT EXISTS idx_memory_items_expires ON memory_items (expires)
    WHERE expires IS NOT NULL;
CREATE TABLE IF NOT EXISTS memory_vectors (
    namespace TEXT NOT NULL,
    key       TEXT NOT NULL,
    path      TEXT NOT NULL,     -- which text of the value
    vector    BLOB NOT NULL,     -- float32 numbers
    crc       INTEGER,
    PRIMARY KEY (namespace, key, path)
) WITHOUT ROWID;
"""
# A process that still uses version 1 would change items and not their checksums. Renaming a column
# that all its statements use makes them fail.
UPGRADE = (
    "ALTER TABLE memory_items RENAME COLUMN ttl TO minutes",
    "ALTER TABLE memory_items ADD COLUMN crc INTEGER",
    "ALTER TABLE memory_vectors ADD COLUMN crc INTEGER",
    "UPDATE memory_format SET version = 2",
)
SELECT_VERSION = "SELECT version FROM memory_format"
SELECT_TABLES = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'memory_format'"

_COLUMNS = "i.namespace, i.key, i.value, i.created, i.updated, i.minutes, i.expires, i.crc"
_VISIBLE = "(:visible IS NULL OR i.expires IS NULL OR i.expires > :visible)"
_BELOW = "(:prefix = '' OR i.namespace = :prefix OR (i.namespace >= :first AND i.namespace < :end))"
# A damaged row passes although it doesn't match, as it may have matched. Reading it reports the
# damage.
# Casts: sqlite3 can't pass text that isn't UTF-8, and would fail the whole statement.
_FITS = """(:filter IS NULL OR actorgraph_matches(:filter, CAST(i.namespace AS BLOB),
    CAST(i.key AS BLOB), CAST(i.value AS BLOB), CAST(i.created AS NUMERIC),
    CAST(i.updated AS NUMERIC), CAST(i.minutes AS NUMERIC), CAST(i.expires AS NUMERIC),
    CAST(i.crc AS NUMERIC)))"""
SELECT_ITEM = f"""
SELECT {_COLUMNS} FROM memory_items i WHERE namespace = :namespace AND key = :key AND {_VISIBLE}
"""  # noqa: S608 - the only things put in are constants of this file
SELECT_ALL = f"""
SELECT {_COLUMNS} FROM memory_items i WHERE {_VISIBLE} AND {_FITS}
ORDER BY i.seq DESC LIMIT :rows_max
"""  # noqa: S608 - as above
SELECT_BELOW = f"""
SELECT {_COLUMNS} FROM (
    SELECT * FROM memory_items WHERE namespace = :prefix
    UNION ALL SELECT * FROM memory_items WHERE namespace >= :first AND namespace < :end
) i WHERE {_VISIBLE} AND {_FITS} ORDER BY i.seq DESC LIMIT :rows_max
"""  # noqa: S608 - as above
SELECT_VECTORS = f"""
SELECT v.namespace, v.key, v.vector, v.path, v.crc FROM memory_items i
JOIN memory_vectors v ON v.namespace = i.namespace AND v.key = i.key
WHERE {_BELOW} AND {_VISIBLE} AND {_FITS}
"""  # noqa: S608 - as above
SELECT_NAMESPACES = f"""
SELECT DISTINCT i.namespace FROM memory_items i WHERE {_BELOW} AND {_VISIBLE}
"""  # noqa: S608 - as above
# Texts are above all numbers: a damaged `seq` must not become the next one's base.
PUT_ITEM = """
INSERT INTO memory_items VALUES (:namespace, :key, :value, :now, :now,
    (SELECT coalesce(max(seq), 0) + 1 FROM memory_items WHERE seq < 4611686018427387904),
    :ttl, :expires, :crc)
ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, updated = excluded.updated,
    seq = excluded.seq, minutes = excluded.minutes, expires = excluded.expires,
    crc = excluded.crc - excluded.created + memory_items.created
"""
DELETE_ITEM = "DELETE FROM memory_items WHERE namespace = ? AND key = ?"
DELETE_VECTORS = "DELETE FROM memory_vectors WHERE namespace = ? AND key = ?"
PUT_VECTOR = "INSERT OR REPLACE INTO memory_vectors VALUES (?, ?, ?, ?, ?)"
UPDATE_EXPIRY = """
UPDATE memory_items SET expires = :now + CAST(minutes * 60000000 AS INTEGER),
    crc = crc - coalesce(expires, 0) + :now + CAST(minutes * 60000000 AS INTEGER)
WHERE namespace = :namespace AND key = :key AND minutes BETWEEN 0 AND 1e11 AND expires > 0
"""
# In between are all times to live that a put takes: 1e11 minutes are about 190,000 years.
DELETE_EXPIRED_VECTORS = """
DELETE FROM memory_vectors WHERE (namespace, key) IN (
    SELECT namespace, key FROM memory_items WHERE expires IS NOT NULL AND expires <= ?)
"""
DELETE_EXPIRED = "DELETE FROM memory_items WHERE expires IS NOT NULL AND expires <= ?"
