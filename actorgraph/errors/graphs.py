"""Errors of building a graph, and of running it."""

from dataclasses import dataclass
from typing import Literal

from actorgraph.errors.base import ActorGraphError, ErrorCode


class GraphBuildError(ActorGraphError, ValueError):
    """A graph, or one call that builds it, can't work as written."""


class SchemaError(GraphBuildError):
    """A state schema has a key from which no channel can be made."""


class InvalidUpdateError(ActorGraphError):
    """A node, an edge or a caller handed over an update that the channels can't take."""

    def __init__(
        self,
        what: str = "the channel can't take this update",
        *,
        do: str = "look at the rule of the channel that refused it",
        code: ErrorCode | None = None,
    ) -> None:
        super().__init__(what, do=do, code=code)


class UnknownTargetError(InvalidUpdateError):
    """A route (`goto`, `Send`, a conditional edge) names a node that the graph doesn't have."""


class MissingNodeError(InvalidUpdateError):
    """`as_node` names no node of the graph."""


class EmptyInputError(ActorGraphError):
    """A run was asked to continue a thread on which nothing has been saved."""


class EmptyChannelError(ActorGraphError):
    """A channel was read that has never been written."""

    def __init__(
        self,
        what: str = "the channel is empty",
        *,
        do: str = "write it before it is read",
        code: ErrorCode | None = None,
    ) -> None:
        super().__init__(what, do=do, code=code)


class GraphRecursionError(ActorGraphError, RecursionError):
    """A run took as many supersteps as its `recursion_limit` allows and still had work."""


class NodeTimeoutError(ActorGraphError):
    """An attempt of a node took longer than its `timeout`, or showed no progress for too long.

    Not a `TimeoutError`: that is an `OSError`, which retry policies leave alone by default.

    Attributes:
        node: its name.
        kind: "run" for the whole attempt, "idle" for the time without progress.
        elapsed: seconds since the attempt began.
        timeout: the limit that was exceeded; run_timeout, idle_timeout: those that were set.
    """

    def __init__(
        self,
        what: str,
        *,
        do: str,
        node: str = "",
        kind: Literal["run", "idle"] = "run",
        elapsed: float = 0.0,
        run_timeout: float | None = None,
        idle_timeout: float | None = None,
    ) -> None:
        super().__init__(what, do=do)
        self.node = node
        self.kind: Literal["run", "idle"] = kind
        self.elapsed = elapsed
        self.run_timeout = run_timeout
        self.idle_timeout = idle_timeout

    @property
    def timeout(self) -> float | None:
        """The limit that was exceeded, in seconds."""
        return self.run_timeout if self.kind == "run" else self.idle_timeout


class NodeCancelledError(ActorGraphError):
    """A node raised the event loop's cancellation itself, though nobody cancelled the run.

    Attributes:
        node: its name.
    """

    def __init__(self, what: str, *, do: str, node: str = "") -> None:
        super().__init__(what, do=do)
        self.node = node


class StoredNodeError(ActorGraphError):
    """What an error handler gets of a failure that an earlier run has stored: its text."""


class StepTimeoutError(ActorGraphError, TimeoutError):
    """A superstep took longer than the graph's `step_timeout`."""


class InvalidConfigError(ActorGraphError, ValueError):
    """The `config`, or an argument, of a call can't be used."""


class RunningLoopError(ActorGraphError, RuntimeError):
    """A blocking method was called where it would block a running event loop."""


class TwoReadersError(ActorGraphError, RuntimeError):
    """A stream was read by two tasks at once; each chunk goes to one reader."""


class OtherLoopError(ActorGraphError, RuntimeError):
    """Something of one event loop was used in another one, or after its loop had ended."""


class NestedRunError(ActorGraphError, RuntimeError):
    """A graph that runs inside of a run has failed; its handle in an event stream says so."""


class SlowReaderError(ActorGraphError, RuntimeError):
    """The reader of a stream is so far behind that its buffer is full, and nobody may wait."""


class MissingExtraError(ActorGraphError, ImportError):
    """A method needs a package that is installed only on request."""


class InvalidContextError(ActorGraphError, ValueError):
    """A call's `context` doesn't fit the graph's `context_schema`; nothing ran."""


class StoreRequiredError(ActorGraphError, ValueError):
    """A node asks for a store and the graph has none; nothing ran."""


class OutsideRunError(ActorGraphError, RuntimeError):
    """A function that works only inside a node was called somewhere else."""


@dataclass(frozen=True, slots=True)
class NodeError:
    """What an error handler handles; it is no exception itself.

    Attributes:
        node: the node that failed.
        error: what it raised at its last attempt; after a crash a `StoredNodeError` with its text.
    """

    node: str
    error: BaseException
