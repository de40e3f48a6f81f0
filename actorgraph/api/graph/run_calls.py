"""The methods by which a compiled graph runs: once, for several inputs, read as events.

`GraphRuns` and `GraphEvents` do the work; here are the signatures, the documentation, and the
blocking versions.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from actorgraph.api.batches.batch_options import BatchOptions, Inputs, KeyOf, WatchCounts
from actorgraph.api.batches.thread_batch import BlockingThreadBatch, ThreadBatch
from actorgraph.api.blocking import block_on, refuse_in_loop, way_to_block
from actorgraph.api.config import config_of
from actorgraph.api.graph.event_streams import GraphEvents
from actorgraph.api.graph.graph_runs import GraphRuns
from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.api.graph.thread_states import ThreadStates
from actorgraph.api.options import (
    CallOptions,
    EventOptions,
    FlatRunOptions,
    InvokeOptions,
    OtherMode,
    check_names,
)
from actorgraph.api.streams.events import TransformerFactory
from actorgraph.values.checkpoint import ResumeTarget
from actorgraph.values.commands import Command, GraphOutput
from actorgraph.values.configs import Config
from actorgraph.values.policies import StreamMode
from actorgraph.values.schema_types import ContextT, InputT, OutputT, ResultT, StateT, ValuesT
from actorgraph.values.stream_items import StreamVersion

if TYPE_CHECKING:
    from actorgraph.api.streams.langchain_events import CallbackEvents
    from actorgraph.api.streams.run_stream import AsyncGraphRunStream, GraphRunStream


class RunCalls(GraphSettings[StateT, ContextT, InputT, OutputT, ValuesT, ResultT]):
    """Run the graph: once, for several inputs, or read as typed events."""

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
        return await GraphRuns(self).prepared(input, config, stream_mode, version, options)()

    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> ResultT: ...
    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> GraphOutput[OutputT]: ...
    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: OtherMode | Sequence[StreamMode],
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[ContextT]],
    ) -> list[Any]: ...
    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[ContextT]],
    ) -> Any: ...
    def invoke(
        self,
        input: Any,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[Any]],
    ) -> Any:
        """Blocking version of `ainvoke`, with the same options. Refused inside an event loop."""
        if options:
            check_names("invoke", options)
        graph = self.blocking_form()
        # Not by `ainvoke`, which a program may have wrapped: it would see the call twice.
        call = GraphRuns(graph).deferred(input, config, stream_mode, version, options)
        return way_to_block("graph.ainvoke", call, plain=graph.plan.plain)()

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
        return await GraphRuns(self).together(
            inputs,
            config,
            options,
            stream_mode=stream_mode,
            version=version,
            return_exceptions=return_exceptions,
        )

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
        given: dict[str, Any] = {**options, "progress": progress}
        return GraphRuns(self).threads(inputs, key, given)

    def map_threads(
        self,
        inputs: Iterable[InputT],
        *,
        key: KeyOf | None = None,
        progress: bool | WatchCounts = False,
        **options: Unpack[BatchOptions],
    ) -> BlockingThreadBatch[ResultT]:
        """Blocking version of `amap_threads`, with the same options. Refused in an event loop."""
        refuse_in_loop("map_threads()", "async for result in graph.amap_threads(...)")
        return BlockingThreadBatch(self.amap_threads(inputs, key=key, progress=progress, **options))

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
        graph = self.blocking_form()
        # Functions of concurrent runs would wait for each other in one thread.
        plain = graph.plan.plain and len(inputs) == 1
        call = partial(
            graph.abatch,
            inputs,
            config,
            return_exceptions=return_exceptions,
            stream_mode=stream_mode,
            version=version,
            **options,
        )
        return block_on("graph.abatch", call, plain=plain)

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
        return GraphEvents(self).read(input, config, version, transformers, {**options})

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
        events = GraphEvents(self.blocking_form())
        run = events.projections(input, config, version, transformers, given, blocking=True)
        return GraphRunStream(run)

    async def aresume_from(
        self,
        thread: Config | str,
        target: ResumeTarget,
        command: Command[Any] | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT:
        """Resume a thread from a checkpoint; from any but the newest, on a branch.

        Args:
            thread: its id or config.
            target: `Latest` or `ResumeTarget.checkpoint(id)`.
            command: an answer, an update or a route; None for none.
            options: as for `ainvoke`.
        Returns: as `ainvoke`.
        Raises: as `ainvoke`.
        """
        check_names("aresume_from", options)
        return await self.ainvoke(command, config_of(thread, None, target.checkpoint_id), **options)

    def resume_from(
        self,
        thread: Config | str,
        target: ResumeTarget,
        command: Command[Any] | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT:
        """Blocking version of `aresume_from`, with the same options."""
        check_names("resume_from", options)
        call = partial(self.aresume_from, thread, target, command, **options)
        return block_on("graph.aresume_from", call, plain=self.plan.plain)

    async def aresume(
        self,
        thread: Config | str,
        command: Command[Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT:
        """Resume a thread's newest checkpoint as `aresume_from`; `answers` by id are checked."""
        check_names("aresume", options)
        return await ThreadStates(self).resume(thread, command, answers, {**options})

    def resume(
        self,
        thread: Config | str,
        command: Command[Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT:
        """Blocking version of `aresume`, with the same options."""
        check_names("resume", options)
        call = partial(self.aresume, thread, command, answers, **options)
        return block_on("graph.aresume", call, plain=self.plan.plain)

    async def aretry(
        self, thread: Config | str, **options: Unpack[CallOptions[ContextT]]
    ) -> ResultT:
        """Run a failed thread's unfinished tasks again; finished ones are kept.

        If all have finished and folding their writes failed, all of them run again, on a copy of
        the checkpoint: nothing else could change the outcome. To change the state first, use
        `aupdate_state` and then this or `ainvoke(None, ...)`.

        Args:
            thread: its id or config.
            options: as for `ainvoke`.
        Raises:
            EmptyInputError: the thread has no pending task.
            Exception: as `ainvoke`.
        """
        check_names("aretry", options)
        return await ThreadStates(self).retry(thread, {**options})

    def retry(self, thread: Config | str, **options: Unpack[CallOptions[ContextT]]) -> ResultT:
        """Blocking version of `aretry`, with the same options."""
        check_names("retry", options)
        call = partial(self.aretry, thread, **options)
        return block_on("graph.aretry", call, plain=self.plan.plain)
