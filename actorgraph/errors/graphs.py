"""Errors of building and running a graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from actorgraph.errors.base import ActorGraphError, ErrorCode


class GraphBuildError(ActorGraphError, ValueError):
    """A graph is invalid, or a call that builds it is."""


class NotCompiledError(ActorGraphError, AttributeError):
    """A method of a compiled graph was called on its builder."""


class SchemaError(GraphBuildError):
    """A state schema has a key that can't become a channel."""


class InvalidUpdateError(ActorGraphError, ValueError):
    """A node, an edge or a caller gave an update that the channels can't take.

    If a schema refused the values, `__cause__` is its error, such as pydantic's ValidationError.
    """

    def __init__(
        self,
        what: str = "the channel can't take this update",
        *,
        do: str = "return an update that the channel's type and reducer accept",
        code: ErrorCode | None = None,
    ) -> None:
        super().__init__(what, do=do, code=code)


class UnknownTargetError(InvalidUpdateError):
    """A `goto`, a `Send` or a conditional edge names a node that the graph doesn't have."""


class MissingNodeError(InvalidUpdateError):
    """`as_node` names a node that the graph doesn't have."""


class EmptyInputError(ActorGraphError):
    """A run without input was started on a thread that has no checkpoint."""


class EmptyChannelError(ActorGraphError):
    """A channel was read before it was written."""

    def __init__(
        self,
        what: str = "the channel is empty",
        *,
        do: str = "write the channel in an earlier superstep, or give it a default",
        code: ErrorCode | None = None,
    ) -> None:
        super().__init__(what, do=do, code=code)


class GraphRecursionError(ActorGraphError, RecursionError):
    """A run was not finished after `recursion_limit` supersteps."""


class NodeTimeoutError(ActorGraphError):
    """An attempt of a node took longer than its `timeout`, or made no progress for too long.

    Not a `TimeoutError`: so a node can catch those of its own calls.

    Attributes:
        node: name of the node.
        kind: "run" for the whole attempt, "idle" for the time without progress.
        elapsed: seconds since the attempt began.
        run_timeout: limit of the whole attempt in seconds; None where none was set.
        idle_timeout: limit of the time without progress in seconds; None where none was set.
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
    """A node raised the event loop's cancellation error although the run was not cancelled.

    Attributes:
        node: name of the node.
    """

    def __init__(self, what: str, *, do: str, node: str = "") -> None:
        super().__init__(what, do=do)
        self.node = node


class StoredNodeError(ActorGraphError):
    """The text of a failure that an earlier run stored, as passed to an error handler."""


class StepTimeoutError(ActorGraphError, TimeoutError):
    """A superstep took longer than the graph's `step_timeout`."""


class InvalidConfigError(ActorGraphError, ValueError):
    """The `config` or an argument of a call is invalid."""


class RunningLoopError(ActorGraphError, RuntimeError):
    """A method of the sync API was called where it would block a running event loop."""


class TwoReadersError(ActorGraphError, RuntimeError):
    """Two tasks read a stream at once; it takes one reader."""


class OtherLoopError(ActorGraphError, RuntimeError):
    """An object of one event loop was used in another one, or after its loop had ended."""


class NestedRunError(ActorGraphError, RuntimeError):
    """A subgraph failed; raised by its handle in an event stream."""


class SlowReaderError(ActorGraphError, RuntimeError):
    """The reader of a stream is so far behind that its buffer is full, and the run may not wait."""


class MissingExtraError(ActorGraphError, ImportError):
    """A method needs a package of an optional extra."""


class ModelError(ActorGraphError, RuntimeError):
    """A chat model's server refused a request; the error names the model and its address.

    Attributes:
        status_code: the HTTP status; None without a response.
        headers: of the response.
    """

    def __init__(
        self,
        what: str,
        *,
        do: str,
        status_code: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(what, do=do)
        self.status_code = status_code
        self.headers = dict(headers or {})


class ModelUnavailableError(ModelError, ConnectionError):
    """A chat model's server can't be reached, is busy, or broke off; another attempt may succeed.

    Retried by a node's `retry_policy`, not before the server's `Retry-After`.
    """


class CompatError(ActorGraphError, RuntimeError):
    """`actorgraph.compat` can't be installed any more."""


class InvalidContextError(ActorGraphError, ValueError):
    """A call's `context` doesn't fit the graph's `context_schema`; nothing ran."""


class StoreRequiredError(ActorGraphError, ValueError):
    """A node needs a store, and the graph has none; nothing ran."""


class OutsideRunError(ActorGraphError, RuntimeError):
    """A function that works only inside a node was called somewhere else."""


@dataclass(frozen=True, slots=True)
class NodeError:
    """The failure that an error handler handles. Not an exception itself.

    Attributes:
        node: name of the node that failed.
        error: raised by its last attempt; after a crash a `StoredNodeError` with its text.
    """

    node: str
    error: BaseException
