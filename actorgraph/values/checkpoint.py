"""The checkpoint shapes of LangGraph's saver interface, which programs and tools read."""

from typing import Any, NamedTuple, TypedDict

ChannelVersions = dict[str, Any]
"""Channel -> its version: an integer, a float or text, of one type in a thread."""


class CheckpointMetadata(TypedDict, total=False):
    """What is said of a checkpoint, beside what a caller declares.

    Keys: `source` input, loop, update or fork; `step` -1 for the first input; `parents` namespace
    -> checkpoint id of the graphs above; `run_id` of the run that made it;
    `counters_since_delta_snapshot` DeltaChannel -> what has happened since its value was stored.
    """

    source: str
    step: int
    parents: dict[str, str]
    run_id: str
    counters_since_delta_snapshot: dict[str, Any]


class Checkpoint(TypedDict):
    """A checkpoint: the format, its id, the values and the coordination.

    Keys: `v` the format; `id` UUIDv6 text; `ts` ISO 8601 UTC; `channel_values` of the channels
    that have one; `channel_versions`; `versions_seen` node -> channel -> version;
    `updated_channels` sorted, or None.
    """

    v: int
    id: str
    ts: str
    channel_values: dict[str, Any]
    channel_versions: dict[str, Any]
    versions_seen: dict[str, dict[str, Any]]
    updated_channels: list[str] | None


class CheckpointTuple(NamedTuple):
    """A checkpoint with its address, its parent's, and the writes beside it.

    Attributes:
        pending_writes: `(task id, channel, value)`.
    """

    config: dict[str, Any]
    checkpoint: Checkpoint
    metadata: dict[str, Any]
    parent_config: dict[str, Any] | None = None
    pending_writes: list[tuple[str, str, Any]] | None = None
