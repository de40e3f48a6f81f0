"""MemoryBackend: stores checkpoints in dicts of this process, encoded as in any other saver.

For tests, demos and graphs whose threads may be lost with the process. Values go through the codec,
so a value that can't be stored in a database can't be stored here either, and objects that a node
mutates later don't change a saved checkpoint.
"""

import threading
from collections.abc import Sequence
from functools import partial
from heapq import nsmallest
from itertools import islice
from typing import Any, Literal

import msgspec

from actorgraph.codec import Codec
from actorgraph.codec.records import Record, decode_record
from actorgraph.codec.serializers import ReferenceCodec, SerializerProtocol, codec_of
from actorgraph.errors import ActorGraphError, InvalidConfigError, NotSupportedError
from actorgraph.savers.judge import (
    ThreadState,
    answer_rows,
    branch_base,
    fence,
    judge,
    refused_copy,
    sorted_ledger,
)
from actorgraph.savers.memory.retention import copied, has_runs, hold, is_left_over, remove, reseal
from actorgraph.savers.memory.schema import CheckpointEntry, MemoryThread, log, settled
from actorgraph.savers.memory.systems import MemorySystems
from actorgraph.savers.paging import has_fields, in_order
from actorgraph.values.alarms import Alarm, AlarmRow, ListAlarms, TakeAlarm
from actorgraph.values.commits import (
    Commit,
    CommitOutcome,
    Committed,
    LedgerRow,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Query,
    Refused,
    Request,
    StoredCheckpoint,
    StoredRange,
)
from actorgraph.values.retention import (
    CopyThread,
    CountCheckpoints,
    DeleteThread,
    HoldWhole,
    ListThreads,
    Removal,
    Reseal,
    Resealer,
    Vacuum,
)
from actorgraph.values.systems import SYSTEM_QUERIES, SYSTEM_REQUESTS, AdoptRun
from actorgraph.values.thread_rows import THREAD_QUERIES, THREAD_REQUESTS

RetentionRequest = DeleteThread | CopyThread | Removal | HoldWhole | Reseal | Vacuum


class MemoryBackend:
    """Stores checkpoints in memory. Safe to use from several threads and event loops.

    Args: see `InMemorySaver`.
    """

    durable = False
    immediate = True
    keeps_runs = True
    routes_runs = True
    keeps_alarms = True
    local_reads = True

    def __init__(
        self,
        *,
        codec: Codec | SerializerProtocol | None = None,
        copy: Literal["codec", "none"] = "codec",
        serde: SerializerProtocol | None = None,
    ) -> None:
        if serde is not None:
            codec = codec_of(codec, serde)
        if copy not in ("codec", "none") or (copy == "none" and codec is not None):
            raise InvalidConfigError(
                f"copy={copy!r}, codec={codec!r}",
                do='use copy="codec", with a codec or without, or copy="none" without one',
            )
        if copy == "none":
            self.codec: Codec = ReferenceCodec()
        else:
            self.codec = Codec().for_this_process() if codec is None else codec_of(codec)
        self._threads: dict[str, MemoryThread] = {}
        self._systems = MemorySystems()
        self._lock = threading.Lock()

    def commit_now(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Store a batch without waiting; see `ports.Saver.commit`."""
        # One lock for everything, held for a whole batch: readers see all of it or nothing, and
        # nothing below waits for anything.
        with self._lock:
            if len(batch) == 1:
                return [self._apply(batch[0])]
            return [self._apply(request) for request in batch]

    def query_now(self, queries: Sequence[Query]) -> list[Any]:
        """Answer reads without waiting; a read of an unknown thread creates nothing."""
        with self._lock:
            return [self._answer(query) for query in queries]

    def copy_to_file(self, dest: str) -> None:
        """Store a consistent snapshot of everything in a new SQLite file; blocking.

        Raises:
            NotSupportedError: with `copy="none"` values are kept as objects, not as bytes.
            InvalidConfigError: `dest` exists.
            StorageError: the file can't be written; a partial one is removed.
        """
        if isinstance(self.codec, ReferenceCodec):
            raise NotSupportedError(
                "a saver with copy='none' keeps objects, which can't be written to a file",
                do="use InMemorySaver() or SqliteSaver(path) for threads that need a backup",
            )
        # Imported here: a program that never makes a backup doesn't load the SQLite saver.
        from actorgraph.savers.memory.backup import rows_of, write

        with self._lock:
            rows = {
                **rows_of([settled(thread) for thread in self._threads.values()]),
                **self._systems.rows(),
            }
        write(dest, rows)

    async def open(self) -> None:
        """See `ports.Saver.open`; does nothing."""

    async def close(self) -> None:
        """See `ports.Saver.close`; the data stays until the object is garbage collected."""

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        return self.commit_now(batch)

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        return self.query_now(queries)

    def _apply(self, request: Request) -> CommitOutcome:
        if not isinstance(request, Commit):
            if isinstance(request, SYSTEM_REQUESTS):
                outcome = self._systems.apply(request)
                # Runs and threads are in different tables: the adopted run's thread is fenced here.
                if isinstance(request, AdoptRun) and isinstance(outcome, Committed):
                    self._fence(request)
                return outcome
            if isinstance(request, TakeAlarm):
                return self._take_alarm(request)
            assert not isinstance(request, THREAD_REQUESTS), "this saver has no index of threads"
            return self._apply_retention(request)
        thread = self._threads.get(request.thread_id)
        if thread is None:  # put into `_threads` once the commit is accepted
            thread = MemoryThread(ThreadState(request.thread_id))
        if request.owner is not None and (refused := self._systems.refused(request)):
            return refused
        claims = request.claim is not None
        answered = claims and any(
            _has_row(settled(thread), request, row) for row in answer_rows(request)
        )
        base = branch_base(request)
        based = base is None or (request.namespace, base) in settled(thread).by_id
        if claims and thread.state.owner is not None:
            owner = thread.state.owner
            thread.state.leased = self._systems.is_leased(request.thread_id, owner)
        sequence, error = judge(request, thread.state, answered=answered, based=based)
        if error is not None:
            return Refused(error)
        self._threads[request.thread_id] = thread
        log(thread, request, sequence)  # its rows go into the tables at the next read
        if request.alarm is not None:
            thread.alarm = request.alarm if request.alarm.at else None
        if request.owner is not None and (claims or request.ends):
            self._systems.committed(request)
        return Committed(sequence + len(request.checkpoints) - 1 if request.checkpoints else 0)

    def _take_alarm(self, request: TakeAlarm) -> Committed:
        thread = self._threads.get(request.thread_id)
        if thread is None or thread.alarm is None or thread.alarm.at != request.was:
            return Committed()
        thread.alarm = Alarm(request.at, thread.alarm.graph) if request.at else None
        return Committed(1)

    def _alarms(self, query: ListAlarms) -> list[AlarmRow]:
        rows = (
            AlarmRow(thread_id, thread.alarm.at, thread.alarm.graph)
            for thread_id, thread in self._threads.items()
            if thread.alarm is not None and thread.alarm.graph in query.graphs
        )
        return nsmallest(query.limit, rows, key=lambda row: (row.at, row.thread_id))

    def _fence(self, request: AdoptRun) -> None:
        thread = self._threads.get(request.thread_id)
        if thread is not None:
            fence(thread.state, request)

    def _apply_retention(self, request: RetentionRequest) -> CommitOutcome:
        """Delete, copy, prune, hold or reseal a thread, or vacuum all."""
        if isinstance(request, Vacuum):
            empty = [t for t, known in self._threads.items() if is_left_over(settled(known))]
            for thread_id in empty:
                del self._threads[thread_id]
            return Committed()
        thread = self._known(request.thread_id)
        if isinstance(request, CopyThread):
            source = self._known(request.source)
            if thread is not None and thread.entries:
                return Refused(refused_copy(request))
            if source is None or not source.entries:
                return Committed()
            # The copy is resealed before it is visible: on an error it is dropped.
            copy = copied(source, request.thread_id, thread)
            refusal = None if request.resealer is None else _resealed(copy, request.resealer)
            if refusal is None:
                self._threads[request.thread_id] = copy
            return refusal or Committed()
        if isinstance(request, DeleteThread):  # its runs too that have not begun
            self._systems.forget_thread(request.thread_id)
        if thread is None:
            return Committed()
        if isinstance(request, DeleteThread):
            # The epoch outlives the data and rises, so that a run that is still going on is
            # refused and can't bring deleted data back.
            emptied = ThreadState(request.thread_id, epoch=thread.state.epoch + 1)
            self._threads[request.thread_id] = MemoryThread(emptied)
            return Committed(removed=len(thread.entries))
        if isinstance(request, Reseal):
            return _resealed(thread, request.resealer) or Committed()
        if isinstance(request, HoldWhole):
            hold(thread, request)
            return Committed()
        return remove(thread, request)

    def _known(self, thread_id: str) -> MemoryThread | None:
        """The thread with its log settled into its tables; None if unknown."""
        thread = self._threads.get(thread_id)
        return None if thread is None else settled(thread)

    def _answer(self, query: Query) -> Any:
        if isinstance(query, LoadCheckpoint):
            return self._load(query)
        if isinstance(query, ListThreads):
            threads = map(settled, self._threads.values())
            return sorted(t.state.thread_id for t in threads if has_runs(t, query))
        if isinstance(query, CountCheckpoints):
            thread = self._known(query.thread_id)
            entries = thread.entries if thread else ()
            return sum(query.namespace in (None, entry.namespace) for entry in entries)
        if isinstance(query, SYSTEM_QUERIES):
            return self._systems.answer(query)
        if isinstance(query, ListAlarms):
            return self._alarms(query)
        assert not isinstance(query, THREAD_QUERIES), "this saver has no index of threads"
        return self._page(query)

    def _load(self, query: LoadCheckpoint) -> Loaded:
        thread = self._known(query.thread_id)
        if thread is None:
            return Loaded()
        head = thread.state.heads.get(query.namespace)
        wanted = query.id or head
        entry = thread.by_id.get((query.namespace, wanted)) if wanted else None
        run = thread.state.run
        return Loaded(
            epoch=thread.state.epoch,
            checkpoint=None if entry is None else _loaded(thread, entry, query),
            head=head,
            open_run=None if run is None else thread.runs[run],
            version_floor=_floor(thread, query.namespace, head),
        )

    def _page(self, query: ListCheckpoints) -> list[StoredCheckpoint]:
        names = sorted(self._threads) if query.thread_id is None else [query.thread_id]
        threads = (thread for name in names if (thread := self._known(name)) is not None)
        entries = (
            (thread, entry)
            for thread in threads
            for entry in in_order(thread.entries, query, thread.state.thread_id, _id_of)
            if _matches(thread, entry, query)
        )
        if query.thread_id is None:
            ordered = sorted(entries, key=lambda f: _id_of(f[1]), reverse=not query.oldest_first)
            entries = iter(ordered)
        read = _bare if query.bare else partial(_whole, ancestors=query.ancestors)
        return [read(thread, entry) for thread, entry in islice(entries, query.limit)]


def _resealed(thread: MemoryThread, resealer: Resealer) -> Refused | None:
    try:
        reseal(thread, resealer)
    except ActorGraphError as error:
        return Refused(error)
    return None


def _floor(thread: MemoryThread, namespace: str, head: bytes | None) -> int:
    """The highest channel version of the namespace.

    The head has it: a branch from an older checkpoint numbers its versions above the head's.
    """
    entry = thread.by_id.get((namespace, head)) if head else None
    return decode_record(entry.row.record).floor if entry else 0


def _has_row(thread: MemoryThread, commit: Commit, row: LedgerRow) -> bool:
    rows = thread.ledger.get((commit.namespace, row.base), {})
    return (row.task, row.index, row.generation) in rows


def _whole(thread: MemoryThread, entry: CheckpointEntry, *, ancestors: bool) -> StoredCheckpoint:
    """A checkpoint and, if asked for, the ancestors that its DeltaChannels are folded from."""
    record = decode_record(entry.row.record)
    stored = _read(thread, entry, record)
    if not ancestors or not record.deltas:
        return stored
    left, chain, at = set(record.deltas), list[StoredCheckpoint](), entry
    for _ in range(record.depth):
        ancestor = thread.by_id.get((entry.namespace, at.row.parent or b""))
        if ancestor is None:
            break
        at, whole = ancestor, decode_record(ancestor.row.record)
        ends = left.difference(whole.deltas)
        left -= ends
        chain.append(_read(thread, at, whole.only(ends)))
    return msgspec.structs.replace(stored, ancestors=tuple(chain))


def _loaded(
    thread: MemoryThread, entry: CheckpointEntry, query: LoadCheckpoint
) -> StoredCheckpoint:
    """A checkpoint with the ancestors and the parent's ledger, where the query asks for them."""
    stored = _whole(thread, entry, ancestors=query.ancestors)
    if not query.parent:
        return stored
    rows = _ledger(thread, entry.namespace, entry.row.parent or b"")
    return msgspec.structs.replace(stored, parent_ledger=rows)


def _ledger(thread: MemoryThread, namespace: str, point: bytes) -> tuple[LedgerRow, ...]:
    return sorted_ledger(list(thread.ledger.get((namespace, point), {}).values()))


def _bare(thread: MemoryThread, entry: CheckpointEntry) -> StoredCheckpoint:
    """A checkpoint without its values and ledger."""
    where = (thread.state.thread_id, entry.namespace, entry.sequence)
    return StoredCheckpoint(*where, entry.row, {}, {}, {}, ())


def _read(thread: MemoryThread, entry: CheckpointEntry, record: Record) -> StoredCheckpoint:
    namespace = entry.namespace
    blobs = {
        channel: thread.blobs[key]
        for channel in record.blobs
        if (key := (namespace, channel, record.version_of(channel))) in thread.blobs
    }
    ranges: dict[tuple[str, int], list[StoredRange]] = {}
    ends: dict[tuple[str, int], int] = {}
    for channel, chain in record.lists.items():
        for lineage, end in chain:
            rows = thread.ranges.get((namespace, channel, lineage), {})
            ranges[channel, lineage] = [
                StoredRange(start, *rows[start]) for start in sorted(rows) if start < end
            ]
            ends[channel, lineage] = max((s + c for s, (c, _) in rows.items()), default=0)
    return StoredCheckpoint(
        thread_id=thread.state.thread_id,
        namespace=namespace,
        sequence=entry.sequence,
        row=entry.row,
        blobs=blobs,
        ranges=ranges,
        ends=ends,
        ledger=_ledger(thread, namespace, entry.row.id),
    )


def _id_of(entry: CheckpointEntry) -> bytes:
    return entry.row.id


def _matches(thread: MemoryThread, entry: CheckpointEntry, query: ListCheckpoints) -> bool:
    if query.namespace not in (None, entry.namespace):
        return False
    if query.before is not None:
        bound = thread.by_id.get((entry.namespace, query.before))
        if bound is None or entry.sequence >= bound.sequence:
            return False
    return has_fields(entry.row, query.where)
