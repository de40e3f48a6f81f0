"""SQL of reads: several loads are one statement, and the values of what it finds another.

Statements that need records read the view `checkpoints`, others its table `points`. For the reason
of `namespace || ''` see `statements`.
"""

from typing import LiteralString

from actorgraph.storage.postgres.timeouts import USE_SCHEMA as SET_SCHEMA

NUL = "\ue000"
"""Replaces NUL in JSON that is compared: PostgreSQL has no NUL in text."""

BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
USE_SCHEMA: LiteralString = f"""{SET_SCHEMA},
       set_config('enable_seqscan', %s, true), set_config('enable_hashjoin', %s, true),
       set_config('enable_mergejoin', %s, true)
"""
"""The first statement of reads; for reads of single threads the switches are off, as in
`schema.LOOK_UPS`."""
COMMIT = "COMMIT"

COLUMNS: LiteralString = """c.thread, t.thread_id, c.namespace, c.seq, c.id, c.parent, c.step,
    c.source, c.run, c.next::text, c.metadata::text, c.record::text, c.crc"""
_NEWEST: LiteralString = ", ".join(
    f"CASE WHEN c.seq = h.seq THEN NULL ELSE {column} END"
    for column in COLUMNS.replace("c.", "h.").split(",")
)
"""The columns of the namespace's newest checkpoint; NULL where that is the loaded one."""
SELECT_LOADS: LiteralString = f"""
SELECT w.place, t.thread_id, t.epoch, t.run, t.next_seq, t.head, t.crc, h.id,
       r.run, r.head, r.mode, r.input, r.namespace, r.status, r.crc, {COLUMNS},
       {_NEWEST}
FROM unnest(%s::text[], %s::text[], %s::bytea[]) WITH ORDINALITY
    AS w (thread_id, namespace, id, place)
JOIN threads t ON t.thread_id = w.thread_id
LEFT JOIN runs r ON r.run = t.run
LEFT JOIN LATERAL (
    SELECT * FROM checkpoints h
    WHERE h.thread = t.thread AND h.namespace = w.namespace
    ORDER BY h.seq DESC LIMIT 1) AS h ON true
LEFT JOIN LATERAL (
    SELECT * FROM checkpoints c
    WHERE c.thread = t.thread AND c.namespace || '' = w.namespace
        AND c.id = coalesce(w.id, h.id)
    ORDER BY c.seq DESC LIMIT 1) AS c ON true
"""  # noqa: S608 - the only things put in are the constants above

_WHERE: LiteralString = """
    (%(step)s::text IS NULL OR c.step::text = %(step)s)
    AND (%(source)s::text IS NULL OR c.source = %(source)s)
    AND NOT EXISTS (
        SELECT FROM unnest(%(keys)s::text[], %(values)s::text[]) AS m (key, value)
        WHERE (replace(c.metadata::text, '\\u0000', '\\ue000')::json -> m.key)::text
            IS DISTINCT FROM m.value)"""
_BEFORE: LiteralString = """
    AND (%(before)s::bytea IS NULL OR c.seq < (
        SELECT max(b.seq) FROM points b
        WHERE b.thread = c.thread AND b.namespace || '' = c.namespace AND b.id = %(before)s))"""
_BEFORE_IN_THREAD: LiteralString = """
    AND c.seq < CASE WHEN %(before)s::bytea IS NULL THEN 9223372036854775807 ELSE (
        SELECT max(b.seq) FROM points b
        WHERE b.thread = (SELECT w.thread FROM threads w WHERE w.thread_id = %(thread)s)
            AND b.id = %(before)s) END"""
"""Looked up once, where `_BEFORE` is evaluated for each row: so the index scan starts there."""
_THREAD: LiteralString = """c.thread = (
    SELECT w.thread FROM threads w WHERE w.thread_id = %(thread)s)"""
_NAMESPACE: LiteralString = "c.namespace = %(namespace)s"
_IN_THREAD: LiteralString = f"""{_WHERE} AND {_THREAD}
    AND c.seq < %(under)s::bigint AND c.seq > %(above)s::bigint"""
_FROM: LiteralString = "JOIN threads t USING (thread) WHERE"
_OF_NAMESPACE: LiteralString = f"""
SELECT {COLUMNS} FROM checkpoints c {_FROM} {_IN_THREAD} AND {_NAMESPACE}
    {_BEFORE_IN_THREAD} {_BEFORE}"""  # noqa: S608
_KEYS: LiteralString = f"SELECT c.thread, c.namespace, c.seq FROM points c {_FROM}"  # noqa: S608
_OF_THREAD: LiteralString = f"{_KEYS} {_IN_THREAD} {_BEFORE_IN_THREAD} {_BEFORE}"
_OF_THREADS: LiteralString = f"""
{_KEYS} {_WHERE} {_BEFORE} AND (%(namespace)s::text IS NULL OR {_NAMESPACE})"""
_BY_SEQ: dict[bool, LiteralString] = {
    False: " ORDER BY c.seq DESC LIMIT %(limit)s",
    True: " ORDER BY c.seq LIMIT %(limit)s",
}
_BEHIND: dict[bool, LiteralString] = {
    False: """ AND (%(id)s::bytea IS NULL OR c.id < %(id)s OR c.id = %(id)s AND (
            t.thread_id > %(named)s::text OR t.thread_id = %(named)s AND c.seq < %(seq)s::bigint
        ))""",
    True: """ AND (%(id)s::bytea IS NULL OR c.id > %(id)s OR c.id = %(id)s AND (
            t.thread_id > %(named)s::text OR t.thread_id = %(named)s AND c.seq > %(seq)s::bigint
        ))""",
}
_BY_ID: dict[bool, LiteralString] = {
    False: " ORDER BY c.id DESC, t.thread_id, c.seq DESC LIMIT %(limit)s",
    True: " ORDER BY c.id, t.thread_id, c.seq LIMIT %(limit)s",
}


def _sorted(keys: LiteralString, order: LiteralString) -> LiteralString:
    """Sort and limit keys first, then join: records are put together for the page's rows only."""
    return f"""
SELECT {COLUMNS} FROM ({keys} {order}) AS page
JOIN checkpoints c USING (thread, namespace, seq)
JOIN threads t USING (thread) {order}"""  # noqa: S608


SELECT_PAGE: dict[bool, LiteralString] = {o: _OF_NAMESPACE + by for o, by in _BY_SEQ.items()}
SELECT_PAGE_OF_ALL: dict[bool, LiteralString] = {
    o: _sorted(_OF_THREAD, by) for o, by in _BY_SEQ.items()
}
SELECT_PAGE_OF_THREADS: dict[bool, LiteralString] = {
    o: _sorted(_OF_THREADS + _BEHIND[o], by) for o, by in _BY_ID.items()
}
"""oldest_first -> the page of a namespace (SELECT_PAGE), of a thread, of all threads."""

SELECT_ANCESTORS: LiteralString = f"""
WITH RECURSIVE chain (depth, id, parent) AS (
    SELECT 1, c.id, c.parent FROM points c
    WHERE c.thread = %(thread)s AND c.namespace || '' = %(namespace)s AND c.id = %(parent)s
    UNION
    SELECT chain.depth + 1, c.id, c.parent FROM chain
    JOIN points c
        ON c.thread = %(thread)s AND c.namespace || '' = %(namespace)s AND c.id = chain.parent
    WHERE chain.depth < %(depth)s)
SELECT {COLUMNS} FROM chain
JOIN checkpoints c
    ON c.thread = %(thread)s AND c.namespace || '' = %(namespace)s AND c.id = chain.id
JOIN threads t USING (thread)
ORDER BY chain.depth
"""  # noqa: S608 - as above

# Columns: kind, thread, namespace, channel or path, checkpoint, task, three numbers, payload, crc.
SELECT_VALUES = """
SELECT 'blob', b.thread, b.namespace, b.channel, NULL::bytea, NULL::bytea, b.version, 0::bigint,
       0::bigint, b.payload, b.crc
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[])
    AS w (thread, namespace, channel, version)
JOIN blobs b ON b.thread = w.thread AND b.namespace = w.namespace AND b.channel = w.channel
    AND b.version = w.version
UNION ALL
SELECT 'range', w.thread, w.namespace, w.channel, NULL, NULL, w.lineage, r.start, r.count,
       r.payload, NULL
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
    AS w (thread, namespace, channel, lineage, upto)
CROSS JOIN LATERAL (
    SELECT r.start, r.count, r.payload FROM ranges r
    WHERE r.thread = w.thread AND r.namespace = w.namespace AND r.channel = w.channel
        AND r.lineage = w.lineage AND r.start < w.upto
    UNION ALL SELECT last.start, last.count, NULL FROM (
        SELECT r.start, r.count FROM ranges r
        WHERE r.thread = w.thread AND r.namespace = w.namespace AND r.channel = w.channel
            AND r.lineage = w.lineage
        ORDER BY r.start DESC LIMIT 1) AS last
    WHERE last.start >= w.upto) AS r
UNION ALL
SELECT 'write', d.thread, d.namespace, d.path, d.checkpoint, d.task, d.idx, d.generation, 0,
       d.payload, d.crc
FROM unnest(%s::bigint[], %s::text[], %s::bytea[]) AS w (thread, namespace, checkpoint)
JOIN writes d ON d.thread = w.thread AND d.namespace = w.namespace AND d.checkpoint = w.checkpoint
"""

SELECT_THREAD_IDS = """
SELECT thread_id FROM threads t
WHERE (EXISTS (SELECT FROM points c WHERE c.thread = t.thread)
       OR %(inputs)s::boolean AND EXISTS (
            SELECT FROM runs r WHERE r.thread = t.thread AND r.input IS NOT NULL))
    AND (%(older)s::bigint IS NULL OR EXISTS (
        SELECT FROM points c WHERE c.thread = t.thread AND c.created < %(older)s))
ORDER BY thread_id
"""
SELECT_THREADS_OF_RUNS = """
SELECT thread_id FROM threads t
WHERE (t.run = ANY(%(runs)s) OR EXISTS (
        SELECT FROM points c WHERE c.thread = t.thread AND (
            c.run = ANY(%(runs)s)
            OR (replace(c.metadata::text, '\\u0000', '\\ue000')::json -> 'run_id')::text
                = ANY(%(texts)s))))
    AND (%(older)s::bigint IS NULL OR EXISTS (
        SELECT FROM points c WHERE c.thread = t.thread AND c.created < %(older)s))
ORDER BY thread_id
"""
COUNT_CHECKPOINTS = """
SELECT count(*) FROM points c JOIN threads t USING (thread)
WHERE t.thread_id = %(thread)s AND (%(namespace)s::text IS NULL OR c.namespace = %(namespace)s)
"""
