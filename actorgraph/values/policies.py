"""How a run is to behave: chosen by the caller, read by everybody, changed by nobody."""

from enum import StrEnum
from typing import Any, Literal

import msgspec

from actorgraph.values.constants import DEFAULT_NESTING_LIMIT, DEFAULT_RECURSION_LIMIT


class Durability(StrEnum):
    """When what a run has done must be durable.

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
        node_visit_limit: supersteps in which one node may run; None for no bound of its own.
        nesting_limit: runs that may stand above the run.
        step_timeout_s: seconds that one superstep may take; None for no bound.
        max_concurrency: tasks that may run at once; None for no bound.
        max_unsaved_steps: in async mode, supersteps that may be done but not yet durable.
        interrupt_before, interrupt_after: node names, or "*".
        modes: which streams somebody reads. stored_stream: what they get is stored.
        output_keys: the keys that they show; None for the graph's. bare: it is one key, and they
            show its value without the key.
        tags: the caller's.
        strict_resume: an answer to a question that doesn't wait is an error, whatever else fits.
        strict: an unknown update key is an error rather than a warning.
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
