"""The streams of a compiled graph's runs: one is set up at the call, and begins when it is read."""

import sys
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

import msgspec

from actorgraph.api.blocking import runs_here
from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.api.graph.run_setup import (
    RunSetup,
    bound_config,
    own_host,
    place_of,
    stopping_for,
)
from actorgraph.api.options import CallOptions, stream_options
from actorgraph.api.streams.formats import stream_format_of
from actorgraph.api.streams.stream import ChunkStream
from actorgraph.bridging import BRIDGE
from actorgraph.loops import in_event_loop
from actorgraph.runtime import portal
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.stepper import in_portal
from actorgraph.runtime.task.nested import NestedPlace
from actorgraph.values.configs import Config
from actorgraph.values.policies import StreamMode
from actorgraph.values.stream_items import namespace_of


class GraphStreams(msgspec.Struct, frozen=True):
    """Streams the runs of a graph.

    Attributes:
        graph: the compiled graph.
    """

    graph: GraphSettings

    def stream(
        self,
        given: Any,
        config: Config | None,
        stream_mode: StreamMode | Sequence[StreamMode] | None,
        options: Any,
    ) -> ChunkStream[Any]:
        """See `CompiledStateGraph.astream`."""
        graph = self.graph
        call, reading = stream_options(options)
        stream_mode = graph.stream_mode if stream_mode is None else stream_mode
        reading["debug"] = reading.get("debug", graph.debug)
        reader = stream_format_of(graph.plan, stream_mode, reading)
        config = bound_config(graph, config)
        place = place_of(graph, config)

        keys = call.get("output_keys")
        bare = isinstance(keys, str) or (keys is None and graph.plan.bare_state)

        broadcast = reader.broadcast()
        launch = RunSetup(graph).make_launch(  # refuses bad arguments here, not at the first chunk
            given,
            config,
            place=place,
            options=call,
            default_keys=graph.plan.state_keys,
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
            host=own_host(self.graph) if place is None else launch.host,
            context=copy_context(),
            stopping=stopping_for(place, call),
        )

    def blocking_stream(
        self,
        given: Any,
        config: Config | None,
        stream_mode: StreamMode | Sequence[StreamMode] | None,
        options: Any,
    ) -> Iterator[Any]:
        """See `CompiledStateGraph.stream`. Nothing is checked before the first chunk is read."""
        # Not by `graph.astream`, which a program may have wrapped: it would see the call twice.
        stream = self.stream(given, config, stream_mode, options)
        stream.wait_for_reader()
        if self.graph.plan.plain and runs_here():
            yield from stream.read_here()
            return
        end = object()
        try:
            while (chunk := in_portal(_next, stream, end)) is not end:
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
