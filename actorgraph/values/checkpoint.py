"""Checkpoints as data: LangGraph's shapes, addresses, summaries, and decoded ones for the core.

`Checkpoint`, `CheckpointMetadata` and `CheckpointTuple` are the shapes of LangGraph's saver
interface, which programs and tools read. `CheckpointSummary` is a row of a listing. `Restored` is
a checkpoint decoded for a run to start from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypedDict

import msgspec

from actorgraph.values.run import NO_DELTAS, StoredPlace, TaskPath, TaskTimes

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


class CheckpointSource(StrEnum):
    """The operation that made a checkpoint; its value is the stored text."""

    INPUT = "input"
    LOOP = "loop"
    UPDATE = "update"
    FORK = "fork"

    @classmethod
    def parse(cls, text: str) -> "CheckpointSource | None":
        """Parse the stored text; None if it is unknown."""
        return next((source for source in cls if source.value == text), None)


class CheckpointConfig(msgspec.Struct, frozen=True):
    """The address of a checkpoint.

    Attributes:
        checkpoint_id: None for the newest.
        namespace: "" for the thread's own graph.
    """

    thread_id: str
    checkpoint_id: str | None = None
    namespace: str = ""

    @classmethod
    def latest(cls, thread_id: str) -> Self:
        """Address the newest checkpoint of a thread's own graph."""
        return cls(thread_id)

    @property
    def config(self) -> dict[str, Any]:
        """The address as a config for graphs and savers."""
        place = {"thread_id": self.thread_id, "checkpoint_ns": self.namespace}
        if self.checkpoint_id is not None:
            place["checkpoint_id"] = self.checkpoint_id
        return {"configurable": place}


@dataclass(frozen=True, slots=True)
class ResumeTarget:
    """A checkpoint to resume at: `Latest`, or `ResumeTarget.checkpoint(id)`.

    Attributes:
        checkpoint_id: the checkpoint's id as text; None for the newest one.
    """

    checkpoint_id: str | None = None

    @classmethod
    def latest(cls) -> "ResumeTarget":
        """Return `Latest`: the thread's newest checkpoint."""
        return Latest

    @classmethod
    def checkpoint(cls, checkpoint_id: str) -> "ResumeTarget":
        """Resume at the checkpoint with this id; it makes a branch unless it is the newest."""
        return cls(checkpoint_id)


Latest = ResumeTarget()
"""The thread's newest checkpoint."""


class CheckpointSummary(msgspec.Struct, frozen=True):
    """One checkpoint, without its values and its pending writes.

    Attributes:
        checkpoint_ns: "" for the thread's own graph.
        parent_id: None for the first of a thread.
        sequence: its number in the order in which the thread's checkpoints were stored, from 1.
        step: its superstep; -1 for the first input.
        source: "input", "loop", "update" or "fork".
        run_id: the run that stored it; None outside of runs.
        next: the nodes that run next.
        created_at: ISO 8601, UTC; for display.
        metadata: the caller's.
    """

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    sequence: int
    step: int
    source: str
    run_id: str | None
    next: tuple[str, ...]
    created_at: str
    metadata: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """The config that addresses the checkpoint."""
        place = {
            "thread_id": self.thread_id,
            "checkpoint_ns": self.checkpoint_ns,
            "checkpoint_id": self.checkpoint_id,
        }
        return {"configurable": place}


@dataclass(frozen=True, slots=True)
class Migration:
    """The changes of a graph since threads were stored; `compile(migrations=)` takes a list.

    They are applied in order whenever a checkpoint is read, to its values and to all that waits:
    results of finished tasks, Sends, questions with their answers. Stored bytes stay as they are;
    the thread's next checkpoint holds the result. A task that waits under an old name keeps its
    id and those of its questions.

    Attributes:
        channels: old name of a state key -> new name, or None to drop its values.
        nodes: old name of a node, or of an entrypoint -> new name, or None to drop it: where it is
            due it does not run, and what its tasks did in an unfinished superstep is left out.
        types: "module:Class" as it was stored -> the type that takes its fields, or a function
            that makes the value from the stored data: a dict of a dataclass's fields, the name of
            an enum's member.
        values: state key -> a function of the stored value. Each stored value is converted once,
            also in the results of finished tasks, inputs and arguments of Sends: the thread's
            checkpoints note it. None in place of a function: threads of then were converted,
            and none waits for it any more.
        goto: a removed node -> the node, or nodes (() for none), that run in its place where it is
            due. Where its task has finished, they don't, and its result is kept.
        joins: node at the end of a changed join -> the starts that count as arrived, besides
            those that have, in threads where the join waits; None drops what has arrived.
        tasks: old name of a `@task` -> new name, or None for a removed one:
            its results in an unfinished superstep are left out, and the calls behind it move up.
        name: distinguishes several migrations that convert values of one key. Never change
            it: a conversion under another name is another conversion.
    """

    channels: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    nodes: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    types: Mapping[str, Callable[[Any], Any]] = field(
        default_factory=dict[str, Callable[[Any], Any]]
    )
    values: Mapping[str, Callable[[Any], Any] | None] = field(
        default_factory=dict[str, Callable[[Any], Any] | None]
    )
    goto: Mapping[str, str | Sequence[str]] = field(
        default_factory=dict[str, "str | Sequence[str]"]
    )
    joins: Mapping[str, Sequence[str] | None] = field(
        default_factory=dict[str, "Sequence[str] | None"]
    )
    tasks: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    name: str = ""


Converted = Mapping[str, Mapping[str, str]]
"""Channel -> name of a migration that has converted its values -> digest of the function."""


LeftTask = tuple[str, TaskPath, tuple[tuple[str, Any], ...]]
"""A finished task of a node that is gone: its id, its path, its writes."""

NOTHING_CONVERTED: Converted = MappingProxyType({})
NO_PLACES: Mapping[str, StoredPlace] = MappingProxyType({})


class VersionNote(msgspec.Struct, frozen=True):
    """A note beside stored values: which version of the graph they are of (decision 171).

    Attributes:
        converted: the conversions that the values have had.
        graph: id of the graph that accepted them; "" if that is noted elsewhere.
        value: a run's input; None beside writes.
    """

    converted: Converted
    graph: str = ""
    value: Any = None


class StoredWrite(msgspec.Struct, frozen=True):
    """One row of the ledger, decoded.

    Attributes:
        index: 0 or more for a task's own writes, negative for control (see `CONTROL_INDEX`).
        generation: of control rows of one kind, the highest counts.
        writes: as the task made them.
        times: when the task ran; None in rows of other kinds, and in those of older versions.
        converted: the conversions that its values have had, where they are not those of the
            checkpoint: channel -> name of a migration -> digest of its function.
    """

    task: str
    path: TaskPath
    index: int
    generation: int
    writes: tuple[tuple[str, Any], ...]
    times: TaskTimes | None = None
    converted: Converted | None = None


class OpenClaim(msgspec.Struct, frozen=True):
    """The claim of a run that never left, decoded: its process died.

    Attributes:
        mode: the durability that it ran with.
        input: its input, if no checkpoint holds it.
        has_input: whether `input` is set.
        accepted_by: id of the graph that accepted the input; "" if it is not noted.
        migrated: whether migrations have changed the input.
    """

    run: bytes
    mode: str
    input: Any
    has_input: bool
    accepted_by: str = ""
    migrated: bool = False


class Restored(msgspec.Struct, frozen=True):
    """One checkpoint with its ledger, decoded.

    Attributes:
        id: b"" where only the input of a claim is stored and no checkpoint.
        sequence: its number in the order in which the thread's checkpoints were stored.
        created: microseconds since 1970-01-01 UTC.
        graph: the id of the graph that wrote it.
        values: the cells, as their channels hold them; absent where empty.
        versions: channel -> version.
        seen: node -> channel -> version that the node has run with.
        next: the nodes that run next, as stored for listings.
        version_floor: the highest version that any checkpoint of the thread uses, so that
            new versions never collide with those of another branch.
        head: the newest checkpoint of its thread and namespace, maybe itself.
        claim: that of an unfinished run on top of it.
        deltas: as in `NewCheckpoint`; their values are in `values`.
        converted: the conversions that its values have had.
        above: of a subgraph: the conversions of the graph above that its values have had.
        places: id of a task as this graph makes it -> its place as it was stored.
        left: the finished tasks of removed nodes, whose writes count all the same.
        whole: the DeltaChannels that the next checkpoint must hold whole: a migration changed them.
        migrated: sentences about what migrations have changed.
    """

    id: bytes
    parent: bytes | None
    sequence: int
    namespace: str
    step: int
    source: str
    created: int
    run: bytes | None
    graph: str
    values: dict[str, Any]
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    updated: tuple[str, ...] | None
    next: tuple[str, ...]
    metadata: dict[str, Any]
    ledger: tuple[StoredWrite, ...] = ()
    version_floor: int = 0
    head: bytes = b""
    claim: OpenClaim | None = None
    deltas: Mapping[str, tuple[int, int]] = NO_DELTAS
    converted: Converted = NOTHING_CONVERTED
    above: Converted = NOTHING_CONVERTED
    places: Mapping[str, StoredPlace] = NO_PLACES
    left: tuple[LeftTask, ...] = ()
    whole: frozenset[str] = frozenset()
    migrated: tuple[str, ...] = ()
