"""Runtime and the other parts of a run that its nodes see.

Stopping       what may stop the run between supersteps: a requested drain, a deadline
RunResources   the context and the stores that the caller passed
Runtime        the object that a node gets besides the state; made only for nodes that ask for it
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic

import msgspec

from actorgraph.errors import OutsideRunError
from actorgraph.ports import Store
from actorgraph.superstep.limits import DEADLINE
from actorgraph.values.commands import RunControl
from actorgraph.values.run import ExecutionInfo, ServerInfo
from actorgraph.values.schema_types import ContextT


class Stopping(msgspec.Struct, frozen=True):
    """The control and the deadline of a run; its subgraphs share the control.

    Attributes:
        control: takes requests to drain.
        deadline: by `time.monotonic()`, in seconds; None for none.
    """

    control: RunControl = msgspec.field(default_factory=RunControl)
    deadline: float | None = None

    @classmethod
    def of(cls, control: RunControl | None, deadline_s: float | None) -> "Stopping":
        """The stopping of a run that begins now.

        Args:
            control: the caller's; None makes one.
            deadline_s: in seconds from now; None for none.
        """
        deadline = None if deadline_s is None else time.monotonic() + deadline_s
        return cls(control or RunControl(), deadline)

    def reason(self) -> str | None:
        """The reason to stop the run before its next superstep; None if it need not."""
        reason = self.control.drain_reason
        if reason is None and self.deadline is not None and time.monotonic() >= self.deadline:
            return DEADLINE
        return reason

    def left_s(self) -> float:
        """The seconds until the deadline; infinite without one."""
        return math.inf if self.deadline is None else self.deadline - time.monotonic()

    def below(self, control: RunControl | None, deadline_s: float | None) -> "Stopping":
        """The stopping of a subgraph's run: its own control, and the earlier of both deadlines.

        Args:
            control: of the subgraph's call; None shares this one.
            deadline_s: of the subgraph's call, in seconds from now; None adds none.
        """
        if control is None and deadline_s is None:
            return self
        own = Stopping.of(control or self.control, deadline_s)
        ends = [end for end in (self.deadline, own.deadline) if end is not None]
        return Stopping(own.control, min(ends, default=None))


NO_STORES: Mapping[str, Store] = MappingProxyType({})


class RunResources(msgspec.Struct, frozen=True):
    """Context and stores for all nodes of a run and of its subgraphs.

    Attributes:
        context: the call's `context=`, as the graph's `context_schema`.
        store: the graph's, or its parent's.
        stores: name -> store; of the call, the graph and its parents.
    """

    context: Any = None
    store: Store | None = None
    stores: Mapping[str, Store] = NO_STORES

    def below(
        self, context: Any, store: Store | None, stores: Mapping[str, Store] = NO_STORES
    ) -> "RunResources":
        """The resources of a subgraph's run: those given here, and for the rest the parent's."""
        if context is None and store is None and not stores:
            return self
        return RunResources(
            self.context if context is None else context,
            self.store if store is None else store,
            MappingProxyType({**self.stores, **stores}) if stores else self.stores,
        )


NO_RESOURCES = RunResources()


def write_nothing(chunk: Any) -> None:
    """Drop a chunk: the writer of a `Runtime` that belongs to no run."""


def beat_nothing() -> None:
    """Do nothing: the heartbeat of a node without an idle timeout."""


@dataclass(frozen=True, kw_only=True)  # no slots: Runtime[Ctx](...) sets an attribute
class Runtime(Generic[ContextT]):
    """Context, stores and controls of the running task.

    Declare it as a parameter: `async def node(state, runtime: Runtime[Ctx])`.

    Attributes:
        context: the call's `context=`, as the graph's `context_schema`; None if none was passed.
        store: the one of `compile(store=...)`, of this graph or its parent; or None.
        stream_writer: sends its argument to the readers of `stream_mode="custom"`.
        heartbeat: call it during long work, to restart the node's idle timeout.
        previous: the value that the thread's last run saved (functional API); else None.
        execution_info: ids of the running task and its run. Always there in a node, a router or a
            task, and typed so; None in a `Runtime` that a program makes without it.
        server_info: the request of a server that runs the graph, from `assistant_id`, `graph_id`
            and `langgraph_auth_user` in `configurable`; None without these.
        control: requests that the run stop before its next superstep; typed as the one above.
        stores: name -> store, of `compile(stores=...)` and the call's `stores=`.
    """

    context: ContextT = field(default=None)  # type: ignore[assignment]
    store: Any = None
    stream_writer: Callable[[Any], None] = write_nothing
    heartbeat: Callable[[], None] = beat_nothing
    previous: Any = None
    execution_info: ExecutionInfo = field(default=None)  # type: ignore[assignment]
    server_info: ServerInfo | None = None
    control: RunControl = field(default=None)  # type: ignore[assignment]
    stores: Mapping[str, Any] = field(default_factory=lambda: NO_STORES)

    @property
    def drain_requested(self) -> bool:
        """Whether the run was requested to stop before its next superstep."""
        control: RunControl | None = self.control
        return control is not None and control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """The reason of that request, or None."""
        control: RunControl | None = self.control
        return None if control is None else control.drain_reason

    def override(self, **fields: Any) -> "Runtime[ContextT]":
        """Copy it with some fields replaced."""
        return replace(self, **fields)

    def merge(self, other: "Runtime[ContextT]") -> "Runtime[ContextT]":
        """Copy it with every field replaced that is set in the other one."""
        fields = {name: getattr(other, name) for name in _FIELDS}
        return replace(self, **{n: v for n, v in fields.items() if not _is_unset(v)})

    def patch_execution_info(self, **fields: Any) -> "Runtime[ContextT]":
        """Copy it with some fields of `execution_info` replaced.

        Raises:
            OutsideRunError: it has none: it was made outside of a run.
        """
        info: ExecutionInfo | None = self.execution_info
        if info is None:
            raise OutsideRunError(
                "execution_info of a Runtime that belongs to no run can't be patched",
                do="pass a whole one: runtime.override(execution_info=ExecutionInfo(...))",
            )
        return self.override(execution_info=info.patch(**fields))


_FIELDS = tuple(Runtime.__dataclass_fields__)


def _is_unset(value: object) -> bool:
    return value is None or value in (write_nothing, beat_nothing) or value is NO_STORES
