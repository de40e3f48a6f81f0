"""Restore: decode a checkpoint's rows into a checkpoint with its values, after a saver read them.

Values come from four places: inline in the record, blobs (a row each), lists (rows of items), and
delta channels, which are folded anew: the last whole value of an ancestor, then the pending writes
of each superstep since. Bytes that no codec has written may raise anything while they are decoded;
each such error leaves this file as one of the library's, naming the thread, checkpoint and row.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from actorgraph.channels import EMPTY, Channel
from actorgraph.codec.codec import Codec
from actorgraph.codec.conversions import migrated_input, noted_in, without_note
from actorgraph.codec.decode_errors import checkpoint_label, raise_located
from actorgraph.codec.encryption import NOWHERE, input_of, items_at, value_at, writes_of
from actorgraph.codec.list_cache import are_contiguous
from actorgraph.codec.migrations import apply_migrations, rename_old_edges
from actorgraph.codec.outlines import outline
from actorgraph.codec.packed_times import unpack_times
from actorgraph.codec.records import (
    Placement,
    Record,
    decode_metadata,
    decode_names,
    decode_record,
    frames,
)
from actorgraph.errors import ActorGraphError, FormatVersionError, SerializationError
from actorgraph.plan.plan import Plan
from actorgraph.superstep.deltas import batches, refolded
from actorgraph.superstep.list_rows import ListRow, StoredList
from actorgraph.values.checkpoint import OpenClaim, Restored, StoredWrite
from actorgraph.values.commits import LedgerRow, Loaded, Shared, StoredCheckpoint, StoredRange
from actorgraph.values.constants import CONVERTED, HANDLER_MARK, PUSH, START, TIMES
from actorgraph.values.ids import as_text, created_of
from actorgraph.values.run import TaskPath


def restore(codec: Codec, plan: Plan, loaded: Loaded) -> tuple[Restored, Placement] | None:
    """Decode the checkpoint of an answer to `LoadCheckpoint`.

    Returns: the checkpoint and where its values are stored; None without a checkpoint.
    Raises:
        SerializationError, UnknownTypeError, FormatVersionError: a row can't be read.
        SchemaMismatchError: the plan's migrations don't fit it.
    """
    stored = loaded.checkpoint
    if stored is None:
        return None
    try:
        restored, placement = _read(codec, plan, loaded, stored)
    except MemoryError:
        raise  # says nothing about the row, which may be readable on the next attempt
    except Exception as error:  # noqa: BLE001 - bytes that no codec wrote may raise anything
        raise_located(error, checkpoint_label(stored))
    # Without a graph (a saver's own reading) everything stays as it is stored.
    if plan.migrations or (restored.graph != plan.graph_id and plan.nodes):
        restored = apply_migrations(plan, restored, placement)
    return restored, placement


def _read(
    codec: Codec, plan: Plan, loaded: Loaded, stored: StoredCheckpoint
) -> tuple[Restored, Placement]:
    record = decode_record(stored.row.record)
    # Before the parts are counted: a planted value is refused as one, and not as a lost part.
    if codec.encrypts and record.values:
        codec.check_plain()
    _check_parts(record, stored)
    placement = Placement()
    values = held_values(codec, plan, stored, record, placement)
    if record.deltas:
        ledgers = [_decoded(codec, ancestor) for ancestor in stored.ancestors]
        values.update(delta_values(codec, plan, stored, placement, ledgers))
    row = stored.row
    restored = Restored(
        id=row.id,
        parent=row.parent,
        sequence=stored.sequence,
        namespace=stored.namespace,
        step=row.step,
        source=row.source,
        created=created_of(row.id),
        run=row.run,
        graph=record.graph,
        values=values,
        versions=record.channel_versions,
        seen=record.versions_seen,
        updated=None if record.updated_channels is None else tuple(record.updated_channels),
        next=tuple(decode_names(row.next)),
        metadata=decode_metadata(row.metadata),
        ledger=_decoded(codec, stored),
        version_floor=max(loaded.version_floor, record.floor),
        head=loaded.head or row.id,
        claim=open_claim(codec, loaded, stored.thread_id, plan),
        deltas=record.deltas,
        converted=record.converted,
        above=record.above,
    )
    if record.converted or plan.renames.conversions:
        placement.converted, placement.base = record.converted, row.id
    placement.above = record.above
    if record.has_old_edges:
        restored = rename_old_edges(plan, restored, placement)
    return restored, placement


def _check_parts(record: Record, stored: StoredCheckpoint) -> None:
    if record.parts and record.parts != record.counted:
        raise FormatVersionError(
            f"the record of checkpoint {as_text(stored.row.id)} of thread {stored.thread_id!r} has "
            f"{record.counted} of its {record.parts} parts",
            do="check the database's integrity, or restore it from a backup",
        )


def open_claim(
    codec: Codec, loaded: Loaded, thread_id: str, plan: Plan | None = None
) -> OpenClaim | None:
    """Return the claim of a run whose process died on the thread's head, if there is one.

    Args:
        plan: of the graph that goes on with its input; None leaves that as it is stored.
    """
    run = loaded.open_run
    if run is None or run.head != loaded.head:
        return None
    stored, given, graph = None, None, ""
    if run.input is not None:
        try:
            stored = codec.decode(run.input, input_of(thread_id, run.run))
            stored, converted, graph = without_note(stored)
            given = stored if plan is None else migrated_input(plan, stored, converted)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            where = f"the input of run {as_text(run.run)} of thread {thread_id!r}"
            raise_located(error, where)
    has_input, changed = run.input is not None, given is not stored
    return OpenClaim(run.run, run.mode, given, has_input, graph, changed)


def restore_claim(codec: Codec, plan: Plan, loaded: Loaded, thread_id: str) -> Restored | None:
    """Restore a thread whose first run claimed it, with durability "exit", and died.

    Returns: a state made from the claim, for want of a checkpoint; None without a claim.
    """
    claim = open_claim(codec, loaded, thread_id, plan)
    if claim is None:
        return None
    return Restored(
        id=b"",
        parent=None,
        sequence=0,
        namespace="",
        step=-2,
        source="input",
        created=0,
        run=claim.run,
        graph="",
        values={},
        versions={},
        seen={},
        updated=None,
        next=(),
        metadata={},
        claim=claim,
    )


def _decoded(codec: Codec, stored: StoredCheckpoint) -> tuple[StoredWrite, ...]:
    return tuple([stored_write(codec, stored, entry) for entry in stored.ledger])


LARGE_BYTES = 65_536
"""Encoded bytes from which on the writes of a parent are decoded only when looked at."""


class ParentWrites:
    """Pending writes of a checkpoint's parent, decoded where they are iterated over.

    References in them stay as they are: only an input has any, and snapshots don't show that one.

    Args:
        stored: the checkpoint that is named in errors.
        rows: the pending writes.
    Attributes:
        are_large: whether decoding them takes long enough to be put off until they are looked at.
    """

    def __init__(
        self, codec: Codec, stored: StoredCheckpoint, rows: Sequence[LedgerRow] = ()
    ) -> None:
        # Without the values: they would stay in memory for as long as these do.
        bare = {"blobs": {}, "ranges": {}, "ancestors": (), "parent_ledger": None}
        self._codec = codec
        self._stored = msgspec.structs.replace(stored, **bare, ledger=tuple(rows))
        self.are_large = sum(len(row.payload) for row in rows) >= LARGE_BYTES

    def __iter__(self) -> Iterator[StoredWrite]:
        """Decode them.

        Raises: as `stored_write`.
        """
        return iter(_decoded(self._codec, self._stored))


def parent_writes(codec: Codec, stored: StoredCheckpoint | None) -> ParentWrites | None:
    """The pending writes of a checkpoint's parent; None where they were not read with it."""
    if stored is None or stored.parent_ledger is None:
        return None
    return ParentWrites(codec, stored, stored.parent_ledger)


def stored_write(
    codec: Codec, stored: StoredCheckpoint, row: LedgerRow, *, values: bool = True
) -> StoredWrite:
    """Decode one row of a checkpoint's pending writes.

    Args:
        values: whether those of a result are decoded; without it any of them may be None.
    Raises:
        ActorGraphError: it can't be decoded; the text names the row, task and checkpoint.
    """
    place = writes_of(stored.thread_id, stored.namespace, row) if codec.encrypts else NOWHERE
    try:
        writes, refers = list[tuple[str, Any]](), False
        read = codec.decode if values or row.index < 0 else partial(outline, codec)
        for channel, value in read(row.payload, place):
            writes.append((channel, value))
            refers = refers or type(value) is Shared
        times = unpack_times(writes.pop()[1]) if writes and writes[-1][0] == TIMES else None
        converted = noted_in(writes.pop()[1]) if writes and writes[-1][0] == CONVERTED else None
        if row.index < 0 and not writes:
            raise _empty()
        if refers and stored.blobs:
            record = decode_record(stored.row.record)
            writes = [(c, resolve_shared(codec, stored, record, value)) for c, value in writes]
        task, path = as_text(row.task), _path(row.path)
        return StoredWrite(task, path, row.index, row.generation, tuple(writes), times, converted)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        where = f"row {row.index} of task {as_text(row.task)} beside {checkpoint_label(stored)}"
        raise_located(error, where)


def _empty() -> SerializationError:
    """Error for the row of an interrupt, a resume value or a task's error that has no value."""
    return SerializationError(
        "a control row has no value",
        do="check the database's integrity, or restore it from a backup",
    )


def _path(key: str) -> TaskPath:
    parts = key.removeprefix("~").split(", ")
    if parts == [""]:
        return ()
    kind, place = parts[0], parts[1:]
    if HANDLER_MARK in place:
        mark = place.index(HANDLER_MARK)
        return (
            *_path(f"{kind}, {', '.join(place[:mark])}"),
            HANDLER_MARK,
            False,
            *place[mark + 2 :],
        )
    if kind == PUSH and place and place[0].isdigit():
        return (kind, int(place[0]), *place[1:])
    return (kind, ", ".join(place))


def held_values(
    codec: Codec, plan: Plan, stored: StoredCheckpoint, record: Record, placement: Placement
) -> dict[str, Any]:
    """Decode the values that a checkpoint holds itself.

    Args:
        placement: updated with where each of them is stored.
    Returns: channel -> value; delta channels and empty ones are absent.
    Raises:
        SerializationError: rows are missing, or can't be read.
    """
    values: dict[str, Any] = {}
    # Inline values are never encrypted. With a key they were stored before there was one, or
    # put there by a change of the database: only `reads_plain` accepts them.
    if codec.encrypts and record.values:
        codec.check_plain()
    for channel, value in record.values.items():
        values[channel] = placement.values[channel] = value
    sources = record.shared_rows if record.shared else ()
    for channel in record.blobs:
        if channel not in sources:
            values[channel] = _blob(codec, stored, record, channel)
            placement.blobs.add(channel)
    for channel, names in record.shared.items():
        placement.shared[channel] = names
        placement.shared_versions.update((name, record.version_of(name)) for name in names)
        if channel != START:
            values[channel] = _blob(codec, stored, record, names[0])
        elif START in values:  # an input holds references to the shared rows of its large values
            values[START] = {
                key: resolve_shared(codec, stored, record, value)
                for key, value in values[START].items()
            }
    placement.stands = dict(record.stands)
    for channel, chain in record.lists.items():
        try:
            growth = _list(codec, channel, chain, stored)
        except ActorGraphError as error:
            raise_located(error, f"channel {channel!r}")
        placement.lists[channel] = placement.growths[channel] = growth
        if stored.ends.get((channel, chain[-1][0]), 0) > chain[-1][1]:
            placement.outgrown.add(channel)
        values[channel] = list(growth.items)
    for channel in plan.loading.intersection(values):
        values[channel] = plan.channels[channel].load(values[channel])
    return {channel: value for channel, value in values.items() if value is not EMPTY}


def resolve_shared(codec: Codec, stored: StoredCheckpoint, record: Record, value: Any) -> Any:
    """Return a value, or a new decoding of the shared row that it refers to.

    New for each holder, so that no two of them hold the same mutable object.
    """
    return _blob(codec, stored, record, value.name) if type(value) is Shared else value


def _blob(codec: Codec, stored: StoredCheckpoint, record: Record, name: str) -> Any:
    """Decode a blob row."""
    if name not in stored.blobs:
        raise missing_rows_error(name, stored)
    place = NOWHERE
    if codec.encrypts:
        place = value_at(stored.thread_id, stored.namespace, name, record.version_of(name))
    try:
        return codec.decode(stored.blobs[name], place)
    except ActorGraphError as error:
        raise_located(error, f"the value of channel {name!r}")


def _list(
    codec: Codec, channel: str, chain: list[tuple[int, int]], stored: StoredCheckpoint
) -> StoredList:
    items: list[Any] = []
    rows: list[ListRow] = []
    for lineage, end in chain:
        found = stored.ranges.get((channel, lineage), ())
        items += _items(codec, (channel, lineage), found, stored, (len(items), end))
        rows = [ListRow(row.start, row.count, len(row.payload)) for row in found]  # of the last one
        if len(items) < end:
            raise missing_rows_error(channel, stored)
        del items[end:]
    return StoredList([(lineage, end) for lineage, end in chain], items, rows)


def _items(
    codec: Codec,
    of: tuple[str, int],
    rows: Sequence[StoredRange],
    stored: StoredCheckpoint,
    span: tuple[int, int],
) -> list[Any]:
    """Decode the rows of one lineage.

    Args:
        of: channel and lineage.
        span: positions in the list of the lineage's first item, and of the end that is wanted.
    """
    start, end = span
    where = (stored.thread_id, stored.namespace, *of)
    if codec.lists is not None and are_contiguous(rows, start):
        known = codec.lists.read(where, rows, end - start, codec.decode)
        if known is not None:
            return known
    items: list[Any] = []
    for row in rows:
        if row.start != start + len(items):
            raise missing_rows_error(of[0], stored)
        for part in frames(row.payload):
            place = items_at(*where, start + len(items)) if codec.encrypts else NOWHERE
            items.extend(codec.decode(part, place))
    return items


def missing_rows_error(channel: str, stored: StoredCheckpoint) -> SerializationError:
    """Error for a checkpoint some of whose rows are missing."""
    return SerializationError(
        f"checkpoint {as_text(stored.row.id)} of thread {stored.thread_id!r} lacks rows of "
        f"channel {channel!r}",
        do="check the database's integrity, or restore it from a backup",
    )


def delta_values(
    codec: Codec,
    plan: Plan,
    stored: StoredCheckpoint,
    placement: Placement,
    ledgers: Sequence[Sequence[StoredWrite]],
) -> dict[str, Any]:
    """Fold the values of a checkpoint's delta channels; unknown channels are left out.

    Args:
        placement: updated with where the lists are stored that these values extend.
        ledgers: the pending writes of each of `stored.ancestors`.
    Raises:
        SerializationError: an ancestor is missing, or the channel can't fold its stored writes.
    """
    record = decode_record(stored.row.record)
    now = {c: plan.renames.channel(c) or "" for c in record.deltas}
    rules = {c: _rule(plan, name) for c, name in now.items() if name in plan.channels}
    supersteps: dict[str, list[list[Any]]] = {c: [] for c in rules}
    values: dict[str, Any] = {}
    for ancestor, ledger in zip(stored.ancestors, ledgers, strict=True):
        open_ = [c for c in rules if c not in values]
        if record.folds:
            for channel in open_:
                supersteps[channel].extend(reversed(batches(ledger, channel)))
        record = decode_record(ancestor.row.record)
        ends = set(open_).difference(record.deltas)
        held = held_values(codec, plan, ancestor, record.only(ends), placement) if ends else {}
        for channel in ends:
            values[channel] = held.get(channel, rules[channel].initial())
            # This checkpoint doesn't hold the value. `growths` still knows the ancestor's list, so
            # that the next stored list appends to its rows.
            placement.forget(channel)
    for channel, rule in rules.items():
        if channel not in values:
            raise missing_rows_error(channel, stored)
        values[channel] = refolded(rule, channel, values[channel], reversed(supersteps[channel]))
    return {channel: value for channel, value in values.items() if value is not EMPTY}


def _rule(plan: Plan, channel: str) -> Channel[Any]:
    rule = plan.channels[channel]
    if not rule.refolds:
        raise SerializationError(
            f"channel {channel!r} was stored by a DeltaChannel, whose writes {rule!r} can't fold",
            do="give the key a DeltaChannel or a reducer until its threads have ended",
        )
    return rule
