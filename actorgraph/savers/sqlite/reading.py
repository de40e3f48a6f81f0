"""Queries, as plain functions over a `sqlite3.Connection` of their own.

Consistent  each list of queries runs inside one read transaction, so that the rows of a checkpoint
            belong together despite concurrent writes
Short       the transaction ends before the answers are used: a slow reader blocks nothing
Pages       the values and pending writes of a page of checkpoints are read with one statement, and
            what several checkpoints share, such as the rows of a growing list, once
Damage      fails only the query that meets it; a page of all threads leaves such rows out
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from actorgraph.codec.records import Record, decode_record, encode_json
from actorgraph.savers.integrity import (
    check_blob,
    check_head,
    check_items,
    check_point,
    check_writes,
    damaged,
    open_run,
    point_key,
    unreadable,
    whole,
)
from actorgraph.savers.judge import sorted_ledger
from actorgraph.savers.sqlite import alarms, systems, thread_index
from actorgraph.savers.sqlite import schema as sql
from actorgraph.savers.sqlite.retention import count_checkpoints, list_threads
from actorgraph.storage.sqlite.blob_reads import fetch_values
from actorgraph.storage.sqlite.translate import (
    file_damaged,
    is_invalid_utf8,
    lenient_text,
    translate_for_saver,
)
from actorgraph.values.alarms import ListAlarms
from actorgraph.values.commits import (
    CheckpointRow,
    FilteredPage,
    LedgerRow,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Query,
    StoredCheckpoint,
    StoredClaim,
    StoredRange,
)
from actorgraph.values.constants import CONTROL_INDEX, INTERRUPT
from actorgraph.values.retention import CountCheckpoints, ListThreads
from actorgraph.values.systems import SYSTEM_QUERIES
from actorgraph.values.thread_rows import THREAD_QUERIES

Place = tuple[int, str]
"""The integer key of a thread, and a namespace."""


def checked_row(columns: tuple[Any, ...]) -> CheckpointRow:
    """Parse a row of `checkpoints` and verify its checksum.

    Raises:
        StorageError: it is damaged.
    """
    row = unchecked_row(columns)
    check_point(columns[1], columns[2], columns[3], row, columns[-1])
    return row


def unchecked_row(columns: tuple[Any, ...]) -> CheckpointRow:
    """Parse a row of `checkpoints` without verifying it."""
    identifier, parent, step, source, run, following, metadata, text, _ = columns[4:]
    return CheckpointRow(
        id=identifier,
        parent=parent,
        step=step,
        source=source,
        run=run,
        next=following,
        record=text,
        metadata=metadata,
    )


def ledger_row(thread_id: str, namespace: str, entry: tuple[Any, ...]) -> LedgerRow:
    """Parse a row of `writes` and verify its checksum.

    Raises:
        StorageError: it is damaged.
    """
    base, task, path, index, generation, payload, crc = entry
    asks = index == CONTROL_INDEX[INTERRUPT]
    row = LedgerRow(base, task, path, index, generation, payload, asks)
    return check_writes(thread_id, namespace, row, crc)


class _PageValues:
    """Values and pending writes of a page's checkpoints, by place.

    Args:
        threads: integer key of a thread -> its id.
    """

    def __init__(self, threads: dict[int, str]) -> None:
        self._threads = threads
        self.blobs: dict[tuple[Place, str, int], bytes] = {}
        self.ranges: dict[tuple[Place, str, int], list[StoredRange]] = {}
        self.ends: dict[tuple[Place, str, int], int] = {}
        self.ledgers: dict[tuple[Place, bytes], list[LedgerRow]] = {}

    def read(self, connection: sqlite3.Connection, needs: dict[str, str]) -> None:
        """Read rows.

        Args:
            needs: keys of the rows, as JSON: "ledgers", "blobs" and "lists".
        """
        for kind, thread, namespace, *columns in connection.execute(sql.SELECT_VALUES, needs):
            place, named = (thread, namespace), self._threads[thread]
            if kind == sql.OF_LEDGER:
                row = ledger_row(named, namespace, tuple(columns))
                self.ledgers.setdefault((place, row.base), []).append(row)
                continue
            channel, number, start, count, end, payload, crc = columns
            if kind == sql.OF_BLOB:
                value = check_blob(named, namespace, channel, number, (payload, crc))
                self.blobs[place, channel, number] = value
                continue
            part = StoredRange(*check_items(named, namespace, channel, (start, count, payload)))
            self.ranges.setdefault((place, channel, number), []).append(part)
            self.ends[place, channel, number] = end

    def checkpoint(
        self, columns: tuple[Any, ...], row: CheckpointRow, record: Record
    ) -> StoredCheckpoint:
        """Put one checkpoint together, from its row, which was verified, and these values."""
        place = (columns[0], columns[2])
        chains = [(c, lineage, end) for c, chain in record.lists.items() for lineage, end in chain]
        keys = {channel: (place, channel, record.version_of(channel)) for channel in record.blobs}
        stored = StoredCheckpoint(
            thread_id=columns[1],
            namespace=place[1],
            sequence=columns[3],
            row=row,
            blobs={c: self.blobs[key] for c, key in keys.items() if key in self.blobs},
            ranges={
                (c, lineage): sorted(
                    (r for r in self.ranges.get((place, c, lineage), ()) if r.start < end),
                    key=lambda part: part.start,
                )
                for c, lineage, end in chains
            },
            ends={(c, lineage): self.ends.get((place, c, lineage), 0) for c, lineage, _ in chains},
            ledger=sorted_ledger(self.ledgers.get((place, row.id), [])),
        )
        return whole(stored, record)


def read_checkpoints(
    connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]
) -> list[StoredCheckpoint]:
    """Read checkpoints with their values and pending writes, without ancestors.

    Args:
        rows: of `checkpoints`, as `schema.CHECKPOINT_COLUMNS` has them.
    """
    if not rows:
        return []
    points = [(columns, *_verified(columns)) for columns in rows]
    ledgers: list[list[Any]] = []
    blobs: dict[tuple[Any, ...], None] = {}
    lists: dict[tuple[Any, ...], int] = {}
    for columns, _, record in points:
        place = (columns[0], columns[2])
        ledgers.append([*place, columns[3]])
        blobs.update(((*place, c, record.version_of(c)), None) for c in record.blobs)
        for channel, chain in record.lists.items():
            for lineage, end in chain:
                key = (*place, channel, lineage)
                lists[key] = max(end, lists.get(key, 0))
    values = _PageValues({columns[0]: columns[1] for columns in rows})
    needs = {
        "ledgers": ledgers,
        "blobs": [*blobs],
        "lists": [(*k, end) for k, end in lists.items()],
    }
    values.read(connection, {name: encode_json(keys) for name, keys in needs.items()})
    return [values.checkpoint(*point) for point in points]


_ALL = -1
_HIGHEST = 2**63 - 1
_COLUMNS = frozenset({"source", "step"})


def run_queries(connection: sqlite3.Connection, queries: Sequence[Query]) -> list[Any]:
    """Answer the queries, in order, from one state of the database.

    Raises:
        StorageError: the database failed. An error of one row is returned as its query's answer.
    """
    # All functions below fetch rows before they look at them. An error keeps its traceback's
    # frames alive, and an unread cursor in one of them would hold this read transaction open, so
    # that later queries on the connection would see its old state.
    try:
        connection.execute("BEGIN")
        try:
            return [_answer_or_error(connection, query) for query in queries]
        finally:
            # A disk error has ended the transaction: a COMMIT would hide it by an error of its own.
            if connection.in_transaction:
                connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise translate_for_saver(error, committing=False) from error


def _answer_or_error(connection: sqlite3.Connection, query: Query) -> Any:
    """Return the answer, or the error of this query: other callers' queries share the batch."""
    try:
        return _answer(connection, query)
    except sqlite3.OperationalError as error:
        if not is_invalid_utf8(error):
            raise
    except Exception as error:  # noqa: BLE001 - rows that no saver has written may raise anything
        return _query_error(query, error)
    # Text that isn't UTF-8 fails before sqlite3 returns the row. Read again leniently: then the
    # row's verification fails, with an error about that row.
    connection.text_factory = lenient_text
    try:
        return _answer(connection, query)
    except Exception as error:  # noqa: BLE001 - as above
        return _query_error(query, error)
    finally:
        connection.text_factory = str


def _query_error(query: Query, error: Exception) -> Exception:
    if isinstance(error, sqlite3.DatabaseError):
        error = file_damaged(error)
    return unreadable(getattr(query, "thread_id", None), error)


def _answer(connection: sqlite3.Connection, query: Query) -> Any:
    if isinstance(query, LoadCheckpoint):
        return _load(connection, query)
    if isinstance(query, ListThreads):
        return list_threads(connection, query)
    if isinstance(query, CountCheckpoints):
        return count_checkpoints(connection, query)
    if isinstance(query, SYSTEM_QUERIES):
        return systems.answer(connection, query)
    if isinstance(query, THREAD_QUERIES):
        return thread_index.answer(connection, query)
    if isinstance(query, ListAlarms):
        return alarms.answer(connection, query)
    return _page(connection, query)


def _thread(connection: sqlite3.Connection, thread_id: str) -> tuple[Any, ...] | None:
    return connection.execute(sql.SELECT_THREADS, (encode_json([thread_id]),)).fetchone()


def _load(connection: sqlite3.Connection, query: LoadCheckpoint) -> Loaded:
    thread = _thread(connection, query.thread_id)
    if thread is None:
        return Loaded()
    _, key, epoch, run, next_seq, head, crc = thread
    check_head((query.thread_id, epoch, run, next_seq, head), crc)
    if query.namespace:
        head_row = connection.execute(sql.SELECT_HEAD, (key, query.namespace)).fetchone()
        head = head_row[0] if head_row else None
    wanted = query.id or head
    row = wanted and connection.execute(sql.SELECT_BY_ID, (key, query.namespace, wanted)).fetchone()
    if row is None and wanted is not None and wanted == head:
        raise damaged(query.thread_id, point_key(query.namespace, head), "its row is not there")
    newest = row
    if row is None or wanted != head:
        newest = connection.execute(sql.SELECT_NEWEST, (key, query.namespace)).fetchone()
    checkpoint, floor = None, 0
    if row:
        point, record = _verified(row)
        checkpoint, floor = _whole(connection, row, point, record, query), record.floor
    if newest and newest is not row:
        floor = _verified(newest)[1].floor
    return Loaded(
        epoch=epoch,
        checkpoint=checkpoint,
        head=head,
        open_run=_open_run(connection, query.thread_id, run) if run else None,
        version_floor=floor,
    )


def _verified(columns: tuple[Any, ...]) -> tuple[CheckpointRow, Record]:
    """Parse and verify a row of `checkpoints`, and decode its record.

    Raises:
        StorageError: it is damaged.
        FormatVersionError: its record can't be read.
    """
    row = checked_row(columns)
    return row, decode_record(row.record)


def _ledger(
    connection: sqlite3.Connection, columns: tuple[Any, ...], point: bytes | None
) -> tuple[LedgerRow, ...]:
    """Read the pending writes beside a checkpoint of the thread of `columns`; () for None."""
    key, thread_id, namespace = columns[:3]
    rows = fetch_values(connection, sql.SELECT_WRITES, (key, namespace, point))
    return sorted_ledger([ledger_row(thread_id, namespace, entry) for entry in rows])


def _open_run(connection: sqlite3.Connection, thread_id: str, run: bytes) -> StoredClaim | None:
    """Read the run that a thread's row names; None if it has ended."""
    claims = fetch_values(connection, sql.SELECT_RUN, (run,))
    return open_run(thread_id, run, claims[0] if claims else None)


def _whole(
    connection: sqlite3.Connection,
    columns: tuple[Any, ...],
    row: CheckpointRow,
    record: Record,
    query: LoadCheckpoint | ListCheckpoints,
) -> StoredCheckpoint:
    """Read the rest of a checkpoint whose row was verified: its values and pending writes.

    If the query asks for them, also its deltas' ancestors and its parent's pending writes.
    """
    ledger = _ledger(connection, columns, row.id)
    asked = query.ancestors and record.deltas
    above = _ancestors(connection, columns, row, record) if asked else ()
    stored = _checkpoint(connection, columns, row, record, (ledger, above))
    if not (isinstance(query, LoadCheckpoint) and query.parent):
        return stored
    return msgspec.structs.replace(stored, parent_ledger=_ledger(connection, columns, row.parent))


def _ancestors(
    connection: sqlite3.Connection, below: tuple[Any, ...], row: CheckpointRow, record: Record
) -> tuple[StoredCheckpoint, ...]:
    place, whose = (below[0], below[2]), (below[1], below[2])
    keys, named = ("thread", "namespace"), {"parent": row.parent, "depth": record.depth}
    where = {**dict(zip(keys, place, strict=True)), **named}
    ledgers: dict[bytes, list[LedgerRow]] = {}
    for columns in fetch_values(connection, sql.SELECT_ANCESTORS_WRITES, where):
        entry = ledger_row(*whose, columns)
        ledgers.setdefault(entry.base, []).append(entry)
    left, chain = set(record.deltas), list[StoredCheckpoint]()
    for columns in connection.execute(sql.SELECT_ANCESTORS, where).fetchall():
        above, whole = _verified(columns)
        ends = left.difference(whole.deltas)
        left -= ends
        ledger = sorted_ledger(ledgers.get(above.id, []))
        chain.append(_checkpoint(connection, columns, above, whole.only(ends), (ledger, ())))
    return tuple(chain)


def _checkpoint(
    connection: sqlite3.Connection,
    columns: tuple[Any, ...],
    row: CheckpointRow,
    record: Record,
    beside: tuple[tuple[LedgerRow, ...], tuple[StoredCheckpoint, ...]] = ((), ()),
) -> StoredCheckpoint:
    """Put a checkpoint together from its row, which was verified, and a record's values.

    Args:
        beside: its pending writes, and its ancestors.
    """
    place, whose = (columns[0], columns[2]), (columns[1], columns[2])
    ledger, ancestors = beside
    versions = [[channel, record.version_of(channel)] for channel in record.blobs]
    blobs: dict[str, bytes] = {}
    if versions:
        asked = (encode_json(versions), *place)
        for channel, *blob_columns in fetch_values(connection, sql.SELECT_BLOBS, asked):
            blobs[channel] = check_blob(
                *whose, channel, record.version_of(channel), tuple(blob_columns)
            )
    ranges: dict[tuple[str, int], list[StoredRange]] = {}
    ends: dict[tuple[str, int], int] = {}
    for channel, chain in record.lists.items():
        for lineage, end in chain:
            where = (*place, channel, lineage)
            parts = fetch_values(connection, sql.SELECT_RANGES, (*where, end))
            ranges[channel, lineage] = [
                StoredRange(*check_items(*whose, channel, part)) for part in parts
            ]
            last = connection.execute(sql.SELECT_RANGE_END, where).fetchone()
            ends[channel, lineage] = last[0] if last else 0
    stored = StoredCheckpoint(
        thread_id=columns[1],
        namespace=place[1],
        sequence=columns[3],
        row=row,
        blobs=blobs,
        ranges=ranges,
        ends=ends,
        ledger=ledger,
        ancestors=ancestors,
    )
    return whole(stored, record)


def _is_a_step(wanted: Any) -> bool:
    return type(wanted) is int and -(2**63) <= wanted < 2**63


def _page(connection: sqlite3.Connection, query: ListCheckpoints) -> list[StoredCheckpoint]:
    where = dict(query.where)
    if not (_is_a_step(where.get("step", 0)) and isinstance(where.get("source", ""), str)):
        return []
    if query.thread_id is None:
        statement = sql.SELECT_PAGE_OF_THREADS
    else:
        statement = sql.SELECT_PAGE_OF_ALL if query.namespace is None else sql.SELECT_PAGE
    rows = connection.execute(statement[query.oldest_first], _values(query)).fetchall()
    try:
        return _read_page(connection, rows, query)
    except sqlite3.OperationalError:
        raise
    except Exception:
        if query.thread_id is not None:
            raise
    return _read_page_row_by_row(connection, rows, query)


def _read_page(
    connection: sqlite3.Connection, rows: list[tuple[Any, ...]], query: ListCheckpoints
) -> list[StoredCheckpoint]:
    """Read the checkpoints of a page's rows."""
    if query.bare:
        return [_checkpoint(connection, row, checked_row(row), Record()) for row in rows]
    if query.ancestors and any('"deltas"' in row[-2] for row in rows):
        return [_whole(connection, row, *_verified(row), query) for row in rows]
    return read_checkpoints(connection, rows)


def _read_page_row_by_row(
    connection: sqlite3.Connection, rows: list[tuple[Any, ...]], query: ListCheckpoints
) -> list[StoredCheckpoint]:
    """Read a page of all threads row by row, leaving out rows that can't be read."""
    readable: list[StoredCheckpoint] = []
    errors: list[Exception] = []
    for row in rows:
        try:
            readable += _read_page(connection, [row], query)
        except sqlite3.OperationalError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(unreadable(str(row[1]), error))
    bare = [_checkpoint(connection, row, unchecked_row(row), Record()) for row in rows]
    return FilteredPage(readable, bare, errors)


def _values(query: ListCheckpoints) -> dict[str, Any]:
    """Return the parameters of a page's statement."""
    where = dict(query.where)
    metadata = {k: v for k, v in where.items() if k not in _COLUMNS}
    identifier, named, seq = query.after or (None, None, None)
    return {
        "thread": query.thread_id,
        "namespace": query.namespace,
        "before": query.before,
        "step": where.get("step"),
        "source": where.get("source"),
        "metadata": encode_json(metadata),
        "limit": _ALL if query.limit is None else query.limit,
        "under": _HIGHEST if seq is None or query.oldest_first else seq,
        "above": seq if seq is not None and query.oldest_first else -1,
        "id": identifier,
        # As bytes: text that isn't valid UTF-8 has surrogates here, which can't be bound as text.
        "named": None if named is None else named.encode(errors="surrogateescape"),
        "seq": seq,
    }
