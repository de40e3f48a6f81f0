"""The objects that programs exchange with a graph besides plain values.

From a node: Send, Command, Overwrite, NodeInterrupt. From a caller: Command, StateUpdate,
RunControl. To a caller: Interrupt, GraphOutput. An error that refuses an answer carries the
question (`mark_invalid_resume`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Generic, Literal, TypeVar

from actorgraph.values.node_policies import TimeoutPolicy

N = TypeVar("N", bound=str)


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
        """Convert the timeout to a policy."""
        if self.timeout is not None:
            object.__setattr__(self, "timeout", TimeoutPolicy.coerce(self.timeout))


class ToolOutput:
    """Base of the objects that a tool may return instead of a value.

    Not slotted: in a program with LangChain, `prebuilt.langchain` adds LangChain's own base to
    `Command`, because LangChain's tools convert everything else to text.
    """


@dataclass(frozen=True, kw_only=True)
class Command(ToolOutput, Generic[N]):
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
    goto: "Send | N | Sequence[Send | N]" = ()

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that a node asked with `interrupt()`, waiting for its answer.

    Attributes:
        value: what the node passed to `interrupt()`.
        id: 32 hex digits; the key under which `Command(resume={id: answer})` answers it.
        response_schema: the JSON schema of its answer, if the node gave one.
    """

    value: Any
    id: str = ""
    response_schema: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """One update of a state from outside a run, as if `as_node` had returned `values`.

    Attributes:
        task_id: of the due task whose result it is; None for any task of the node.
    """

    values: Any
    as_node: str | None = None
    task_id: str | None = field(default=None)
