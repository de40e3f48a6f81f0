"""What requests hold, as types: each is checked when it is decoded, and described in the OpenAPI.

The fields are those of LangGraph's server, whose clients send them. Fields that it doesn't know are
ignored, as there.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Json = dict[str, Any]
Id = Annotated[str, Meta(min_length=1, max_length=255)]
"""Of a thread: text without control characters, 255 bytes of UTF-8 at most."""

Label = Annotated[str, Meta(pattern=r"^[^.\x00]+$")]
"""Of a namespace of the store."""

Namespace = Annotated[list[Label], Meta(min_length=1)]
Key = Annotated[str, Meta(pattern=r"^[^\x00]*$")]
"""Of an item of the store: text without NUL."""

Page = Annotated[int, Meta(ge=1, le=1000)]
Offset = Annotated[int, Meta(ge=0, le=2**31)]
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
StreamMode = Literal[
    "values", "messages", "updates", "events", "tasks", "checkpoints", "debug", "custom",
    "messages-tuple", "tools", "lifecycle",
]  # fmt: skip
Modes = StreamMode | list[StreamMode]
Names = Literal["*"] | list[str]


class SendBody(Struct):
    """A packet for one node."""

    node: str
    input: Any = None


class CommandBody(Struct):
    """How a paused run goes on: answers, an update, and where to."""

    resume: Any = UNSET
    update: Json | list[tuple[str, Any]] | None = None
    goto: SendBody | str | list[SendBody | str] | None = None

    @property
    def answers(self) -> bool:
        """Whether it has an answer: None is one too."""
        return not isinstance(self.resume, UnsetType)


class CheckpointBody(Struct):
    """The address of a checkpoint. `checkpoint_map` is taken and not needed."""

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    checkpoint_map: Json | None = None


class ConfigBody(Struct):
    """The part of a config that a client may set."""

    tags: list[str] | None = None
    recursion_limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    configurable: Json | None = None
    metadata: Json | None = None


class RunBody(Struct):
    """A run to start. Only `assistant_id`, an assistant's id or a graph's name, is required."""

    assistant_id: str
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
    on_disconnect: Literal["continue", "cancel"] = "continue"
    on_completion: Literal["delete", "keep"] = "delete"
    multitask_strategy: Literal["reject", "rollback", "interrupt", "enqueue"] = "enqueue"
    if_not_exists: Literal["create", "reject"] = "reject"
    durability: Literal["sync", "async", "exit"] | None = None
    after_seconds: Annotated[float, Meta(ge=0, le=0)] | None = None
    strict_resume: bool = False
    webhook: Any = None


class SuperstepUpdate(Struct):
    """What a node is said to have written: values, or a command."""

    values: Any = None
    command: CommandBody | None = None
    as_node: str | None = None


class Superstep(Struct):
    """Updates that make one checkpoint."""

    updates: list[SuperstepUpdate]


class ThreadBody(Struct):
    """A thread to create."""

    thread_id: Id | None = None
    metadata: Json | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"
    supersteps: list[Superstep] | None = None
    ttl: Any = None


class ThreadPatch(Struct):
    """Metadata to merge into a thread's."""

    metadata: Json | None = None


class ThreadSearch(Struct):
    """Which threads to list."""

    ids: list[str] | None = None
    metadata: Json | None = None
    values: Json | None = None
    status: ThreadStatus | None = None
    limit: Page = 10
    offset: Offset = 0
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = (
        "created_at"
    )
    sort_order: Literal["asc", "desc"] = "desc"


class ThreadCount(Struct):
    """Which threads to count."""

    metadata: Json | None = None
    values: Json | None = None
    status: ThreadStatus | None = None


class ThreadPrune(Struct):
    """Threads to delete, or to keep only the newest checkpoint of."""

    thread_ids: list[str]
    strategy: Literal["delete", "keep_latest"] = "delete"


class StateUpdateBody(Struct):
    """An update of a thread's state."""

    values: Json | list[Any] | None = None
    as_node: str | None = None
    checkpoint: CheckpointBody | None = None
    checkpoint_id: str | None = None


class StateRead(Struct):
    """Which checkpoint of a thread to read."""

    checkpoint: CheckpointBody
    subgraphs: bool = False


class HistoryBody(Struct):
    """Which part of a thread's history to list, newest first."""

    limit: Page = 10
    before: str | Json | None = None
    metadata: Json | None = None
    checkpoint: CheckpointBody | None = None


class RunsCancel(Struct):
    """Which runs to cancel: of one thread by their ids, or all with a status.

    One that says neither is refused: nobody means all of them by nothing.
    """

    thread_id: str | None = None
    run_ids: list[str] | None = None
    status: Literal["pending", "running", "all"] | None = None


class AssistantSearch(Struct):
    """Which assistants to list."""

    metadata: Json | None = None
    graph_id: str | None = None
    name: str | None = None
    limit: Page = 10
    offset: Offset = 0


class AssistantCount(Struct):
    """Which assistants to count."""

    metadata: Json | None = None
    graph_id: str | None = None
    name: str | None = None


class ItemPut(Struct):
    """An item to store. `ttl` in minutes."""

    namespace: Namespace
    key: Key
    value: Json
    index: Literal[False] | list[str] | None = None
    ttl: Annotated[float, Meta(gt=0)] | None = None


class ItemDelete(Struct):
    """An item to delete."""

    key: Key
    namespace: Namespace | None = None


class ItemSearch(Struct):
    """Which items to list."""

    namespace_prefix: list[Label] | None = None
    filter: Json | None = None
    limit: Page = 10
    offset: Offset = 0
    query: str | None = None
    refresh_ttl: bool | None = None


class NamespaceSearch(Struct):
    """Which namespaces to list."""

    prefix: list[Label] | None = None
    suffix: list[Label] | None = None
    max_depth: Annotated[int, Meta(ge=1)] | None = None
    limit: Page = 100
    offset: Offset = 0


def decoder(kind: type) -> msgspec.json.Decoder[Any]:
    """Decodes and checks a body of this type."""
    return msgspec.json.Decoder(kind)
