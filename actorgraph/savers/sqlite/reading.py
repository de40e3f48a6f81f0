"""Reads, as plain functions over a `sqlite3.Connection` of their own.

Each list of queries runs inside one read transaction, so that the rows of a checkpoint belong
together whatever is being written meanwhile; it ends before the answer is used, so a reader
that pauses holds nothing.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from actorgraph.codec.records import Record, decode_record, encode_json
from actorgraph.savers.checksums import damaged, point_key
from actorgraph.savers.soundness import (
    check_blob,
    check_head,
    check_items,
    open_run,
    unreadable,
    whole,
)
from actorgraph.savers.sqlite import schema as sql
from actorgraph.savers.sqlite import systems
from actorgraph.savers.sqlite.failures import file_damaged, is_undecoded, translate
from actorgraph.savers.sqlite.pages import ledger_row, place_and_row, read_whole, taken
from actorgraph.savers.sqlite.retention import count, threads
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
from actorgraph.values.retention import CountCheckpoints, ListThreads
from actorgraph.values.systems import ListRuns, ReadEvents

_ALL = -1
_HIGHEST = 2**63 - 1
_COLUMNS = frozenset({"source", "step"})


def run_queries(connection: sqlite3.Connection, queries: Sequence[Query]) -> list[Any]:
    """Answer the queries, in order, from one state of the database.

    Rows are fetched before they are looked at: an error about one of them holds the frames that
    it went through, and an unread cursor there would hold this state for all queries to come.

    Raises:
        StorageError: the database refused.
    """
    try:
        connection.execute("BEGIN")
        try:
            return [_answer_or_error(connection, query) for query in queries]
        finally:
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise translate(error, committing=False) from error


def _answer_or_error(connection: sqlite3.Connection, query: Query) -> Any:
    """The answer, or the error that this query alone deserves: its batch is other people's."""
    try:
        return _answer(connection, query)
    except sqlite3.OperationalError as error:
        if not is_undecoded(error):
            raise
    except Exception as error:  # noqa: BLE001 - rows that no saver has written may raise anything
        return _own(query, error)
    connection.text_factory = _text_of
    try:
        return _answer(connection, query)
    except Exception as error:  # noqa: BLE001 - as above
        return _own(query, error)
    finally:
        connection.text_factory = str


def _text_of(raw: bytes) -> str:
    """Text, or what shows that it is none."""
    return raw.decode(errors="surrogateescape")


def _own(query: Query, error: Exception) -> Exception:
    if isinstance(error, sqlite3.DatabaseError):
        error = file_damaged(error)
    return unreadable(getattr(query, "thread_id", None), error)


def _answer(connection: sqlite3.Connection, query: Query) -> Any:
    if isinstance(query, LoadCheckpoint):
        return _load(connection, query)
    if isinstance(query, ListThreads):
        return threads(connection, query)
    if isinstance(query, CountCheckpoints):
        return count(connection, query)
    if isinstance(query, ListRuns | ReadEvents):
        return systems.answer(connection, query)
    return _page(connection, query)


def _thread(connection: sqlite3.Connection, thread_id: str) -> tuple[Any, ...] | None:
    names = encode_json([thread_id])
    return connection.execute(sql.SELECT_THREADS, (names,)).fetchone()


def _load(connection: sqlite3.Connection, query: LoadCheckpoint) -> Loaded:
    thread = _thread(connection, query.thread_id)
    if thread is None:
        return Loaded()
    _, key, epoch, run, next_seq, head, crc = thread
    check_head((query.thread_id, epoch, run, next_seq, head), crc)
    if query.namespace:
        found = connection.execute(sql.SELECT_HEAD, (key, query.namespace)).fetchone()
        head = found[0] if found else None
    wanted = query.id or head
    row = wanted and connection.execute(sql.SELECT_BY_ID, (key, query.namespace, wanted)).fetchone()
    if row is None and wanted is not None and wanted == head:
        raise damaged(query.thread_id, point_key(query.namespace, head), "its row is not there")
    newest = row
    if row is None or wanted != head:
        newest = connection.execute(sql.SELECT_NEWEST, (key, query.namespace)).fetchone()
    return Loaded(
        epoch=epoch,
        checkpoint=_loaded(connection, row, query) if row else None,
        head=head,
        open_run=_open_run(connection, query.thread_id, run) if run else None,
        version_floor=decode_record(place_and_row(newest)[1].record).floor if newest else 0,
    )


def _loaded(
    connection: sqlite3.Connection, columns: tuple[Any, ...], query: LoadCheckpoint
) -> StoredCheckpoint:
    """A checkpoint with what the query asks for besides."""
    stored = _whole(connection, columns, ancestors=query.ancestors)
    if not query.parent:
        return stored
    _, row = place_and_row(columns)
    return msgspec.structs.replace(stored, parent_ledger=_ledger(connection, columns, row.parent))


def _ledger(
    connection: sqlite3.Connection, columns: tuple[Any, ...], point: bytes | None
) -> tuple[LedgerRow, ...]:
    """The rows beside a checkpoint of the thread of `columns`; nothing for None."""
    key, thread_id, namespace = columns[:3]
    found = connection.execute(sql.SELECT_WRITES, (key, namespace, point)).fetchall()
    return tuple(ledger_row(thread_id, namespace, entry) for entry in found)


def _open_run(connection: sqlite3.Connection, thread_id: str, run: bytes) -> StoredClaim | None:
    """The run that a thread's row names, unless it has ended."""
    claim = connection.execute(sql.SELECT_RUN, (run,)).fetchone()
    return open_run(thread_id, run, claim)


def _whole(
    connection: sqlite3.Connection, columns: tuple[Any, ...], *, ancestors: bool
) -> StoredCheckpoint:
    """A checkpoint with its ledger and, if asked for, the ancestors that its deltas need."""
    _, row = place_and_row(columns)
    record = decode_record(row.record)
    ledger = _ledger(connection, columns, row.id)
    above = _ancestors(connection, columns, row, record) if ancestors and record.deltas else ()
    return _checkpoint(connection, columns, record, ledger, above)


def _ancestors(
    connection: sqlite3.Connection, below: tuple[Any, ...], row: CheckpointRow, record: Record
) -> tuple[StoredCheckpoint, ...]:
    place, whose = (below[0], below[2]), (below[1], below[2])
    keys, named = ("thread", "namespace"), {"parent": row.parent, "depth": record.depth}
    where = {**dict(zip(keys, place, strict=True)), **named}
    ledgers: dict[bytes, list[LedgerRow]] = {}
    for columns in connection.execute(sql.SELECT_ANCESTORS_WRITES, where).fetchall():
        entry = ledger_row(*whose, columns)
        ledgers.setdefault(entry.base, []).append(entry)
    left, found = set(record.deltas), list[StoredCheckpoint]()
    for columns in connection.execute(sql.SELECT_ANCESTORS, where).fetchall():
        _, above = place_and_row(columns)
        whole = decode_record(above.record)
        ends = left.difference(whole.deltas)
        left -= ends
        ledger = tuple(ledgers.get(above.id, ()))
        found.append(_checkpoint(connection, columns, whole.only(ends), ledger))
    return tuple(found)


def _checkpoint(
    connection: sqlite3.Connection,
    columns: tuple[Any, ...],
    record: Record,
    ledger: tuple[LedgerRow, ...],
    ancestors: tuple[StoredCheckpoint, ...] = (),
) -> StoredCheckpoint:
    """A checkpoint, whose row was checked, with the values that a record names."""
    place, row = taken(columns)
    whose = (columns[1], place[1])
    versions = [[channel, record.version_of(channel)] for channel in record.blobs]
    blobs: dict[str, bytes] = {}
    if versions:
        asked = (encode_json(versions), *place)
        for channel, *found in connection.execute(sql.SELECT_BLOBS, asked).fetchall():
            blobs[channel] = check_blob(*whose, channel, record.version_of(channel), tuple(found))
    ranges: dict[tuple[str, int], list[StoredRange]] = {}
    ends: dict[tuple[str, int], int] = {}
    for channel, chain in record.lists.items():
        for lineage, end in chain:
            where = (*place, channel, lineage)
            found = connection.execute(sql.SELECT_RANGES, (*where, end)).fetchall()
            ranges[channel, lineage] = [
                StoredRange(*check_items(*whose, channel, part)) for part in found
            ]
            last = connection.execute(sql.SELECT_RANGE_END, where).fetchone()
            ends[channel, lineage] = last[0] if last else 0
    found = StoredCheckpoint(
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
    return whole(found, record)


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
        return _shown(connection, rows, query)
    except sqlite3.OperationalError:
        raise
    except Exception:
        if query.thread_id is not None:
            raise
    return _shown_apart(connection, rows, query)


def _shown(
    connection: sqlite3.Connection, rows: list[tuple[Any, ...]], query: ListCheckpoints
) -> list[StoredCheckpoint]:
    """The checkpoints of a page's rows."""
    if query.bare:
        for row in rows:
            place_and_row(row)
        return [_checkpoint(connection, row, Record(), ()) for row in rows]
    if query.ancestors and any('"deltas"' in row[-2] for row in rows):
        return [_whole(connection, row, ancestors=True) for row in rows]
    return read_whole(connection, rows)


def _shown_apart(
    connection: sqlite3.Connection, rows: list[tuple[Any, ...]], query: ListCheckpoints
) -> list[StoredCheckpoint]:
    """A page of all threads without those of its rows that can't be read."""
    found: list[StoredCheckpoint] = []
    errors: list[Exception] = []
    for row in rows:
        try:
            found += _shown(connection, [row], query)
        except sqlite3.OperationalError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(unreadable(str(row[1]), error))
    bare = [_checkpoint(connection, row, Record(), ()) for row in rows]
    return FilteredPage(found, bare, errors)


def _values(query: ListCheckpoints) -> dict[str, Any]:
    """What the statement of a page compares with."""
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
        "named": named,
        "seq": seq,
    }
