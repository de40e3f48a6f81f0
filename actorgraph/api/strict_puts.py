"""LangGraph's saver methods over the port: `aput`, `aput_writes`, `aget_tuple`, `alist` ...

They store whole values, without a claim of the thread, for programs and tools that use a saver
directly; the runtime doesn't call them. `aput` decides by what it has read whether a checkpoint
is stored already and what a strict put refuses. Whether the parent is still the newest
checkpoint is decided by the saver, in the transaction that stores it.
"""

from collections.abc import Mapping
from typing import Any

from actorgraph.channels import EMPTY
from actorgraph.codec import Codec
from actorgraph.codec.records import decode_record
from actorgraph.codec.restore import restore
from actorgraph.errors import CheckpointError, ConflictError, SerializationError
from actorgraph.plan.graph import Plan
from actorgraph.values.commits import Loaded
from actorgraph.values.ids import as_text
from actorgraph.values.run import NewCheckpoint

_Pair = tuple[dict[str, Any], dict[str, Any]]
"""Values and metadata."""


def is_stored(codec: Codec, plan: Plan, loaded: Loaded, point: NewCheckpoint, shape: int) -> bool:
    """Whether the stored checkpoint with the same id is equal in everything.

    Args:
        loaded: what is stored under the id.
        point: the checkpoint to store.
        shape: its format version (`v`), which readers get back.
    """
    if loaded.checkpoint is None or point.deltas:
        return False
    record = decode_record(loaded.checkpoint.row.record)
    if record.deltas or record.shape != shape:
        return False
    try:
        found = restore(codec, plan, loaded)
    except CheckpointError:  # unreadable, so not known to be equal
        return False
    assert found is not None
    there = found[0]
    shown = (there.parent, there.step, there.source, there.versions, there.seen, there.updated)
    given = (point.parent, point.step, point.source, point.versions, point.seen, point.updated)
    values = {c: v for c, v in point.changed.items() if v is not EMPTY}
    return shown == given and _same(codec, (there.values, there.metadata), (values, point.metadata))


def _same(codec: Codec, one: _Pair, other: _Pair) -> bool:
    """Whether two pairs are encoded equally; `==` of arrays doesn't return a bool."""
    try:
        return codec.encode_plainly(_sorted(one)) == codec.encode_plainly(_sorted(other))
    except SerializationError:  # objects that an InMemorySaver(copy="none") keeps unencoded
        return False


def _sorted(pair: _Pair) -> tuple[Any, ...]:
    return tuple(dict(sorted(part.items())) for part in pair)


def refuse_taken(thread_id: str, loaded: Loaded) -> None:
    """Refuse an id that another checkpoint has.

    Raises:
        ConflictError: it does.
    """
    if loaded.checkpoint is not None:
        raise ConflictError(
            f"thread {thread_id!r} has another checkpoint "
            f"{as_text(loaded.checkpoint.row.id)}; nothing was stored",
            do="give the checkpoint an id of its own",
        )


def refuse_versions(thread_id: str, newest: Loaded, expected: Mapping[str, Any]) -> None:
    """Refuse a put that expects other channel versions than the newest checkpoint has.

    Args:
        newest: that checkpoint.
        expected: channel -> version; None for a channel without one yet.
    Raises:
        ConflictError: a version differs; it names the first such channel and the checkpoint.
    """
    found = newest.checkpoint
    versions = {} if found is None else decode_record(found.row.record).channel_versions
    name = "none" if found is None else as_text(found.row.id)
    for channel, version in sorted(expected.items()):
        if versions.get(channel) != version:
            raise ConflictError(
                f"channel {channel!r} of thread {thread_id!r} has version "
                f"{versions.get(channel)!r}, expected {version!r}: the newest checkpoint is "
                f"{name}; nothing was stored",
                do="load the thread again and repeat the put",
            )
