"""Tables of ActorSystems' runs, leases and alarms, and every statement over them.

system_runs  runs that outlive their process: status, owner, payload
cancels      requests to cancel a run, until its owner sees them
owners       leases of ActorSystems; they expire by the database's clock, in seconds
alarms       when a system looks at the open questions of a thread; at most one row of each
"""

SETUP = """
CREATE TABLE IF NOT EXISTS system_runs (
    run       BLOB NOT NULL PRIMARY KEY,
    thread_id TEXT NOT NULL,
    graph     TEXT NOT NULL,
    status    TEXT NOT NULL,
    attempts  INTEGER NOT NULL,
    claimed   INTEGER NOT NULL,
    owner     BLOB,
    created   INTEGER NOT NULL,
    metadata  TEXT NOT NULL,
    payload   BLOB NOT NULL,
    reason    TEXT NOT NULL,
    crc       INTEGER
);
CREATE INDEX IF NOT EXISTS idx_system_runs_thread ON system_runs (thread_id);
CREATE INDEX IF NOT EXISTS idx_system_runs_open ON system_runs (status)
    WHERE status IN ('pending', 'running');
CREATE INDEX IF NOT EXISTS idx_system_runs_busy ON system_runs (thread_id)
    WHERE status IN ('pending', 'running');
CREATE INDEX IF NOT EXISTS idx_system_runs_rare ON system_runs (run)
    WHERE status NOT IN ('pending', 'running', 'success');
CREATE TABLE IF NOT EXISTS cancels (
    run    BLOB NOT NULL PRIMARY KEY,
    reason TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owners (
    owner       BLOB NOT NULL PRIMARY KEY,
    lease_until REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS alarms (
    thread_id TEXT NOT NULL PRIMARY KEY,
    at        INTEGER NOT NULL,
    graph     TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_alarms_first ON alarms (graph, at, thread_id);
"""

# The metadata of a delayed run begin with its time (`systems.with_due_stored`), so that the cast of
# the text to a number gives the time, and 0 for the other runs, whose metadata begin with "{".
_NOW = "((julianday('now') - 2440587.5) * 86400.0)"
INSERT_SYSTEM_RUN = """
INSERT OR IGNORE INTO system_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
BEGIN_SYSTEM_RUN = "UPDATE system_runs SET status = 'running', claimed = 1 WHERE run = ?"
END_SYSTEM_RUN = "UPDATE system_runs SET status = ? WHERE run = ?"
LEASE_THREAD = "UPDATE threads SET owner = ?, epoch = ? WHERE thread = ?"
SELECT_THREAD_OWNER = "SELECT owner FROM threads WHERE thread = ?"
SELECT_LEASE = f"SELECT 1 FROM owners WHERE owner = ? AND lease_until > {_NOW}"  # noqa: S608
SELECT_OPEN = f"""
SELECT s.run, s.owner, s.claimed, coalesce(o.lease_until > {_NOW}, 0), CAST(s.metadata AS INTEGER)
FROM system_runs s LEFT JOIN owners o ON o.owner = s.owner
WHERE s.thread_id = ? AND s.status IN ('pending', 'running') ORDER BY s.run
"""  # noqa: S608 - the only thing put in is the constant above
SELECT_EPOCH = "SELECT epoch FROM threads WHERE thread = ?"
FENCE = """
UPDATE threads SET epoch = epoch + 1, owner = NULL
WHERE thread_id = :thread AND owner = :was AND owner <> :owner
"""
ASK_CANCEL = """
INSERT OR IGNORE INTO cancels SELECT run, ? FROM system_runs
WHERE run = ? AND status IN ('pending', 'running')
"""
ASK_CANCEL_EARLIER = """
INSERT OR IGNORE INTO cancels SELECT run, ? FROM system_runs
WHERE thread_id = ? AND run < ? AND status IN ('pending', 'running')
"""
SELECT_OWNER = "SELECT owner FROM system_runs WHERE run = ?"
RENEW = f"INSERT OR REPLACE INTO owners VALUES (?, {_NOW} + ?)"  # noqa: S608 - as above
DROP = "DELETE FROM owners WHERE owner = ?"
SET = """
UPDATE system_runs SET status = ?, reason = ?, attempts = coalesce(?, attempts) WHERE run = ?
"""
SELECT_SEALED = "SELECT graph, created, metadata FROM system_runs WHERE run = ?"
SEAL_RUN = "UPDATE system_runs SET payload = ?, crc = ? WHERE run = ?"
SEAL_EVENT = "UPDATE events SET payload = ?, crc = ? WHERE run = ? AND place = ?"
ADOPT = """
UPDATE system_runs
SET status = CASE WHEN status = 'running' AND owner IS NOT :owner THEN 'pending' ELSE status END,
    owner = :owner, attempts = :attempts
WHERE run = :run
"""
REPLACE_EVENTS = "DELETE FROM events WHERE run = ? AND place BETWEEN ? AND ?"
INSERT_EVENT = "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?)"
# Reads from the oldest event on, so it touches only what it deletes; the newest event stays.
DROP_EVENTS = """
DELETE FROM events WHERE run = :run AND place < (
    SELECT max(newest - :keep + 1, coalesce((
        SELECT place FROM events WHERE run = :run AND created >= :older ORDER BY place LIMIT 1
    ), newest))
    FROM (SELECT max(place) AS newest FROM events WHERE run = :run))
"""
_LEFT_OVER = "DELETE FROM cancels WHERE run NOT IN (SELECT run FROM system_runs)"
_SINCE = "max(created, CAST(metadata AS INTEGER))"
TRIM = (
    f"""DELETE FROM events WHERE run IN (
        SELECT run FROM system_runs
        WHERE {_SINCE} < ? AND status NOT IN ('pending', 'running'))""",  # noqa: S608 - as above
    f"""DELETE FROM system_runs
        WHERE {_SINCE} < ? AND status NOT IN ('pending', 'running')""",  # noqa: S608 - as above
    f"{_LEFT_OVER} AND ? IS NOT NULL",
    f"DELETE FROM owners WHERE lease_until < {_NOW} - 86400.0 AND ? IS NOT NULL",  # noqa: S608
)
FORGET = (
    """DELETE FROM events WHERE run IN (
        SELECT run FROM system_runs WHERE run = ? AND status NOT IN ('pending', 'running'))""",
    "DELETE FROM system_runs WHERE run = ? AND status NOT IN ('pending', 'running')",
    f"{_LEFT_OVER} AND run = ?",
)
HAS_ALARMS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alarms'"
SET_ALARM = "INSERT OR REPLACE INTO alarms (thread_id, at, graph) VALUES (?, ?, ?)"
DELETE_ALARM = "DELETE FROM alarms WHERE thread_id = ?"
TAKE_ALARM = "UPDATE alarms SET at = ? WHERE thread_id = ? AND at = ?"
TAKE_ALARM_AWAY = "DELETE FROM alarms WHERE thread_id = ? AND at = ?"
# The first ones of each graph are next to each other in the index, in order.
SELECT_ALARMS = """
SELECT a.thread_id, a.at, a.graph FROM json_each(:graphs) g JOIN alarms a ON a.rowid IN (
    SELECT rowid FROM alarms WHERE graph = g.value ORDER BY at, thread_id LIMIT :limit)
ORDER BY a.at, a.thread_id LIMIT :limit
"""
DELETE_THREAD = (
    "DELETE FROM events WHERE run IN (SELECT run FROM system_runs WHERE thread_id = ?)",
    "DELETE FROM cancels WHERE run IN (SELECT run FROM system_runs WHERE thread_id = ?)",
    "DELETE FROM system_runs WHERE thread_id = ?",
    DELETE_ALARM,
)
SELECT_EVENTS = """
SELECT place, created, payload, crc FROM events WHERE run = ? AND place > ? ORDER BY place LIMIT ?
"""
SELECT_NEWEST_EVENT = """
SELECT place, created, payload, crc FROM events WHERE run = ? AND place > ?
ORDER BY place DESC LIMIT min(?, 1)
"""
_ROW = """
SELECT s.run, s.thread_id, s.graph, s.status, s.attempts, s.claimed, s.owner, s.created,
       s.metadata, s.payload, s.reason, s.crc"""
_FROM = """
FROM system_runs s LEFT JOIN owners o ON o.owner = s.owner LEFT JOIN cancels c ON c.run = s.run"""
SELECT_RUNS = f"""{_ROW}, coalesce(o.lease_until > {_NOW}, 0), c.reason {_FROM}
WHERE (:run IS NULL OR s.run = :run) AND (:thread_id IS NULL OR s.thread_id = :thread_id)
    AND (:statuses = '' OR instr(:statuses, ',' || s.status || ','))
ORDER BY s.run
"""
SELECT_ORPHANS = f"""{_ROW}, 0, c.reason {_FROM}
WHERE s.status IN ('pending', 'running') AND coalesce(o.lease_until, 0) <= {_NOW} ORDER BY s.run
"""
SELECT_ASKED = f"""{_ROW}, coalesce(o.lease_until > {_NOW}, 0), c.reason
FROM cancels c JOIN system_runs s ON s.run = c.run LEFT JOIN owners o ON o.owner = s.owner
WHERE s.owner = :owner AND s.status IN ('pending', 'running') ORDER BY s.run
"""
SELECT_AMONG = f"""{_ROW}, coalesce(o.lease_until > {_NOW}, 0), c.reason {_FROM}
WHERE s.run IN (%s) ORDER BY s.run
"""
"""To be completed with one question mark per run."""
SELECT_WAITING = f"""
SELECT s.run, s.thread_id, s.graph, s.status, s.attempts, s.claimed, s.owner, s.created,
       s.metadata, x'', s.reason, NULL, 0, c.reason {_FROM}
WHERE s.status IN ('pending', 'running') AND coalesce(o.lease_until, 0) <= {_NOW}
    AND s.graph IN (SELECT value FROM json_each(:graphs)) AND (NOT :owned OR s.owner IS NOT NULL)
    AND CAST(s.metadata AS INTEGER) <= :now
    AND NOT EXISTS (
        SELECT 1 FROM system_runs e
        WHERE e.thread_id = s.thread_id AND (NOT e.claimed, e.run) < (NOT s.claimed, s.run)
            AND e.status IN ('pending', 'running'))
ORDER BY s.run LIMIT :limit
"""  # noqa: S608 - the only things put in are constants of this file
COUNT_WAITING = f"""
SELECT count(*), coalesce(min(since), 0) FROM (
    SELECT {_SINCE} AS since FROM system_runs
    WHERE status IN ('pending', 'running') AND owner IS NULL
        AND CAST(metadata AS INTEGER) <= ? LIMIT ?)
"""  # noqa: S608 - as above
_SEARCHED = f"""
SELECT s.run, s.thread_id, s.graph, s.status, s.attempts, s.claimed, s.owner, s.created,
       s.metadata, x'', s.reason, NULL, coalesce(o.lease_until > {_NOW}, 0), c.reason {_FROM}
WHERE s.run >= :floor AND s.run < :before AND s.created >= :since %s
    AND (:graph IS NULL OR s.graph = :graph) AND substr(s.thread_id, 1, length(:prefix)) = :prefix
    AND (:statuses = '' OR instr(:statuses, ',' || s.status || ','))
ORDER BY s.run DESC LIMIT :limit
"""
SEARCH_RUNS = {
    "all": _SEARCHED % "",
    "open": _SEARCHED % "AND s.status IN ('pending', 'running')",
    "rare": _SEARCHED % "AND s.status NOT IN ('pending', 'running', 'success')",
}
"""By `searched_part`: a partial index serves only statements that repeat its condition."""
SELECT_OWNERS = f"""
WITH busy AS (
    SELECT owner, count(*) AS runs, sum(attempts > 1 OR attempts < 0) AS adopted FROM system_runs
    WHERE status IN ('pending', 'running') AND length(owner) > 0 GROUP BY owner)
SELECT i.owner, o.lease_until - {_NOW}, coalesce(b.runs, 0), coalesce(b.adopted, 0)
FROM (SELECT owner FROM owners UNION SELECT owner FROM busy) i
LEFT JOIN owners o ON o.owner = i.owner LEFT JOIN busy b ON b.owner = i.owner
WHERE typeof(i.owner) = 'blob' ORDER BY i.owner
"""  # noqa: S608 - as above
SELECT_OPEN_OF = f"""
SELECT s.run, s.thread_id, s.graph, s.status, s.attempts, s.claimed, s.owner, s.created,
       s.metadata, x'', s.reason, NULL, coalesce(o.lease_until > {_NOW}, 0), c.reason {_FROM}
WHERE s.thread_id IN (SELECT value FROM json_each(:threads))
    AND s.status IN ('pending', 'running') ORDER BY s.run
"""  # noqa: S608 - the only things put in are constants of this file
