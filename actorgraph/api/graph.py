"""CompiledStateGraph: a graph that runs. Async methods first, blocking twins at the end."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextvars import copy_context
from typing import Any, cast

from actorgraph.api import config as configs
from actorgraph.api import state as states
from actorgraph.api.blocking import block_on, refuse_in_loop
from actorgraph.api.stream import EventStream
from actorgraph.codec import Codec
from actorgraph.errors import SaverRequiredError
from actorgraph.plan.graph import Plan
from actorgraph.ports import Saver
from actorgraph.runtime import portal
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.hosting import Host, host_of
from actorgraph.runtime.mailbox import running_loop
from actorgraph.runtime.runs import Launch, execute
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.policies import All, Durability, DurabilityMode, StreamMode
from actorgraph.values.run import Failed, Interrupted, Outcome, Succeeded
from actorgraph.values.snapshot import StateSnapshot

Config = Mapping[str, Any]
NodeNames = All | Sequence[str] | None


class CompiledStateGraph:
    """A compiled graph: immutable, shared by any number of runs, threads and event loops.

    Made by `StateGraph.compile()`. With a checkpointer every call takes
    `config={"configurable": {"thread_id": ...}}`; other keys of `config`: `recursion_limit`
    (supersteps, default 10007), `max_concurrency` (tasks at once, default unbounded),
    `max_unsaved_steps` (async durability, default 16), `metadata` (stored with checkpoints).
    """

    def __init__(
        self, plan: Plan, checkpointer: Saver | None, durability: Durability = Durability.SYNC
    ) -> None:
        self.plan = plan
        self.checkpointer = checkpointer
        self.durability = durability
        own = getattr(checkpointer, "codec", None)
        codec = cast("Codec", own) if own is not None else Codec()
        self._codec = codec.with_types(plan.types)

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.plan.name

    @property
    def graph_id(self) -> str:
        """Tells this graph's stored checkpoints from another's."""
        return self.plan.graph_id

    def with_durability(self, mode: DurabilityMode) -> "CompiledStateGraph":
        """The same graph with another default durability; this one stays as it is.

        Raises:
            InvalidConfigError: there is no such mode.
        """
        wanted = configs.durability_of(mode, self.durability)
        return CompiledStateGraph(self.plan, self.checkpointer, wanted)

    async def ainvoke(
        self,
        input: Any,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        durability: DurabilityMode | None = None,
        interrupt_before: NodeNames = None,
        interrupt_after: NodeNames = None,
        output_keys: str | Sequence[str] | None = None,
    ) -> Any:
        """Run the graph and return its output.

        Args:
            input: the input; None to go on where the thread stands; a Command.
            config: see the class.
            stream_mode: default "values": the last state; any other: the list of its chunks.
            durability: "sync", "async" or "exit"; default the graph's, which is "sync".
            interrupt_before, interrupt_after: nodes to pause at, or "*"; default the graph's.
            output_keys: what to return of the state; default the output schema.
        Returns: the output, with `"__interrupt__"` if the run waits for answers; None if no
            output key was ever written.
        Raises:
            EmptyInputError, InvalidUpdateError, InvalidConfigError: nothing ran.
            ConflictError: another run has the thread; no node ran.
            GraphRecursionError: the limit was reached; what was done is stored.
            CheckpointError: a save failed; no node started after that.
            Exception: what a node raised.
        """
        if stream_mode != "values":
            stream = self.astream(
                input,
                config,
                stream_mode=stream_mode,
                durability=durability,
                interrupt_before=interrupt_before,
                interrupt_after=interrupt_after,
                output_keys=output_keys,
            )
            async with stream:
                return [chunk async for chunk in stream]
        launch = self._launch(
            input,
            config,
            durability=durability,
            before=interrupt_before,
            after=interrupt_after,
            output_keys=configs.keys_of(self.plan, output_keys) or self.plan.output_keys,
        )
        return _picked(_result(await execute(launch)), output_keys)

    def astream(
        self,
        input: Any,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        durability: DurabilityMode | None = None,
        interrupt_before: NodeNames = None,
        interrupt_after: NodeNames = None,
        output_keys: str | Sequence[str] | None = None,
    ) -> EventStream:
        """Run the graph and read what happens as it happens.

        Args:
            stream_mode: default "updates". "values": the state after each superstep;
                "updates": what each task returned; "custom": what nodes wrote to
                `get_stream_writer()`; "checkpoints", "tasks", "debug": the run's inside. With a
                list every chunk is a pair `(mode, chunk)`.
            Others: as in `ainvoke`.
        Returns: an async iterator, also usable as `async with`. In sync durability a chunk is
            delivered once what it tells is stored; custom chunks are delivered at once.
        Raises: what `ainvoke` raises; arguments are checked before this returns.
        """
        wanted: Any = "updates" if stream_mode is None else stream_mode
        modes = configs.modes_of(wanted)

        def launch(broadcast: Broadcast | None) -> Launch:
            return self._launch(
                input,
                config,
                durability=durability,
                before=interrupt_before,
                after=interrupt_after,
                output_keys=configs.keys_of(self.plan, output_keys) or self.plan.state_keys,
                modes=modes,
                broadcast=broadcast,
            )

        launch(None)  # refuses bad arguments here, not at the first chunk
        return EventStream(launch, frozenset(modes), tagged=not isinstance(wanted, str))

    async def aget_state(self, config: Config, *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread: the live view of its head, or the record of one checkpoint.

        Returns: an empty snapshot for an unknown thread.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            CheckpointNotFoundError: the config names a checkpoint that doesn't exist.
        """
        host = self._saver_host("get_state()")
        address = configs.address_of(config, needs_thread=True)
        return await states.read_state(host, self._codec, self.plan, address, config)

    def aget_state_history(
        self,
        config: Config,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """The thread's checkpoints as snapshots, newest first.

        Args:
            filter: metadata that must be equal, e.g. `{"source": "loop"}`.
            before: a config; only checkpoints older than the one it names.
            limit: how many at most; default all.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
        """
        host = self._saver_host("get_state_history()")
        address = configs.address_of(config, needs_thread=True)
        bound = configs.address_of(before, needs_thread=False).checkpoint if before else None
        return states.read_history(
            host,
            self._codec,
            self.plan,
            address,
            where=configs.where_of(filter),
            before=bound,
            limit=limit,
        )

    async def aupdate_state(
        self, config: Config, values: Any, as_node: str | None = None
    ) -> dict[str, Any]:
        """Change a thread's state as if a node had returned `values`.

        Args:
            config: the thread; with a checkpoint_id, a branch from that checkpoint.
            values: an update, folded by the same reducers as a node's.
            as_node: the node; its edges decide what runs next. Default the node that ran last,
                if that is clear; otherwise what was due stays due.
        Returns: a config that addresses the new checkpoint; it is durable.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            MissingNodeError, InvalidUpdateError: nothing was written.
            ConflictError: a run has the thread.
        """
        host = self._saver_host("update_state()")
        address = configs.address_of(config, needs_thread=True)
        return await states.write_update(
            host, self._codec, self.plan, address, values=values, as_node=as_node
        )

    # --- blocking twins: one facade over the methods above ---

    def invoke(self, input: Any, config: Config | None = None, **options: Any) -> Any:
        """`ainvoke`, blocking. Refused inside a running event loop; takes the same options."""
        return block_on("ainvoke", lambda: self.ainvoke(input, config, **options))

    def stream(self, input: Any, config: Config | None = None, **options: Any) -> Iterator[Any]:
        """`astream`, blocking. Refused inside a running event loop; takes the same options."""
        refuse_in_loop("astream")
        return self._stream(input, config, options)

    def _stream(
        self, input: Any, config: Config | None, options: Mapping[str, Any]
    ) -> Iterator[Any]:
        stream = self.astream(input, config, **options)
        end = object()
        try:
            while (chunk := portal.call(_next, stream, end)) is not end:
                yield chunk
        finally:
            if running_loop():  # collected as garbage inside of a loop, which must not wait
                stream.abandon()
            else:
                portal.call(stream.aclose)

    def get_state(self, config: Config, *, subgraphs: bool = False) -> StateSnapshot:
        """`aget_state`, blocking."""
        return block_on("aget_state", lambda: self.aget_state(config, subgraphs=subgraphs))

    def get_state_history(self, config: Config, **options: Any) -> Iterator[StateSnapshot]:
        """`aget_state_history`, blocking."""

        async def collect() -> list[StateSnapshot]:
            return [s async for s in self.aget_state_history(config, **options)]

        return iter(block_on("aget_state_history", collect))

    def update_state(
        self, config: Config, values: Any, as_node: str | None = None
    ) -> dict[str, Any]:
        """`aupdate_state`, blocking."""
        return block_on("aupdate_state", lambda: self.aupdate_state(config, values, as_node))

    def _launch(
        self,
        given: Any,
        config: Config | None,
        *,
        durability: DurabilityMode | None,
        before: NodeNames,
        after: NodeNames,
        output_keys: tuple[str, ...],
        modes: Sequence[str] = (),
        broadcast: Broadcast | None = None,
    ) -> Launch:
        address = configs.address_of(config, needs_thread=self.checkpointer is not None)
        policy = configs.policy_of(
            self.plan,
            config,
            durability=configs.durability_of(durability, self.durability),
            modes=modes,
            output_keys=output_keys,
            interrupt_before=before,
            interrupt_after=after,
        )
        return Launch(
            plan=self.plan,
            policy=policy,
            address=address,
            given=given,
            config=dict(config or {}),
            host=None if self.checkpointer is None else host_of(self.checkpointer),
            codec=self._codec,
            context=copy_context(),
            run=IDS.run(),
            broadcast=broadcast,
        )

    def _saver_host(self, what: str) -> Host:
        if self.checkpointer is None:
            raise SaverRequiredError(
                f"No checkpointer set: {what} reads checkpoints, and graph {self.name!r} was "
                "compiled without a checkpointer",
                do="pass checkpointer= to compile(), e.g. SqliteSaver('runs.db')",
            )
        return host_of(self.checkpointer)


def _picked(result: Any, output_keys: object) -> Any:
    """The bare value where one key was asked for by its name; a pause keeps the dict."""
    if isinstance(output_keys, str) and isinstance(result, dict) and INTERRUPT not in result:
        return cast("dict[str, Any]", result).get(output_keys)
    return result


def _result(outcome: Outcome) -> Any:
    match outcome:
        case Succeeded(values):
            return values
        case Interrupted(values, interrupts):
            if not interrupts:
                return values
            state = values if isinstance(values, dict) else {}
            return {**state, INTERRUPT: list(interrupts)}
        case Failed(error):
            raise error
        case _:
            raise AssertionError("a cancelled run raises its caller's cancellation")


async def _next(stream: EventStream, end: object) -> Any:
    return await anext(stream, end)
