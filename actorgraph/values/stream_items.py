"""The chunks of each stream mode and their payloads, as readers get them.

A chunk is a `StreamItem`, `(namespace, mode, chunk)`; the reader's options decide whether it
arrives bare, as a pair, as a triple, or, with `version="v2"`, as one of the dicts below.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, NotRequired, TypedDict

from actorgraph.values.commands import Interrupt
from actorgraph.values.schema_types import SnapshotT

Namespace = tuple[str, ...]
"""The run that a chunk is from: () for the root run, one `node:task id` per level below it."""

StreamItem = tuple[Namespace, str, Any]
"""`(namespace, mode, chunk)`."""

StreamWriter = Callable[[Any], None]
"""Sends its argument to the readers of `stream_mode="custom"`."""

WhenFull = Literal["block", "drop_oldest", "close"]
"""The policy of a full buffer: see `astream(when_full=)`."""

StreamVersion = Literal["v1", "v2"]


class TaskPayload(TypedDict):
    """A task starts.

    Keys:
        triggers: the channels that made it due.
        metadata: the caller's and the node's; absent if empty.
    """

    id: str
    name: str
    input: Any
    triggers: tuple[str, ...]
    metadata: NotRequired[dict[str, Any]]


class TaskResultPayload(TypedDict):
    """A task has ended.

    Keys:
        error: the text of its error, or None.
        interrupts: its open questions, `{"value": ..., "id": ...}` each.
        result: key -> value that it wrote; `{"$writes": [...]}` for several writes to one key.
    """

    id: str
    name: str
    error: str | None
    interrupts: list[dict[str, Any]]
    result: dict[str, Any]


class CheckpointTask(TypedDict):
    """A task that follows a checkpoint.

    Keys:
        error: the text of its error, once it has failed.
        result: as in `TaskResultPayload`, once it has finished.
        state: the config of its subgraph's state, or None.
    """

    id: str
    name: str
    error: NotRequired[str]
    result: NotRequired[Any]
    interrupts: NotRequired[tuple[dict[str, Any], ...]]
    state: Any


class CheckpointPayload(TypedDict, Generic[SnapshotT]):
    """A checkpoint, as `get_state` would show it.

    Keys:
        next: the nodes that run next.
        tasks: those of the next superstep.
    """

    config: dict[str, Any] | None
    metadata: dict[str, Any]
    values: SnapshotT
    next: list[str]
    parent_config: dict[str, Any] | None
    tasks: list[CheckpointTask]


class DebugPayload(TypedDict, Generic[SnapshotT]):
    """A `tasks` or `checkpoints` payload with its superstep and its time, ISO 8601 UTC."""

    step: int
    timestamp: str
    type: Literal["checkpoint", "task", "task_result"]
    payload: CheckpointPayload[SnapshotT] | TaskPayload | TaskResultPayload


class ValuesStreamPart(TypedDict, Generic[SnapshotT]):
    """The output after a superstep that changed it, and the open questions."""

    type: Literal["values"]
    ns: Namespace
    data: SnapshotT
    interrupts: tuple[Interrupt, ...]


class UpdatesStreamPart(TypedDict):
    """`{node: update}`, or `{"__interrupt__": (...)}`."""

    type: Literal["updates"]
    ns: Namespace
    data: dict[str, Any]


class MessagesStreamPart(TypedDict):
    """`(message or a piece of one, metadata)`."""

    type: Literal["messages"]
    ns: Namespace
    data: tuple[Any, dict[str, Any]]


class CustomStreamPart(TypedDict):
    """A value that a node sent with its stream writer."""

    type: Literal["custom"]
    ns: Namespace
    data: Any


class CheckpointStreamPart(TypedDict, Generic[SnapshotT]):
    """A checkpoint was stored."""

    type: Literal["checkpoints"]
    ns: Namespace
    data: CheckpointPayload[SnapshotT]


class TasksStreamPart(TypedDict):
    """A task starts, or has ended."""

    type: Literal["tasks"]
    ns: Namespace
    data: TaskPayload | TaskResultPayload


class DebugStreamPart(TypedDict, Generic[SnapshotT]):
    """A checkpoint or a task, with its superstep and its time."""

    type: Literal["debug"]
    ns: Namespace
    data: DebugPayload[SnapshotT]


class ToolsStreamPart(TypedDict):
    """A tool call started, sent a piece of its output, finished or failed."""

    type: Literal["tools"]
    ns: Namespace
    data: dict[str, Any]


StreamPart = (
    ValuesStreamPart[SnapshotT]
    | UpdatesStreamPart
    | MessagesStreamPart
    | CustomStreamPart
    | CheckpointStreamPart[SnapshotT]
    | TasksStreamPart
    | DebugStreamPart[SnapshotT]
    | ToolsStreamPart
)
"""Every chunk under `version="v2"`; `part["type"]` is its mode."""


def namespace_of(text: str) -> Namespace:
    """Split a checkpoint namespace, `a:1|b:2`, into the tuple that chunks carry."""
    return tuple(text.split("|")) if text else ()
