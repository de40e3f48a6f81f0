"""The methods by which a compiled graph streams its runs: `astream` and its blocking version.

The signatures give each stream mode the type of its chunks. A call whose options change that in
another way (`output_keys`, or a mode that isn't written as a literal) has chunks of any type.
`GraphStreams` does the work.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Unpack, overload

from actorgraph.api.blocking import refuse_in_loop
from actorgraph.api.graph.chunk_streams import GraphStreams
from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.api.options import (
    FlatOptions,
    NestedOptions,
    PartOptions,
    StreamOptions,
    check_names,
)
from actorgraph.api.streams.stream import ChunkStream
from actorgraph.values.commands import Command
from actorgraph.values.configs import Config
from actorgraph.values.policies import StreamMode
from actorgraph.values.schema_types import ContextT, InputT, OutputT, ResultT, StateT, ValuesT
from actorgraph.values.stream_items import (
    CheckpointPayload,
    CheckpointStreamPart,
    CustomStreamPart,
    DebugPayload,
    DebugStreamPart,
    MessagesStreamPart,
    Namespace,
    StreamPart,
    TaskPayload,
    TaskResultPayload,
    TasksStreamPart,
    ToolsStreamPart,
    UpdatesStreamPart,
    ValuesStreamPart,
)


class StreamCalls(GraphSettings[StateT, ContextT, InputT, OutputT, ValuesT, ResultT]):
    """Read the chunks of a run."""

    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["updates", "tools"] | None = None,
        **options: Unpack[FlatOptions[ContextT]],
    ) -> ChunkStream[dict[str, Any]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["values"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> ChunkStream[ValuesT]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["messages"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> ChunkStream[tuple[Any, dict[str, Any]]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["custom"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> ChunkStream[Any]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["checkpoints"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> ChunkStream[CheckpointPayload[ValuesT]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["tasks"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> ChunkStream[TaskPayload | TaskResultPayload]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["debug"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> ChunkStream[DebugPayload[ValuesT]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Sequence[StreamMode],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> ChunkStream[tuple[StreamMode, Any]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | None = None,
        **options: Unpack[NestedOptions[ContextT]],
    ) -> ChunkStream[tuple[Namespace, Any]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Sequence[StreamMode],
        **options: Unpack[NestedOptions[ContextT]],
    ) -> ChunkStream[tuple[Namespace, StreamMode, Any]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["updates"] | None = None,
        **options: Unpack[PartOptions[ContextT]],
    ) -> ChunkStream[UpdatesStreamPart]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["tools"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> ChunkStream[ToolsStreamPart]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["values"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> ChunkStream[ValuesStreamPart[StateT]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["messages"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> ChunkStream[MessagesStreamPart]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["custom"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> ChunkStream[CustomStreamPart]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["checkpoints"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> ChunkStream[CheckpointStreamPart[ValuesT]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["tasks"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> ChunkStream[TasksStreamPart]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["debug"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> ChunkStream[DebugStreamPart[ValuesT]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Sequence[StreamMode],
        **options: Unpack[PartOptions[ContextT]],
    ) -> ChunkStream[StreamPart[StateT]]: ...
    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        **options: Unpack[StreamOptions[ContextT]],
    ) -> ChunkStream[Any]: ...
    def astream(
        self,
        input: Any,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        **options: Unpack[StreamOptions[Any]],
    ) -> ChunkStream[Any]:
        """Run the graph and stream its chunks as they are produced.

        Args:
            input: as in `ainvoke`.
            config: as in `ainvoke`.
            stream_mode: default "updates". "values": the state after each superstep;
                "updates": what each task returned; "messages": chunks of messages as models
                produce them; "custom": what nodes wrote to `get_stream_writer()`; "checkpoints",
                "tasks", "debug": internals of the run. With a list every chunk carries its mode.
            options: those of `ainvoke`, see `CallOptions`, and `subgraphs`, `version`,
                `print_mode`, `debug`, `buffer` and `when_full`: see `ReadingOptions`.
        Returns: an async iterator, also usable as `async with`. With sync durability a chunk is
            delivered after what it reports is stored; custom chunks are delivered at once.
        Raises: as `ainvoke`; arguments are checked before this returns.
        """
        return GraphStreams(self).stream(input, config, stream_mode, options)

    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["updates", "tools"] | None = None,
        **options: Unpack[FlatOptions[ContextT]],
    ) -> Iterator[dict[str, Any]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["values"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> Iterator[ValuesT]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["messages"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> Iterator[tuple[Any, dict[str, Any]]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["custom"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> Iterator[Any]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["checkpoints"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> Iterator[CheckpointPayload[ValuesT]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["tasks"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> Iterator[TaskPayload | TaskResultPayload]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["debug"],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> Iterator[DebugPayload[ValuesT]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Sequence[StreamMode],
        **options: Unpack[FlatOptions[ContextT]],
    ) -> Iterator[tuple[StreamMode, Any]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | None = None,
        **options: Unpack[NestedOptions[ContextT]],
    ) -> Iterator[tuple[Namespace, Any]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Sequence[StreamMode],
        **options: Unpack[NestedOptions[ContextT]],
    ) -> Iterator[tuple[Namespace, StreamMode, Any]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["updates"] | None = None,
        **options: Unpack[PartOptions[ContextT]],
    ) -> Iterator[UpdatesStreamPart]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["tools"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> Iterator[ToolsStreamPart]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["values"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> Iterator[ValuesStreamPart[StateT]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["messages"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> Iterator[MessagesStreamPart]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["custom"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> Iterator[CustomStreamPart]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["checkpoints"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> Iterator[CheckpointStreamPart[ValuesT]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["tasks"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> Iterator[TasksStreamPart]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["debug"],
        **options: Unpack[PartOptions[ContextT]],
    ) -> Iterator[DebugStreamPart[ValuesT]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Sequence[StreamMode],
        **options: Unpack[PartOptions[ContextT]],
    ) -> Iterator[StreamPart[StateT]]: ...
    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        **options: Unpack[StreamOptions[ContextT]],
    ) -> Iterator[Any]: ...
    def stream(
        self,
        input: Any,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        **options: Unpack[StreamOptions[Any]],
    ) -> Iterator[Any]:
        """Blocking version of `astream`, with the same options. Refused inside an event loop."""
        refuse_in_loop("stream()", "async for chunk in graph.astream(...)")
        check_names("stream", options)
        streams = GraphStreams(self.blocking_form())
        return streams.blocking_stream(input, config, stream_mode, options)
