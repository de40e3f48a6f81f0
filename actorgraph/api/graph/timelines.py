"""Read the timeline of a thread: which tasks ran, when, how often, and how each attempt ended."""

from actorgraph.codec import Codec
from actorgraph.codec.records import decode_names
from actorgraph.codec.restore import stored_write
from actorgraph.loops import in_turns
from actorgraph.runtime.run.launch import Address
from actorgraph.runtime.saver.hosting import Host
from actorgraph.superstep.snapshot import timeline_tasks
from actorgraph.values.commits import ListCheckpoints, LoadCheckpoint, StoredCheckpoint
from actorgraph.values.ids import as_text
from actorgraph.values.timeline import TimelineStep

STEPS = 100
"""Checkpoints that are read for a timeline by default."""
TIMELINE_PAGE = 50


async def read_timeline(
    host: Host,
    codec: Codec,
    place: Address,
    *,
    before: bytes | None = None,
    limit: int | None = None,
) -> list[TimelineStep]:
    """Read the steps of a namespace, newest first.

    Args:
        host: of the saver.
        codec: decodes the rows.
        place: with a checkpoint the one step that follows it.
        before: a checkpoint id; only steps of older ones.
        limit: the most checkpoints to read; None for all.
    """
    steps = await read_steps(host, codec, place, before=before, limit=limit)
    return [step for step in steps if step.tasks or step.next]


async def read_steps(
    host: Host,
    codec: Codec,
    place: Address,
    *,
    before: bytes | None = None,
    limit: int | None = None,
) -> list[TimelineStep]:
    """Read the same with the checkpoints that nothing follows; no value of a state is decoded."""
    rows = await _rows(host, place, before, limit)
    return await in_turns(rows, lambda stored: _step(codec, stored))


async def _rows(
    host: Host, place: Address, before: bytes | None, limit: int | None
) -> list[StoredCheckpoint]:
    ask = host.reader.ask
    if place.checkpoint is not None:
        query = LoadCheckpoint(place.thread_id, place.namespace, place.checkpoint)
        found = (await ask(query)).checkpoint
        return [found] if found else []
    rows: list[StoredCheckpoint] = []
    after: tuple[bytes, str, int] | None = None
    while limit is None or len(rows) < limit:
        size = TIMELINE_PAGE if limit is None else min(limit - len(rows), TIMELINE_PAGE)
        query = ListCheckpoints(
            place.thread_id,
            place.namespace,
            None if after else before,
            limit=size,
            after=after,
        )
        page: list[StoredCheckpoint] = await ask(query)
        rows += page
        if len(page) < size:
            break
        after = (page[-1].row.id, page[-1].thread_id, page[-1].sequence)
    return rows


def _step(codec: Codec, stored: StoredCheckpoint) -> TimelineStep:
    row = stored.row
    return TimelineStep(
        step=row.step + 1,
        checkpoint_id=as_text(row.id),
        parent_id=as_text(row.parent) if row.parent else None,
        namespace=stored.namespace,
        source=row.source,
        run_id=as_text(row.run) if row.run else None,
        created=row.created,
        next=tuple(decode_names(row.next)),
        tasks=timeline_tasks(
            stored_write(codec, stored, entry, values=False) for entry in stored.ledger
        ),
    )
