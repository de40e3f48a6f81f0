"""The types of request bodies: checked when decoded, and described in the OpenAPI document.

The fields are those of LangGraph's server, because its clients send them. Unknown fields are
ignored, as they are there. The docstrings are the descriptions in the OpenAPI document.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from actorgraph.internals import DELAY_MAX_S, ThreadPhase
from actorgraph.types import StreamMode
from actorgraph.web.http.identity import check_claims
from actorgraph.web.jobs.thread_ttls import StoredTtl

Json = dict[str, Any]
_CONTROL = r"\x00-\x1f\x7f-\x9f"
Id = Annotated[str, Meta(min_length=1, max_length=255)]
"""A thread's id: text without control characters, at most 255 bytes of UTF-8."""

AssistantId = Annotated[str, Meta(min_length=1, max_length=255, pattern=rf"^[^{_CONTROL}]+$(?!\n)")]
"""An assistant's id: text without control characters."""

Name = Annotated[str, Meta(pattern=rf"^[^{_CONTROL}]*$(?!\n)")]
"""A name for people: one line of text, without control characters."""

Label = Annotated[str, Meta(pattern=r"^[^.\x00]+$")]
"""A label of a store namespace; in the filter of a list of namespaces "*" is any one label."""

ItemLabel = Annotated[str, Meta(pattern=r"^(?!\*$(?!\n))[^.\x00]+$")]
"""A label of an item's namespace: not "*", which means any label where they are listed."""

Namespace = Annotated[list[ItemLabel], Meta(min_length=1)]
NewLabel = Annotated[str, Meta(pattern=rf"^(?!\*$)[^.{_CONTROL}]+$(?!\n)")]
"""A label of the namespace of an item to store: without control characters too."""

NewNamespace = Annotated[list[NewLabel], Meta(min_length=1)]
Key = Annotated[str, Meta(pattern=r"^[^\x00]*$")]
"""The key of a store item: text without NUL."""

NewKey = Annotated[str, Meta(pattern=rf"^[^{_CONTROL}]*$(?!\n)")]
"""The key of an item to store: without control characters."""

Schedule = Annotated[str, Meta(min_length=9, max_length=200)]
"""A cron expression: minute, hour, day of the month, month, day of the week."""

Page = Annotated[int, Meta(ge=1, le=1000)]
Offset = Annotated[int, Meta(ge=0, le=2**31)]
AGE_MAX_S = 1e9
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
ThreadField = Literal[
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "status",
    "values",
    "interrupts",
    "config",
    "context",
    "error",
    "phase",
]
AssistantField = Literal[
    "assistant_id",
    "graph_id",
    "name",
    "description",
    "config",
    "context",
    "created_at",
    "updated_at",
    "metadata",
    "version",
]
ServerMode = StreamMode | Literal["messages-tuple", "events", "lifecycle"]
"""The modes of graphs, and those that only LangGraph's server has."""

Modes = ServerMode | list[ServerMode]
Names = Literal["*"] | list[str]


class SendBody(Struct):
    """A node to run next, and its input."""

    node: str
    input: Any = None


class CommandBody(Struct):
    """Continue a paused run: resume values, a state update, and nodes to go to.

    `answers` maps interrupt ids to answers, and is checked before the run is accepted: 409 if a
    question doesn't wait any more, 422 if an answer doesn't fit its `response_schema`.
    """

    resume: Any = UNSET
    answers: Json | None = None
    update: Json | list[tuple[str, Any]] | None = None
    goto: SendBody | str | list[SendBody | str] | None = None

    @property
    def resumes(self) -> bool:
        """Whether it has a resume value; None is one too."""
        return not isinstance(self.resume, UnsetType)


class CheckpointBody(Struct):
    """The address of a checkpoint.

    A run from a subgraph's checkpoint needs the `checkpoint_map` of its snapshot: the checkpoints
    of the runs above it. Elsewhere it is accepted and not needed.
    """

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    checkpoint_map: Json | None = None


class ForNodes(Struct):
    """Fields that reach nodes: what the server fills there can't be sent."""

    def __post_init__(self) -> None:
        """Refuse names that the server fills.

        Raises:
            ValueError: there is one.
        """
        for place in ("configurable", "context", "metadata"):
            said: Json | None = getattr(self, place, None)
            if said:
                check_claims(place, said)


class ConfigBody(ForNodes):
    """The part of a config that a client may set."""

    tags: list[str] | None = None
    recursion_limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    configurable: Json | None = None
    metadata: Json | None = None


class RunFields(ForNodes):
    """Fields of the bodies of all routes that start runs."""

    input: Any = None
    command: CommandBody | None = None
    config: ConfigBody | None = None
    context: Json | None = None
    metadata: Json | None = None
    checkpoint: CheckpointBody | None = None
    checkpoint_id: str | None = None
    interrupt_before: Names | None = None
    interrupt_after: Names | None = None
    stream_mode: Modes = "values"
    stream_subgraphs: bool = False
    stream_resumable: bool = False
    on_completion: Literal["delete", "keep"] = "delete"
    multitask_strategy: Literal["reject", "rollback", "interrupt", "enqueue"] = "enqueue"
    if_not_exists: Literal["create", "reject"] = "reject"
    durability: Literal["sync", "async", "exit"] | None = None
    after_seconds: Annotated[float, Meta(ge=0, le=DELAY_MAX_S)] | None = None
    strict_resume: bool = False
    webhook: str | None = None


class CronBody(ForNodes):
    """A cron to create: a schedule of five fields, and what to run at its times.

    `timezone` is a name of the IANA's database, default UTC; `end_time` is ISO 8601. Without a
    thread each run gets a new one, which `on_run_completed` deletes or keeps.
    """

    assistant_id: str
    schedule: Schedule
    input: Any = None
    command: CommandBody | None = None
    config: ConfigBody | None = None
    context: Json | None = None
    metadata: Json | None = None
    interrupt_before: Names | None = None
    interrupt_after: Names | None = None
    stream_mode: Modes = "values"
    stream_subgraphs: bool = False
    stream_resumable: bool = False
    multitask_strategy: Literal["reject", "rollback", "interrupt", "enqueue"] = "enqueue"
    durability: Literal["sync", "async", "exit"] | None = None
    webhook: str | None = None
    on_run_completed: Literal["delete", "keep"] = "delete"
    end_time: str | None = None
    timezone: str | None = None
    enabled: bool = True


class CronPatch(ForNodes):
    """Changes of a cron. Fields that are left out stay; `end_time` null removes it."""

    schedule: Schedule | None = None
    input: Any = UNSET
    config: ConfigBody | None = None
    context: Json | None = None
    metadata: Json | None = None
    interrupt_before: Names | None = None
    interrupt_after: Names | None = None
    stream_mode: Modes | None = None
    stream_subgraphs: bool | None = None
    stream_resumable: bool | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    webhook: str | None = None
    on_run_completed: Literal["delete", "keep"] | None = None
    end_time: str | UnsetType | None = UNSET
    timezone: str | None = None
    enabled: bool | None = None


class CronCount(Struct):
    """Filter of crons to count."""

    assistant_id: str | None = None
    thread_id: str | None = None
    enabled: bool | None = None
    metadata: Json | None = None


class CronSearch(CronCount):
    """Filter, order and page of crons to list."""

    limit: Page = 10
    offset: Offset = 0
    sort_by: Literal[
        "cron_id",
        "assistant_id",
        "thread_id",
        "next_run_date",
        "end_time",
        "created_at",
        "updated_at",
    ] = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"


class RunBody(RunFields, kw_only=True):
    """A run to start. Only `assistant_id` (an assistant's id or a graph's name) is required."""

    assistant_id: str
    on_disconnect: Literal["continue", "cancel"] = "continue"


class FlatRunBody(RunFields, kw_only=True):
    """A run to start, without a thread in the path.

    With `assistant_id` it is LangGraph's request: a run on a new thread. Without, it is the Agent
    Protocol's: `agent_id` may be left out if there is one agent, `thread_id` names the thread,
    `messages` become the input's, and `on_disconnect` is "cancel" unless given.
    """

    assistant_id: str | None = None
    agent_id: str | None = None
    thread_id: Id | None = None
    messages: list[Json] | None = None
    on_disconnect: Literal["continue", "cancel"] | None = None


class RunSearch(Struct):
    """Filter and page of runs to list, newest first. "pending" finds running ones too."""

    thread_id: str | None = None
    agent_id: str | None = None
    status: Literal["pending", "error", "success", "timeout", "interrupted"] | None = None
    metadata: Json | None = None
    limit: Page = 10
    offset: Offset = 0


class SuperstepUpdate(Struct):
    """An update to apply as if a node had returned it: values or a command."""

    values: Any = None
    command: CommandBody | None = None
    as_node: str | None = None


class Superstep(Struct):
    """Updates that create one checkpoint."""

    updates: list[SuperstepUpdate]


Minutes = Annotated[float, Meta(gt=0, le=DELAY_MAX_S / 60)]


class ThreadTtl(Struct):
    """The end of a thread that has not changed for `ttl` minutes.

    It is deleted, or only its newest checkpoint is kept.
    """

    ttl: Minutes
    strategy: Literal["delete", "keep_latest"] = "delete"


def stored_ttl(ttl: ThreadTtl | float) -> StoredTtl:
    """Return a time to live as it is stored; a number means minutes until the thread is deleted."""
    if isinstance(ttl, int | float):
        return StoredTtl(ttl, "delete")
    return StoredTtl(ttl.ttl, ttl.strategy)


class ThreadBody(Struct):
    """A thread to create."""

    thread_id: Id | None = None
    metadata: Json | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"
    supersteps: list[Superstep] | None = None
    ttl: ThreadTtl | None = None


class ThreadPatch(Struct):
    """Metadata to merge into the thread's, and values to merge into its state.

    `messages` are values of the key with this name. The values make a new checkpoint after
    `checkpoint`, by default the newest one.
    """

    metadata: Json | None = None
    values: Json | None = None
    messages: list[Json] | None = None
    checkpoint: CheckpointBody | None = None
    ttl: ThreadTtl | Minutes | None = None


class ThreadSearch(Struct):
    """Filter, order and page of threads to list; with `select`, only these fields of each.

    `extract` has paths by alias, such as `values.messages[-1].content`: at most 10. `older_than_s`:
    only threads whose newest checkpoint is that old.
    """

    ids: list[str] | None = None
    metadata: Json | None = None
    values: Json | None = None
    status: ThreadStatus | None = None
    phase: ThreadPhase | None = None
    older_than_s: Annotated[float, Meta(ge=0, le=AGE_MAX_S)] | None = None
    limit: Page = 10
    offset: Offset = 0
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = (
        "created_at"
    )
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[ThreadField] | None = None
    extract: dict[str, str] | None = None


class ThreadCount(Struct):
    """Filter of threads to count."""

    metadata: Json | None = None
    values: Json | None = None
    status: ThreadStatus | None = None
    phase: ThreadPhase | None = None
    older_than_s: Annotated[float, Meta(ge=0, le=AGE_MAX_S)] | None = None


class ThreadPrune(Struct):
    """Threads to delete, or to reduce to their newest checkpoint."""

    thread_ids: list[str]
    strategy: Literal["delete", "keep_latest"] = "delete"


class StateUpdateBody(Struct):
    """An update of a thread's state."""

    values: Json | list[Any] | None = None
    as_node: str | None = None
    checkpoint: CheckpointBody | None = None
    checkpoint_id: str | None = None


class StateRead(Struct):
    """The checkpoint of a thread to read."""

    checkpoint: CheckpointBody
    subgraphs: bool = False


class HistoryBody(Struct):
    """Filter and page of a thread's history, newest first."""

    limit: Page = 10
    before: str | Json | None = None
    metadata: Json | None = None
    checkpoint: CheckpointBody | None = None


class RunsCancel(Struct):
    """Runs to cancel: those of one thread with these ids, or all with a status.

    An empty body is refused; use status "all" to cancel every run.
    """

    thread_id: str | None = None
    run_ids: list[str] | None = None
    status: Literal["pending", "running", "all"] | None = None


class RunsRetry(Struct):
    """Parked runs to run again: all, or those of a thread, or with these ids."""

    thread_id: str | None = None
    run_ids: list[str] | None = None


class AssistantBody(ForNodes):
    """An assistant to create: settings of a registered graph, merged under those of its runs."""

    graph_id: str
    assistant_id: AssistantId | None = None
    config: ConfigBody | None = None
    context: Json | None = None
    metadata: Json | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"
    name: Name | None = None
    description: str | None = None


class AssistantPatch(ForNodes):
    """Changes that make a new version of an assistant; `metadata` is merged, the rest replaced."""

    graph_id: str | None = None
    config: ConfigBody | None = None
    context: Json | None = None
    metadata: Json | None = None
    name: Name | None = None
    description: str | UnsetType | None = UNSET


class AssistantLatest(Struct):
    """The version of an assistant that its runs use from now on."""

    version: Annotated[int, Meta(ge=1)]


class VersionSearch(Struct):
    """Filter and page of an assistant's versions to list."""

    metadata: Json | None = None
    limit: Page = 10
    offset: Offset = 0


class AssistantSearch(Struct):
    """Filter, order and page of assistants to list; default: registered graphs first.

    With `select`, only these fields of each.
    """

    metadata: Json | None = None
    graph_id: str | None = None
    name: str | None = None
    limit: Page = 10
    offset: Offset = 0
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[AssistantField] | None = None


class AgentSearch(Struct):
    """Filter and page of agents to list."""

    name: str | None = None
    metadata: Json | None = None
    limit: Page = 10
    offset: Offset = 0


class AssistantCount(Struct):
    """Filter of assistants to count."""

    metadata: Json | None = None
    graph_id: str | None = None
    name: str | None = None


class ItemPut(Struct):
    """An item to store. `ttl` is in minutes."""

    namespace: NewNamespace
    key: NewKey
    value: Json
    index: Literal[False] | list[str] | None = None
    ttl: Annotated[float, Meta(gt=0)] | None = None


class ItemDelete(Struct):
    """An item to delete."""

    key: Key
    namespace: Namespace | None = None


class ItemSearch(Struct):
    """Filter, query and page of items to list."""

    namespace_prefix: list[ItemLabel] | None = None
    filter: Json | None = None
    limit: Page = 10
    offset: Offset = 0
    query: str | None = None
    refresh_ttl: bool | None = None


class NamespaceSearch(Struct):
    """Filter and page of namespaces to list."""

    prefix: list[Label] | None = None
    suffix: list[Label] | None = None
    max_depth: Annotated[int, Meta(ge=1)] | None = None
    limit: Page = 100
    offset: Offset = 0


def decoder(kind: type) -> msgspec.json.Decoder[Any]:
    """Make a decoder that checks a body of this type."""
    return msgspec.json.Decoder(kind)
