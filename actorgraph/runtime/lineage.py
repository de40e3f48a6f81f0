"""What a run hands down to the graphs that its nodes run."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.handle import NOTHING_SUPPLIED, Supplies
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.revisiting import Revisit
from actorgraph.runtime.stopping import Stopping
from actorgraph.values.control import RunControl
from actorgraph.values.policies import RunPolicy

if TYPE_CHECKING:
    from actorgraph.runtime.caching import ResultCache
    from actorgraph.runtime.called import Calls
    from actorgraph.runtime.context import TaskScope


class Lineage(msgspec.Struct):
    """One run, as the runs inside of it see it.

    Attributes:
        run, epoch: of the root run, which has the thread's claim.
        host: the saver's actors; None without a saver.
        policy: its durability is inherited.
        broadcast: the reader's buffer; None if nobody reads.
        parents: namespace -> checkpoint id of this run and of those above it, as it stands.
        base: the checkpoint that its tasks follow, as it stands.
        step: the superstep that runs now.
        loaded: the checkpoint that the run started from; tasks of a later one are new.
        routed: answers to questions of this run and below it, by interrupt id.
        revisit: the journey back that it is part of; None for a run at its thread's head.
        supplies: context and store for its nodes.
        above: the task that it runs in; None for a root run.
        owns: whether it has the thread's claim itself.
        stopping: what may stop it; depth: how many runs stand above it.
        calls: takes the calls that its tasks make.
        values: its state as it stands, for those who were not handed any.
        cache: of its nodes' results; None for none.
        untracked: keys whose values are never stored, here and in what graphs inside are given.
        progress: puts off the idle timeout of a node above; None where there is none.
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
    revisit: Revisit | None = None
    supplies: Supplies = NOTHING_SUPPLIED
    above: "TaskScope | None" = None
    owns: bool = True
    progress: Callable[[], None] | None = None
    stopping: Stopping = msgspec.field(default_factory=Stopping)
    depth: int = 0
    cache: "ResultCache | None" = None
    calls: "Calls | None" = None
    values: Callable[[], Mapping[str, Any]] = dict[str, Any]
    untracked: frozenset[str] = frozenset()

    @property
    def control(self) -> RunControl:
        """Asks the run, and those above and inside, to stop between supersteps."""
        return self.stopping.control

    @property
    def nested(self) -> bool:
        """Whether it runs in a node of another run."""
        return self.above is not None
