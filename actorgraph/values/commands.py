"""The objects that programs exchange with a graph besides plain values.

From a node: Send, Command, Overwrite, NodeInterrupt. From a caller: Command, StateUpdate,
RunControl. To a caller: Interrupt, GraphOutput. An error that refuses an answer carries the
question (`mark_invalid_resume`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Generic, Literal, cast

from actorgraph.errors import GraphInterrupt
from actorgraph.errors.excerpts import fields_text
from actorgraph.errors.texts import plain, storable
from actorgraph.values.alarms import Timing, as_datetime
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.policies import TimeoutPolicy
from actorgraph.values.schema_types import DestinationT_co, OwnResultT


@dataclass(frozen=True, slots=True)
class Send:
    """Run `node` in the next superstep with `arg` as its input.

    Several Sends to one node run at once. `arg` reaches the node as it is: it is not read
    from the state and not made into the node's schema.

    Args:
        node: the node's name. An unknown name fails the task that returned the Send.
        arg: the node's input.
        timeout: seconds, a timedelta or a TimeoutPolicy for this one task; default the node's own.
    """

    node: str
    arg: Any
    timeout: float | timedelta | TimeoutPolicy | None = None

    def __post_init__(self) -> None:
        """Convert the timeout to a policy, and a name that is a member of an enum to its text."""
        if type(self.node) is not str and isinstance(self.node, str):
            object.__setattr__(self, "node", plain(self.node))
        if self.timeout is not None:
            object.__setattr__(self, "timeout", TimeoutPolicy.coerce(self.timeout))

    def __repr__(self) -> str:
        return fields_text(self)


class ToolOutput:
    """Base of the objects that a tool may return instead of a value.

    Not slotted: in a program with LangChain, `prebuilt.tools` adds LangChain's own base to
    `Command`, because LangChain's tools convert everything else to text.
    """


@dataclass(frozen=True, kw_only=True)
class Command(ToolOutput, Generic[DestinationT_co]):
    """An update and a route in one: what a node may return, or a caller may pass as input.

    Args:
        graph: None for this graph, or `Command.PARENT` for the closest parent graph.
        update: applied as a node's return is: a dict, or a list of `(key, value)`.
        resume: as input: the answer to the waiting interrupt, or `{interrupt id: answer}`.
        goto: a node's name, a `Send`, or a sequence of them; adds to the static edges.
    """

    graph: str | None = None
    update: Any = None
    resume: Any = None
    goto: "Send | DestinationT_co | Sequence[Send | DestinationT_co]" = ()

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"

    def __repr__(self) -> str:
        return fields_text(self)


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that a node asked with `interrupt()`, waiting for its answer.

    Attributes:
        value: what the node passed to `interrupt()`.
        id: 32 hex digits; the key under which `Command(resume={id: answer})` answers it.
        response_schema: the JSON schema of its answer, if the node gave one.
        timing: when it reminds and answers itself; None if it only waits.
    """

    value: Any
    id: str = ""
    response_schema: dict[str, Any] | None = None
    timing: Timing | None = None

    @property
    def sleeps(self) -> bool:
        """Whether it is a sleep: the clock ends it, or an answer by its id."""
        return self.timing is not None and self.timing.sleeps

    @property
    def due(self) -> datetime | None:
        """When it answers itself, in UTC; None for never."""
        known = self.timing
        return None if known is None or known.due is None else as_datetime(known.due)

    def __repr__(self) -> str:
        if self.timing is None:
            return fields_text(self)
        return f"{fields_text(replace(self, timing=None))[:-1]}, timing={self.timing!r})"


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """One update of a state from outside a run, as if `as_node` had returned `values`.

    Attributes:
        task_id: of the due task whose result it is; None for any task of the node.
    """

    values: Any
    as_node: str | None = None
    task_id: str | None = field(default=None)


OVERWRITE_KEY: Final = "__overwrite__"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Makes `value` the channel's value, without its reducer.

    The other writes of the same superstep to that channel are dropped, in any order;
    two Overwrites in one superstep are refused. `{"__overwrite__": value}` means the same, for
    updates in JSON, and so does the dict that JSON makes of an Overwrite's fields.
    """

    value: Any
    type: Literal["__overwrite__"] = OVERWRITE_KEY


def overwritten(write: object) -> tuple[bool, Any]:
    """Return (whether a write is an Overwrite in one of its forms, its value)."""
    if type(write) is Overwrite:
        return True, write.value
    if type(write) is dict:
        plain = cast("dict[str, Any]", write)
        if len(plain) == 1 and OVERWRITE_KEY in plain:
            return True, plain[OVERWRITE_KEY]
        if len(plain) == 2 and plain.get("type") == OVERWRITE_KEY and "value" in plain:
            return True, plain["value"]
    return False, None


class NodeInterrupt(GraphInterrupt):
    """Raised by a node to pause with a question; prefer `interrupt()`.

    No answer reaches the node: when the run goes on the node is called again, and pauses again
    unless its input has changed, e.g. by `update_state`.

    Args:
        value: the question; anything that can be stored.
        id: used if it is 32 hex digits; else the question gets an id of its own.
    """

    def __init__(self, value: Any, id: str | None = None) -> None:
        super().__init__((Interrupt(value, id or ""),))


_INVALID_RESUME = "__actorgraph_invalid_resume__"


def mark_invalid_resume(error: BaseException, question: Any) -> None:
    """Mark an error as the refusal of the answer to a question."""
    setattr(error, _INVALID_RESUME, question)


def refused_question(error: BaseException) -> Any:
    """Read the question whose answer an error refuses; None for any other error."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(refused_question, error.exceptions)), None)
    return getattr(error, _INVALID_RESUME, None)


def is_invalid_resume(error: BaseException) -> bool:
    """Whether an error says that an answer doesn't match its question's `response_schema`.

    The answer is not stored, and the question can be answered again.
    """
    return refused_question(error) is not None


@dataclass(frozen=True)  # no slots: GraphOutput[T](...) sets an attribute
class GraphOutput(Generic[OwnResultT]):
    """A run's output and its open questions.

    `result["key"]` and `"key" in result` read the value, and `"__interrupt__"` the questions, for
    programs that were written for the dict of version "v1".

    Attributes:
        value: the output, in the graph's output schema.
        interrupts: the open questions; () when the run is done.
    """

    value: OwnResultT
    interrupts: tuple[Interrupt, ...] = ()

    def __getitem__(self, key: str) -> Any:
        if key == INTERRUPT:
            return self.interrupts
        if isinstance(self.value, dict):
            return self.value[key]
        try:
            return getattr(self.value, key)
        except AttributeError:
            raise KeyError(key) from None

    def __contains__(self, key: object) -> bool:
        if key == INTERRUPT:
            return bool(self.interrupts)
        if isinstance(self.value, dict):
            return key in self.value
        return isinstance(key, str) and hasattr(self.value, key)


class RunControl:
    """Asks one run, and its subgraphs, to stop before their next superstep.

    Make one per run: once a drain is requested it stays requested. Safe to use from any thread.
    """

    _reason: str | None = None  # of the class until one is requested: most are never used

    def request_drain(self, reason: str = "shutdown") -> None:
        """Let the run finish its superstep, store it, and raise `GraphDrained(reason)`.

        A run that has nothing left to do then ends as usual.
        """
        self._reason = storable(reason)

    @property
    def drain_requested(self) -> bool:
        """Whether a drain was requested."""
        return self._reason is not None

    @property
    def drain_reason(self) -> str | None:
        """The reason of the request; None without one."""
        return self._reason
