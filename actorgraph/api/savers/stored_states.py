"""States of threads as their saver alone knows them, for readers without the graph."""

from typing import Any

from actorgraph.api.pages import Pages
from actorgraph.api.savers.checkpoint_methods import NO_GRAPH
from actorgraph.api.savers.listing import Listing
from actorgraph.codec import Codec
from actorgraph.codec.restore import restore, restore_claim
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.thread_runs import works_on
from actorgraph.superstep.chunks import address
from actorgraph.superstep.snapshot import stored_snapshot, unsaved_snapshot
from actorgraph.values.commits import ListCheckpoints, LoadCheckpoint, Loaded, StoredCheckpoint
from actorgraph.values.ids import CheckpointId
from actorgraph.values.state_snapshot import StateSnapshot


async def read_stored(
    host: Host, codec: Codec, thread_id: str, checkpoint: bytes | None = None
) -> StateSnapshot | None:
    """Read one checkpoint of a thread's own namespace; None if it doesn't exist.

    Args:
        checkpoint: default the newest, with what its tasks have reached since.
    Raises:
        SerializationError, FormatVersionError: it can't be read.
    """
    loaded: Loaded = await host.reader.ask(LoadCheckpoint(thread_id, "", checkpoint))
    if loaded.checkpoint is None:
        claim = restore_claim(codec, NO_GRAPH, loaded, thread_id) if checkpoint is None else None
        place = address(thread_id, "", CheckpointId(b""), {})
        if claim is None:
            return None
        works = await _works(host, loaded, thread_id)
        return unsaved_snapshot(place or {}, works=works)
    works = checkpoint is None and await _works(host, loaded, thread_id)
    return _snapshot(codec, loaded, live=checkpoint is None, works=works)


async def _works(host: Host, loaded: Loaded, thread_id: str) -> bool:
    held, newest = loaded.open_run, loaded.checkpoint
    holder, saved = held and held.run, 0 if newest is None else newest.row.created
    return await works_on(host, thread_id, holder, saved)


def list_stored(
    host: Host,
    codec: Codec,
    thread_id: str,
    *,
    before: bytes | None = None,
    limit: int | None = None,
) -> Pages[StateSnapshot]:
    """List the checkpoints of a thread's own namespace, newest first, as they were made.

    Args:
        before: a checkpoint's id; only those that are older.
        limit: the most of them.
    """
    query = ListCheckpoints(thread_id, "", before=before, limit=limit)

    def shown(stored: StoredCheckpoint) -> StateSnapshot:
        return _snapshot(codec, Loaded(checkpoint=stored, head=stored.row.id), live=False)

    return Pages(Listing(host.reader.ask, query).page, shown)


def _snapshot(codec: Codec, loaded: Loaded, *, live: bool, works: bool = False) -> StateSnapshot:
    found: Any = restore(codec, NO_GRAPH, loaded)
    stored: Any = loaded.checkpoint
    held = live and loaded.open_run is not None
    return stored_snapshot(found[0], stored.thread_id, live=live, held=held, works=works)
