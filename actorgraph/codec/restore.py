"""Restore: decode a checkpoint's rows into a checkpoint with its values, after a saver read them.

Values come from four places: inline in the record, blobs (a row each), lists (rows of items), and
delta channels, which are folded anew: the last whole value of an ancestor, then the pending writes
of each superstep since. Bytes that no codec has written may raise anything while they are decoded;
each such error leaves this file as one of the library's, naming the thread, checkpoint and row.
"""

import msgspec

from actorgraph.codec.codec import Codec
from actorgraph.codec.evolving import apply_migrations
from actorgraph.codec.folded import delta_values
from actorgraph.codec.held import held_values, resolve_shared
from actorgraph.codec.located import checkpoint_label, with_location
from actorgraph.codec.old_layouts import has_old_edges, rename_old_edges
from actorgraph.codec.placement import Placement
from actorgraph.codec.places import NOWHERE, input_of, writes_of
from actorgraph.codec.records import Record, decode_metadata, decode_names, decode_record
from actorgraph.errors import FormatVersionError, SerializationError
from actorgraph.plan.graph import Plan
from actorgraph.values.commits import LedgerRow, Loaded, StoredCheckpoint
from actorgraph.values.constants import HANDLER_MARK, PUSH
from actorgraph.values.ids import as_text
from actorgraph.values.records import OpenClaim, Restored, StoredWrite
from actorgraph.values.run import TaskPath
from actorgraph.values.shared import Shared


def restore(codec: Codec, plan: Plan, loaded: Loaded) -> tuple[Restored, Placement] | None:
    """Decode the checkpoint of an answer to `LoadCheckpoint`.

    Returns: the checkpoint and where its values are stored; None when there is no checkpoint.
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
        raise with_location(error, checkpoint_label(stored)) from error.__cause__
    if plan.migrations:
        restored = apply_migrations(plan, restored, placement)
    return restored, placement


def _read(
    codec: Codec, plan: Plan, loaded: Loaded, stored: StoredCheckpoint
) -> tuple[Restored, Placement]:
    record = decode_record(stored.row.record)
    # Inline values are never encrypted. With a key they come from before there was one, or from
    # somebody who changed the database: only `reads_plain` accepts them.
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
        created=row.created,
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
        claim=open_claim(codec, loaded, stored.thread_id),
        deltas=record.deltas,
    )
    if has_old_edges(record):
        restored = rename_old_edges(plan, restored, placement)
    return restored, placement


def _check_parts(record: Record, stored: StoredCheckpoint) -> None:
    if record.parts and record.parts != record.counted:
        raise FormatVersionError(
            f"the record of checkpoint {as_text(stored.row.id)} of thread {stored.thread_id!r} has "
            f"{record.counted} of its {record.parts} parts",
            do="check the database's integrity, or restore it from a backup",
        )


def open_claim(codec: Codec, loaded: Loaded, thread_id: str) -> OpenClaim | None:
    """Return the claim of a run whose process died on the thread's head, if there is one."""
    run = loaded.open_run
    if run is None or run.head != loaded.head:
        return None
    given = None
    if run.input is not None:
        try:
            given = codec.decode(run.input, input_of(thread_id, run.run))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            where = f"the input of run {as_text(run.run)} of thread {thread_id!r}"
            raise with_location(error, where) from error.__cause__
    return OpenClaim(run.run, run.mode, given, run.input is not None)


def _decoded(codec: Codec, stored: StoredCheckpoint) -> tuple[StoredWrite, ...]:
    return tuple(stored_write(codec, stored, entry) for entry in stored.ledger)


def parent_writes(codec: Codec, stored: StoredCheckpoint | None) -> tuple[StoredWrite, ...] | None:
    """Decode the pending writes of a checkpoint's parent; None where they were not read with it."""
    if stored is None or stored.parent_ledger is None:
        return None
    above = msgspec.structs.replace(stored, blobs={}, ledger=stored.parent_ledger)
    return _decoded(codec, above)


def stored_write(codec: Codec, stored: StoredCheckpoint, row: LedgerRow) -> StoredWrite:
    """Decode one row of a checkpoint's pending writes.

    Raises:
        ActorGraphError: it can't be decoded; the text names the row, task and checkpoint.
    """
    place = writes_of(stored.thread_id, stored.namespace, row) if codec.encrypts else NOWHERE
    try:
        writes = tuple((channel, value) for channel, value in codec.decode(row.payload, place))
        if row.index < 0 and not writes:
            raise _empty()
        if any(type(value) is Shared for _, value in writes) and stored.blobs:
            record = decode_record(stored.row.record)
            writes = tuple((c, resolve_shared(codec, stored, record, value)) for c, value in writes)
        return StoredWrite(as_text(row.task), _path(row.path), row.index, row.generation, writes)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        where = f"row {row.index} of task {as_text(row.task)} beside {checkpoint_label(stored)}"
        raise with_location(error, where) from error.__cause__


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
