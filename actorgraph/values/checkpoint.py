"""Checkpoints as data: LangGraph's shapes, addresses, summaries, and decoded ones for the core.

`Checkpoint`, `CheckpointMetadata` and `CheckpointTuple` are the shapes of LangGraph's saver
interface, which programs and tools read. `CheckpointSummary` is a row of a listing. `Restored` is
a checkpoint decoded for a run to start from.
"""

from typing import Any, NamedTuple, TypedDict

ChannelVersions = dict[str, Any]
"""Channel -> its version: an integer, a float or text, the same type throughout a thread."""


class CheckpointMetadata(TypedDict, total=False):
    """The metadata of a checkpoint, without the keys that a caller adds.

    Keys:
        source: "input", "loop", "update" or "fork".
        step: -1 for the first input.
        parents: namespace -> checkpoint id, of the runs above it.
        run_id: of the run that made it.
        counters_since_delta_snapshot: DeltaChannel -> (supersteps that have written it,
            checkpoints) since its whole value was stored.
    """

    source: str
    step: int
    parents: dict[str, str]
    run_id: str
    counters_since_delta_snapshot: dict[str, Any]


class Checkpoint(TypedDict):
    """A checkpoint: the format, its id, the values and the coordination.

    Keys:
        v: the format.
        id: UUIDv6 text.
        ts: ISO 8601 UTC.
        channel_values: of the channels that have one.
        channel_versions: channel -> version.
        versions_seen: node -> channel -> version that the node has run with.
        updated_channels: sorted, or None.
    """

    v: int
    id: str
    ts: str
    channel_values: dict[str, Any]
    channel_versions: dict[str, Any]
    versions_seen: dict[str, dict[str, Any]]
    updated_channels: list[str] | None


class CheckpointTuple(NamedTuple):
    """A checkpoint with its address, its parent's, and its pending writes.

    Attributes:
        config: addresses the checkpoint.
        parent_config: addresses its parent; None without one.
        pending_writes: `(task id, channel, value)` each.
    """

    config: dict[str, Any]
    checkpoint: Checkpoint
    metadata: dict[str, Any]
    parent_config: dict[str, Any] | None = None
    pending_writes: list[tuple[str, str, Any]] | None = None
