"""The types of response bodies, which the OpenAPI document describes.

The shapes are those of LangGraph's server. Times are ISO 8601 in UTC. The docstrings are the
descriptions in the OpenAPI document.
"""

from typing import Any, Literal

import msgspec
import msgspec.structs
from msgspec import UNSET, Struct, UnsetType

from actorgraph.internals import ThreadPhase

Json = dict[str, Any]


class Problem(Struct):
    """The reason why a request failed."""

    detail: str


class Interrupt(Struct):
    """A question that waits for its answer.

    One that reminds or answers itself, or is a sleep, has the fields from `due` on. `due` is when
    it answers itself or the sleep ends, null for never; `remind` and `reminded` are when it reminds
    and when it has, `asked` when it was asked first. One that `expires` has no answer of its own:
    it fails in its node then. Nobody needs to answer one that `sleeps`.
    """

    value: Any
    id: str
    response_schema: Json | UnsetType = UNSET
    due: str | UnsetType | None = UNSET
    remind: list[str] | UnsetType = UNSET
    reminded: list[str] | UnsetType = UNSET
    asked: str | UnsetType = UNSET
    expires: bool | UnsetType = UNSET
    sleeps: bool | UnsetType = UNSET


class Thread(Struct):
    """A thread with its metadata, status and newest values.

    `phase` says more than `status`: whether the thread waits for a person, sleeps until its
    time, was cut off because a process died, was parked, or is unfinished.
    """

    thread_id: str
    created_at: str
    updated_at: str
    state_updated_at: str
    metadata: Json
    status: Literal["idle", "busy", "interrupted", "error"]
    values: Any = None
    interrupts: dict[str, list[Interrupt]] = {}
    config: Json = {}
    error: str | None = None
    phase: ThreadPhase = "ended"


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
    interrupts: list[Interrupt]
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
    interrupts: list[Interrupt]
    checkpoint_id: str | None = None
    parent_checkpoint_id: str | None = None


class Attempt(Struct):
    """One call of a task's function; times are microseconds since 1970, or null if unknown."""

    start: int | None
    end: int | None
    status: str
    error: str | None


class TimelineTask(Struct):
    """A task of a superstep with all its attempts."""

    id: str
    name: str
    status: str
    attempts: list[Attempt]
    error: str | None
    is_call: bool
    start: int | None
    end: int | None


class TimelineStep(Struct):
    """The superstep that follows a checkpoint."""

    step: int
    checkpoint_id: str
    parent_checkpoint_id: str | None
    checkpoint_ns: str
    source: str
    run_id: str | None
    created: int
    next: list[str]
    tasks: list[TimelineTask]


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
    cancel_reason: str | None = None


class RunRow(Struct):
    """A run among those of all threads."""

    run_id: str
    thread_id: str
    graph_id: str
    status: str
    reason: str
    attempt: int
    priority: int
    created_at: str
    due_at: str | None
    started_at: str | None
    updated_at: str
    metadata: Json


class RetriedRuns(Struct):
    """Parked runs that are run again, and run id -> why it was left, of the others."""

    retried: list[str]
    left: dict[str, str]


class RunPage(Struct):
    """A page of runs, newest first, and the cursor of the next page; null after the last."""

    runs: list[RunRow]
    cursor: str | None


class Statistics(Struct):
    """Figures of a system, their recent history, and the systems over the same saver."""

    now: Json
    history: list[Json]
    owners: list[Json]


class AgentRun(Run):
    """A run, with the Agent Protocol's fields too."""

    agent_id: str = ""
    input: Any = None
    config: Json = {}


class RunOutput(Struct):
    """A run that has ended: its values, its messages if it has any, and its error if it failed."""

    run: AgentRun
    values: Json
    messages: list[Json] | UnsetType = UNSET
    error: Json | UnsetType = UNSET


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


def _found(kind: type[Struct], name: str) -> Any:
    """Make the type of what a search finds: with `select` any field may be left out."""
    return msgspec.defstruct(
        name,
        [(one.name, one.type | UnsetType, UNSET) for one in msgspec.structs.fields(kind)],
        namespace={"__doc__": f"{kind.__doc__} With `select`, only these fields."},
        module=__name__,
    )


FoundThread = _found(Thread, "FoundThread")
FoundAssistant = _found(Assistant, "FoundAssistant")


class Agent(Struct):
    """An agent of the Agent Protocol: an assistant.

    The capability `ap.io.messages` says whether its runs take and return messages.
    """

    agent_id: str
    name: str
    metadata: Json
    capabilities: Json
    description: str | UnsetType = UNSET


class AgentSchemas(Struct):
    """The JSON schemas of an agent's input, output, state and config."""

    agent_id: str
    input_schema: Json
    output_schema: Json
    state_schema: Json | UnsetType = UNSET
    config_schema: Json | UnsetType = UNSET


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


class ItemPage(Struct):
    """The items found by a search of the store."""

    items: list[FoundItem]


class NamespacePage(Struct):
    """Namespaces of the store."""

    namespaces: list[list[str]]


class Pruned(Struct):
    """The number of pruned threads."""

    pruned_count: int


class Ok(Struct):
    """The server is up."""

    ok: bool = True


class Ready(Struct):
    """The server takes runs.

    Attributes:
        dispatch: "away" if the dispatcher's engine doesn't answer: runs are stored, and begin
            later; absent without a dispatcher.
    """

    ok: bool
    dispatch: Literal["ok", "away"] | UnsetType = UNSET


class Info(Struct):
    """Version and features of the server."""

    version: str
    langgraph_py_version: str
    flags: Json
    metadata: Json
