"""SQL of batches. Rows are passed as one array per column.

Plans     Each row of a batch finds the rows that it needs by one index look-up, however many
          threads there are, also by plans made before the tables grew or were analyzed: `OFFSET 0`
          fixes the order of the joins, and `LOOK_UPS` forbids all joins but nested loops.
Ids       A checkpoint's id is looked up with `namespace || ''`, which no index matches: with the
          plain column the server may scan a thread backwards until it meets the id.
"""

from typing import LiteralString

from actorgraph.savers.postgres.schema import LOOK_UPS

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
SETTINGS: LiteralString = f"""
SELECT set_config('search_path', %s, true), set_config('lock_timeout', %s, true),
       set_config('statement_timeout', %s, true),
       set_config('synchronous_commit', coalesce(
           %s, nullif(current_setting('synchronous_commit'), 'off'), 'on'), true),
       {LOOK_UPS}
"""
COMMIT = "COMMIT"
SAVEPOINT = "SAVEPOINT alone"
ROLLBACK_TO = "ROLLBACK TO alone"
RELEASE = "RELEASE alone"

ADD_WRITER = "INSERT INTO writers (writer, version) VALUES (%s, %s) ON CONFLICT DO NOTHING"
LOCK_WRITER = "SELECT batch FROM writers WHERE writer = %s FOR UPDATE"
MARK_WRITER = "UPDATE writers SET batch = %s, seen = now() WHERE writer = %s"
FORGET_WRITER = """
DELETE FROM writers WHERE writer = %s OR seen < now() - interval '30 days'
"""

ADD_THREADS = """
INSERT INTO threads (thread_id)
SELECT w.thread_id FROM unnest(%s::text[]) AS w (thread_id)
WHERE NOT EXISTS (SELECT FROM threads t WHERE t.thread_id = w.thread_id)
ORDER BY w.thread_id COLLATE "C" ON CONFLICT DO NOTHING
"""
_THREADS = """
SELECT thread_id, thread, epoch, run, next_seq, head, owner, crc FROM threads
WHERE thread_id = ANY(%s) ORDER BY thread_id FOR UPDATE"""
LOCK_THREADS = _THREADS
LOCK_FREE_THREADS = _THREADS + " SKIP LOCKED"
_KEY: LiteralString = """CROSS JOIN LATERAL (
    SELECT t.thread FROM threads t WHERE t.thread_id = w.thread_id OFFSET 0) AS t"""
SELECT_HEADS: LiteralString = f"""
SELECT w.thread_id, w.namespace, h.id
FROM unnest(%s::text[], %s::text[]) AS w (thread_id, namespace)
{_KEY}
CROSS JOIN LATERAL (
    SELECT c.id FROM points c WHERE c.thread = t.thread AND c.namespace = w.namespace
    ORDER BY c.seq DESC LIMIT 1) AS h
"""  # noqa: S608 - the only thing put in is the constant above
SELECT_ANSWERED: LiteralString = f"""
SELECT w.thread_id, w.namespace, w.checkpoint, w.task, w.idx, w.generation
FROM unnest(%s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::bigint[], %s::bigint[])
    AS w (thread_id, namespace, checkpoint, task, idx, generation)
{_KEY}
CROSS JOIN LATERAL (
    SELECT FROM writes r WHERE r.thread = t.thread AND r.namespace = w.namespace
        AND r.checkpoint = w.checkpoint AND r.task = w.task AND r.idx = w.idx
        AND r.generation = w.generation OFFSET 0) AS r
"""  # noqa: S608 - as above
SELECT_BASES: LiteralString = f"""
SELECT w.thread_id, w.namespace, w.id
FROM unnest(%s::text[], %s::text[], %s::bytea[]) AS w (thread_id, namespace, id)
{_KEY}
WHERE EXISTS (SELECT FROM points c
              WHERE c.thread = t.thread AND c.namespace || '' = w.namespace AND c.id = w.id)
"""  # noqa: S608 - as above
SELECT_COUNTS: LiteralString = f"""
SELECT w.thread_id, w.namespace, w.channel, w.lineage, w.start, r.count
FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
    AS w (thread_id, namespace, channel, lineage, start)
{_KEY}
CROSS JOIN LATERAL (
    SELECT r.count FROM ranges r WHERE r.thread = t.thread AND r.namespace = w.namespace
        AND r.channel = w.channel AND r.lineage = w.lineage AND r.start = w.start
    OFFSET 0) AS r
"""  # noqa: S608 - as above

SUPERSEDE_RUNS = "UPDATE runs SET status = 'lost' WHERE run = ANY(%s) AND status = 'running'"
INSERT_RUNS = """
INSERT INTO runs (run, thread, namespace, mode, status, head, input, resumes, epoch, crc)
SELECT run, thread, namespace, mode, 'running', head, input, resumes, epoch, crc
FROM unnest(%s::bytea[], %s::bigint[], %s::text[], %s::text[], %s::bytea[], %s::bytea[],
            %s::text[], %s::bigint[], %s::bigint[])
    AS w (run, thread, namespace, mode, head, input, resumes, epoch, crc)
ON CONFLICT (run) DO UPDATE
SET (thread, namespace, mode, status, head, input, resumes, epoch, crc) =
    (excluded.thread, excluded.namespace, excluded.mode, excluded.status, excluded.head,
     excluded.input, excluded.resumes, excluded.epoch, excluded.crc)
"""
END_RUNS = """
UPDATE runs r SET status = w.status, input = NULL, crc = NULL
FROM unnest(%s::text[], %s::bytea[]) AS w (status, run) WHERE r.run = w.run
"""
INSERT_CHECKPOINTS = """
INSERT INTO points (thread, namespace, seq, id, parent, step, source, run, next,
                    created, metadata, shape, record, crc)
SELECT thread, namespace, seq, id, parent, step, source, run, next::json,
       created, metadata::json, shape, record::json, crc
FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bigint[],
            %s::text[], %s::bytea[], %s::text[], %s::bigint[], %s::text[], %s::bigint[],
            %s::text[], %s::bigint[])
    AS w (thread, namespace, seq, id, parent, step, source, run, next, created, metadata, shape,
          record, crc)
"""
MARK_INTERRUPTS = """
UPDATE points c SET has_interrupts = true
FROM unnest(%s::bigint[], %s::text[], %s::bytea[]) AS w (thread, namespace, id)
WHERE c.thread = w.thread AND c.namespace || '' = w.namespace AND c.id = w.id
"""
INSERT_BLOBS = """
INSERT INTO blobs
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bytea[],
                     %s::bigint[])
ON CONFLICT (thread, namespace, channel, version)
DO UPDATE SET payload = excluded.payload, crc = excluded.crc
"""
INSERT_WRITES = """
INSERT INTO writes
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bytea[], %s::bytea[], %s::bigint[],
                     %s::bigint[], %s::text[], %s::bytea[], %s::bigint[])
ON CONFLICT DO NOTHING
"""
FREE = -1
"""The lineage of free rows in `ranges`, which hold no list; new rows reuse them."""
INSERT_RANGES = """
WITH new AS (
    SELECT *, row_number() OVER (PARTITION BY thread, namespace, channel) AS place
    FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[],
                %s::bytea[]) AS w (thread, namespace, channel, lineage, start, count, payload)),
w AS (
    SELECT new.*, f.slot FROM new LEFT JOIN LATERAL (
        SELECT r.start AS slot FROM ranges r
        WHERE r.thread = new.thread AND r.namespace = new.namespace AND r.channel = new.channel
            AND r.lineage = -1
        ORDER BY r.start OFFSET new.place - 1 LIMIT 1) AS f ON true),
taken AS (
    UPDATE ranges r
    SET lineage = w.lineage, start = w.start, count = w.count, payload = w.payload
    FROM w
    WHERE r.thread = w.thread AND r.namespace = w.namespace AND r.channel = w.channel
        AND r.lineage = -1 AND r.start = w.slot)
INSERT INTO ranges (thread, namespace, channel, lineage, start, count, payload)
SELECT thread, namespace, channel, lineage, start, count, payload FROM w WHERE slot IS NULL
"""
"""A new row is written as an update of a free one, if there is one: PostgreSQL keeps it on the same
page and prunes dead versions there. Space of deleted rows is reused only after a vacuum."""
EXTEND_RANGES = """
UPDATE ranges r SET count = r.count + w.count, payload = r.payload || w.payload
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[],
            %s::bytea[]) AS w (thread, namespace, channel, lineage, start, count, payload)
WHERE r.thread = w.thread AND r.namespace = w.namespace AND r.channel = w.channel
    AND r.lineage = w.lineage AND r.start = w.start
"""
MERGE_RANGES = """
WITH rows AS (
    SELECT start, count, payload, row_number() OVER (ORDER BY start) AS place FROM ranges
    WHERE thread = %(thread)s AND namespace = %(namespace)s AND channel = %(channel)s
        AND lineage = %(lineage)s AND start >= %(start)s AND start < %(end)s),
freed AS (
    UPDATE ranges r SET lineage = -1, start = most.start + w.place, count = 0, payload = ''
    FROM rows w, (
        SELECT coalesce(max(start), 0) AS start FROM ranges
        WHERE thread = %(thread)s AND namespace = %(namespace)s AND channel = %(channel)s
            AND lineage = -1) AS most
    WHERE r.thread = %(thread)s AND r.namespace = %(namespace)s AND r.channel = %(channel)s
        AND r.lineage = %(lineage)s AND r.start = w.start AND w.start <> %(start)s)
UPDATE ranges r SET (count, payload) = (
    SELECT sum(count)::bigint, string_agg(payload, ''::bytea ORDER BY start) FROM rows)
WHERE r.thread = %(thread)s AND r.namespace = %(namespace)s AND r.channel = %(channel)s
    AND r.lineage = %(lineage)s AND r.start = %(start)s
"""
"""The first row gets the items of all, the others become free rows."""
UPDATE_THREADS = """
UPDATE threads t
SET next_seq = w.next_seq, head = w.head, run = w.run, crc = w.crc, deleted = false
FROM unnest(%s::bigint[], %s::bytea[], %s::bytea[], %s::bigint[], %s::bigint[])
    AS w (next_seq, head, run, crc, thread)
WHERE t.thread = w.thread
"""
