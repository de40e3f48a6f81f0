"""The rows that a batch writes, collected by table, and the statements that write them.

A statement takes all rows of its table as one array per column, so a batch is about ten
statements, however many requests are in it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, LiteralString

from psycopg.types.numeric import Int8

from actorgraph.codec.records import with_checksums
from actorgraph.savers.integrity import blob_sum, checkpoint_sum, head_sum, run_sum, writes_sum
from actorgraph.savers.judge import ThreadState
from actorgraph.savers.postgres import alarms
from actorgraph.savers.postgres import statements as sql
from actorgraph.savers.postgres.columns import arrays
from actorgraph.savers.postgres.shapes import Shapes
from actorgraph.savers.postgres.statements import SELECT_OPEN, SELECT_OWNERS
from actorgraph.storage.postgres.translate import RowError
from actorgraph.values.commits import CheckpointRow, Commit, MergeRow, RangeRow
from actorgraph.values.systems import OpenRun

Statement = tuple[LiteralString, Sequence[Any] | dict[str, Any]]
_Row = tuple[Any, ...]
RangeKey = tuple[str, str, str, int, int]
"""Thread id, namespace, channel, lineage, start."""


class GrowingRange:
    """Items that a batch appends to one row of `ranges`, or puts into a new row.

    Attributes:
        key: thread, namespace, channel, lineage, start.
        before: number of items in the stored row; 0 for a new row.
        count: number of items that are appended.
        parts: their payloads.
    """

    __slots__ = ("before", "count", "key", "parts")

    def __init__(self, key: _Row, before: int) -> None:
        self.key = key
        self.before = before
        self.count = 0
        self.parts: list[bytes] = []

    @property
    def row(self) -> _Row:
        """The parameters: thread, namespace, channel, lineage, start, count, payload."""
        return (*self.key, self.count, b"".join(self.parts))


class BatchRows:
    """The rows of a batch's accepted commits, by table.

    Args:
        counts: number of items in the stored rows of lists that the batch extends.
        shapes: splits records into shapes and numbers.
    Attributes:
        answers: thread id, namespace and key of each ledger row that was added.
        points: thread id, namespace and id of each checkpoint that was added.
    """

    def __init__(self, counts: dict[RangeKey, int], shapes: Shapes) -> None:
        self._counts = counts
        self._shapes = shapes
        self._superseded: list[bytes] = []
        self._runs: dict[bytes | None, _Row] = {}
        self._ended: dict[bytes | None, _Row] = {}
        self._checkpoints: list[_Row] = []
        self._blobs: dict[_Row, tuple[bytes, int]] = {}
        self._writes: list[_Row] = []
        self._interrupts: list[_Row] = []
        self._growing: dict[RangeKey, GrowingRange] = {}
        self._merges: list[tuple[_Row, MergeRow]] = []
        self._threads: dict[int | None, ThreadState] = {}
        self._alarms: dict[str, _Row] = {}
        self.answers: set[_Row] = set()
        self.points: set[_Row] = set()

    def add(self, thread: ThreadState, commit: Commit, sequence: int) -> None:
        """Add the rows of one accepted commit.

        Raises:
            RowError: a stored row of a list has another length than the commit says.
        """
        key, namespace = thread.row, commit.namespace
        self._threads[key] = thread
        claim = commit.claim
        if claim is not None:
            head = commit.checkpoints[-1].id if commit.checkpoints else claim.head
            run = (commit.run, key, namespace, claim.mode, head, claim.input, claim.resumes)
            crc = run_sum(thread.thread_id, commit.run or b"", head, claim.mode, claim.input)
            self._runs[commit.run] = (*run, thread.epoch, crc)
        for row in commit.ledger:
            place = (row.base, row.task, row.index, row.generation)
            crc = writes_sum(thread.thread_id, namespace, row)
            self._writes.append((key, namespace, *place, row.path, row.payload, crc))
            self.answers.add((commit.thread_id, namespace, *place))
            if row.asks:
                self._interrupts.append((key, namespace, row.base))
        for offset, point in enumerate(commit.checkpoints):
            self.points.add((commit.thread_id, namespace, point.id))
            self._add_checkpoint(thread, namespace, sequence + offset, point)
        if commit.ends is not None:
            self._ended[commit.run] = (commit.ends, commit.run)
        if commit.alarm is not None:
            alarm = (commit.thread_id, commit.alarm.at, commit.alarm.graph)
            self._alarms[commit.thread_id] = alarm

    def supersede(self, run: bytes) -> None:
        """Note that a run lost the claim of its thread to another one."""
        self._superseded.append(run)

    def _add_checkpoint(
        self, thread: ThreadState, namespace: str, sequence: int, row: CheckpointRow
    ) -> None:
        key = thread.row
        self._checkpoints.append(
            (
                key,
                namespace,
                sequence,
                row.id,
                row.parent,
                row.step,
                row.source,
                row.run,
                row.next,
                row.created,
                row.metadata,
                *self._shapes.split(row.record),
                checkpoint_sum(thread.thread_id, namespace, sequence, row),
            )
        )
        for blob in row.blobs:
            value = (namespace, blob.channel, blob.version, blob.payload)
            crc = blob_sum(thread.thread_id, *value)
            self._blobs[key, *value[:3]] = (blob.payload, crc)
        for part in row.ranges:
            self._grow(thread, namespace, part)
        for merge in row.merges:
            self._merges.append(((key, namespace), merge))

    def _grow(self, thread: ThreadState, namespace: str, part: RangeRow) -> None:
        # Appending trusts the length that the run knows: compare it with the stored one, or with
        # what this batch has made of it, before items are lost or stored twice.
        where = (thread.thread_id, namespace, part.channel, part.lineage, part.start)
        growing = self._growing.get(where)
        known = self._counts.get(where, 0) if growing is None else growing.before + growing.count
        if part.before != known:
            msg = f"the list {part.channel!r} has {known} items at {part.start}, not {part.before}"
            raise RowError(msg)
        if growing is None:
            growing = self._growing[where] = GrowingRange((thread.row, *where[1:]), known)
        growing.count += part.count
        growing.parts.append(with_checksums(part.payload))

    def statements(self) -> list[Statement]:
        """The statements that write all rows, in the order in which to execute them."""
        # Checkpoints before MARK_INTERRUPTS, runs before END_RUNS: these update rows that the same
        # batch may have inserted.
        blobs = [(*key, *value) for key, value in self._blobs.items()]
        growing = self._growing.values()
        threads = [head_row(thread) for thread in self._threads.values()]
        tables: tuple[tuple[LiteralString, Iterable[_Row]], ...] = (
            (sql.SUPERSEDE_RUNS, [(run,) for run in self._superseded]),
            (sql.INSERT_RUNS, self._runs.values()),
            (sql.INSERT_CHECKPOINTS, self._checkpoints),
            (sql.INSERT_BLOBS, blobs),
            (sql.INSERT_WRITES, self._writes),
            (sql.MARK_INTERRUPTS, self._interrupts),
            (sql.END_RUNS, self._ended.values()),
            (sql.INSERT_RANGES, [g.row for g in growing if not g.before]),
            (sql.EXTEND_RANGES, [g.row for g in growing if g.before]),
            (alarms.SET, self._alarms.values()),
        )
        statements: list[Statement] = [(text, arrays(rows)) for text, rows in tables if rows]
        statements += [_merge(place, merge) for place, merge in self._merges]
        return [*statements, (sql.UPDATE_THREADS, arrays(threads))] if threads else statements


def head_row(thread: ThreadState) -> _Row:
    """The parameters of one row of `statements.UPDATE_THREADS`."""
    columns = (thread.next_seq, thread.heads.get(""), thread.run)
    return (*columns, head_sum(thread.thread_id, *columns), thread.row)


def _merge(place: _Row, merge: MergeRow) -> Statement:
    thread, namespace = place
    return sql.MERGE_RANGES, {
        "thread": Int8(thread),
        "namespace": namespace,
        "channel": merge.channel,
        "lineage": Int8(merge.lineage),
        "start": Int8(merge.start),
        "end": Int8(merge.end),
    }


class BatchFacts:
    """Facts from the database by which a group of requests is judged.

    Attributes:
        heads: (thread id, namespace) -> newest checkpoint; of nested namespaces only.
        answered: those of the group's `answer_rows` that are stored.
        bases: those of the group's `branch_base` that are stored.
        counts: number of items in stored rows of lists.
        owners: run -> the system that owns it.
        open_runs: thread id -> its open runs, by run id.
    """

    def __init__(self) -> None:
        self.heads: dict[_Row, bytes] = {}
        self.answered: set[_Row] = set()
        self.bases: set[_Row] = set()
        self.counts: dict[RangeKey, int] = {}
        self.owners: dict[bytes, bytes | None] = {}
        self.open_runs: dict[str, dict[bytes, OpenRun]] = {}

    def take(self, text: str, rows: Sequence[_Row]) -> None:
        """Add the rows that one statement of `lookups` or `systems.run_lookups` has returned."""
        if text is sql.SELECT_HEADS:
            self.heads.update({row[:2]: row[2] for row in rows})
        elif text is sql.SELECT_ANSWERED:
            self.answered.update(rows)
        elif text is sql.SELECT_BASES:
            self.bases.update(rows)
        elif text is SELECT_OWNERS:
            self.owners.update(rows)
        elif text is SELECT_OPEN:
            for thread_id, *rest in rows:
                known = OpenRun(*rest)
                self.open_runs.setdefault(thread_id, {})[known.run] = known
        else:
            self.counts.update({row[:5]: row[5] for row in rows})


def lookups(
    nested: Iterable[_Row], answers: Iterable[_Row], bases: Iterable[_Row], lists: Iterable[_Row]
) -> list[Statement]:
    """The statements that read what a group's commits need, most often none."""
    asked: tuple[tuple[LiteralString, Iterable[_Row]], ...] = (
        (sql.SELECT_HEADS, nested),
        (sql.SELECT_ANSWERED, answers),
        (sql.SELECT_BASES, bases),
        (sql.SELECT_COUNTS, lists),
    )
    return [(text, arrays(rows)) for text, rows in asked if rows]
