"""Back up a saver in memory: its rows as those of a new SQLite file."""

from collections.abc import Iterator
from typing import Any

from actorgraph.codec.records import with_checksums
from actorgraph.savers.integrity import blob_sum, checkpoint_sum, head_sum, run_sum, writes_sum
from actorgraph.savers.memory.schema import MemoryThread
from actorgraph.savers.sqlite.backup import new_database

_Rows = dict[str, list[tuple[Any, ...]]]


def rows_of(threads: list[MemoryThread]) -> _Rows:
    """Database rows of threads whose logs are settled, by table; payloads are not copied."""
    rows: _Rows = {}
    for key, thread in enumerate(threads, 1):
        for table, row in _rows(key, thread):
            rows.setdefault(table, []).append(row)
    return rows


def write(dest: str, rows: _Rows) -> None:
    """Store rows in a new SQLite file.

    Args:
        rows: table -> its rows: those of `rows_of` and of other tables.
    Raises: as `new_database`.
    """
    with new_database(dest) as copy:
        for table, some in rows.items():
            copy.add(table, some)


def _rows(key: int, thread: MemoryThread) -> Iterator[tuple[str, tuple[Any, ...]]]:
    state = thread.state
    named, head = state.thread_id, state.heads.get("")
    crc = head_sum(named, state.next_seq, head, state.run)
    thread_row = (key, named, state.epoch, state.owner, state.next_seq, head, state.run, 0, crc)
    yield "threads", thread_row
    if thread.alarm is not None:
        yield "alarms", (named, thread.alarm.at, thread.alarm.graph)
    run = None if state.run is None else thread.runs[state.run]
    if run is not None:
        run_row = (run.run, key, "", run.mode, "running", run.head, run.input, "", state.epoch)
        yield "runs", (*run_row, run_sum(named, run.run, run.head, run.mode, run.input))
    asked = {
        (namespace, base)
        for (namespace, base), rows in thread.ledger.items()
        if any(row.asks for row in rows.values())
    }
    for point in thread.entries:
        row, namespace = point.row, point.namespace
        yield (
            "checkpoints",
            (
                *(key, namespace, point.sequence, row.id, row.parent, row.step, row.source),
                *(row.run, row.next, int((namespace, row.id) in asked), row.created),
                *(row.metadata, row.record),
                checkpoint_sum(named, namespace, point.sequence, row),
            ),
        )
    for (namespace, channel, version), payload in thread.blobs.items():
        value = (namespace, channel, version, payload)
        yield "blobs", (key, *value, blob_sum(named, *value))
    for (namespace, channel, lineage), rows in thread.ranges.items():
        for start, (count, payload) in rows.items():
            yield (
                "ranges",
                (key, namespace, channel, lineage, start, count, with_checksums(payload)),
            )
    for (namespace, base), entries in thread.ledger.items():
        for entry in entries.values():
            where = (key, namespace, base, entry.task, entry.index, entry.generation)
            crc = writes_sum(named, namespace, entry)
            yield "writes", (*where, entry.path, entry.payload, crc)
