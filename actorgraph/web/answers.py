"""What responses hold, as types: built by the routes, described in the OpenAPI.

The shapes are those of LangGraph's server. Times are ISO 8601 UTC.
"""

from typing import Any, Literal

from msgspec import Struct

Json = dict[str, Any]


class Problem(Struct):
    """Why a request was refused, and what to do about it."""

    detail: str


class Thread(Struct):
    """A thread: what is known of it, and the state that it is in."""

    thread_id: str
    created_at: str
    updated_at: str
    state_updated_at: str
    metadata: Json
    status: Literal["idle", "busy", "interrupted", "error"]
    values: Any = None
    interrupts: dict[str, list[Json]] = {}
    config: Json = {}
    error: str | None = None


class CheckpointAddress(Struct):
    """Where a checkpoint is."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None
    checkpoint_map: Json | None = None


class StateTask(Struct):
    """A task of the superstep that comes next."""

    id: str
    name: str
    path: list[Any]
    error: str | None
    interrupts: list[Json]
    checkpoint: CheckpointAddress | None
    state: Any
    result: Any


class State(Struct):
    """A thread at one checkpoint."""

    values: Any
    next: list[str]
    tasks: list[StateTask]
    metadata: Json
    created_at: str | None
    checkpoint: CheckpointAddress | None
    parent_checkpoint: CheckpointAddress | None
    interrupts: list[Json]
    checkpoint_id: str | None = None
    parent_checkpoint_id: str | None = None


class Updated(Struct):
    """The checkpoint that an update has made."""

    checkpoint: CheckpointAddress
    configurable: Json
    checkpoint_id: str | None = None


class Run(Struct):
    """A run and how it is going."""

    run_id: str
    thread_id: str
    assistant_id: str
    created_at: str
    updated_at: str
    status: Literal["pending", "running", "error", "success", "timeout", "interrupted"]
    metadata: Json
    kwargs: Json
    multitask_strategy: str


class Assistant(Struct):
    """A registered graph."""

    assistant_id: str
    graph_id: str
    name: str
    description: str | None
    config: Json
    context: Json
    metadata: Json
    version: int
    created_at: str
    updated_at: str


class GraphNode(Struct):
    """A node of a drawing."""

    id: str
    type: str
    data: Any


class Graph(Struct):
    """A graph's drawing."""

    nodes: list[Any]
    edges: list[Json]


class Schemas(Struct):
    """The JSON schemas of what a graph takes, holds and returns; null where there is none."""

    graph_id: str
    input_schema: Json | None
    output_schema: Json | None
    state_schema: Json | None
    config_schema: Json | None
    context_schema: Json | None


class Item(Struct):
    """An item of the store."""

    namespace: list[str]
    key: str
    value: Json
    created_at: str
    updated_at: str


class FoundItem(Struct):
    """An item that a search found; `score` is null without a query."""

    namespace: list[str]
    key: str
    value: Json
    created_at: str
    updated_at: str
    score: float | None = None


class Items(Struct):
    """What a search of the store has found."""

    items: list[FoundItem]


class Namespaces(Struct):
    """Namespaces of the store."""

    namespaces: list[list[str]]


class Pruned(Struct):
    """How many threads were pruned."""

    pruned_count: int


class Ok(Struct):
    """The server answers."""

    ok: bool = True


class Info(Struct):
    """What serves, and what it can do."""

    version: str
    langgraph_py_version: str
    flags: Json
    metadata: Json
