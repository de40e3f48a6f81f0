"""Everything that a run needs to begin, and the hook for its spans.

RunTemplate   what all runs of one compiled graph have in common, made once
Launch        one run: the template, and what its call adds
"""

from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any, Protocol

import msgspec

from actorgraph.codec import Codec
from actorgraph.plan.plan import Plan
from actorgraph.ports import Saver
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.run.node_actor import RunEnvironment
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.task.nested import NestedPlace
from actorgraph.runtime.task.result_cache import ResultCache
from actorgraph.runtime.task.runtime import NO_RESOURCES, RunResources, Stopping
from actorgraph.superstep.run_state import RunState
from actorgraph.values.checkpoint import Restored
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import RunOutcome


class Address(msgspec.Struct, frozen=True, gc=False):
    """The address of a run: a thread, a namespace in it, and maybe a checkpoint there.

    Attributes:
        thread_id: the thread; "" for a run without one.
        namespace: "" for a root run.
        checkpoint: id of the checkpoint to begin at; None for the newest.
        named: checkpoints of subgraphs that the config names: namespace without task ids -> the
            namespace and checkpoint id at which the subgraph begins.
    """

    thread_id: str = ""
    namespace: str = ""
    checkpoint: bytes | None = None
    named: Mapping[str, tuple[str, bytes]] = msgspec.field(default_factory=dict)


class RunTemplate(msgspec.Struct, frozen=True):
    """The parts that all runs of one compiled graph share.

    A subgraph's run has a copy with the codec of the saver above it, and maybe the cache above.

    Attributes:
        plan: the compiled graph.
        codec: encodes and decodes values.
        saver: the graph's own; None without one.
        cache: of its nodes' results; None without one.
        resources: of a call that brings none; None if the graph can't run without a store.
        policies: `durability=` of a call, None without it -> settings of its run, if the call has
            no other settings.
    """

    plan: Plan
    codec: Codec
    saver: Saver | None
    cache: ResultCache | None
    resources: RunResources | None
    policies: Mapping[str | None, RunPolicy]


class Launch(msgspec.Struct, frozen=True):
    """Everything that a run needs to begin.

    Attributes:
        template: what it shares with the graph's other runs.
        policy: durability, limits and metadata of the run.
        address: the thread and checkpoint to begin at.
        given: the input.
        config: the caller's.
        host: of the saver; None without one.
        context: the caller's; tasks run in copies of it.
        run: the run's id.
        broadcast: the reader's buffer; None without a reader.
        place: of a subgraph's run in its parent; None for a root run.
        resources: context and stores for its nodes.
        stopping: the run's control and deadline.
        recorded: whether to replay the recorded checkpoints after the one addressed, and run
            nothing.
        owner: id of the ActorSystem whose run it is; None without one.
        spans: its spans; None if it isn't traced.
        callbacks: reports it to LangChain's callbacks; None if nothing listens.
    """

    template: RunTemplate
    policy: RunPolicy
    address: Address
    given: Any
    config: dict[str, Any]
    host: Host | None
    context: Context
    run: bytes
    broadcast: Broadcast | None = None
    place: NestedPlace | None = None
    resources: RunResources = NO_RESOURCES
    stopping: Stopping = msgspec.field(default_factory=Stopping)
    recorded: bool = False
    owner: bytes | None = None
    spans: "RunSpans | None" = None
    callbacks: "RunCallbacks | None" = None

    def with_bare_output(self) -> "Launch":
        """A copy whose chunks show the value of the only output key without the key."""
        bare = msgspec.structs.replace(self.policy, bare=True)
        return msgspec.structs.replace(self, policy=bare)


class RunSpans(Protocol):
    """The spans of one run; see `RunTrace`.

    Attributes:
        launch: the run's launch, with the span in its context and in its checkpoints' metadata.
    """

    launch: Launch

    def link_resumed(self, restored: Restored) -> None:
        """Link the run to the one that made the checkpoint, if it resumes that one."""
        ...

    def watch(self, environment: RunEnvironment, base: Callable[[], bytes]) -> None:
        """Make a span of each task.

        Args:
            environment: of the run's tasks; its `inherit` and `report` are replaced.
            base: returns the id of the run's newest checkpoint.
        """
        ...

    def end(self, outcome: RunOutcome | BaseException) -> None:
        """End the spans: the run has left, or was refused before it began."""
        ...


class RunCallbacks(Protocol):
    """Reports one run to LangChain's callbacks; see `GraphCallbacks`.

    Attributes:
        launch: the run's launch, with this in it.
    """

    launch: Launch

    def supervisor(self, state: RunState, **parts: Any) -> Any:
        """Make a supervisor that reports the run's tasks and its end."""
        ...

    async def end(self, outcome: RunOutcome | BaseException) -> None:
        """Report that the run has left, or was refused before it began."""
        ...
