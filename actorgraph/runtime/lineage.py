"""One task in its run: the run's lineage, the task's scope, the `@task` calls that it makes.

Lineage     what a run passes on to the subgraphs in its nodes
TaskScope   the state of one attempt of one task. Each attempt runs in its own copy of the
            caller's context with `CURRENT` set, and so do the worker threads and the tasks that
            the node starts
TaskCalls   the `@task` calls of one run. A call is a task of the same run, which
            `superstep/calls.py` decides about; here are the function, the caller's context and
            the future
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.caching import ResultCache
from actorgraph.runtime.handle import NO_RESOURCES, RunResources
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.revisiting import TimeTravel
from actorgraph.runtime.stopping import Stopping
from actorgraph.values.control import RunControl
from actorgraph.values.policies import RunPolicy

if TYPE_CHECKING:
    from actorgraph.runtime.called import TaskCalls
    from actorgraph.runtime.context import TaskScope


class Lineage(msgspec.Struct):
    """One run, as its tasks and its subgraphs see it.

    Attributes:
        thread_id: the run's thread; "" if it has none.
        namespace: the run's; "" for a root run.
        run: id of the root run, which has the thread's claim.
        epoch: of that claim.
        host: the saver's actors; None without a saver.
        policy: its durability is inherited by subgraphs.
        broadcast: the reader's buffer; None without a reader.
        parents: returns namespace -> newest checkpoint id, of this run and of those above it.
        base: returns the id of the newest checkpoint, on which the running tasks build.
        step: returns the superstep that runs now.
        loaded: the checkpoint that the run started from; tasks of a later one are new.
        routed: answers to questions of this run and below it, by interrupt id.
        time_travel: the time travel that it is part of; None for a run at its thread's head.
        resources: context and stores for its nodes.
        above: the task that it runs in; None for a root run.
        owns: whether it has the thread's claim itself.
        progress: postpones the idle timeout of a node above; None if there is none.
        stopping: the run's control and deadline.
        depth: number of runs above it.
        cache: of its nodes' results; None without one.
        calls: the `@task` calls of its tasks; set by the supervisor.
        values: returns the run's state.
        untracked: keys that are never stored, here and in the input of subgraphs.
    """

    thread_id: str
    namespace: str
    run: bytes
    epoch: int
    host: Host | None
    policy: RunPolicy
    broadcast: Broadcast | None
    parents: Callable[[], Mapping[str, str]]
    base: Callable[[], bytes]
    step: Callable[[], int]
    loaded: bytes | None
    routed: Mapping[str, Any]
    time_travel: TimeTravel | None = None
    resources: RunResources = NO_RESOURCES
    above: "TaskScope | None" = None
    owns: bool = True
    progress: Callable[[], None] | None = None
    stopping: Stopping = msgspec.field(default_factory=Stopping)
    depth: int = 0
    cache: ResultCache | None = None
    calls: "TaskCalls | None" = None
    values: Callable[[], Mapping[str, Any]] = dict[str, Any]
    untracked: frozenset[str] = frozenset()

    @property
    def control(self) -> RunControl:
        """Requests a drain: that the whole tree of runs stop between supersteps."""
        return self.stopping.control

    @property
    def nested(self) -> bool:
        """Whether it runs in a node of another run."""
        return self.above is not None
