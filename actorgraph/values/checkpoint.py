"""The checkpoint shapes of LangGraph's saver interface, which programs and tools read."""

from typing import Any, NamedTuple, TypedDict


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
