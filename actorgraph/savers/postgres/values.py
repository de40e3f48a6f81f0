"""Answer queries: blocking functions over a connection of their own.

Each list of queries is answered in one REPEATABLE READ transaction, so all answers are of one
state of the database. Loads take two statements: one finds the checkpoints, the other reads the
values and ledgers of all of them (`NeededRows` collects the keys, `FoundRows` the rows). The
transaction ends before the answers are used, so a slow reader holds no locks.
"""

from collections.abc import Iterable
from typing import Any

from actorgraph.codec.records import Record
from actorgraph.savers.checksums import damaged, point_key
from actorgraph.savers.judge import sorted_ledger
from actorgraph.savers.postgres.columns import Binaries, Numbers, Texts
from actorgraph.savers.soundness import check_blob, check_items, check_point, check_writes, whole
from actorgraph.values.commits import CheckpointRow, LedgerRow, StoredCheckpoint, StoredRange
from actorgraph.values.constants import CONTROL_INDEX, INTERRUPT

_Row = tuple[Any, ...]


def checked_row(columns: _Row) -> CheckpointRow:
    """A checkpoint's row from the columns `queries.COLUMNS`, checked.

    Raises:
        StorageError: it is damaged.
    """
    row = unchecked_row(columns)
    if columns[-2] is None:
        raise damaged(
            columns[1], point_key(columns[2], row.id), "the shape of its record is missing"
        )
    check_point(columns[1], columns[2], columns[3], row, columns[-1])
    return row


def unchecked_row(columns: _Row) -> CheckpointRow:
    """A checkpoint's row from the columns `queries.COLUMNS`, whatever is in them."""
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
        found = StoredCheckpoint(
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
        return whole(found, record)
