"""Answer queries: blocking functions over a connection of their own.

Each list of queries is answered in one REPEATABLE READ transaction, so all answers are of one
state of the database. Loads take two statements: one finds the checkpoints, the other reads the
values and ledgers of all of them (`NeededRows` collects the keys, `FoundRows` the rows). The
transaction ends before the answers are used, so a slow reader holds no locks.
"""

from collections.abc import Iterable, Sequence
from typing import Any, LiteralString

import msgspec
import psycopg
from psycopg import Connection
from psycopg.rows import tuple_row

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
from actorgraph.savers.postgres import alarms, systems, thread_index
from actorgraph.savers.postgres import queries as sql
from actorgraph.savers.postgres.columns import Binaries, Numbers, Texts
from actorgraph.savers.postgres.shapes import SHAPE_MISSING
from actorgraph.storage.postgres.connections import roll_back
from actorgraph.storage.postgres.translate import ErrorKind, classify_error
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
    StoredRange,
)
from actorgraph.values.constants import CONTROL_INDEX, INTERRUPT
from actorgraph.values.ids import as_bytes
from actorgraph.values.retention import CountCheckpoints, ListThreads
from actorgraph.values.systems import SYSTEM_QUERIES, ListOwners, ListRuns, SearchRuns
from actorgraph.values.thread_rows import THREAD_QUERIES, FindThreads, ListMarks

_Row = tuple[Any, ...]


def checked_row(columns: _Row) -> CheckpointRow:
    """A checkpoint's row from the columns `queries.COLUMNS`, checked.

    Raises:
        StorageError: it is damaged.
    """
    row = unchecked_row(columns)
    if columns[-2] is None:
        raise damaged(columns[1], point_key(columns[2], row.id), SHAPE_MISSING)
    check_point(columns[1], columns[2], columns[3], row, columns[-1])
    return row


def unchecked_row(columns: _Row) -> CheckpointRow:
    """A checkpoint's row from the columns `queries.COLUMNS`, without checking them."""
    identifier, parent, step, source, run, following, metadata, text, _ = columns[4:]
    return CheckpointRow(
        id=identifier,
        parent=parent,
        step=step,
        source=source,
        run=run,
        next=following,
        record=text or "",  # None: its shape was deleted
        metadata=metadata,
    )


def bare(columns: _Row, row: CheckpointRow) -> StoredCheckpoint:
    """A checkpoint without its values and ledger."""
    return StoredCheckpoint(columns[1], columns[2], columns[3], row, {}, {}, {}, ())


class NeededRows:
    """Keys of the rows that checkpoints need; each key once, however many checkpoints name it."""

    def __init__(self) -> None:
        self._blobs: dict[_Row, None] = {}
        self._lists: dict[_Row, int] = {}
        self._ledgers: dict[_Row, None] = {}

    def add(self, columns: _Row, record: Record, parent: bytes | None = None) -> None:
        """Add the rows that a record names, and the ledgers of the checkpoint and of `parent`."""
        place = (columns[0], columns[2])
        for channel in record.blobs:
            self._blobs[*place, channel, record.version_of(channel)] = None
        for channel, chain in record.lists.items():
            for lineage, end in chain:
                # Of checkpoints with one list the longest decides how many of its rows are read.
                key = (*place, channel, lineage)
                self._lists[key] = max(end, self._lists.get(key, 0))
        self._ledgers[*place, columns[4]] = None
        if parent is not None:
            self._ledgers[*place, parent] = None

    def arrays(self) -> list[list[Any]]:
        """The parameters of `queries.SELECT_VALUES`."""
        lists = [(*key, end) for key, end in self._lists.items()]
        return [
            *_arrays(self._blobs, "nttn"),
            *_arrays(lists, "nttnn"),
            *_arrays(self._ledgers, "ntb"),
        ]


_KINDS: dict[str, type[list[Any]]] = {"n": Numbers, "t": Texts, "b": Binaries}


def _arrays(rows: Iterable[_Row], kinds: str) -> list[list[Any]]:
    """Transpose keys into typed columns; without keys the columns are empty.

    Args:
        kinds: a letter per column: "n" for numbers, "t" for texts, "b" for bytes.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return [_KINDS[kind](column) for kind, column in zip(kinds, columns, strict=True)]


class FoundRows:
    """The rows of `queries.SELECT_VALUES`, checked, by their keys.

    Args:
        threads: the key of a thread in the database -> its id.
    Raises:
        StorageError: a row is damaged.
    """

    def __init__(self, rows: Iterable[_Row], threads: dict[int, str]) -> None:
        self._blobs: dict[_Row, bytes] = {}
        self._lists: dict[_Row, list[tuple[int, int, bytes | None]]] = {}
        self._ledgers: dict[_Row, list[LedgerRow]] = {}
        for kind, thread, namespace, name, point, task, *numbers, payload, crc in rows:
            first, second, third = numbers
            named = threads[thread]
            if kind == "blob":
                value = check_blob(named, namespace, name, first, (payload, crc))
                self._blobs[thread, namespace, name, first] = value
            elif kind == "range":
                parts = self._lists.setdefault((thread, namespace, name, first), [])
                part = (second, third, payload)
                parts.append(part if payload is None else check_items(named, namespace, name, part))
            else:
                asks = first == CONTROL_INDEX[INTERRUPT]
                entry = LedgerRow(point, task, name, first, second, payload, asks)
                check_writes(named, namespace, entry, crc)
                self._ledgers.setdefault((thread, namespace, point), []).append(entry)
        for parts in self._lists.values():
            parts.sort(key=lambda part: part[0])

    def ledger(self, columns: _Row, point: bytes | None) -> tuple[LedgerRow, ...]:
        """The ledger of another checkpoint of the same namespace; empty for None."""
        return sorted_ledger(self._ledgers.get((columns[0], columns[2], point), []))

    def checkpoint(
        self,
        columns: _Row,
        row: CheckpointRow,
        record: Record,
        ancestors: tuple[StoredCheckpoint, ...] = (),
        *,
        written: bool = False,
    ) -> StoredCheckpoint:
        """Assemble a checkpoint with the values that `record` names.

        Args:
            columns: those of `queries.COLUMNS`.
            record: the checkpoint's own, or the part of it that is needed.
            written: whether to leave control rows, such as interrupts, out of the ledger.
        Raises:
            SerializationError: a value that the record names is missing.
        """
        place = (columns[0], columns[2])
        ranges: dict[tuple[str, int], list[StoredRange]] = {}
        ends: dict[tuple[str, int], int] = {}
        for channel, chain in record.lists.items():
            for lineage, end in chain:
                parts = self._lists.get((*place, channel, lineage), [])
                ranges[channel, lineage] = [
                    StoredRange(start, count, payload)
                    for start, count, payload in parts
                    if start < end and payload is not None
                ]
                ends[channel, lineage] = sum(parts[-1][:2]) if parts else 0
        ledger = self._ledgers.get((*place, row.id), [])
        stored = StoredCheckpoint(
            thread_id=columns[1],
            namespace=place[1],
            sequence=columns[3],
            row=row,
            blobs={
                channel: self._blobs[key]
                for channel in record.blobs
                if (key := (*place, channel, record.version_of(channel))) in self._blobs
            },
            ranges=ranges,
            ends=ends,
            ledger=sorted_ledger([e for e in ledger if e.index >= 0 or not written]),
            ancestors=ancestors,
        )
        return whole(stored, record)


_HIGHEST = 2**63 - 1
_COLUMNS = frozenset({"source", "step"})


def run_queries(
    connection: Connection[Any], queries: Sequence[Query], begin: tuple[str, str, str]
) -> list[Any]:
    """Answer the queries, in order.

    Args:
        connection: in autocommit mode, for this call alone.
        begin: search path, lock timeout and statement timeout, for `queries.USE_SCHEMA`.
    Returns: one answer per query; an exception in the place of one that can't be answered.
    Raises:
        psycopg.Error: the server refused a statement, for a reason that concerns all queries.
    """
    try:
        return _run(connection, queries, begin)
    except Exception as error:
        roll_back(connection)
        if not _concerns_one_query(error):
            raise
        if len(queries) == 1:
            return [unreadable(getattr(queries[0], "thread_id", None), error)]
    # Damaged rows of one thread must not fail the reads of others: repeat each query alone.
    return [run_queries(connection, [query], begin)[0] for query in queries]


def _concerns_one_query(error: Exception) -> bool:
    """Whether a single query of the batch caused the error, and the others can be answered."""
    if isinstance(error, psycopg.Error):
        return classify_error(error) is ErrorKind.ROW
    return not isinstance(error, MemoryError)


def _run(
    connection: Connection[Any], queries: Sequence[Query], begin: tuple[str, str, str]
) -> list[Any]:
    reader = _Reader(connection)
    reader.ask((sql.BEGIN, ()), (sql.USE_SCHEMA, (*begin, *_joins(queries))))
    loads = [query for query in queries if isinstance(query, LoadCheckpoint)]
    loaded = iter(reader.load(loads)) if loads else iter(())
    known = systems.answer_together(reader.ask, queries)
    answers: list[Any] = []
    for place, query in enumerate(queries):
        if isinstance(query, LoadCheckpoint):
            answers.append(next(loaded))
        else:
            answers.append(known[place] if place in known else reader.answer(query))
    reader.ask((sql.COMMIT, ()))
    return answers


def _of_many(query: Query) -> bool:
    if isinstance(query, ListRuns):
        of_one = query.run is not None or query.thread_id is not None or query.among
        return not (of_one or query.open_of or query.orphaned or query.asked_of is not None)
    if isinstance(query, (SearchRuns, ListOwners)):
        return True
    return isinstance(query, ListCheckpoints) and query.thread_id is None


def _joins(queries: Sequence[Query]) -> tuple[str, str, str]:
    """The switches of `USE_SCHEMA`: whether the server may scan tables and choose its joins.

    To list many threads it should; otherwise it must look up rows by their keys.
    """
    many = any(
        isinstance(query, ListThreads | FindThreads | ListMarks) or _of_many(query)
        for query in queries
    )
    switch = "on" if many else "off"
    return switch, switch, switch


Asked = tuple[LiteralString, Sequence[Any] | dict[str, Any]]


class _Found(msgspec.Struct):
    """A checkpoint that was found, before its values are read.

    Attributes:
        columns: those of `queries.COLUMNS`.
        record: the part of the record that names the values to read.
        whole: the whole record.
        ancestors: those that its DeltaChannels are folded from, nearest first.
        parent: whether to read the parent's ledger too.
    """

    columns: tuple[Any, ...]
    row: CheckpointRow
    record: Record
    whole: Record
    ancestors: "list[_Found]" = []
    parent: bool = False


class _Reader:
    """One read transaction."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._first: list[Asked] = []

    def ask(self, *statements: Asked) -> list[tuple[Any, ...]]:
        """Execute statements in one round trip; return the rows of the last one.

        Those that begin the transaction are kept, and sent with the next statements.
        """
        if statements[0][0] is sql.BEGIN:
            self._first = list(statements)
            return []
        asked, self._first = [*self._first, *statements], []
        if len(asked) == 1:
            last = self._cursor().execute(*asked[0], prepare=True)
        else:
            with self._connection.pipeline():
                cursors = [self._cursor().execute(*one, prepare=True) for one in asked]
            last = cursors[-1]
        return last.fetchall() if last.description else []

    def _cursor(self) -> Any:
        return self._connection.cursor(row_factory=tuple_row, binary=True)

    def load(self, queries: Sequence[LoadCheckpoint]) -> list[Loaded]:
        """Answer several `LoadCheckpoint` together."""
        asked = [(q.thread_id, q.namespace, q.id) for q in queries]
        names, namespaces, points = zip(*asked, strict=True)
        columns = [Texts(names), Texts(namespaces), Binaries(points)]
        rows = {row[0] - 1: row[1:] for row in self.ask((sql.SELECT_LOADS, columns))}
        there = {place: row[14:27] for place, row in rows.items() if row[14] is not None}
        wholes = self._find(there.values(), [queries[place].ancestors for place in there])
        for place, needed in zip(there, wholes, strict=True):
            needed.parent = queries[place].parent
        stored = dict(zip(there, self._read(wholes), strict=True))
        # The version floor is the head's. If another checkpoint than the head is loaded, the
        # columns of the head come beside its own, in `newest`.
        floors = {p: needed.whole.floor for p, needed in zip(there, wholes, strict=True)}
        newest = {place: row[27:] for place, row in rows.items() if row[27] is not None}
        floors |= {p: decode_record(checked_row(c).record).floor for p, c in newest.items()}
        return [
            _loaded(queries[place], rows[place], stored.get(place), floors.get(place, 0))
            if place in rows
            else Loaded()
            for place in range(len(queries))
        ]

    def answer(self, query: Query) -> Any:
        """Answer any query but `LoadCheckpoint`."""
        if isinstance(query, ListCheckpoints):
            return self._page(query)
        if isinstance(query, SYSTEM_QUERIES):
            return systems.answer(self.ask, query)
        if isinstance(query, THREAD_QUERIES):
            return thread_index.answer(self.ask, query)
        if isinstance(query, ListAlarms):
            return alarms.answer(self.ask, query)
        if isinstance(query, CountCheckpoints):
            where = {"thread": query.thread_id, "namespace": query.namespace}
            return self.ask((sql.COUNT_CHECKPOINTS, where))[0][0]
        assert isinstance(query, ListThreads)
        return [thread_id for (thread_id,) in self.ask(_threads(query))]

    def _page(self, query: ListCheckpoints) -> list[StoredCheckpoint]:
        where = dict(query.where)
        if not isinstance(where.get("source", ""), str):
            return []
        metadata = {k: v for k, v in where.items() if k not in _COLUMNS}
        if query.thread_id is None:
            statement = sql.SELECT_PAGE_OF_THREADS
        else:
            one = query.namespace is not None
            statement = sql.SELECT_PAGE if one else sql.SELECT_PAGE_OF_ALL
        identifier, named, seq = query.after or (None, None, None)
        values = {
            "thread": query.thread_id,
            "namespace": query.namespace,
            "before": query.before,
            "step": encode_json(where["step"]) if "step" in where else None,
            "source": where.get("source"),
            "keys": Texts(key.replace("\0", sql.NUL) for key in metadata),
            "values": Texts(_compared(value) for value in metadata.values()),
            "limit": query.limit,
            "under": _HIGHEST if seq is None or query.oldest_first else seq,
            "above": seq if seq is not None and query.oldest_first else -1,
            "id": identifier,
            "named": named,
            "seq": seq,
        }
        rows = self.ask((statement[query.oldest_first], values))
        try:
            return self._shown(rows, query)
        except psycopg.Error:
            raise
        except Exception:
            if query.thread_id is not None:
                raise
        # A list of all threads shows the readable rows: one damaged thread must not hide the rest.
        return self._shown_singly(rows, query)

    def _shown(self, rows: list[tuple[Any, ...]], query: ListCheckpoints) -> list[StoredCheckpoint]:
        """The checkpoints of the rows of a page."""
        if query.bare:
            return [bare(columns, checked_row(columns)) for columns in rows]
        return self._read(self._find(rows, [query.ancestors] * len(rows)))

    def _shown_singly(
        self, rows: list[tuple[Any, ...]], query: ListCheckpoints
    ) -> list[StoredCheckpoint]:
        """The checkpoints of a page without the rows that can't be read; errors for these."""
        shown: list[StoredCheckpoint] = []
        errors: list[Exception] = []
        for columns in rows:
            try:
                shown += self._shown([columns], query)
            except psycopg.Error:
                raise
            except Exception as error:  # noqa: BLE001 - rows that no saver wrote may raise anything
                errors.append(unreadable(columns[1], error))
        return FilteredPage(
            shown, [bare(columns, unchecked_row(columns)) for columns in rows], errors
        )

    def _find(self, rows: Iterable[tuple[Any, ...]], ancestors: Sequence[bool]) -> "list[_Found]":
        """Decode the rows; add the ancestors that DeltaChannels need, where asked for."""
        checkpoints: list[_Found] = []
        for columns, deep in zip(rows, ancestors, strict=True):
            row = checked_row(columns)
            record = decode_record(row.record)
            above = self._ancestors(columns, row, record) if deep and record.deltas else []
            checkpoints.append(_Found(columns, row, record, record, above))
        return checkpoints

    def _ancestors(
        self, columns: tuple[Any, ...], row: CheckpointRow, record: Record
    ) -> "list[_Found]":
        where = {
            "thread": columns[0],
            "namespace": columns[2],
            "parent": row.parent,
            "depth": record.depth,
        }
        left, chain = set(record.deltas), list[_Found]()
        for above in self.ask((sql.SELECT_ANCESTORS, where)):
            point = checked_row(above)
            whole = decode_record(point.record)
            ends = left.difference(whole.deltas)
            left -= ends
            chain.append(_Found(above, point, whole.only(ends), whole))
        return chain

    def _read(self, checkpoints: "list[_Found]") -> list[StoredCheckpoint]:
        """Read the values and ledgers of all found checkpoints, in one statement."""
        if not checkpoints:
            return []
        needs = NeededRows()
        for one in (each for top in checkpoints for each in (top, *top.ancestors)):
            needs.add(one.columns, one.record, one.row.parent if one.parent else None)
        threads = {one.columns[0]: one.columns[1] for one in checkpoints}
        values = FoundRows(self.ask((sql.SELECT_VALUES, needs.arrays())), threads)
        return [_stored(values, top) for top in checkpoints]


def _stored(values: FoundRows, checkpoint: _Found) -> StoredCheckpoint:
    above = tuple(
        values.checkpoint(a.columns, a.row, a.record, written=True) for a in checkpoint.ancestors
    )
    stored = values.checkpoint(checkpoint.columns, checkpoint.row, checkpoint.record, above)
    if not checkpoint.parent:
        return stored
    rows = values.ledger(checkpoint.columns, checkpoint.row.parent)
    return msgspec.structs.replace(stored, parent_ledger=rows)


def _compared(value: object) -> str:
    return encode_json(value).replace("\\u0000", "\\ue000")


def _loaded(
    query: LoadCheckpoint, row: tuple[Any, ...], stored: StoredCheckpoint | None, floor: int
) -> Loaded:
    named, epoch, run, next_seq, head, crc, newest = row[:7]
    check_head((named, epoch, run, next_seq, head), crc)
    if not query.namespace and head != newest:
        raise damaged(named, point_key("", head), "its row is missing")
    return Loaded(
        epoch=epoch,
        checkpoint=stored,
        head=newest,
        open_run=None if run is None else open_run(named, run, row[7:14]),
        version_floor=floor,
    )


def _threads(query: ListThreads) -> Asked:
    if query.runs is None:
        return sql.SELECT_THREAD_IDS, {"older": query.older, "inputs": query.inputs}
    runs = sorted(query.runs)
    texts = [_compared(run) for run in runs]
    named = [_bytes_of(run) for run in runs]
    return sql.SELECT_THREADS_OF_RUNS, {
        "older": query.older,
        "runs": Binaries(named),
        "texts": Texts(texts),
    }


def _bytes_of(run: str) -> bytes:
    try:
        return as_bytes(run)
    except ValueError:
        return b""  # not one of our ids: it can only be in metadata
