"""Every exception and warning a user can see.

Each one says what happened and, in `do`, what to do about it. An error that has no advice
is an `assert`, not a class of this file. Names are LangGraph's where LangGraph has the thing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Any, Literal


class ErrorCode(Enum):
    """The errors that LangGraph numbers; programs look for these words in `error.code`."""

    GRAPH_RECURSION_LIMIT = "GRAPH_RECURSION_LIMIT"
    INVALID_CONCURRENT_GRAPH_UPDATE = "INVALID_CONCURRENT_GRAPH_UPDATE"
    INVALID_GRAPH_NODE_RETURN_VALUE = "INVALID_GRAPH_NODE_RETURN_VALUE"
    MULTIPLE_SUBGRAPHS = "MULTIPLE_SUBGRAPHS"
    INVALID_CHAT_HISTORY = "INVALID_CHAT_HISTORY"


class ActorGraphError(Exception):
    """Base of all errors that are raised on purpose.

    Args:
        what: what happened, naming the culprit.
        do: what the reader can do about it.
        code: LangGraph's word for it, where it has one.
    """

    def __init__(self, what: str, *, do: str, code: ErrorCode | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.do = do
        self.code = code

    def __str__(self) -> str:
        return f"{self.what}\n  Do this: {self.do}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, self.do), dict(self.__dict__)


def _rebuild(kind: type[ActorGraphError], what: str, do: str) -> ActorGraphError:
    return kind(what, do=do)


# --- building a graph ---


class GraphBuildError(ActorGraphError, ValueError):
    """A graph, or one call that builds it, can't work as written."""


class SchemaError(GraphBuildError):
    """A state schema has a key from which no channel can be made."""


# --- running it ---


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


# --- saving and resuming ---


class CheckpointError(ActorGraphError):
    """Base of what can go wrong between a run and its saver."""


class SaverRequiredError(CheckpointError, ValueError):
    """The operation reads or writes checkpoints and the graph was compiled without a saver."""


class ConflictError(CheckpointError):
    """Another run has the thread, or has moved its head; nothing of this one was written."""


class AlreadyResumedError(ConflictError):
    """The interrupt has been answered by another call."""


AlreadyResumed = AlreadyResumedError


class CheckpointNotFoundError(CheckpointError):
    """The thread has no checkpoint of that id."""


class SerializationError(CheckpointError, TypeError):
    """A value can't be stored exactly; the text names its path."""


class EncryptionError(CheckpointError):
    """A stored value can't be decrypted: its key is unknown or another, it was changed, is plain.

    Also: a cipher gave itself an impossible name.
    """


class UnknownTypeError(CheckpointError):
    """A stored value has a type that this program did not allow."""


class FormatVersionError(CheckpointError):
    """A stored record was written by a newer version of the library, or is damaged."""


class StorageError(CheckpointError):
    """The database or the file refused an operation.

    Attributes:
        retryable: whether the same batch may be sent again at once: nothing of it is stored.
    """

    retryable: bool = False


class StorageBusyError(StorageError):
    """Somebody else held the database's lock for longer than the busy timeout."""


class StorageFullError(StorageError):
    """No space left; the batch was rolled back and the saver stays usable."""


class SaverBrokenError(StorageError):
    """A commit failed in a way that leaves its outcome unknown; reopen the saver."""


class SaverClosedError(CheckpointError):
    """The saver has been closed."""


class DrainTimeoutError(CheckpointError):
    """The saver was closed before everything was stored; the text lists what was not."""


# --- interrupts: BaseException, so that `except Exception` in a node can't swallow them ---


class GraphBubbleUp(BaseException):
    """Base of what a node raises to stop without failing."""


class GraphInterrupt(GraphBubbleUp):
    """Raised by `interrupt()`: the run pauses here until it is resumed."""

    def __init__(self, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(tuple(interrupts))
        self.interrupts = tuple(interrupts)


class GraphDrained(ActorGraphError, GraphBubbleUp):
    """A run stopped before its next superstep, because it was asked to; all it did is stored.

    An Exception too, so that callers can catch it as any error of a run.

    Attributes:
        reason: what was passed to `request_drain()`; "deadline" for a run whose time was over.
    """

    def __init__(self, what: str, *, do: str, reason: str = "shutdown") -> None:
        super().__init__(what, do=do)
        self.reason = reason


class ParentCommand(GraphBubbleUp):
    """Carries a `Command(graph=Command.PARENT)` out of a nested run to the node that runs it.

    Attributes:
        command: for the graph above.
    """

    def __init__(self, command: Any) -> None:
        super().__init__(command)
        self.command = command


class UnknownInterruptError(ActorGraphError, RuntimeError):
    """A resume doesn't say which interrupt it answers, or names one that is not waiting.

    Attributes:
        reason: "not_pending", "empty_map" or "ambiguous"; "" where none of them fits.
        interrupt_ids: the ids that it names and that don't wait.
        pending_ids: those that wait; they can still be answered, nothing was written.
    """

    def __init__(
        self,
        what: str,
        *,
        do: str,
        reason: Literal["", "not_pending", "empty_map", "ambiguous"] = "",
        interrupt_ids: Sequence[str] = (),
        pending_ids: Sequence[str] = (),
    ) -> None:
        super().__init__(what, do=do)
        self.reason: Literal["", "not_pending", "empty_map", "ambiguous"] = reason
        self.interrupt_ids = tuple(interrupt_ids)
        self.pending_ids = tuple(pending_ids)


class InvalidResumeError(ActorGraphError, ValueError):
    """An answer doesn't fit its question's `response_schema`; the question waits for another."""


# --- warnings ---


class ActorGraphWarning(UserWarning):
    """Base of all warnings of this library."""


class UnknownChannelWarning(ActorGraphWarning):
    """A node returned a key that is no channel of the graph; the key was dropped."""


class CompiledGraphWarning(ActorGraphWarning):
    """A builder was changed after `compile`; what was compiled stays as it is."""


class UnreachableNodeWarning(ActorGraphWarning):
    """No edge leads to a node."""


class SwallowedInterruptWarning(ActorGraphWarning):
    """A node called `interrupt()` and then returned as if it had not."""


class CacheWarning(ActorGraphWarning):
    """A cache failed to find or keep a node's result; the run goes on without."""


class LostErrorWarning(ActorGraphWarning):
    """A call of a `@task` function failed, and its caller returned without waiting for it."""


class UnsafeSettingWarning(ActorGraphWarning):
    """A setting gives up a guarantee."""


def did_you_mean(name: object, choices: Sequence[str]) -> str:
    """A hint such as `did you mean 'answer'?`, or the choices when none is near."""
    near = get_close_matches(str(name), choices, n=2)
    if near:
        return "did you mean " + " or ".join(repr(n) for n in near) + "?"
    return "the choices are " + (", ".join(repr(c) for c in choices) or "none")
