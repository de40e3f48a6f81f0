"""The saver port's data: encoded rows, grouped so that each commit is all or nothing, and queries.

Everything here is bytes, text and integers. A saver stores rows; it decodes none of them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from actorgraph.values.alarms import Alarm, ListAlarms, TakeAlarm
from actorgraph.values.ids import created_of
from actorgraph.values.retention import (
    CopyThread,
    CountCheckpoints,
    DeleteThread,
    HoldWhole,
    ListThreads,
    Removal,
    Reseal,
    Vacuum,
)
from actorgraph.values.systems import SystemQuery, SystemRequest
from actorgraph.values.thread_rows import ThreadQuery, ThreadRequest

EPOCH_ANY = 0
"""The epoch of a commit that doesn't belong to a run."""
HOLDER_ANY = b""
"""The holder of a claim that is not compared with the run that has the thread."""


class BlobRow(msgspec.Struct, frozen=True, gc=False):
    """The encoded value of one channel at one version."""

    channel: str
    version: int
    payload: bytes


class RangeRow(msgspec.Struct, frozen=True, gc=False):
    """Items added to a growing list.

    Attributes:
        lineage: the version at which this list began; unique among the lists of the channel.
        start: position of the row's first item in the list.
        before: items that the row has already; 0 makes a new row.
        count: items in `payload`.
        payload: frames (`codec.records.frames`) to append to those that the row has.
    """

    channel: str
    lineage: int
    start: int
    before: int
    count: int
    payload: bytes


class MergeRow(msgspec.Struct, frozen=True, gc=False):
    """Merge the rows of a list whose start is in `start <= s < end` into one."""

    channel: str
    lineage: int
    start: int
    end: int


class CheckpointRow(msgspec.Struct, frozen=True, gc=False):
    """A checkpoint: the coordination as JSON, and the rows that are new with it.

    Attributes:
        next: JSON list of the nodes that run next.
        record: JSON; see `codec.records`. Without the fields that have their own columns.
        metadata: JSON object of the caller's metadata.
    """

    id: bytes
    parent: bytes | None
    step: int
    source: str
    run: bytes | None
    next: str
    record: str
    metadata: str
    blobs: tuple[BlobRow, ...] = ()
    ranges: tuple[RangeRow, ...] = ()
    merges: tuple[MergeRow, ...] = ()

    @property
    def created(self) -> int:
        """Microseconds since 1970-01-01 UTC, read from the id; for display and retention only."""
        return created_of(self.id)


class LedgerRow(msgspec.Struct, frozen=True, gc=False):
    """Writes of one task beside a checkpoint; insert-or-ignore by (base, task, index, generation).

    Attributes:
        asks: whether it holds questions, so that listings can show that the thread waits.
    """

    base: bytes
    task: bytes
    path: str
    index: int
    generation: int
    payload: bytes
    asks: bool = False


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A run's claim of its thread: refused unless `head` is the thread's head.

    Attributes:
        head: the newest checkpoint that the run has read.
        mode: the run's durability.
        input: the encoded input when no checkpoint of the same commit holds it.
        resumes: ids of the interrupts that the run answers, comma separated.
        holder: the run that had the claim when this one read the thread, dead or not; None for
            none. If another run has it now, this claim is refused. HOLDER_ANY is not checked.
    """

    head: bytes | None
    mode: str
    input: bytes | None = None
    resumes: str = ""
    holder: bytes | None = HOLDER_ANY


class Commit(msgspec.Struct, frozen=True, gc=False):
    """The rows of one save, stored all or nothing.

    Attributes:
        run: the run that it belongs to, which must hold the thread's claim; None for an
            operation from outside a run, which is not checked against claims.
        epoch: the thread's epoch as the run has read it; EPOCH_ANY is not checked.
        number: counts the run's saves from 1.
        head: the head that the thread must have if there are checkpoints or a ledger.
        ends: the status that the run leaves with; None while it goes on.
        size: bytes of payload, for the bound of a batch.
        owner: the ActorSystem of the run; its claim takes the thread's lease for that system.
        strict: whether `head` is compared although the commit belongs to no run.
        alarm: the thread's alarm from now on; None leaves the one that it has.
    """

    thread_id: str
    namespace: str
    run: bytes | None
    epoch: int
    number: int
    head: bytes | None
    claim: Claim | None = None
    ledger: tuple[LedgerRow, ...] = ()
    checkpoints: tuple[CheckpointRow, ...] = ()
    ends: str | None = None
    size: int = 0
    owner: bytes | None = None
    strict: bool = False
    alarm: Alarm | None = None


OtherRequest = (
    SystemRequest
    | ThreadRequest
    | TakeAlarm
    | DeleteThread
    | CopyThread
    | Removal
    | HoldWhole
    | Reseal
    | Vacuum
)
"""Any request but a commit."""

Request = OtherRequest | Commit


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The request is durable.

    Attributes:
        sequence: that of its newest checkpoint; 0 without one.
        removed: how many checkpoints it has removed.
        freed: how many rows a sweep has removed.
    """

    sequence: int = 0
    removed: int = 0
    freed: int = 0


class Refused(msgspec.Struct, frozen=True):
    """The request was not stored; others of its batch may have been."""

    error: BaseException


CommitOutcome = Committed | Refused


# --- reading ---


class LoadCheckpoint(msgspec.Struct, frozen=True, gc=False):
    """Read one checkpoint.

    Attributes:
        id: None for the newest of the namespace.
        ancestors: include the ancestors from which its DeltaChannels' values are folded.
        parent: include the ledger of its parent: the writes that made it.
    """

    thread_id: str
    namespace: str = ""
    id: bytes | None = None
    ancestors: bool = False
    parent: bool = False


class ListCheckpoints(msgspec.Struct, frozen=True):
    """Read a page of checkpoints, newest first.

    Those of one thread are in the order in which they were stored. Those of all threads are in the
    order of their ids; of equal ids that of the first thread by its id comes first.

    Attributes:
        thread_id: None for all threads.
        namespace: None for all namespaces.
        before: an id; only checkpoints with a lower sequence.
        where: (name, value) of metadata and columns that must be equal.
        limit: rows of a page; None for all.
        ancestors: as in `LoadCheckpoint`.
        bare: leave out values and ledgers.
        oldest_first: in the order in which they were stored; the limit counts from there.
        after: id, thread id and sequence of the last row of the previous page; the page begins
            behind it, also if that row is gone.
    """

    thread_id: str | None = None
    namespace: str | None = None
    before: bytes | None = None
    where: tuple[tuple[str, object], ...] = ()
    limit: int | None = None
    ancestors: bool = False
    bare: bool = False
    oldest_first: bool = False
    after: tuple[bytes, str, int] | None = None


Query = (
    SystemQuery
    | ThreadQuery
    | ListAlarms
    | LoadCheckpoint
    | ListCheckpoints
    | ListThreads
    | CountCheckpoints
)


class StoredRange(msgspec.Struct, frozen=True, gc=False):
    """One row of a growing list, as it was read."""

    start: int
    count: int
    payload: bytes


class StoredCheckpoint(msgspec.Struct, frozen=True):
    """One checkpoint, as it was read: its row, the rows of its values, and its ledger.

    Attributes:
        blobs: channel -> payload.
        ranges: (channel, lineage) -> rows in order, enough for the length that the record names.
        ends: (channel, lineage) -> items that the lineage has by now, maybe more than that.
        ancestors: its parent, the parent's parent and so on, as many as the record's `depth`; each
            with its ledger, and with the values of only those channels of this record's `deltas`
            of which it holds the whole value.
        parent_ledger: the ledger of its parent; empty if the parent is gone. None if it was not
            asked for, or the saver doesn't support that.
    """

    thread_id: str
    namespace: str
    sequence: int
    row: CheckpointRow
    blobs: dict[str, bytes]
    ranges: dict[tuple[str, int], list[StoredRange]]
    ends: dict[tuple[str, int], int]
    ledger: tuple[LedgerRow, ...]
    ancestors: "tuple[StoredCheckpoint, ...]" = ()
    parent_ledger: tuple[LedgerRow, ...] | None = None


class FilteredPage(list[StoredCheckpoint]):
    """A page without the rows that may not be shown or can't be read.

    Attributes:
        read: how many rows it had, so that the next page begins behind all of them.
        last: the last row read.
        damaged: the errors of rows that can't be read.
    """

    def __init__(
        self,
        shown: Iterable[StoredCheckpoint],
        page: Sequence[StoredCheckpoint],
        damaged: Sequence[Exception] = (),
    ) -> None:
        super().__init__(shown)
        some = isinstance(page, FilteredPage)
        self.read: int = page.read if some else len(page)
        self.last: StoredCheckpoint | None = page.last if some else page[-1] if page else None
        self.damaged = damaged


class ReadableRows(list[Any]):
    """A list of rows of many threads or runs, without those that can't be read.

    Attributes:
        damaged: the errors of the rows left out.
    """

    def __init__(self, sound: Iterable[Any], damaged: Sequence[Exception]) -> None:
        super().__init__(sound)
        self.damaged = damaged


class StoredClaim(msgspec.Struct, frozen=True, gc=False):
    """The claim of a run that holds the thread and has not left, as it was read.

    Attributes:
        head: the thread's head when it was claimed.
        mode: the run's durability.
        input: encoded, if no checkpoint holds it.
    """

    run: bytes
    head: bytes | None
    mode: str
    input: bytes | None


class Loaded(msgspec.Struct, frozen=True):
    """The answer to `LoadCheckpoint`.

    Attributes:
        epoch: the thread's.
        checkpoint: None if the thread, the namespace or the id has none.
        head: the newest checkpoint of the namespace.
        open_run: the claim that is held.
        version_floor: the highest version of any channel of the namespace.
    """

    epoch: int = 1
    checkpoint: StoredCheckpoint | None = None
    head: bytes | None = None
    open_run: StoredClaim | None = None
    version_floor: int = 0


class Shared(msgspec.Struct, frozen=True):
    """A reference to a value that several stored rows have in common; see `codec/records.py`.

    Attributes:
        name: of the value's row, among the blobs of the same checkpoint.
    """

    name: str
