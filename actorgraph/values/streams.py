"""What readers of a stream get: the parts of each mode, and what their payloads hold.

A chunk travels as an `Item`, `(namespace, mode, chunk)`; the reader's options decide whether it
arrives bare, as a pair, as a triple, or, with `version="v2"`, as one of the dicts below.
"""

from collections.abc import Callable
from typing import Any, Literal, NotRequired, TypedDict

from actorgraph.values.commands import Interrupt

Namespace = tuple[str, ...]
"""Where a chunk comes from: () for the run itself, one `node:task id` per level below it."""

Item = tuple[Namespace, str, Any]
"""`(namespace, mode, chunk)`."""

StreamWriter = Callable[[Any], None]
"""Sends its argument to the readers of `stream_mode="custom"`."""

WhenFull = Literal["block", "drop_oldest", "close"]
"""What a full buffer does: see `astream(when_full=)`."""

StreamVersion = Literal["v1", "v2"]


class TaskPayload(TypedDict):
    """A task starts. `metadata` is the node's own, and absent where it has none."""

    id: str
    name: str
    input: Any
    triggers: tuple[str, ...]
    metadata: NotRequired[dict[str, Any]]


class TaskResultPayload(TypedDict):
    """A task has ended.

    `error` is the text of what it raised, or None. `interrupts` are its open questions, each
    `{"value": ..., "id": ...}`. `result` is key -> what it wrote; where it wrote a key several
    times, `{"$writes": [...]}`.
    """

    id: str
    name: str
    error: str | None
    interrupts: list[dict[str, Any]]
    result: dict[str, Any]


class CheckpointTask(TypedDict):
    """A task that follows a checkpoint; `error` or `result` once it has ended."""

    id: str
    name: str
    error: NotRequired[str]
    result: NotRequired[Any]
    interrupts: NotRequired[tuple[dict[str, Any], ...]]
    state: Any


class CheckpointPayload(TypedDict):
    """A checkpoint, as `get_state` would show it. `next` names the nodes that run next."""

    config: dict[str, Any] | None
    metadata: dict[str, Any]
    values: Any
    next: list[str]
    parent_config: dict[str, Any] | None
    tasks: list[CheckpointTask]


class DebugPayload(TypedDict):
    """A `tasks` or `checkpoints` payload with its superstep and its moment, ISO 8601 UTC."""

    step: int
    timestamp: str
    type: Literal["checkpoint", "task", "task_result"]
    payload: CheckpointPayload | TaskPayload | TaskResultPayload


class ValuesStreamPart(TypedDict):
    """The state after a superstep that changed it; `interrupts` are the questions that wait."""

    type: Literal["values"]
    ns: Namespace
    data: Any
    interrupts: tuple[Interrupt, ...]


class UpdatesStreamPart(TypedDict):
    """`{node: what it returned}`, or `{"__interrupt__": (...)}`."""

    type: Literal["updates"]
    ns: Namespace
    data: dict[str, Any]


class MessagesStreamPart(TypedDict):
    """`(message or a piece of one, metadata)`."""

    type: Literal["messages"]
    ns: Namespace
    data: tuple[Any, dict[str, Any]]


class CustomStreamPart(TypedDict):
    """What a node gave to its stream writer."""

    type: Literal["custom"]
    ns: Namespace
    data: Any


class CheckpointStreamPart(TypedDict):
    """A checkpoint was stored."""

    type: Literal["checkpoints"]
    ns: Namespace
    data: CheckpointPayload


class TasksStreamPart(TypedDict):
    """A task starts, or has ended."""

    type: Literal["tasks"]
    ns: Namespace
    data: TaskPayload | TaskResultPayload


class DebugStreamPart(TypedDict):
    """A checkpoint or a task, with its superstep and its moment."""

    type: Literal["debug"]
    ns: Namespace
    data: DebugPayload


class ToolsStreamPart(TypedDict):
    """A tool call started, sent a piece of its output, finished or failed."""

    type: Literal["tools"]
    ns: Namespace
    data: dict[str, Any]


StreamPart = (
    ValuesStreamPart
    | UpdatesStreamPart
    | MessagesStreamPart
    | CustomStreamPart
    | CheckpointStreamPart
    | TasksStreamPart
    | DebugStreamPart
    | ToolsStreamPart
)
"""Every chunk under `version="v2"`; `part["type"]` tells which it is."""


def namespace_of(text: str) -> Namespace:
    """A checkpoint namespace, `a:1|b:2`, as the tuple that chunks carry."""
    return tuple(text.split("|")) if text else ()
