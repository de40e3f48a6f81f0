"""Hand-off: a run's save becomes rows, before the run's next task starts.

After that nothing that a node or a reducer does to an object can change what was handed over.
A large save is encoded in slices, so that the event loop is never held for long: an encoder in
C holds the interpreter's lock, so a thread would not help.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.codec.codec import Codec
from actorgraph.codec.frames import frame
from actorgraph.codec.placement import Placement
from actorgraph.codec.places import NOWHERE, Place, input_of, items_at, value_at, writes_at
from actorgraph.codec.records import (
    Record,
    encode_json,
    encode_names,
    encode_record,
    is_inline,
)
from actorgraph.codec.sharing import Given, shares
from actorgraph.errors import InvalidConfigError, SerializationError
from actorgraph.plan.graph import Plan
from actorgraph.superstep.growth import StoredList, add_items, branched_list, new_list
from actorgraph.superstep.tasks import path_key
from actorgraph.superstep.untracked import storable_save
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
from actorgraph.values.constants import CALL, CHECKPOINT_FORMAT, CONTROL_INDEX, INTERRUPT, START
from actorgraph.values.ids import as_bytes, version_apart
from actorgraph.values.run import ClaimIntent, LedgerEntry, NewCheckpoint, Save, TaskPath

_ASKS = CONTROL_INDEX[INTERRUPT]
_ROW_OVERHEAD = 200
SLICE_BYTES = 1_000_000
SLICE_ITEMS = 2_000


class HandOff:
    """Encodes the saves of one run. Knows what of each channel is stored already.

    Args:
        epoch: the thread's, as loaded with the checkpoint that the run starts from.
        placed: channel -> where its value is stored, by the loaded checkpoint.
        stamped: whether checkpoints carry the run's id; updates from outside don't.
        owner: the ActorSystem whose run it is.
        holder: the run that has the thread's claim, as loaded.
        untracked: keys whose values are never stored; default those of the graph's channels.
        aside: whether values stand apart from those of their version, which others may have given
            to other values: what a program puts has the program's own versions.
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
        aside: bool = False,
        holder: bytes | None = HOLDER_ANY,
        untracked: frozenset[str] | None = None,
    ) -> None:
        self._untracked = plan.untracked if untracked is None else untracked
        self._codec = codec
        self._sealed = codec.encrypts
        self._inlines = not codec.encodes_all
        self._plan = plan
        self._thread_id = thread_id
        self._namespace = namespace
        self._run = run
        self._stamp = run if stamped else None
        self._epoch = epoch
        self._owner = owner
        self._aside = aside
        self._holder = holder
        self._placed = placed or Placement()
        self._given = Given()
        self._shares = shares(codec) and not aside and plan.entry is None
        self._encoded = self._yielded = 0
        self._whole: frozenset[str] = frozenset()

    def commit(self, save: Save) -> Commit:
        """The rows of a save, encoded in one go.

        Raises: as `slices`.
        """
        slices = self.slices(save)
        while True:
            try:
                next(slices)
            except StopIteration as done:
                return done.value

    def at_once(self, save: Save) -> Commit | None:
        """The rows of the save that nearly every superstep makes; None for any other one.

        One task has ended, and each value that changed stands in the record itself: there is
        nothing large in it but the task's own writes, which are one row.

        Raises: as `slices`.
        """
        if len(save.checkpoints) != 1 or len(save.ledger) != 1 or save.claim is not None:
            return None
        if self._untracked:
            save = storable_save(self._untracked, save)
        point, placed = save.checkpoints[0], self._placed
        if not self._inlines or placed.moved or point.deltas:
            return None
        for value in point.changed.values():
            if not is_inline(value):
                return None
        self._encoded = 0
        row = self._ledger(save.ledger[0])
        for channel, value in point.changed.items():
            placed.inline(channel, value)
        return self._committed(save, (row,), (self._checkpoint(point),))

    def slices(self, save: Save) -> Generator[None, None, Commit]:
        """The rows of a save; yields wherever the event loop may have a turn.

        Raises:
            SerializationError: a value can't be stored; its path is in the text. Nothing of
                the save may be stored then, and the run must end.
        """
        if self._untracked:
            save = storable_save(self._untracked, save)
        self._encoded = self._yielded = 0
        ledger: list[LedgerRow] = []
        for point in save.checkpoints if self._shares else ():
            self._given.learn(point)
        for entry in save.ledger:
            ledger.append(self._ledger(entry))
            if self._encoded - self._yielded > SLICE_BYTES:
                yield self._breathe()
        checkpoints: list[CheckpointRow] = []
        for point in save.checkpoints:
            rows = _Rows()
            for channel in point.deltas:
                self._placed.forget(channel)
            for channel, value in self._changed(point).items():
                if self._inlines and is_inline(value):
                    self._placed.inline(channel, value)
                    continue
                for _ in self._place(point, channel, value, rows):
                    yield self._breathe()
            checkpoints.append(self._checkpoint(point, rows))
        if self._given.sources:
            self._given.handed_over()
        return self._committed(save, tuple(ledger), tuple(checkpoints))

    def _committed(
        self, save: Save, ledger: tuple[LedgerRow, ...], checkpoints: tuple[CheckpointRow, ...]
    ) -> Commit:
        overhead = _ROW_OVERHEAD * (len(ledger) + 2 * len(checkpoints))
        epoch = self._epoch
        if save.claim is not None and self._owner is not None:
            self._epoch += 1  # as the store does with it: see savers/judge.py
        return Commit(
            thread_id=self._thread_id,
            namespace=self._namespace,
            run=self._run,
            epoch=epoch,
            number=save.number,
            head=save.head,
            claim=None if save.claim is None else self._claim(save.claim),
            ledger=ledger,
            checkpoints=checkpoints,
            ends=save.ends,
            size=overhead + self._encoded,
            owner=self._owner,
        )

    def _changed(self, point: NewCheckpoint) -> Mapping[str, Any]:
        """The values to store: those that changed, and once those that migrations made."""
        moved, self._placed.moved = self._placed.moved, {}
        if not moved:
            return point.changed
        left = {c: v for c, v in moved.items() if c in point.versions and c not in point.deltas}
        self._whole = frozenset(left).difference(point.changed)
        return {**left, **point.changed}

    def _breathe(self) -> None:
        """A slice's worth of bytes has been encoded; the next one begins."""
        self._yielded = self._encoded

    def _encode(self, value: Any, path: str, place: Place) -> bytes:
        payload = self._codec.encode(value, path, place)
        self._encoded += len(payload)
        return payload

    def _claim(self, claim: ClaimIntent) -> Claim:
        given: bytes | None = None
        if claim.has_input:
            given = self._codec.encode(claim.input, "input", input_of(self._thread_id, self._run))
        return Claim(claim.head, claim.mode, given, ",".join(claim.resumes), self._holder)

    def _ledger(self, entry: LedgerEntry) -> LedgerRow:
        key = (
            entry.base,
            as_bytes(entry.task),
            path_key(entry.path),
            entry.index,
            entry.generation,
        )
        place = writes_at(self._thread_id, self._namespace, key) if self._sealed else NOWHERE
        where = _whose(entry.path)
        try:
            known = self._given.sources
            named = self._given.writes(entry.base, entry.writes) if known else None
            payload = self._codec.encode(named or list(map(list, entry.writes)), where, place)
        except SerializationError:
            for channel, value in entry.writes:  # the culprit's path begins with its channel
                self._codec.encode(value, f"{where}: {channel}")
            raise
        self._encoded += len(payload)
        return LedgerRow(*key, payload, entry.index == _ASKS)

    def _place(
        self, point: NewCheckpoint, channel: str, value: Any, rows: "_Rows"
    ) -> Iterable[None]:
        """Choose where a changed value stands, and encode it; iterates at the end of a slice."""
        placed = self._placed
        placed.forget(channel)
        if value is EMPTY:
            return ()
        version = point.versions[channel]
        grows = type(value) is list and channel not in point.unwritten
        if grows and channel not in self._whole and self._grows(channel, value):
            return self._extend(channel, value, version, rows)
        source = self._given.source(value) if self._given.sources else None
        if source is not None:
            placed.share(channel, [source])
            return ()
        if channel == START and self._shares:
            value = self._share(point, value, rows)
        placed.blobs.add(channel)
        if self._aside:
            version = placed.stands[channel] = self._apart(point, channel, value)
        stands = NOWHERE
        if self._sealed:
            stands = value_at(self._thread_id, self._namespace, channel, version)
        payload = self._encode(value, f"state[{channel!r}]", stands)
        rows.blobs.append(BlobRow(channel, version, payload))
        return (None,) if self._encoded - self._yielded > SLICE_BYTES else ()

    def _share(self, point: NewCheckpoint, given: Any, rows: "_Rows") -> Any:
        """Store the large values of an input apart; the input with their names in their places."""
        sources = self._given.of(point)
        if not sources:
            return given
        for source in sources:
            where = NOWHERE
            if self._sealed:
                where = value_at(self._thread_id, self._namespace, source.name, source.version)
            payload = self._encode(source.value, f"state[{START!r}]", where)
            rows.blobs.append(BlobRow(source.name, source.version, payload))
        self._placed.share(START, sources)
        return self._given.named(given)

    def _apart(self, point: NewCheckpoint, channel: str, value: Any) -> int:
        """A version that no run counts up to: of the value, so that equal ones stand once.

        Of the checkpoint if values are secret: a digest would tell which of them are equal.
        """
        of = point.id if self._sealed else self._codec.encode(value, f"state[{channel!r}]")
        return version_apart(of)

    def _checkpoint(self, point: NewCheckpoint, rows: "_Rows | None" = None) -> CheckpointRow:
        return CheckpointRow(
            id=point.id,
            parent=point.parent,
            step=point.step,
            source=point.source,
            run=self._stamp,
            next=encode_names(point.next),
            record=encode_record(self._record(point)),
            metadata=encode_metadata(point.metadata) if point.metadata else "{}",
            blobs=() if rows is None else tuple(rows.blobs),
            ranges=() if rows is None else tuple(rows.ranges),
            merges=() if rows is None else tuple(rows.merges),
        )

    def _record(self, point: NewCheckpoint) -> Record:
        placed = self._placed
        record = Record(
            v=CHECKPOINT_FORMAT,  # given, as making the default takes a call
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
            placed.tell(record)
        record.parts = record.counted
        return record

    def _grows(self, channel: str, value: list[Any]) -> bool:
        """A reducer's list is expected to grow; any other has shown it by growing once."""
        known = self._placed.growths.get(channel)
        rule = self._plan.channels.get(channel)  # none where no graph is known: saver.aput()
        if rule is not None and rule.appends:
            return True
        if known is None:
            self._placed.growths[channel] = StoredList([], list(value), [])
            return False
        grown = len(known.items) > 8 and known.appended(value) is not None
        if not known.chain:
            known.items = list(value)
        return grown

    def _extend(
        self, channel: str, value: list[Any], version: int, rows: "_Rows"
    ) -> Iterator[None]:
        """Store a list: what is new of it on its lineage, or all of it on a new one."""
        placed = self._placed
        growth = placed.growths.get(channel)
        new = growth.appended(value) if growth is not None and growth.chain else None
        if new is None or growth is None:
            growth, new = new_list(version), list(value)
        elif new and channel in placed.outgrown:
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
            payload = frame(self._encode(items, f"state[{channel!r}][{at}:]", where))
            spot = add_items(growth, items, len(payload))
            row = RangeRow(channel, lineage, spot.start, spot.before, len(items), payload)
            rows.ranges.append(row)
            rows.merges.extend(MergeRow(channel, lineage, s, e) for s, e in spot.merges)
            if self._encoded - self._yielded > SLICE_BYTES:
                yield


@lru_cache(maxsize=4096)
def _whose(path: TaskPath) -> str:
    if not path:
        return "writes of the input"
    return f"writes of {path[-2] if path[-1] == CALL else path[-1]!s}"


class _Rows:
    """The rows that are new with one checkpoint."""

    __slots__ = ("blobs", "merges", "ranges")

    def __init__(self) -> None:
        self.blobs: list[BlobRow] = []
        self.ranges: list[RangeRow] = []
        self.merges: list[MergeRow] = []


def encode_metadata(metadata: dict[str, Any]) -> str:
    """A caller's metadata as a JSON object.

    Raises:
        InvalidConfigError: a value is not JSON.
    """
    try:
        return encode_json(metadata)
    except (TypeError, UnicodeError, msgspec.MsgspecError) as error:
        raise InvalidConfigError(
            f"config['metadata'] can't be stored as JSON: {error}",
            do="use text without lone surrogates, numbers, booleans, None, lists and dicts",
        ) from error
