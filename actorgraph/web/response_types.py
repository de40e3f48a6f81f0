"""The types of response bodies, which the OpenAPI document describes.

The shapes are those of LangGraph's server. Times are ISO 8601 in UTC. The docstrings are the
descriptions in the OpenAPI document.
"""

from typing import Any, Literal

from msgspec import Struct

Json = dict[str, Any]


class Problem(Struct):
    """The reason why a request failed."""

    detail: str


class Thread(Struct):
    """A thread with its metadata, status and newest values."""

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
    """The address of a checkpoint."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None
    checkpoint_map: Json | None = None


class StateTask(Struct):
    """A task of the next superstep."""

    id: str
    name: str
    path: list[Any]
    error: str | None
    interrupts: list[Json]
    checkpoint: CheckpointAddress | None
    state: Any
    result: Any


class State(Struct):
    """A thread's state at one checkpoint."""

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
    """The checkpoint that an update created."""

    checkpoint: CheckpointAddress
    configurable: Json
    checkpoint_id: str | None = None


class Run(Struct):
    """A run and its status."""

    run_id: str
    thread_id: str
    assistant_id: str
    created_at: str
    updated_at: str
    status: Literal["pending", "running", "error", "success", "timeout", "interrupted"]
    metadata: Json
    kwargs: Json
    multitask_strategy: str


class AssistantVersion(Struct):
    """One version of an assistant."""

    assistant_id: str
    graph_id: str
    name: str
    description: str | None
    config: Json
    context: Json
    metadata: Json
    version: int
    created_at: str


class Assistant(AssistantVersion):
    """An assistant: a registered graph, or settings of one that a client has created."""

    updated_at: str


class Cron(Struct):
    """A cron: runs at the times of a schedule. Times that it lacks are null."""

    cron_id: str
    assistant_id: str
    thread_id: str | None
    on_run_completed: Literal["delete", "keep"] | None
    end_time: str | None
    schedule: str
    timezone: str | None
    created_at: str
    updated_at: str
    payload: Json
    user_id: str | None
    next_run_date: str | None
    metadata: Json
    enabled: bool


class GraphNode(Struct):
    """A node of a drawn graph."""

    id: str
    type: str
    data: Any


class Graph(Struct):
    """A graph as nodes and edges."""

    nodes: list[Any]
    edges: list[Json]


class Schemas(Struct):
    """The JSON schemas of a graph's input, output, state and context; null if it has none."""

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
    """An item found by a search; `score` is null without a query."""

    namespace: list[str]
    key: str
    value: Json
    created_at: str
    updated_at: str
    score: float | None = None


class Items(Struct):
    """The items found by a search of the store."""

    items: list[FoundItem]


class Namespaces(Struct):
    """Namespaces of the store."""

    namespaces: list[list[str]]


class Pruned(Struct):
    """The number of pruned threads."""

    pruned_count: int


class Ok(Struct):
    """The server is up."""

    ok: bool = True


class Info(Struct):
    """Version and features of the server."""

    version: str
    langgraph_py_version: str
    flags: Json
    metadata: Json
