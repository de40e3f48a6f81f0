"""SQL of copies and removals."""

DELETE_THREAD = (
    "DELETE FROM points WHERE thread = %s",
    "DELETE FROM blobs WHERE thread = %s",
    "DELETE FROM ranges WHERE thread = %s",
    "DELETE FROM writes WHERE thread = %s",
    "DELETE FROM events WHERE run IN (SELECT run FROM runs WHERE thread = %s)",
    "DELETE FROM runs WHERE thread = %s",
    """DELETE FROM events WHERE run IN (SELECT run FROM system_runs WHERE thread_id = (
        SELECT thread_id FROM threads WHERE thread = %s))""",
    """DELETE FROM cancels WHERE run IN (SELECT run FROM system_runs WHERE thread_id = (
        SELECT thread_id FROM threads WHERE thread = %s))""",
    """DELETE FROM system_runs WHERE thread_id = (
        SELECT thread_id FROM threads WHERE thread = %s)""",
    """UPDATE threads SET epoch = epoch + 1, head = NULL, run = NULL, owner = NULL, deleted = true,
        crc = NULL WHERE thread = %s""",
)
COPY_THREAD = (
    """INSERT INTO points (thread, namespace, seq, id, parent, step, source, run, next,
                           has_interrupts, created, metadata, shape, record, crc)
    SELECT %(target)s, namespace, seq, id, parent, step, source, run, next,
           has_interrupts, created, metadata, shape, record, crc # %(other)s
    FROM points WHERE thread = %(source)s""",
    """INSERT INTO blobs SELECT %(target)s, namespace, channel, version, payload, crc # %(other)s
    FROM blobs WHERE thread = %(source)s""",
    """INSERT INTO ranges SELECT %(target)s, namespace, channel, lineage, start, count, payload
    FROM ranges WHERE thread = %(source)s AND lineage >= 0""",
    """INSERT INTO writes
    SELECT %(target)s, namespace, checkpoint, task, idx, generation, path, payload,
           crc # %(other)s
    FROM writes WHERE thread = %(source)s""",
)
SELECT_ANY = "SELECT 1 FROM points WHERE thread = %s LIMIT 1"
SELECT_HEAD = """
SELECT id FROM points WHERE thread = %s AND namespace = '' ORDER BY seq DESC LIMIT 1
"""
SELECT_POINTS = """
SELECT namespace, seq, id, parent, run, metadata::text, record::text, step, source, next::text,
       crc
FROM checkpoints WHERE thread = %s ORDER BY seq
"""
DELETE_CHECKPOINTS = """
DELETE FROM points c
USING unnest(%s::text[], %s::bigint[]) AS w (namespace, seq)
WHERE c.thread = %s AND c.namespace = w.namespace AND c.seq = w.seq
"""
DELETE_WRITES = """
DELETE FROM writes r
USING unnest(%s::text[], %s::bytea[]) AS w (namespace, id)
WHERE r.thread = %s AND r.namespace = w.namespace AND r.checkpoint = w.id
"""
UPDATE_PARENTS = """
UPDATE points c SET parent = w.parent, crc = c.crc # w.changed::integer
FROM unnest(%s::bytea[], %s::bigint[], %s::text[], %s::bigint[])
    AS w (parent, changed, namespace, seq)
WHERE c.thread = %s AND c.namespace = w.namespace AND c.seq = w.seq
"""
SELECT_RECORD = """
SELECT seq, record::text FROM checkpoints WHERE thread = %s AND namespace || '' = %s AND id = %s
ORDER BY seq DESC LIMIT 1
"""
UPDATE_RECORD = """
UPDATE points SET shape = 0, record = %s::json, crc = crc # %s
WHERE thread = %s AND namespace = %s AND seq = %s
"""
DELETE_STRAY_WRITES = """
DELETE FROM writes WHERE thread = %s AND NOT EXISTS (
    SELECT FROM points c WHERE c.thread = writes.thread
    AND c.namespace || '' = writes.namespace AND c.id = writes.checkpoint)
"""
FORGET_DELETED = """
DELETE FROM threads t WHERE t.run IS NULL
    AND NOT EXISTS (SELECT FROM points c WHERE c.thread = t.thread)
    AND NOT EXISTS (SELECT FROM writes w WHERE w.thread = t.thread)
    AND NOT EXISTS (SELECT FROM runs r WHERE r.thread = t.thread)
"""
VACUUM = (
    "VACUUM (FULL) threads",
    "VACUUM (FULL) runs",
    "VACUUM (FULL) points",
    "VACUUM (FULL) blobs",
    "VACUUM (FULL) ranges",
    "VACUUM (FULL) writes",
    "VACUUM (FULL) events",
    "VACUUM (FULL) system_runs",
)
SELECT_BLOB_KEYS = "SELECT namespace, channel, version FROM blobs WHERE thread = %s"
DELETE_BLOBS = """
DELETE FROM blobs b
USING unnest(%s::text[], %s::text[], %s::bigint[]) AS w (namespace, channel, version)
WHERE b.thread = %s AND b.namespace = w.namespace AND b.channel = w.channel
    AND b.version = w.version
"""
SELECT_RANGE_KEYS = """
SELECT namespace, channel, lineage, start FROM ranges WHERE thread = %s AND lineage >= 0
"""
DELETE_FREE_RANGES = "DELETE FROM ranges WHERE thread = %s AND lineage < 0"
DELETE_RANGES = """
DELETE FROM ranges r
USING unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[])
    AS w (namespace, channel, lineage, start)
WHERE r.thread = %s AND r.namespace = w.namespace AND r.channel = w.channel
    AND r.lineage = w.lineage AND r.start = w.start
"""
RAISE_EPOCH = "UPDATE threads SET epoch = epoch + 1, owner = NULL WHERE thread = %s"
DELETE_RUNS = """
DELETE FROM runs WHERE thread = %s AND run IS DISTINCT FROM %s
    AND run NOT IN (SELECT c.run FROM points c WHERE c.thread = runs.thread
                    AND c.run IS NOT NULL)
"""
