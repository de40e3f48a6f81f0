"""Hand-off: encode a run's save as rows before the run's next task starts.

Receives   `Save` from the supervisor: live Python objects
Returns    `Commit`: bytes, text and integers for the saver
Invariant  after the hand-off no node or reducer can change what will be stored, however it
           mutates an object, because the rows hold no reference to it.
Slices     a large save is encoded in slices of about `SLICE_BYTES`, so that the event loop is
           never blocked for long. A thread would not help: the C encoder holds the GIL.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.codec.codec import Codec
from actorgraph.codec.conversions import note_of_writes, noted, with_note
from actorgraph.codec.encryption import NOWHERE, input_of, items_at, value_at, writes_at
from actorgraph.codec.packed_times import pack_times
from actorgraph.codec.records import (
    FORMAT_CONVERTED,
    MAY_BE_INLINE,
    Placement,
    Record,
    SharedInput,
    encode_json,
    encode_names,
    encode_record,
    frame,
    is_inline,
)
from actorgraph.errors import InvalidConfigError, SerializationError
from actorgraph.plan.plan import Plan
from actorgraph.superstep.changes.half_converted import noted_above
from actorgraph.superstep.list_rows import StoredList, add_items, branched_list, new_list
from actorgraph.superstep.untracked import storable_save
from actorgraph.values.alarms import Alarm
from actorgraph.values.commits import (
    HOLDER_ANY,
    BlobRow,
    CheckpointRow,
    Claim,
    Commit,
    LedgerRow,
    MergeRow,
    RangeRow,
)
from actorgraph.values.constants import (
    CALL,
    CHECKPOINT_FORMAT,
    CONTROL_INDEX,
    INTERRUPT,
    START,
    TIMES,
)
from actorgraph.values.ids import as_bytes, version_apart
from actorgraph.values.run import ClaimIntent, LedgerEntry, NewCheckpoint, Save, TaskPath, path_key

_INTERRUPT_INDEX = CONTROL_INDEX[INTERRUPT]
_ROW_OVERHEAD = 200
"""Bytes that a row's columns are assumed to take besides its payload."""
SLICE_BYTES = 1_000_000
"""Encoded bytes after which the event loop gets a turn."""
SLICE_ROWS = 64
"""Rows of tasks, or checkpoints, of one save after which it gets one."""
SLICE_ITEMS = 2_000
"""Items of a list that are encoded in one call, as one frame: its slice can't be interrupted."""


class SaveEncoder:
    """Encodes the saves of one run, and tracks what of each channel is stored already.

    Args:
        run: the run's id.
        epoch: the thread's epoch, as loaded with the checkpoint that the run starts from.
        placed: where the loaded checkpoint stores each channel's value.
        stamped: whether checkpoints carry the run's id; False for updates from outside a run.
        owner: the id of the ActorSystem whose run it is; None for a run of no system.
        own_versions: whether each stored value gets a version that no run counts up to. True for
            checkpoints that a program puts: its version numbers may be taken by other values.
        holder: the run that held the thread's claim when the thread was loaded.
        untracked: keys whose values are never stored; default: the graph's untracked channels.
        above: the graph above, for a subgraph's run.
    """

    def __init__(
        self,
        codec: Codec,
        plan: Plan,
        *,
        thread_id: str,
        namespace: str,
        run: bytes,
        epoch: int,
        placed: Placement | None = None,
        stamped: bool = True,
        owner: bytes | None = None,
        own_versions: bool = False,
        holder: bytes | None = HOLDER_ANY,
        untracked: frozenset[str] | None = None,
        above: Plan | None = None,
    ) -> None:
        self._untracked = plan.untracked if untracked is None else untracked
        self._codec = codec
        self._sealed = codec.encrypts
        self._inlines = not codec.encodes_all
        self._plan = plan
        self._thread_id = thread_id
        self._namespace = namespace
        self._run = run
        self._stamped_run = run if stamped else None
        self._epoch = epoch
        self._owner = owner
        self._own_versions = own_versions
        self._holder = holder
        self._placed = placed or Placement()
        converts = bool(plan.renames.conversions or self._placed.converted)
        before = self._placed.converted
        self._converted = noted(plan, before) if converts else {}
        known = self._placed.above
        self._above = known if above is None else noted_above(above, plan, known)
        # Rows beside a checkpoint with other conversions than this graph's note their own.
        self._unlike = self._placed.base if self._converted != before else None
        self._shared_input = SharedInput()
        # A program's own serializer can't encode references to other rows.
        self._shares = type(codec) is Codec and not own_versions and plan.entry is None
        self._encoded, self._slice_end = 0, SLICE_BYTES
        self._migrated: frozenset[str] = frozenset()

    def commit(self, save: Save) -> Commit:
        """Encode a save without interruption.

        Raises: as `slices`.
        """
        slices = self.slices(save)
        while True:
            try:
                next(slices)
            except StopIteration as done:
                return done.value

    def slices(self, save: Save) -> Generator[None, None, Commit]:
        """Encode a save; yields wherever the event loop may have a turn.

        No task of the run may start or write before the generator has returned.

        Raises:
            SerializationError: a value can't be stored; the text has its path. Nothing of
                the save may be stored then, and the run must end: the placement is ahead of
                the stored rows.
        """
        if self._untracked:
            save = storable_save(self._untracked, save)
        self._encoded, self._slice_end = 0, SLICE_BYTES
        self._name_input(save)
        ledger: list[LedgerRow] = []
        for entry in save.ledger:
            ledger.append(self._ledger_row(entry))
            if self._encoded > self._slice_end or len(ledger) % SLICE_ROWS == 0:
                yield self._end_slice()
        checkpoints: list[CheckpointRow] = []
        for point in save.checkpoints:
            rows = _Rows()
            # The value of a delta channel isn't stored with this checkpoint: readers fold it from
            # an older one, so an old place of it must not be named by this record.
            for channel in point.deltas:
                self._placed.forget(channel)
            has_moved = self._placed.moved or self._migrated
            changed = self._with_moved(point) if has_moved else point.changed
            for channel, value in changed.items():
                if self._inlines and type(value) in MAY_BE_INLINE and is_inline(value):
                    self._placed.inline(channel, value)
                    continue
                if value is EMPTY:
                    self._placed.forget(channel)
                    continue
                for _ in self._place_value(point, channel, value, rows):
                    yield self._end_slice()
            checkpoints.append(self._checkpoint_row(point, rows))
            if self._encoded > self._slice_end or len(checkpoints) % SLICE_ROWS == 0:
                yield self._end_slice()
        if self._shared_input.rows:
            self._shared_input.forget_mutable()
        return self._to_commit(save, tuple(ledger), tuple(checkpoints))

    def _name_input(self, save: Save) -> None:
        """Give the large values of an input their names.

        The pending writes beside it are encoded before its checkpoint is, and refer to the same
        values by name.
        """
        for point in save.checkpoints if self._shares else ():
            if point.changed.get(START, EMPTY) is not EMPTY:
                self._shared_input.collect(point)

    def _to_commit(
        self, save: Save, ledger: tuple[LedgerRow, ...], checkpoints: tuple[CheckpointRow, ...]
    ) -> Commit:
        overhead = _ROW_OVERHEAD * (len(ledger) + 2 * len(checkpoints))
        epoch = self._epoch
        if save.claim is not None and self._owner is not None:
            # A claim of a system takes a lease, and the saver's judge raises the epoch with it.
            # Counting along here saves this run a read, and fences its earlier holder.
            self._epoch += 1
        return Commit(
            thread_id=self._thread_id,
            namespace=self._namespace,
            run=self._run,
            epoch=epoch,
            number=save.number,
            head=save.head,
            claim=None if save.claim is None else self._encode_claim(save.claim),
            ledger=ledger,
            checkpoints=checkpoints,
            ends=save.ends,
            size=overhead + self._encoded,
            owner=self._owner,
            alarm=None if save.alarm is None else Alarm(save.alarm, self._plan.name),
        )

    def _with_moved(self, point: NewCheckpoint) -> Mapping[str, Any]:
        """Return the values to store: those that changed, and those that migrations made.

        The loaded checkpoint still holds a migrated value in its old form, and is never rewritten.
        The first new checkpoint stores it even if no task wrote it.
        """
        moved, self._placed.moved = self._placed.moved, {}
        left = {c: v for c, v in moved.items() if c in point.versions and c not in point.deltas}
        # Not as lists that grow: the rows on the lineage of this version have items of the old
        # form. Their next change has a new version, and begins a lineage.
        self._migrated = frozenset(left).difference(point.changed)
        return {**left, **point.changed}

    def _end_slice(self) -> None:
        """Start counting the next slice's bytes."""
        self._slice_end = self._encoded + SLICE_BYTES

    def _encode_claim(self, claim: ClaimIntent) -> Claim:
        given: bytes | None = None
        if claim.has_input:
            place = input_of(self._thread_id, self._run)
            try:
                given = self._codec.encode(
                    with_note(self._codec, self._plan, claim.input), "input", place
                )
            except SerializationError:  # encode again without the note: the path is the program's
                self._codec.encode(claim.input, "input", place)
                raise
        return Claim(claim.head, claim.mode, given, ",".join(claim.resumes), self._holder)

    def _ledger_row(self, entry: LedgerEntry) -> LedgerRow:
        key = (
            entry.base,
            as_bytes(entry.task),
            path_key(entry.path),
            entry.index,
            entry.generation,
        )
        place = writes_at(self._thread_id, self._namespace, key) if self._sealed else NOWHERE
        where = _writer_of(entry.path)
        try:
            known = self._shared_input.rows
            named = self._shared_input.writes(entry.base, entry.writes) if known else None
            writes = named or list(map(list, entry.writes))
            if entry.base == self._unlike and entry.index >= 0:
                writes = [*writes, note_of_writes(self._codec, self._converted)]
            if entry.times is not None:
                writes = [*writes, [TIMES, pack_times(entry.times)]]
            payload = self._codec.encode(writes, where, place)
        except SerializationError:
            # Encode again, write by write: the error then names the channel, not a list index.
            for channel, value in entry.writes:
                self._codec.encode(value, f"{where}: {channel}")
            raise
        self._encoded += len(payload)
        return LedgerRow(*key, payload, entry.index == _INTERRUPT_INDEX)

    def _place_value(
        self, point: NewCheckpoint, channel: str, value: Any, rows: "_Rows"
    ) -> Iterable[None]:
        """Choose where a changed value is stored, and encode it; iterates at the end of a slice."""
        placed = self._placed
        placed.forget(channel)
        version = point.versions[channel]
        # A snapshot without a write keeps the channel's version, and two branches may both take
        # one. Blobs of equal key are equal values; lineages of equal key would be two lists.
        grows = type(value) is list and channel not in point.unwritten
        if grows and channel not in self._migrated and self._is_growing(channel, value):
            return self._extend(channel, value, version, rows)
        shared = self._shared_input.row_of(value) if self._shared_input.rows else None
        if shared is not None:
            placed.share(channel, [shared])
            return ()
        if channel == START and self._shared_input.rows:
            value = self._share(point, value, rows)
        placed.blobs.add(channel)
        # The row of a migrated value's version has the value before, which older checkpoints have.
        if self._own_versions or channel in self._migrated:
            version = placed.stands[channel] = self._own_version(point, channel, value)
        where = NOWHERE
        if self._sealed:
            where = value_at(self._thread_id, self._namespace, channel, version)
        payload = self._codec.encode(value, f"state[{channel!r}]", where)
        self._encoded += len(payload)
        rows.blobs.append(BlobRow(channel, version, payload))
        return (None,) if self._encoded > self._slice_end else ()

    def _share(self, point: NewCheckpoint, given: Any, rows: "_Rows") -> Any:
        """Store the large values of an input in rows of their own.

        Returns: the input with a reference in place of each.
        """
        large = self._shared_input.new_with(point)
        if not large:
            return given
        for row in large:
            where = NOWHERE
            if self._sealed:
                where = value_at(self._thread_id, self._namespace, row.name, row.version)
            payload = self._codec.encode(row.value, f"state[{START!r}]", where)
            self._encoded += len(payload)
            rows.blobs.append(BlobRow(row.name, row.version, payload))
        self._placed.share(START, large)
        return self._shared_input.with_references(given)

    def _own_version(self, point: NewCheckpoint, channel: str, value: Any) -> int:
        """Derive a version that no run counts up to from the value, so that equal ones are one row.

        From the checkpoint's id if values are encrypted: a digest of the value would reveal which
        values are equal.
        """
        of = point.id if self._sealed else self._codec.encode(value, f"state[{channel!r}]")
        return version_apart(of)

    def _checkpoint_row(self, point: NewCheckpoint, rows: "_Rows | None" = None) -> CheckpointRow:
        placed = self._placed
        record = Record(
            v=CHECKPOINT_FORMAT,  # passed, because its default costs a call of the factory
            graph=self._plan.graph_id,
            highest=point.highest,
            channel_versions=point.versions,
            versions_seen=point.seen,
            updated_channels=None if point.updated is None else list(point.updated),
            values=placed.values,
            lists={c: g.chain for c, g in placed.lists.items()} if placed.lists else {},
            blobs=sorted(placed.blobs) if placed.blobs else [],
            stands=dict(placed.stands) if placed.stands else {},
            deltas=dict(point.deltas) if point.deltas else {},
            folds=point.folds,
        )
        if placed.shared:
            placed.write_shared(record)
        if self._converted:
            record.v, record.converted = FORMAT_CONVERTED, self._converted
        if self._above:
            record.v = FORMAT_CONVERTED
            record.above = {channel: dict(had) for channel, had in self._above.items()}
        record.parts = record.counted
        return CheckpointRow(
            id=point.id,
            parent=point.parent,
            step=point.step,
            source=point.source,
            run=self._stamped_run,
            next=encode_names(point.next),
            record=encode_record(record),
            metadata=encode_metadata(point.metadata) if point.metadata else "{}",
            blobs=() if rows is None else tuple(rows.blobs),
            ranges=() if rows is None else tuple(rows.ranges),
            merges=() if rows is None else tuple(rows.merges),
        )

    def _is_growing(self, channel: str, value: list[Any]) -> bool:
        """Whether to store a list as rows of items, not as one value.

        A reducer's list is expected to grow. Any other is stored whole until it has once grown by
        appending while it had more than 8 items.
        """
        known = self._placed.growths.get(channel)
        rule = self._plan.channels.get(channel)  # None where the graph is unknown: saver.aput()
        if rule is not None and rule.appends:
            return True
        if known is None:
            # Remember the items, to compare the next value with; no rows are stored yet.
            self._placed.growths[channel] = StoredList([], list(value), [])
            return False
        grown = len(known.items) > 8 and known.appended(value) is not None
        if not known.chain:
            known.items = list(value)
        return grown

    def _extend(
        self, channel: str, value: list[Any], version: int, rows: "_Rows"
    ) -> Iterator[None]:
        """Store a list: its new items on its lineage, or all of it on a new lineage."""
        placed = self._placed
        growth = placed.growths.get(channel)
        new = growth.appended(value) if growth is not None and growth.chain else None
        if new is None or growth is None:
            # Not an extension of the stored list: something was removed, replaced or reordered.
            growth, new = new_list(version), list(value)
        elif new and channel in placed.outgrown:
            # Another branch has appended to this lineage after the checkpoint that this run
            # started from. Its items must not become part of this run's list: fork the lineage.
            growth = branched_list(growth, version)
        placed.growths[channel] = placed.lists[channel] = growth
        if not new:
            return
        placed.outgrown.discard(channel)
        lineage = growth.chain[-1][0]
        for first in range(0, len(new), SLICE_ITEMS):
            items = new[first : first + SLICE_ITEMS]
            at = len(growth.items)
            where = NOWHERE
            if self._sealed:
                where = items_at(self._thread_id, self._namespace, channel, lineage, at)
            encoded = self._codec.encode(items, f"state[{channel!r}][{at}:]", where)
            self._encoded += len(encoded)
            payload = frame(encoded)
            spot = add_items(growth, items, len(payload))
            row = RangeRow(channel, lineage, spot.start, spot.before, len(items), payload)
            rows.ranges.append(row)
            rows.merges.extend(MergeRow(channel, lineage, s, e) for s, e in spot.merges)
            if self._encoded > self._slice_end:
                yield


@lru_cache(maxsize=4096)  # once per task, and a graph's paths repeat
def _writer_of(path: TaskPath) -> str:
    if not path:
        return "writes of the input"
    return f"writes of {path[-2] if path[-1] == CALL else path[-1]!s}"


class _Rows(msgspec.Struct):
    """The value rows that one checkpoint adds."""

    blobs: list[BlobRow] = []
    ranges: list[RangeRow] = []
    merges: list[MergeRow] = []


def encode_metadata(metadata: dict[str, Any]) -> str:
    """Encode a caller's metadata as a JSON object.

    Raises:
        InvalidConfigError: a value is not JSON.
    """
    try:
        return encode_json(metadata)
    except (TypeError, UnicodeError, SerializationError, msgspec.MsgspecError) as error:
        why = error.args[0] if isinstance(error, SerializationError) else error
        raise InvalidConfigError(
            f"config['metadata'] can't be stored as JSON: {why}",
            do="use text without lone surrogates, numbers, booleans, None, shallow lists and dicts",
        ) from error
