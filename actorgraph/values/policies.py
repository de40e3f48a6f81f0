"""The settings of one run: durability, limits, breakpoints, streams."""

from enum import StrEnum
from typing import Any, Literal

import msgspec

from actorgraph.values.constants import DEFAULT_NESTING_LIMIT, DEFAULT_RECURSION_LIMIT


class Durability(StrEnum):
    """When a superstep must be durable.

    SYNC: before the next superstep starts. ASYNC: before the run returns. EXIT: once, when
    the run leaves.
    """

    SYNC = "sync"
    ASYNC = "async"
    EXIT = "exit"


DurabilityMode = Literal["sync", "async", "exit"]
StreamMode = Literal[
    "values", "updates", "messages", "custom", "checkpoints", "tasks", "debug", "tools"
]
STREAM_MODES: tuple[StreamMode, ...] = (
    "values",
    "updates",
    "messages",
    "custom",
    "checkpoints",
    "tasks",
    "debug",
    "tools",
)
All = Literal["*"]


class RunPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one run.

    Attributes:
        durability: see `Durability`.
        recursion_limit: node supersteps that the run may take, START's not counted.
        node_visit_limit: supersteps in which one node may run; None for no limit of its own.
        nesting_limit: levels of subgraphs.
        step_timeout_s: seconds that one superstep may take; None for no limit.
        max_concurrency: tasks that may run at once; None for no limit.
        max_unsaved_steps: in async mode, supersteps that may be done but not yet durable.
        interrupt_before: names of nodes to pause before; "*" for every node.
        interrupt_after: names of nodes to pause after; "*" for every node.
        modes: the stream modes that have readers.
        stored_stream: whether the chunks are stored as the run's events.
        output_keys: the keys that streams show; None for the graph's.
        bare: whether streams show the value of the one output key without the key.
        tags: the caller's.
        strict_resume: an answer to an unknown or answered question is an error, also when other
            answers of the same resume match.
        metadata: stored with the run's checkpoints.
    """

    durability: Durability = Durability.SYNC
    recursion_limit: int = DEFAULT_RECURSION_LIMIT
    node_visit_limit: int | None = None
    nesting_limit: int = DEFAULT_NESTING_LIMIT
    step_timeout_s: float | None = None
    max_concurrency: int | None = None
    max_unsaved_steps: int = 16
    interrupt_before: tuple[str, ...] = ()
    interrupt_after: tuple[str, ...] = ()
    modes: frozenset[str] = frozenset()
    stored_stream: bool = False
    output_keys: tuple[str, ...] | None = None
    bare: bool = False
    tags: tuple[str, ...] = ()
    strict_resume: bool = False
    metadata: dict[str, Any] = {}
