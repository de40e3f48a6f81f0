"""Run a compiled graph: `ainvoke`, `astream`, `abatch`, `astream_events`."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from actorgraph.api import config as configs
from actorgraph.api.batches.batch_options import (
    BatchOptions,
    Inputs,
    KeyOf,
    WatchCounts,
    batch_plan,
    refuse_breakpoints,
)
from actorgraph.api.batches.thread_batch import ThreadBatch
from actorgraph.api.blocking import refuse_in_loop
from actorgraph.api.graph.graph_threads import BatchCall, GraphThreads
from actorgraph.api.graph.many_calls import all_of, one_each
from actorgraph.api.graph.streaming import StreamMethods
from actorgraph.api.graph.subgraphs import graph_at
from actorgraph.api.options import (
    CALL_NAMES,
    CallOptions,
    EventOptions,
    FlatRunOptions,
    InvokeOptions,
    OtherMode,
    check_names,
    invoke_options,
)
from actorgraph.api.streams import formats as results
from actorgraph.api.streams.events import TransformerFactory
from actorgraph.api.streams.formats import printer_of
from actorgraph.bridging import BRIDGE
from actorgraph.errors import InvalidConfigError
from actorgraph.loops import on_trio, start_beside
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.run.node_warnings import check_pause
from actorgraph.runtime.run.start import prepare
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.superstep.nesting import nodes_of
from actorgraph.values.commands import Command, GraphOutput
from actorgraph.values.configs import Config
from actorgraph.values.policies import StreamMode
from actorgraph.values.run import Interrupted
from actorgraph.values.schema_types import ContextT, InputT, OutputT, ResultT, StateT, ValuesT
from actorgraph.values.stream_items import Namespace, StreamVersion

if TYPE_CHECKING:
    from actorgraph.api.streams.langchain_events import CallbackEvents, SpanStream
    from actorgraph.api.streams.run_stream import AsyncGraphRunStream, GraphRunStream


class RunMethods(StreamMethods[StateT, ContextT, InputT, OutputT, ValuesT, ResultT]):
    """One run, a batch of runs, and the chunks and typed events of a run."""

    stream_transformers: tuple[TransformerFactory, ...] = ()

    @overload
    async def ainvoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> ResultT: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> GraphOutput[OutputT]: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: OtherMode | Sequence[StreamMode],
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[ContextT]],
    ) -> list[Any]: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[ContextT]],
    ) -> Any: ...
    async def ainvoke(
        self,
        input: Any,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[Any]],
    ) -> Any:
        """Run the graph and return its output.

        Args:
            input: the input; None to continue the thread from its checkpoint; or a Command.
            config: see the class.
            stream_mode: default "values": return the final state; any other: a list of chunks.
            version: "v2" returns a `GraphOutput`, or a list of typed stream parts.
            options: `durability`, `interrupt_before`, `interrupt_after`, `output_keys`,
                `print_mode`, `context` and others: see `CallOptions`; and `subgraphs`.
        Returns: the output, with `"__interrupt__"` if the run waits at interrupts; None if no
            output key was ever written.
        Raises:
            EmptyInputError, InvalidUpdateError, InvalidConfigError, InvalidContextError,
                StoreRequiredError: a bad argument; nothing ran.
            ConflictError: another run holds the thread; no node ran.
            GraphRecursionError: the recursion limit was reached; finished supersteps are stored.
            CheckpointError: a save failed; no node started after that.
            Exception: the error that a node raised.
        """
        return await self.invocation(input, config, stream_mode, version, options)()

    def invocation(
        self,
        given: Any,
        config: Config | None,
        stream_mode: StreamMode | Sequence[StreamMode],
        version: StreamVersion,
        options: InvokeOptions,
    ) -> Callable[[], Awaitable[Any]]:
        """Validate a call and return a function that runs it.

        In a node the order of calls identifies nested runs, so the run's place is taken here. For
        the package's own use.
        """
        call: CallOptions = options
        subgraphs = False
        if not options.keys() <= CALL_NAMES:
            call, subgraphs = invoke_options(options)
        if stream_mode != "values":
            shown: Any = {**call, "output_keys": self._output_keys(call), "subgraphs": subgraphs}
            stream = self.astream(given, config, stream_mode=stream_mode, version=version, **shown)
            return stream.read_all
        if version != "v1":
            results.check_version(version)
        if self.config is not None or (
            config is not None and not (type(config) is dict and config.keys() <= configs.KEYS)
        ):
            config = self._bound(config)
        modes, debug = call.get("print_mode", ()), call.get("debug", self.debug)
        printer = printer_of(modes, debug=debug, subgraphs=subgraphs) if modes or debug else None
        launch = self.make_launch(
            given,
            config,
            place=None if CURRENT.get(None) is None else self._place(config),
            options=call,
            default_keys=self.plan.output_keys,
            modes=tuple(printer.modes) if printer else (),
            broadcast=printer,
        )
        if self.plan.bare_output and call.get("output_keys") is None:
            launch = launch.with_bare_output()
        return partial(self._outcome, launch, call.get("output_keys"), version)

    def _output_keys(self, call: CallOptions) -> str | Sequence[str]:
        """Return the keys of a call's chunks: those that it names, else the graph's output."""
        keys, own = call.get("output_keys"), self.plan.output_keys
        if keys is not None:
            return keys
        return own[0] if self.plan.bare_output else own

    async def _outcome(self, launch: Launch, output_keys: object, version: str) -> Any:
        place, context, address = launch.place, launch.context, launch.address
        is_stored = launch.host is not None
        supervisor, effects = await prepare(launch)
        del launch  # its input need not live as long as the run
        outcome = await supervisor.run(effects)
        if place is None and type(outcome) is Interrupted:
            check_pause(context, address, self.plan.name, outcome, is_stored=is_stored)
        left = results.output_of(outcome, place)
        return results.result_of(self.plan, left, output_keys, version)

    @overload
    async def abatch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: Literal[False] = False,
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> list[ResultT]: ...
    @overload
    async def abatch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: Literal[False] = False,
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> list[GraphOutput[OutputT]]: ...
    @overload
    async def abatch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: Literal[True],
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> list[ResultT | Exception]: ...
    @overload
    async def abatch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: Literal[True],
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> list[GraphOutput[OutputT] | Exception]: ...
    @overload
    async def abatch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: bool = False,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[ContextT]],
    ) -> list[Any]: ...
    async def abatch(
        self,
        inputs: Sequence[Any],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: bool = False,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[Any]],
    ) -> list[Any]:
        """Call `ainvoke` for each input, concurrently.

        Args:
            inputs: one run each.
            config: of every run, or a list with one for each. `max_concurrency` bounds the
                concurrent runs (the first config's), and the tasks of each run.
            return_exceptions: return the exception of a run that fails as its result.
                Default: the first one cancels the other runs, which store what they have done.
            stream_mode: as in `ainvoke`.
            version: as in `ainvoke`.
            options: as in `ainvoke`.
        Returns: the results, in the order of the inputs.
        Raises:
            InvalidConfigError: the number of configs is not that of the inputs; nothing ran.
            Exception: as `ainvoke`; bad arguments of any input before the first run starts.
        """
        check_names("abatch", options)
        given = one_each(inputs, config)
        bound = self._bound(given[0]) if given else None
        # Prepared here, in input order: in a node a nested run is identified by the order of
        # calls, and the tasks below may start in any order.
        calls = [
            self.invocation(one, own, stream_mode, version, options)
            for one, own in zip(inputs, given, strict=True)
        ]
        limit = configs.max_concurrency_of(bound) or len(calls)
        return await all_of(calls, limit, return_exceptions=return_exceptions)

    def amap_threads(
        self,
        inputs: Inputs[InputT],
        *,
        key: KeyOf | None = None,
        progress: bool | WatchCounts = False,
        **options: Unpack[BatchOptions],
    ) -> ThreadBatch[ResultT]:
        """Run one durable thread for each input; the same call again goes on where it ended.

        As `ActorSystem.map`, in this process alone: without runs that other processes can see,
        wait for or take over. One process at a time may run a batch so.

        Args:
            inputs: iterable or async iterable, read as threads end; each begins one thread.
            key: returns the key of an input, the same in every run. Default its place, from 0.
            progress: True draws a bar with rich; or a function that gets `BatchCounts`.
            options: see `BatchOptions`.
        Returns: an async iterator over `ThreadResult`, as threads end.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            InvalidConfigError: an argument is out of range, the graph has breakpoints, a key is
                used twice, or this is called in a node.
        """
        if CURRENT.get(None) is not None:
            raise InvalidConfigError(
                "a batch of threads can't be run in a node: a run inside a node is part of its "
                "thread",
                do="call it outside of the graph, or use abatch() in the node",
            )
        self._saver_host("amap_threads()")
        given: Any = {**options, "progress": progress}
        plan, call = batch_plan("amap_threads", inputs, key, given, name=self.name)
        refuse_breakpoints("amap_threads", self.plan, call)
        threads = GraphThreads(self, plan, BatchCall.of(given, call))
        return ThreadBatch(plan, threads, lambda work: start_beside(work.serve, work.ended))

    @overload
    def batch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: Literal[False] = False,
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> list[ResultT]: ...
    @overload
    def batch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: Literal[False] = False,
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> list[GraphOutput[OutputT]]: ...
    @overload
    def batch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: Literal[True],
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> list[ResultT | Exception]: ...
    @overload
    def batch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: Literal[True],
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> list[GraphOutput[OutputT] | Exception]: ...
    @overload
    def batch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: bool = False,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[ContextT]],
    ) -> list[Any]: ...
    def batch(
        self,
        inputs: Sequence[Any],
        config: Any = None,
        *,
        return_exceptions: bool = False,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[Any]],
    ) -> list[Any]:
        """Blocking version of `abatch`."""
        check_names("batch", options)
        alone = len(inputs) == 1
        graph = self.blocking_form()
        return graph.block_on(
            "abatch",
            lambda: graph.abatch(
                inputs,
                config,
                return_exceptions=return_exceptions,
                stream_mode=stream_mode,
                version=version,
                **options,
            ),
            alone=alone,
        )

    @overload
    def astream_events(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        version: Literal["v3"],
        transformers: Sequence[TransformerFactory] = (),
        **options: Unpack[EventOptions[ContextT]],
    ) -> "AsyncGraphRunStream": ...

    @overload
    def astream_events(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        version: Literal["v1", "v2"] = "v2",
        **options: Unpack[EventOptions[ContextT]],
    ) -> "CallbackEvents": ...

    def astream_events(
        self,
        input: Any,
        config: Config | None = None,
        *,
        version: str = "v2",
        transformers: Sequence[TransformerFactory] = (),
        **options: Unpack[EventOptions[Any]],
    ) -> "AsyncGraphRunStream | CallbackEvents":
        """Run the graph and read typed projections of it, or LangChain's events.

        ```python
        async with graph.astream_events({"question": "why?"}, version="v3") as run:
            async for message in run.messages:
                async for text in message.text:
                    print(text, end="")
            print(await run.output())
        ```

        Args:
            input: as in `ainvoke`.
            config: as in `ainvoke`.
            version: "v3" for projections. "v2", the default, for an iterator of LangChain's
                events (`StreamEvent`); it takes the options `include_names`, `include_types`,
                `include_tags`, and the same with `exclude_`. If the program has imported
                LangChain, on asyncio, it makes the events itself, and "v1" exists too.
            transformers: subclasses of `StreamTransformer`, or functions of a scope that make
                one; they come after those of `compile(transformers=)`.
            options: of `astream`, except `stream_mode` and `subgraphs`, which follow from the
                transformers.
        Returns: the run, which begins when it is read. Awaiting it returns the same object.
        Raises:
            InvalidConfigError: the version is unknown, or the option is one that follows from
                the transformers.
            Exception: as `astream`.
        """
        given: dict[str, Any] = {**options}
        if version in ("v1", "v2") and not transformers:
            if version == "v1" or _chain_events_here():
                return BRIDGE.chain_events(self, input, config, version, given)
            return self._read_spans(input, config, given)
        return self.read_events(input, config, version, transformers, given, blocking=False)

    def _read_spans(
        self, given: Any, config: Config | None, options: dict[str, Any]
    ) -> "SpanStream":
        from actorgraph.api.streams.langchain_events import (
            FILTERS,
            MODES,
            EventFilter,
            SpanEvents,
            SpanStream,
        )

        wanted = EventFilter({name: options.pop(name, None) for name in FILTERS})
        check_names("astream_events", options)
        modes: Any = list(MODES)
        stream = self.astream(
            given, config, stream_mode=modes, subgraphs=True, version="v2", **options
        )
        given_config = config or {}
        tags: list[str] = list(given_config.get("tags") or ())
        spans = SpanEvents(
            partial(self._name_at, stream.namespace),
            given,
            stream.namespace,
            tags,
            given_config.get("metadata") or {},
        )
        return SpanStream(stream, spans, wanted.takes)

    def _name_at(self, own: Namespace, namespace: Namespace) -> str:
        """Return the name of this graph, or of the subgraph whose runs have a namespace below it.

        Args:
            own: the namespace of this graph's run.
        """
        found = graph_at(self, nodes_of("|".join(namespace[len(own) :])))
        return "LangGraph" if found is None else found.plan.name

    def stream_events(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        version: Literal["v3"] = "v3",
        transformers: Sequence[TransformerFactory] = (),
        **options: Unpack[EventOptions[ContextT]],
    ) -> "GraphRunStream":
        """Blocking version of `astream_events`: projections are read with a plain `for`."""
        refuse_in_loop("stream_events()", "async with graph.astream_events(...) as run")
        from actorgraph.api.streams.run_stream import GraphRunStream

        given: dict[str, Any] = {**options}
        graph = self.blocking_form()
        run = graph.read_events(input, config, version, transformers, given, blocking=True)
        return GraphRunStream(run)

    def read_events(
        self,
        given: Any,
        config: Config | None,
        version: str,
        transformers: Sequence[TransformerFactory],
        options: dict[str, Any],
        *,
        blocking: bool,
    ) -> "AsyncGraphRunStream":
        """As `astream_events` of version 3; for the package's own use."""
        from actorgraph.api.streams.run_stream import AsyncGraphRunStream, Pump

        _check(version, options)
        check_names("stream_events" if blocking else "astream_events", options)
        factories = (*_built_in(), *self.stream_transformers, *transformers)
        modes: Any = sorted({mode for factory in factories for mode in _modes_of(factory)})
        stream = self.astream(
            given, config, stream_mode=modes, subgraphs=True, version="v2", **options
        )
        pump = Pump(factories, scope=stream.namespace, blocking=blocking)
        pump.attach(stream)
        return AsyncGraphRunStream(pump)


def _chain_events_here() -> bool:
    """Whether LangChain makes the events of version 2: the program has imported it, on asyncio."""
    return BRIDGE.loaded_runnable() is not None and not on_trio()


_OWNED = ("stream_mode", "subgraphs")


def _built_in() -> tuple[TransformerFactory, ...]:
    from actorgraph.api.streams.message_streams import MessagesTransformer
    from actorgraph.api.streams.projections import LifecycleTransformer, ValuesTransformer
    from actorgraph.api.streams.run_stream import SubgraphTransformer

    return (ValuesTransformer, MessagesTransformer, LifecycleTransformer, SubgraphTransformer)


def _modes_of(factory: TransformerFactory) -> Sequence[str]:
    """Return the modes that a transformer needs; a function is called once to find out."""
    known: Sequence[str] | None = getattr(factory, "required_stream_modes", None)
    return factory(()).required_stream_modes if known is None else known


def _check(version: str, options: dict[str, Any]) -> None:
    if version != "v3":
        raise InvalidConfigError(
            f'unknown version={version!r}; expected "v3", or "v1" or "v2" for astream_events() '
            "without transformers",
            do='use version="v3", or astream(stream_mode=[...]) for chunks',
        )
    for name in _OWNED:
        if name in options:
            raise InvalidConfigError(
                f"astream_events() has no argument {name!r}; the transformers determine it",
                do="leave it out; transformers=[UpdatesTransformer] adds run.updates",
            )
