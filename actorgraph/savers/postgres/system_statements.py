"""SQL of ActorSystems. Leases end by the database's clock, not by those of the processes."""

from typing import LiteralString

_OPEN: LiteralString = "status IN ('pending', 'running')"
INSERT_SYSTEM_RUNS: LiteralString = """
INSERT INTO system_runs (run, thread_id, graph, status, attempts, claimed, owner, created,
                         metadata, payload, reason, crc)
SELECT run, thread_id, graph, status, attempts, claimed <> 0, owner, created,
       metadata, payload, reason, crc
FROM unnest(%s::bytea[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
            %s::bytea[], %s::bigint[], %s::text[], %s::bytea[], %s::text[], %s::bigint[])
    AS w (run, thread_id, graph, status, attempts, claimed, owner, created,
          metadata, payload, reason, crc)
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
SELECT s.thread_id, s.run, s.owner, s.claimed, coalesce(o.lease_until > clock_timestamp(), false)
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
"""
DROP: LiteralString = "DELETE FROM owners WHERE owner = %s"
SET: LiteralString = """
UPDATE system_runs s SET status = w.status, reason = w.reason,
       attempts = CASE WHEN w.attempts < 0 THEN s.attempts ELSE w.attempts END
FROM unnest(%s::bytea[], %s::text[], %s::text[], %s::bigint[]) AS w (run, status, reason, attempts)
WHERE s.run = w.run
"""
ADOPT: LiteralString = "UPDATE system_runs SET owner = %s, attempts = %s WHERE run = %s"
FENCE: LiteralString = "UPDATE threads SET epoch = epoch + 1, owner = NULL WHERE thread = %s"
ASK_CANCEL: LiteralString = f"""
INSERT INTO cancels SELECT run, %s FROM system_runs WHERE run = %s AND {_OPEN}
ON CONFLICT DO NOTHING
"""  # noqa: S608 - the only thing put in is a constant
SELECT_SEALED: LiteralString = "SELECT graph, created, metadata FROM system_runs WHERE run = %s"
SEAL_RUN: LiteralString = "UPDATE system_runs SET payload = %s, crc = %s WHERE run = %s"
SEAL_EVENTS: LiteralString = """
UPDATE events e SET payload = w.payload, crc = w.crc
FROM unnest(%s::bytea[], %s::bigint[], %s::bytea[], %s::bigint[]) AS w (run, place, payload, crc)
WHERE e.run = w.run AND e.place = w.place
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
        SELECT run FROM system_runs WHERE created < %s AND NOT ({_OPEN}))""",  # noqa: S608
    f"DELETE FROM system_runs WHERE created < %s AND NOT ({_OPEN})",  # noqa: S608
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
SELECT place, created, payload, crc FROM events WHERE run = %s AND place > %s
ORDER BY place LIMIT %s
"""
SELECT_NEWEST_EVENT: LiteralString = """
SELECT place, created, payload, crc FROM events WHERE run = %s AND place > %s
ORDER BY place DESC LIMIT least(%s, 1)
"""
_ROW: LiteralString = """
SELECT s.run, s.thread_id, s.graph, s.status, s.attempts, s.claimed, s.owner, s.created,
       s.metadata, s.payload, s.reason, s.crc,
       coalesce(o.lease_until > clock_timestamp(), false), c.reason
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
SELECT_ORPHANS: LiteralString = f"""{_ROW}
WHERE s.{_OPEN} AND (o.lease_until IS NULL OR o.lease_until <= clock_timestamp()) ORDER BY s.run
"""
SELECT_ASKED: LiteralString = f"""{_ROW}
WHERE c.reason IS NOT NULL AND s.owner = %(owner)s AND s.{_OPEN} ORDER BY s.run
"""
SELECT_OPEN_OF: LiteralString = f"""
SELECT s.run, s.thread_id, s.graph, s.status, s.attempts, s.claimed, s.owner, s.created,
       s.metadata, ''::bytea, s.reason, NULL::integer,
       coalesce(o.lease_until > clock_timestamp(), false), c.reason
FROM system_runs s LEFT JOIN owners o ON o.owner = s.owner LEFT JOIN cancels c ON c.run = s.run
WHERE s.thread_id = ANY(%s) AND s.{_OPEN} ORDER BY s.run
"""  # noqa: S608 - the only thing put in is the constant above
