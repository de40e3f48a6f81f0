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

# Usually the sequence's next number. Damage to a key may have put a row under that already, which
# a new thread must not get: then the first number that is free.
ADD_THREADS = """
INSERT INTO threads (thread, thread_id)
SELECT k.thread, w.thread_id FROM (
    SELECT u.thread_id FROM unnest(%s::text[]) AS u (thread_id)
    WHERE NOT EXISTS (SELECT FROM threads t WHERE t.thread_id = u.thread_id)
    ORDER BY u.thread_id COLLATE "C") AS w
CROSS JOIN LATERAL (
    SELECT n.thread FROM (
        SELECT nextval(pg_get_serial_sequence('threads', 'thread')) AS thread
        FROM generate_series(1, 100) WHERE w.thread_id IS NOT NULL OFFSET 0) AS n
    WHERE NOT EXISTS (SELECT FROM threads o WHERE o.thread = n.thread)
        AND NOT EXISTS (SELECT FROM points o WHERE o.thread = n.thread)
        AND NOT EXISTS (SELECT FROM blobs o WHERE o.thread = n.thread)
        AND NOT EXISTS (SELECT FROM ranges o WHERE o.thread = n.thread)
        AND NOT EXISTS (SELECT FROM writes o WHERE o.thread = n.thread)
        AND NOT EXISTS (SELECT FROM runs o WHERE o.thread = n.thread)
    LIMIT 1) AS k
ON CONFLICT DO NOTHING
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
# A record whose shape is not there becomes NULL, which the table refuses: a writer may believe that
# it is, since the server has lost it or is another one (see `shapes.is_missing`).
INSERT_CHECKPOINTS = """
INSERT INTO points (thread, namespace, seq, id, parent, step, source, run, next,
                    created, metadata, shape, record, crc)
SELECT thread, namespace, seq, id, parent, step, source, run, next::json,
       created, metadata::json, shape,
       CASE WHEN shape = 0 OR EXISTS (SELECT FROM shapes s WHERE s.shape = w.shape)
           THEN record::json END, crc
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
)
EMPTY_THREAD = """
UPDATE threads SET epoch = %s, next_seq = %s, head = NULL, run = NULL, owner = NULL, deleted = true,
    crc = NULL WHERE thread = %s
"""
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
WITH gone AS (
    DELETE FROM threads t WHERE t.run IS NULL
        AND NOT EXISTS (SELECT FROM points c WHERE c.thread = t.thread)
        AND NOT EXISTS (SELECT FROM writes w WHERE w.thread = t.thread)
        AND NOT EXISTS (SELECT FROM runs r WHERE r.thread = t.thread)
    RETURNING thread_id)
DELETE FROM alarms a USING gone WHERE a.thread_id = gone.thread_id
"""
"""A thread may have lost all of its checkpoints, but not its alarm."""
VACUUM = (
    "VACUUM (FULL) threads",
    "VACUUM (FULL) runs",
    "VACUUM (FULL) points",
    "VACUUM (FULL) blobs",
    "VACUUM (FULL) ranges",
    "VACUUM (FULL) writes",
    "VACUUM (FULL) events",
    "VACUUM (FULL) system_runs",
    "VACUUM (FULL) cancels",
    "VACUUM (FULL) alarms",
    "VACUUM (FULL) thread_index",
    "VACUUM (FULL) thread_marks",
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


_OPEN: LiteralString = "status IN ('pending', 'running')"
INSERT_SYSTEM_RUNS: LiteralString = """
INSERT INTO system_runs (run, thread_id, graph, status, attempts, claimed, owner, created,
                         metadata, payload, reason, crc, build, priority, due)
SELECT run, thread_id, graph, status, attempts, claimed <> 0, owner, created,
       metadata, payload, reason, crc, build, priority, due
FROM unnest(%s::bytea[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
            %s::bytea[], %s::bigint[], %s::text[], %s::bytea[], %s::text[], %s::bigint[],
            %s::text[], %s::bigint[], %s::bigint[])
    AS w (run, thread_id, graph, status, attempts, claimed, owner, created,
          metadata, payload, reason, crc, build, priority, due)
ON CONFLICT DO NOTHING
"""
BEGIN_SYSTEM_RUNS: LiteralString = """
UPDATE system_runs SET status = 'running', claimed = true WHERE run = ANY(%s)
"""
END_SYSTEM_RUNS: LiteralString = """
UPDATE system_runs s SET status = w.status
FROM unnest(%s::text[], %s::bytea[]) AS w (status, run) WHERE s.run = w.run
"""
LEASE_THREADS: LiteralString = """
UPDATE threads t SET owner = w.owner, epoch = w.epoch
FROM unnest(%s::bytea[], %s::bigint[], %s::bigint[]) AS w (owner, epoch, thread)
WHERE t.thread = w.thread
"""
SELECT_OPEN: LiteralString = """
SELECT s.thread_id, s.run, s.owner, s.claimed, coalesce(o.lease_until > clock_timestamp(), false),
       s.due
FROM unnest(%s::text[]) AS w (thread_id)
CROSS JOIN LATERAL (
    SELECT r.* FROM system_runs r
    WHERE r.thread_id = w.thread_id AND r.status IN ('pending', 'running') OFFSET 0) AS s
LEFT JOIN owners o ON o.owner = s.owner
"""
SELECT_LEASE: LiteralString = """
SELECT EXISTS (
    SELECT FROM system_runs s JOIN owners o ON o.owner = s.owner
    WHERE s.thread_id = %s AND s.owner = %s AND s.claimed AND s.status IN ('pending', 'running')
        AND o.lease_until > clock_timestamp())
"""
SELECT_OWNERS: LiteralString = "SELECT run, owner FROM system_runs WHERE run = ANY(%s)"
RENEW: LiteralString = """
INSERT INTO owners VALUES (%s, clock_timestamp() + make_interval(secs => %s::float8))
ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until
RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
"""
SELECT_TIME: LiteralString = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
DROP: LiteralString = "DELETE FROM owners WHERE owner = %s"
SET: LiteralString = """
UPDATE system_runs s SET status = w.status, reason = w.reason,
       attempts = CASE WHEN w.attempts = -1 THEN s.attempts ELSE w.attempts END
FROM unnest(%s::bytea[], %s::text[], %s::text[], %s::bigint[]) AS w (run, status, reason, attempts)
WHERE s.run = w.run
"""
ADOPT: LiteralString = """
UPDATE system_runs s SET owner = w.owner, attempts = w.attempts,
    status = CASE WHEN s.status = 'running' AND s.owner IS DISTINCT FROM w.owner THEN 'pending'
                  ELSE s.status END
FROM unnest(%s::bytea[], %s::bytea[], %s::bigint[]) AS w (run, owner, attempts)
WHERE s.run = w.run
"""
ASK_CANCEL: LiteralString = f"""
INSERT INTO cancels SELECT run, %s FROM system_runs WHERE run = %s AND {_OPEN}
ON CONFLICT DO NOTHING
"""  # noqa: S608 - the only thing put in is a constant
ASK_CANCEL_EARLIER: LiteralString = f"""
INSERT INTO cancels SELECT run, %s FROM system_runs WHERE thread_id = %s AND run < %s AND {_OPEN}
ON CONFLICT DO NOTHING
"""  # noqa: S608 - the only thing put in is a constant
SELECT_SEALED: LiteralString = "SELECT graph, created, metadata FROM system_runs WHERE run = %s"
SEAL_RUN: LiteralString = "UPDATE system_runs SET payload = %s, crc = %s WHERE run = %s"
SEAL_EVENTS: LiteralString = """
UPDATE events e SET payload = w.payload, crc = w.crc
FROM unnest(%s::bytea[], %s::bigint[], %s::bytea[], %s::bigint[]) AS w (run, place, payload, crc)
WHERE e.run = w.run AND e.place = w.place
"""
REPLACE_EVENTS: LiteralString = """
DELETE FROM events e USING unnest(%s::bytea[], %s::bigint[], %s::bigint[]) AS w (run, first, last)
WHERE e.run = w.run AND e.place BETWEEN w.first AND w.last
"""
INSERT_EVENTS: LiteralString = """
INSERT INTO events (run, place, created, payload, crc)
SELECT * FROM unnest(%s::bytea[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bigint[])
ON CONFLICT DO NOTHING
"""
# Removes from the oldest on, as in SQLite: the newest event always stays.
DROP_EVENTS: LiteralString = """
DELETE FROM events e USING (
    SELECT w.run, greatest(n.newest - w.keep + 1, coalesce((
        SELECT m.place FROM events m WHERE m.run = w.run AND m.created >= w.older
        ORDER BY m.place LIMIT 1
    ), n.newest)) AS first
    FROM unnest(%s::bytea[], %s::bigint[], %s::bigint[]) AS w (run, keep, older),
    LATERAL (SELECT max(m.place) AS newest FROM events m WHERE m.run = w.run) AS n
) AS kept
WHERE e.run = kept.run AND e.place < kept.first
"""
_LEFT_OVER: LiteralString = """
DELETE FROM cancels c WHERE NOT EXISTS (SELECT FROM system_runs s WHERE s.run = c.run)"""
TRIM: tuple[LiteralString, ...] = (
    f"""DELETE FROM events WHERE run IN (
        SELECT run FROM system_runs
        WHERE greatest(created, due) < %s AND NOT ({_OPEN}))""",  # noqa: S608
    f"DELETE FROM system_runs WHERE greatest(created, due) < %s AND NOT ({_OPEN})",  # noqa: S608
    f"{_LEFT_OVER} AND %s::bigint IS NOT NULL",
    """DELETE FROM owners WHERE lease_until < clock_timestamp() - interval '1 day'
        AND %s::bigint IS NOT NULL""",
)
FORGET: tuple[LiteralString, ...] = (
    f"""DELETE FROM events WHERE run IN (
        SELECT run FROM system_runs WHERE run = %s AND NOT ({_OPEN}))""",  # noqa: S608
    f"DELETE FROM system_runs WHERE run = %s AND NOT ({_OPEN})",  # noqa: S608
    f"{_LEFT_OVER} AND run = %s",
)
SELECT_EVENTS: LiteralString = """
SELECT place, created, payload, crc FROM (
    SELECT *, sum(octet_length(payload)) OVER (ORDER BY place) - octet_length(payload) AS before
    FROM (
        SELECT place, created, payload, crc FROM events WHERE run = %s AND place > %s
        ORDER BY place LIMIT %s
    ) l
) e WHERE before < %s ORDER BY place
"""
SELECT_EVENTS_OF_RUNS: LiteralString = """
SELECT a.number, e.place, e.created, e.payload, e.crc
FROM unnest(%s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[])
    WITH ORDINALITY AS a (run, after, most, bytes, number)
CROSS JOIN LATERAL (
    SELECT *, sum(octet_length(payload)) OVER (ORDER BY place) - octet_length(payload) AS before
    FROM (
        SELECT place, created, payload, crc FROM events WHERE run = a.run AND place > a.after
        ORDER BY place LIMIT a.most
    ) l
) e WHERE e.before < a.bytes ORDER BY a.number, e.place
"""
SELECT_NEWEST_EVENT: LiteralString = """
SELECT place, created, payload, crc FROM events WHERE run = %s AND place > %s
ORDER BY place DESC LIMIT least(%s, 1)
"""
_ROW: LiteralString = """
SELECT s.run, s.thread_id, s.graph, s.status, s.attempts, s.claimed, s.owner, s.created,
       s.metadata, s.payload, s.reason, s.crc,
       coalesce(o.lease_until > clock_timestamp(), false), c.reason, s.build, s.priority, s.due
FROM system_runs s LEFT JOIN owners o ON o.owner = s.owner LEFT JOIN cancels c ON c.run = s.run"""
_FITS: LiteralString = """(%(run)s::bytea IS NULL OR s.run = %(run)s)
    AND (%(thread_id)s::text IS NULL OR s.thread_id = %(thread_id)s)
    AND (%(all)s OR s.status = ANY(%(statuses)s))
ORDER BY s.run
"""
SELECT_RUN: LiteralString = f"{_ROW} WHERE s.run = %(run)s AND {_FITS}"
SELECT_RUNS_OF_THREAD: LiteralString = f"{_ROW} WHERE s.thread_id = %(thread_id)s AND {_FITS}"
SELECT_RUNS: LiteralString = f"{_ROW} WHERE {_FITS}"
"""Three texts, since a generic plan can use an index for `=`, but not for `IS NULL OR =`."""
# The owners of open runs, one step of the index for each, then those without a lease. PostgreSQL
# has no skip scan of its own before version 18: https://wiki.postgresql.org/wiki/Loose_indexscan
_DEAD_OWNERS: LiteralString = f"""
WITH RECURSIVE owning(owner) AS (
    (SELECT owner FROM system_runs WHERE owner IS NOT NULL AND {_OPEN} ORDER BY owner LIMIT 1)
    UNION ALL
    SELECT (SELECT r.owner FROM system_runs r
            WHERE r.owner > owning.owner AND r.{_OPEN} ORDER BY r.owner LIMIT 1)
    FROM owning WHERE owning.owner IS NOT NULL),
dead AS (
    SELECT h.owner FROM owning h LEFT JOIN owners o ON o.owner = h.owner
    WHERE h.owner IS NOT NULL
        AND (o.lease_until IS NULL OR o.lease_until <= clock_timestamp()))
"""  # noqa: S608 - the only things put in are constants
SELECT_ORPHANS: LiteralString = f"""{_DEAD_OWNERS}
SELECT s.* FROM (
    {_ROW} WHERE s.owner IS NULL AND s.{_OPEN}
    UNION ALL
    SELECT r.* FROM dead CROSS JOIN LATERAL ({_ROW} WHERE s.owner = dead.owner AND s.{_OPEN}) AS r
) AS s ORDER BY 1
"""  # noqa: S608
SELECT_ASKED: LiteralString = f"""{_ROW}
WHERE c.reason IS NOT NULL AND s.owner = %(owner)s AND s.{_OPEN} ORDER BY s.run
"""
SELECT_AMONG: LiteralString = f"{_ROW} WHERE s.run = ANY(%s) ORDER BY s.run"
_SLIM_ROW: LiteralString = """
SELECT s.run, s.thread_id, s.graph, s.status, s.attempts, s.claimed, s.owner, s.created,
       s.metadata, ''::bytea, s.reason, NULL::integer,
       coalesce(o.lease_until > clock_timestamp(), false), c.reason, s.build, s.priority, s.due"""
_OFFERED: LiteralString = f"""s.{_OPEN} AND s.graph = ANY(%(graphs)s)
    AND s.build = ANY(%(builds)s) AND s.due <= %(now)s
    AND NOT EXISTS (
        SELECT FROM system_runs e
        WHERE e.thread_id = s.thread_id AND e.{_OPEN}
            AND (NOT e.claimed, e.run) < (NOT s.claimed, s.run))"""
# Two branches, each by the index of open runs by owner: those that no system has had, which may be
# many, and those of the few owners that are gone.
SELECT_WAITING: LiteralString = f"""{_DEAD_OWNERS}
(SELECT * FROM (
    {_SLIM_ROW} FROM system_runs s LEFT JOIN owners o ON false LEFT JOIN cancels c ON c.run = s.run
    WHERE NOT %(owned)s AND s.owner IS NULL AND {_OFFERED}
    ORDER BY s.owner, s.run LIMIT %(limit)s) AS free)
UNION ALL
(SELECT r.* FROM dead CROSS JOIN LATERAL (
    {_SLIM_ROW} FROM system_runs s LEFT JOIN owners o ON o.owner = s.owner
    LEFT JOIN cancels c ON c.run = s.run
    WHERE s.owner = dead.owner AND {_OFFERED} ORDER BY s.run LIMIT %(limit)s) AS r)
ORDER BY 1 LIMIT %(limit)s
"""  # noqa: S608
COUNT_WAITING: LiteralString = f"""
SELECT count(*), coalesce(min(since), 0) FROM (
    SELECT greatest(created, due) AS since FROM system_runs
    WHERE owner IS NULL AND {_OPEN} AND due <= %s AND build = ANY(%s)
    ORDER BY owner, run LIMIT %s) AS w
"""  # noqa: S608
_SEARCHED: LiteralString = f"""{_SLIM_ROW}
FROM system_runs s LEFT JOIN owners o ON o.owner = s.owner LEFT JOIN cancels c ON c.run = s.run
WHERE s.run >= %(floor)s AND s.run < %(before)s AND s.created >= %(since)s
    AND (%(graph)s::text IS NULL OR s.graph = %(graph)s) AND starts_with(s.thread_id, %(prefix)s)
    AND (%(all)s OR s.status = ANY(%(statuses)s))"""
_NEWEST: LiteralString = " ORDER BY s.run DESC LIMIT %(limit)s"
SEARCH_RUNS: dict[str, LiteralString] = {
    "all": f"{_SEARCHED}{_NEWEST}",
    "open": f"{_SEARCHED} AND s.{_OPEN}{_NEWEST}",
    "rare": f"{_SEARCHED} AND s.status NOT IN ('pending', 'running', 'success'){_NEWEST}",
}
"""By `searched_part`: a partial index serves only statements that repeat its condition."""
SELECT_OWNERS_OF_RUNS: LiteralString = f"""
WITH busy AS (
    SELECT owner, count(*) AS runs, count(*) FILTER (WHERE attempts > 1 OR attempts < 0) AS adopted
    FROM system_runs WHERE {_OPEN} AND owner IS NOT NULL AND owner <> ''::bytea GROUP BY owner)
SELECT owner, extract(epoch FROM o.lease_until - clock_timestamp())::float8,
       coalesce(b.runs, 0), coalesce(b.adopted, 0)
FROM owners o FULL JOIN busy b USING (owner) ORDER BY owner
"""  # noqa: S608
SELECT_OPEN_OF: LiteralString = f"""{_SLIM_ROW}
FROM system_runs s LEFT JOIN owners o ON o.owner = s.owner LEFT JOIN cancels c ON c.run = s.run
WHERE s.thread_id = ANY(%s) AND s.{_OPEN} ORDER BY s.run
"""
