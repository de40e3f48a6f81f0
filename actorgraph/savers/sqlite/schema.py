"""Tables of checkpoints and every statement over them; upgrades of older files.

threads      epoch, head and open run of each thread: `judge` decides by them
runs         claims of runs, with inputs that no checkpoint holds
checkpoints  one row per superstep; `record` is JSON, see `codec.records`
blobs        values of channels, one row per version
ranges       items of growing lists, several per row
writes       pending writes of tasks beside a checkpoint; append-only
events       events of ActorSystems' runs; their other tables are in `system_schema`

`thread` is the integer key of `threads`; ids are 16 bytes. `crc` is a row's checksum, see
`savers.integrity`; rows that version 1 wrote have none. `PRAGMA user_version` holds the version.

No table with values is WITHOUT ROWID: SQLite reads whole rows of these to compare two keys.
"""

import sqlite3

from actorgraph.storage.sqlite.blob_reads import over_values

SCHEMA_VERSION = 2

SETUP = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS threads (
    thread      INTEGER PRIMARY KEY,
    thread_id   TEXT NOT NULL UNIQUE,
    epoch       INTEGER NOT NULL DEFAULT 1,
    owner       BLOB,
    lease_until REAL,
    next_seq    INTEGER NOT NULL DEFAULT 1,
    head        BLOB,
    run         BLOB,
    removed     INTEGER NOT NULL DEFAULT 0,
    crc         INTEGER
);

CREATE TABLE IF NOT EXISTS runs (
    run         BLOB PRIMARY KEY,
    thread      INTEGER NOT NULL,
    namespace   TEXT NOT NULL,
    mode        TEXT NOT NULL,
    status      TEXT NOT NULL,
    head        BLOB,
    input       BLOB,
    resumes     TEXT NOT NULL DEFAULT '',
    epoch       INTEGER NOT NULL DEFAULT 1,
    crc         INTEGER
);
CREATE INDEX IF NOT EXISTS idx_runs_thread ON runs (thread);

CREATE TABLE IF NOT EXISTS checkpoints (
    thread         INTEGER NOT NULL,
    namespace      TEXT NOT NULL DEFAULT '',
    seq            INTEGER NOT NULL,
    id             BLOB NOT NULL,
    parent         BLOB,
    step           INTEGER NOT NULL,
    source         TEXT NOT NULL,
    run            BLOB,
    next           TEXT NOT NULL,
    has_interrupts INTEGER NOT NULL DEFAULT 0,
    created        INTEGER NOT NULL,
    metadata       TEXT NOT NULL,
    record         TEXT NOT NULL,
    crc            INTEGER
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_checkpoints_thread ON checkpoints (thread, namespace, seq);
CREATE INDEX IF NOT EXISTS idx_checkpoints_lookup
    ON checkpoints (thread, namespace, id, seq);


CREATE TABLE IF NOT EXISTS blobs (
    thread    INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    channel   TEXT NOT NULL,
    version   INTEGER NOT NULL,
    payload   BLOB NOT NULL,
    crc       INTEGER,
    PRIMARY KEY (thread, namespace, channel, version)
);

CREATE TABLE IF NOT EXISTS ranges (
    thread    INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    channel   TEXT NOT NULL,
    lineage   INTEGER NOT NULL,
    start     INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    payload   BLOB NOT NULL,
    PRIMARY KEY (thread, namespace, channel, lineage, start)
);

CREATE TABLE IF NOT EXISTS writes (
    thread     INTEGER NOT NULL,
    namespace  TEXT NOT NULL,
    checkpoint BLOB NOT NULL,
    task       BLOB NOT NULL,
    idx        INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    path       TEXT NOT NULL,
    payload    BLOB NOT NULL,
    crc        INTEGER,
    PRIMARY KEY (thread, namespace, checkpoint, task, idx, generation)
);

CREATE TABLE IF NOT EXISTS events (
    run     BLOB NOT NULL,
    place   INTEGER NOT NULL,
    created INTEGER NOT NULL,
    payload BLOB NOT NULL,
    crc     INTEGER,
    PRIMARY KEY (run, place)
);

PRAGMA user_version = {version};
COMMIT;
""".replace("{version}", str(SCHEMA_VERSION))

INSERT_THREAD = "INSERT INTO threads (thread, thread_id) VALUES (?, ?)"
UPDATE_THREAD = """
UPDATE threads SET next_seq = ?, head = ?, run = ?, crc = ?, removed = 0 WHERE thread = ?
"""
# Past the keys of all rows: if the key of the newest thread is damaged, its rows stay under the old
# one, and another thread must not get them. Damage may also leave a key that none can follow.
_BIGGEST = "(SELECT max(thread) AS thread FROM {} WHERE thread < 4611686018427387904)"
_KEYED = ("threads", "checkpoints", "blobs", "ranges", "writes", "runs")
NEXT_THREAD = f"""
SELECT max(0, CAST(coalesce(max(thread), 0) AS INTEGER)) + 1
FROM ({" UNION ALL ".join(f"SELECT thread FROM {_BIGGEST.format(each)}" for each in _KEYED)})
"""  # noqa: S608 - the only things put in are the constants above
SELECT_THREADS = """
SELECT thread_id, thread, epoch, run, next_seq, head, crc FROM threads
WHERE thread_id IN (SELECT value FROM json_each(?))
"""
SELECT_HEAD = """
SELECT id FROM checkpoints WHERE thread = ? AND namespace = ? ORDER BY seq DESC LIMIT 1
"""

SELECT_WRITE = """
SELECT 1 FROM writes
WHERE thread = ? AND namespace = ? AND checkpoint = ? AND task = ? AND idx = ? AND generation = ?
"""
INSERT_RUN = """
INSERT OR REPLACE INTO runs
    (run, thread, namespace, mode, status, head, input, resumes, epoch, crc)
VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?, ?)
"""
SUPERSEDE_RUN = "UPDATE runs SET status = 'lost' WHERE run = ? AND status = 'running'"
END_RUN = "UPDATE runs SET status = ?, input = NULL, crc = NULL WHERE run = ?"

INSERT_CHECKPOINT = """
INSERT INTO checkpoints (thread, namespace, seq, id, parent, step, source, run, next,
                         created, metadata, record, crc)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
MARK_INTERRUPTS = """
UPDATE checkpoints SET has_interrupts = 1 WHERE thread = ? AND namespace = ? AND id = ?
"""
INSERT_BLOB = "INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?, ?, ?)"
INSERT_RANGE = "INSERT INTO ranges VALUES (?, ?, ?, ?, ?, ?, ?)"
EXTEND_RANGE = """
UPDATE ranges SET count = count + ?, payload = CAST(payload || ? AS BLOB)
WHERE thread = ? AND namespace = ? AND channel = ? AND lineage = ? AND start = ? AND count = ?
"""
SELECT_MERGED = """
SELECT count, payload FROM ranges
WHERE thread = ? AND namespace = ? AND channel = ? AND lineage = ? AND start >= ? AND start < ?
ORDER BY start
"""
DELETE_MERGED = """
DELETE FROM ranges
WHERE thread = ? AND namespace = ? AND channel = ? AND lineage = ? AND start >= ? AND start < ?
"""
INSERT_WRITE = "INSERT OR IGNORE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

DELETE_THREAD = (
    "DELETE FROM checkpoints WHERE thread = ?",
    "DELETE FROM blobs WHERE thread = ?",
    "DELETE FROM ranges WHERE thread = ?",
    "DELETE FROM writes WHERE thread = ?",
    "DELETE FROM events WHERE run IN (SELECT run FROM runs WHERE thread = ?)",
    "DELETE FROM runs WHERE thread = ?",
)
EMPTY_THREAD = """
UPDATE threads SET epoch = ?, next_seq = ?, head = NULL, run = NULL, owner = NULL, removed = 1,
    crc = NULL WHERE thread = ?
"""
# Exclusive or, for which SQLite has no operator: exchanges one part of a checksum for another
# without reading the row's values. NULL stays NULL.
_OTHER = "(crc | :other) - (crc & :other)"
COPY_THREAD = (
    f"""INSERT INTO checkpoints (thread, namespace, seq, id, parent, step, source, run, next,
                                has_interrupts, created, metadata, record, crc)
    SELECT :target, namespace, seq, id, parent, step, source, run, next,
           has_interrupts, created, metadata, record, {_OTHER}
    FROM checkpoints WHERE thread = :source""",  # noqa: S608 - the constant above
    f"""INSERT INTO blobs SELECT :target, namespace, channel, version, payload, {_OTHER}
    FROM blobs WHERE thread = :source""",  # noqa: S608 - as above
    """INSERT INTO ranges SELECT :target, namespace, channel, lineage, start, count, payload
    FROM ranges WHERE thread = :source""",
    f"""INSERT INTO writes
    SELECT :target, namespace, checkpoint, task, idx, generation, path, payload, {_OTHER}
    FROM writes WHERE thread = :source""",  # noqa: S608 - as above
)
SELECT_ANY = "SELECT 1 FROM checkpoints WHERE thread = ? LIMIT 1"
SELECT_POINTS = """
SELECT namespace, seq, id, parent, run, metadata, record, step, source, next, crc
FROM checkpoints WHERE thread = ? ORDER BY seq
"""
DELETE_CHECKPOINT = "DELETE FROM checkpoints WHERE thread = ? AND namespace = ? AND seq = ?"
DELETE_WRITES = "DELETE FROM writes WHERE thread = ? AND namespace = ? AND checkpoint = ?"
# The change of the checksum, whose bits are flipped, is given twice: SQLite has no operator for it.
UPDATE_PARENT = """
UPDATE checkpoints SET parent = ?, crc = (crc | ?) - (crc & ?)
WHERE thread = ? AND namespace = ? AND seq = ?
"""
SELECT_RECORD = """
SELECT seq, record FROM checkpoints WHERE thread = ? AND namespace = ? AND id = ?
ORDER BY seq DESC LIMIT 1
"""
UPDATE_RECORD = """
UPDATE checkpoints SET record = ?, crc = (crc | ?) - (crc & ?)
WHERE thread = ? AND namespace = ? AND seq = ?
"""
DELETE_STRAY_WRITES = """
DELETE FROM writes WHERE thread = ? AND NOT EXISTS (
    SELECT 1 FROM checkpoints c WHERE c.thread = writes.thread
    AND c.namespace = writes.namespace AND c.id = writes.checkpoint)
"""
COUNT_CHECKPOINTS = """
SELECT count(*) FROM checkpoints c JOIN threads t USING (thread)
WHERE t.thread_id = :thread AND (:namespace IS NULL OR c.namespace = :namespace)
"""
_IS_EMPTY = """run IS NULL
    AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.thread = threads.thread)
    AND NOT EXISTS (SELECT 1 FROM writes w WHERE w.thread = threads.thread)
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread = threads.thread)"""
FORGET_DELETED = (
    # A thread may have lost all of its checkpoints, but not its alarm.
    f"""DELETE FROM alarms
    WHERE thread_id IN (SELECT thread_id FROM threads WHERE {_IS_EMPTY})""",  # noqa: S608 - above
    f"DELETE FROM threads WHERE {_IS_EMPTY}",  # noqa: S608 - as above
)
SELECT_BLOB_KEYS = "SELECT namespace, channel, version FROM blobs WHERE thread = ?"
DELETE_BLOB = """
DELETE FROM blobs WHERE thread = ? AND namespace = ? AND channel = ? AND version = ?
"""
SELECT_RANGE_KEYS = "SELECT namespace, channel, lineage, start FROM ranges WHERE thread = ?"
DELETE_RANGE = """
DELETE FROM ranges
WHERE thread = ? AND namespace = ? AND channel = ? AND lineage = ? AND start = ?
"""
RAISE_EPOCH = "UPDATE threads SET epoch = epoch + 1, owner = NULL WHERE thread = ?"
DELETE_RUNS = """
DELETE FROM runs WHERE thread = ? AND run IS NOT ?
    AND run NOT IN (SELECT c.run FROM checkpoints c WHERE c.thread = runs.thread
                    AND c.run IS NOT NULL)
"""
SELECT_THREAD_IDS = """
SELECT thread_id FROM threads t
WHERE EXISTS (SELECT 1 FROM checkpoints c WHERE c.thread = t.thread) ORDER BY thread_id
"""
SELECT_THREADS_WITH_INPUTS = """
SELECT thread_id FROM threads t
WHERE EXISTS (SELECT 1 FROM checkpoints c WHERE c.thread = t.thread)
    OR EXISTS (SELECT 1 FROM runs r WHERE r.thread = t.thread AND r.input IS NOT NULL)
ORDER BY thread_id
"""
# A thread's first row is its oldest, so usually only one row per thread is read. An index on
# `created` would make each insert of a checkpoint a third slower, for a query of once an hour.
SELECT_THREADS_OLDER = """
SELECT thread_id FROM threads t WHERE EXISTS (
    SELECT 1 FROM checkpoints c WHERE c.thread = t.thread AND c.created < ?) ORDER BY thread_id
"""
SELECT_THREADS_OF_RUNS = """
SELECT thread_id FROM threads t
WHERE hex(t.run) IN (SELECT value FROM json_each(:runs)) OR EXISTS (
    SELECT 1 FROM checkpoints c WHERE c.thread = t.thread AND (
        hex(c.run) IN (SELECT value FROM json_each(:runs))
        OR json_valid(c.metadata)
            AND c.metadata ->> 'run_id' IN (SELECT value FROM json_each(:texts))))
ORDER BY thread_id
"""

CHECKPOINT_COLUMNS = """c.thread, t.thread_id, c.namespace, c.seq, c.id, c.parent, c.step,
    c.source, c.run, c.next, c.metadata, c.record, c.crc"""
SELECT_BY_ID = f"""
SELECT {CHECKPOINT_COLUMNS} FROM checkpoints c JOIN threads t USING (thread)
WHERE c.thread = ? AND c.namespace = ? AND c.id = ? ORDER BY c.seq DESC LIMIT 1
"""  # noqa: S608 - the only thing put in is the constant above
SELECT_RUN = over_values(
    """
SELECT r.run, r.head, r.mode, {r.input}, r.namespace, r.status, r.crc {r in runs}
FROM runs r WHERE run = ?
""",
    at=3,
)
SELECT_NEWEST = f"""
SELECT {CHECKPOINT_COLUMNS} FROM checkpoints c JOIN threads t USING (thread)
WHERE c.thread = ? AND c.namespace = ? ORDER BY c.seq DESC LIMIT 1
"""  # noqa: S608 - as above
# CROSS JOIN fixes the order of the loops in SQLite, here and below: a few keys outside, index
# lookups inside. The other order reads all values or checkpoints that the thread ever had.
SELECT_BLOBS = over_values(
    """
SELECT b.channel, {b.payload}, b.crc {b in blobs} FROM json_each(?) AS j
CROSS JOIN blobs b ON b.thread = ? AND b.namespace = ?
    AND b.channel = j.value ->> 0 AND b.version = j.value ->> 1
""",
    at=1,
)
SELECT_RANGES = over_values(
    """
SELECT r.start, r.count, {r.payload} {r in ranges} FROM ranges r
WHERE thread = ? AND namespace = ? AND channel = ? AND lineage = ? AND start < ? ORDER BY start
""",
    at=2,
)
SELECT_RANGE_END = """
SELECT start + count FROM ranges
WHERE thread = ? AND namespace = ? AND channel = ? AND lineage = ? ORDER BY start DESC LIMIT 1
"""
# Sorted by the reader: SQLite would copy each value into its sorter and back.
SELECT_WRITES = over_values(
    """
SELECT w.checkpoint, w.task, w.path, w.idx, w.generation, {w.payload}, w.crc {w in writes}
FROM writes w WHERE thread = ? AND namespace = ? AND checkpoint = ?
""",
    at=5,
)
_ANCESTORS = """
WITH RECURSIVE chain (depth, id, parent) AS (
    SELECT 1, c.id, c.parent FROM checkpoints c
    WHERE c.thread = :thread AND c.namespace = :namespace AND c.id = :parent
    UNION
    SELECT chain.depth + 1, c.id, c.parent FROM chain
    CROSS JOIN checkpoints c
        ON c.thread = :thread AND c.namespace = :namespace AND c.id = chain.parent
    WHERE chain.depth < :depth
)"""
SELECT_ANCESTORS = f"""{_ANCESTORS}
SELECT {CHECKPOINT_COLUMNS} FROM chain
CROSS JOIN checkpoints c ON c.thread = :thread AND c.namespace = :namespace AND c.id = chain.id
CROSS JOIN threads t USING (thread)
ORDER BY chain.depth
"""  # noqa: S608 - the only things put in are constants of this file
SELECT_ANCESTORS_WRITES = over_values(
    _ANCESTORS
    + """
SELECT w.checkpoint, w.task, w.path, w.idx, w.generation, {w.payload}, w.crc {w in writes}
FROM chain
CROSS JOIN writes w ON w.thread = :thread AND w.namespace = :namespace AND w.checkpoint = chain.id
WHERE w.idx >= 0
""",
    at=5,
)
_WHERE = """(:step IS NULL OR c.step = :step) AND (:source IS NULL OR c.source = :source)
    AND (NOT json_valid(c.metadata) OR NOT EXISTS (
        SELECT 1 FROM json_each(:metadata) AS m
        WHERE NOT EXISTS (
            SELECT 1 FROM json_each(c.metadata) AS d
            WHERE d.key = m.key AND d.type = m.type AND d.value IS m.value)))"""
_THREAD = "(SELECT n.thread FROM threads n WHERE n.thread_id = :thread)"
_PAGE = f"""
SELECT {CHECKPOINT_COLUMNS} FROM checkpoints c JOIN threads t USING (thread)
WHERE c.thread = {_THREAD} AND c.namespace = :namespace
    AND c.seq < min(:under, CASE WHEN :before IS NULL THEN {2**63 - 1} ELSE (
        SELECT max(b.seq) FROM checkpoints b
        WHERE b.thread = {_THREAD} AND b.namespace = :namespace AND b.id = :before) END)
    AND c.seq > :above AND {_WHERE}
"""  # noqa: S608 - the only things put in are constants of this file
_PAGE_OF_ALL = f"""
SELECT {CHECKPOINT_COLUMNS} FROM checkpoints c JOIN threads t USING (thread)
WHERE c.thread = {_THREAD} AND c.seq < :under AND c.seq > :above
    AND (:before IS NULL OR c.seq < (
        SELECT max(b.seq) FROM checkpoints b
        WHERE b.thread = {_THREAD} AND b.namespace = c.namespace AND b.id = :before))
    AND {_WHERE}
"""  # noqa: S608 - as above
_PAGE_OF_THREADS = f"""
SELECT {CHECKPOINT_COLUMNS} FROM checkpoints c JOIN threads t USING (thread)
WHERE (:namespace IS NULL OR c.namespace = :namespace)
    AND (:before IS NULL OR c.seq < (
        SELECT max(b.seq) FROM checkpoints b
        WHERE b.thread = c.thread AND b.namespace = c.namespace AND b.id = :before))
    AND {_WHERE}
"""  # noqa: S608 - as above
_BEHIND = {
    False: """AND (:id IS NULL OR c.id < :id OR c.id = :id AND (t.thread_id > CAST(:named AS TEXT)
    OR t.thread_id = CAST(:named AS TEXT) AND c.seq < :seq))
    ORDER BY c.id DESC, t.thread_id, c.seq DESC LIMIT :limit""",
    True: """AND (:id IS NULL OR c.id > :id OR c.id = :id AND (t.thread_id > CAST(:named AS TEXT)
    OR t.thread_id = CAST(:named AS TEXT) AND c.seq > :seq))
    ORDER BY c.id, t.thread_id, c.seq LIMIT :limit""",
}
_ORDERS = {False: "ORDER BY c.seq DESC LIMIT :limit", True: "ORDER BY c.seq LIMIT :limit"}
SELECT_PAGE = {oldest: f"{_PAGE} {order}" for oldest, order in _ORDERS.items()}
SELECT_PAGE_OF_ALL = {oldest: f"{_PAGE_OF_ALL} {order}" for oldest, order in _ORDERS.items()}
SELECT_PAGE_OF_THREADS = {o: f"{_PAGE_OF_THREADS} {behind}" for o, behind in _BEHIND.items()}
"""Oldest first? -> statement of a page of one namespace, of one thread, of all threads."""

OF_LEDGER, OF_BLOB, OF_LIST = 0, 1, 2
# One statement for all values of a page, with the large ones: reading many of them, the memory of
# copies is used again, and a handle would go the way to each value once more.
SELECT_VALUES = f"""
SELECT {OF_LEDGER}, w.thread, w.namespace, w.checkpoint, w.task, w.path, w.idx, w.generation,
    w.payload, w.crc
FROM json_each(:ledgers) AS j
CROSS JOIN checkpoints c ON c.thread = j.value ->> 0 AND c.namespace = j.value ->> 1
    AND c.seq = j.value ->> 2
CROSS JOIN writes w ON w.thread = c.thread AND w.namespace = c.namespace AND w.checkpoint = c.id
UNION ALL
SELECT {OF_BLOB}, b.thread, b.namespace, b.channel, b.version, 0, 0, 0, b.payload, b.crc
FROM json_each(:blobs) AS j
CROSS JOIN blobs b ON b.thread = j.value ->> 0 AND b.namespace = j.value ->> 1
    AND b.channel = j.value ->> 2 AND b.version = j.value ->> 3
UNION ALL
SELECT {OF_LIST}, r.thread, r.namespace, r.channel, r.lineage, r.start, r.count,
    (SELECT e.start + e.count FROM ranges e
    WHERE e.thread = r.thread AND e.namespace = r.namespace AND e.channel = r.channel
        AND e.lineage = r.lineage ORDER BY e.start DESC LIMIT 1),
    r.payload, NULL
FROM json_each(:lists) AS j
CROSS JOIN ranges r ON r.thread = j.value ->> 0 AND r.namespace = j.value ->> 1
    AND r.channel = j.value ->> 2 AND r.lineage = j.value ->> 3 AND r.start < j.value ->> 4
"""  # noqa: S608 - the only things put in are the numbers above


def upgrade(connection: sqlite3.Connection) -> None:
    """Upgrade the tables of an older version by one function of `UPGRADES` after the other.

    Args:
        connection: in autocommit mode.
    Raises:
        sqlite3.Error: nothing was changed, once the caller has rolled back.
    """
    if _version(connection) == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    # Read again under the write lock: another process may have upgraded the file since.
    while 0 < (version := _version(connection)) < SCHEMA_VERSION:
        UPGRADES[version](connection)
    connection.execute("COMMIT")


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Make version 2 of version 1: add `crc`, lock out processes that still use version 1."""
    for statement in CHECKSUM_COLUMNS:
        columns = _columns(connection, statement.split()[2])
        if columns and "crc" not in columns:
            connection.execute(statement)
    # A process that still has the file open with version 1 would change rows and not their
    # checksums. Renaming a column that each of its commits uses makes those commits fail.
    if "deleted" in _columns(connection, "threads"):
        connection.execute("ALTER TABLE threads RENAME COLUMN deleted TO removed")
    connection.execute("PRAGMA user_version = 2")


UPGRADES = {1: _add_checksums}
"""Version -> function that makes the next one of it and sets `user_version`, in a transaction."""
CHECKSUM_COLUMNS = (
    "ALTER TABLE threads ADD COLUMN crc INTEGER",
    "ALTER TABLE runs ADD COLUMN crc INTEGER",
    "ALTER TABLE checkpoints ADD COLUMN crc INTEGER",
    "ALTER TABLE blobs ADD COLUMN crc INTEGER",
    "ALTER TABLE writes ADD COLUMN crc INTEGER",
    "ALTER TABLE events ADD COLUMN crc INTEGER",
    "ALTER TABLE system_runs ADD COLUMN crc INTEGER",
)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {name for (name,) in connection.execute(TABLE_COLUMNS, (table,))}


TABLE_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def is_older(connection: sqlite3.Connection) -> bool:
    """Whether the tables are those of an older version, or missing."""
    return _version(connection) != SCHEMA_VERSION


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version


# Table -> the statements that set it aside, copy its rows, and drop the one set aside.
_REBUILD = {
    name: (
        f"ALTER TABLE {name} RENAME TO {name}_before",
        f"INSERT INTO {name} SELECT * FROM {name}_before",  # noqa: S608 - the constants below
        f"DROP TABLE {name}_before",
    )
    for name in ("runs", "blobs", "ranges", "writes", "events")
}
_WITHOUT_ROWID = "WITHOUT ROWID"


def rebuild_tables(connection: sqlite3.Connection) -> None:
    """Rebuild the tables with values that are WITHOUT ROWID, as older versions made them.

    Runs inside the caller's transaction, so that a crash leaves the file as it was. Columns,
    rows and indexes stay, and no trigger is about these tables. Files of this version aren't
    changed.
    """
    rows = connection.execute("SELECT type, tbl_name, sql FROM sqlite_schema").fetchall()
    for name, (set_aside, copy, drop) in _REBUILD.items():
        (table,) = [text for kind, of, text in rows if (kind, of) == ("table", name)]
        if not table.endswith(_WITHOUT_ROWID):
            continue
        indexes = [text for kind, of, text in rows if (kind, of) == ("index", name) and text]
        connection.execute(set_aside)
        connection.execute(table.removesuffix(_WITHOUT_ROWID))
        connection.execute(copy)
        connection.execute(drop)
        for index in indexes:
            connection.execute(index)
