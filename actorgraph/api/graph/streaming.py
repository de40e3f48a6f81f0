"""Stream a run of a compiled graph: `astream` and its blocking version.

The signatures give each stream mode the type of its chunks. A call whose options change that in
another way (`output_keys`, or a mode that isn't written as a literal) has chunks of any type.
"""

import sys
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Literal, Unpack, overload

import msgspec

from actorgraph.api.blocking import refuse_in_loop, runs_here
from actorgraph.api.graph.setup import CompiledBase, stopping_for
from actorgraph.api.options import (
    CallOptions,
    FlatOptions,
    NestedOptions,
    PartOptions,
    StreamOptions,
    check_names,
    stream_options,
)
from actorgraph.api.streams.formats import stream_format_of
from actorgraph.api.streams.stream import ChunkStream
from actorgraph.bridging import BRIDGE
from actorgraph.loops import in_event_loop
from actorgraph.runtime import portal
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.task.nested import NestedPlace
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
    namespace_of,
)


class StreamMethods(CompiledBase[StateT, ContextT, InputT, OutputT, ValuesT, ResultT]):
    """The chunks of a run."""

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
        call, reading = stream_options(options)
        stream_mode = self.stream_mode if stream_mode is None else stream_mode
        reading["debug"] = reading.get("debug", self.debug)
        reader = stream_format_of(self.plan, stream_mode, reading)
        config = self._bound(config)
        place = self._place(config)

        keys = call.get("output_keys")
        bare = isinstance(keys, str) or (keys is None and self.plan.bare_state)

        broadcast = reader.broadcast()
        launch = self.make_launch(  # refuses bad arguments here, not at the first chunk
            input,
            config,
            place=place,
            options=call,
            default_keys=self.plan.state_keys,
            modes=tuple(reader.all_modes),
            broadcast=broadcast,
        )
        launch = launch.with_bare_output() if bare else launch
        if place is None and BRIDGE.feeds_events(launch.config):
            # So that a chunk is reported before what the next nodes report.
            broadcast.waits_for_reader = True

        begun = partial(self._begun, launch, place, call)
        return ChunkStream(begun, broadcast, reader, namespace_of(launch.address.namespace))

    def _begun(self, launch: Launch, place: NestedPlace | None, call: CallOptions) -> Launch:
        """Complete a launch when the first chunk is read.

        Only then are the event loop, the context variables and the start of the deadline known.
        """
        return msgspec.structs.replace(
            launch,
            host=self._own_host() if place is None else launch.host,
            context=copy_context(),
            stopping=stopping_for(place, call),
        )

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
        given: Any = options if stream_mode is None else {**options, "stream_mode": stream_mode}
        return _blocking_stream(self.blocking_form(), input, config, given)


def _blocking_stream(
    graph: StreamMethods, input: Any, config: Config | None, options: Any
) -> Iterator[Any]:
    # Not by `graph.astream`, which a program may have wrapped: it would see the call twice.
    stream: ChunkStream[Any] = StreamMethods.astream(graph, input, config, **options)
    stream.wait_for_reader()
    if graph.plan.plain and runs_here():
        yield from stream.read_here()
        return
    end = object()
    try:
        while (chunk := portal.call(_next, stream, end)) is not end:
            yield chunk
    finally:
        # The generator may be freed by the garbage collector where nothing may block: inside
        # a loop, or while the interpreter shuts down.
        if in_event_loop() or sys.is_finalizing():
            stream.abandon()
        else:
            portal.call(stream.aclose)


async def _next(stream: ChunkStream[Any], end: object) -> Any:
    return await anext(stream, end)
