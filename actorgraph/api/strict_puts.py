"""What `aput` does about a checkpoint that is there already, and about writers at the same time.

Decisions over what was read: whether the checkpoint is the stored one, and what a strict put
refuses before it is sent. Whether its parent is still the newest is judged where it is stored.
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
    """Whether the checkpoint that was found under an id is this one, equal in everything.

    Args:
        shape: the format of what the caller passed, which readers get back.
    """
    if loaded.checkpoint is None or point.deltas:
        return False
    record = decode_record(loaded.checkpoint.row.record)
    if record.deltas or record.shape != shape:
        return False
    try:
        found = restore(codec, plan, loaded)
    except CheckpointError:  # what can't be read is not known to be equal
        return False
    assert found is not None
    there = found[0]
    shown = (there.parent, there.step, there.source, there.versions, there.seen, there.updated)
    given = (point.parent, point.step, point.source, point.versions, point.seen, point.updated)
    values = {c: v for c, v in point.changed.items() if v is not EMPTY}
    return shown == given and _same(codec, (there.values, there.metadata), (values, point.metadata))


def _same(codec: Codec, one: _Pair, other: _Pair) -> bool:
    """Whether two values are equal as they are stored: `==` means something else for arrays."""
    try:
        return codec.encode_plainly(_sorted(one)) == codec.encode_plainly(_sorted(other))
    except SerializationError:  # objects that are kept as they are
        return False


def _sorted(pair: _Pair) -> tuple[Any, ...]:
    return tuple(dict(sorted(part.items())) for part in pair)


def refuse_taken(thread_id: str, loaded: Loaded) -> None:
    """Refuse an id that another checkpoint has.

    Raises: ConflictError.
    """
    if loaded.checkpoint is not None:
        raise ConflictError(
            f"thread {thread_id!r} has another checkpoint "
            f"{as_text(loaded.checkpoint.row.id)}; nothing was stored",
            do="give the checkpoint an id of its own",
        )


def refuse_versions(thread_id: str, newest: Loaded, expected: Mapping[str, Any]) -> None:
    """Refuse a put whose writer knows other versions than the newest checkpoint has.

    Args:
        newest: what was read of it.
        expected: channel -> version; None for a channel that has none yet.

    Raises: ConflictError: it names the first channel, and the checkpoint.
    """
    found = newest.checkpoint
    versions = {} if found is None else decode_record(found.row.record).channel_versions
    name = "none" if found is None else as_text(found.row.id)
    for channel, version in sorted(expected.items()):
        if versions.get(channel) != version:
            raise ConflictError(
                f"channel {channel!r} of thread {thread_id!r} has version "
                f"{versions.get(channel)!r}, not {version!r}: it has moved on to checkpoint "
                f"{name}; nothing was stored",
                do="load the thread again and repeat the put",
            )
