"""Run a compiled graph: `ainvoke`, `astream`, `abatch`, `astream_events`."""

from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Unpack

import msgspec

from actorgraph.api import results
from actorgraph.api.compiled import CompiledBase, Config, stopping_for
from actorgraph.api.options import CallOptions, StreamOptions, call_options, stream_options
from actorgraph.api.reading import printer_of, stream_format_of
from actorgraph.api.stream import ChunkStream
from actorgraph.runtime.launch import Launch
from actorgraph.runtime.nested import NestedPlace
from actorgraph.runtime.runs import execute
from actorgraph.values.policies import StreamMode
from actorgraph.values.streams import StreamVersion, namespace_of


class RunMethods(CompiledBase):
    """`ainvoke` and `astream`."""

    async def ainvoke(
        self,
        input: Any,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions],
    ) -> Any:
        """Run the graph and return its output.

        Args:
            input: the input; None to continue the thread from its checkpoint; or a Command.
            config: see the class.
            stream_mode: default "values": return the final state; any other: a list of chunks.
            version: "v2" returns a `GraphOutput`, or a list of typed stream parts.
            options: `durability`, `interrupt_before`, `interrupt_after`, `output_keys`,
                `print_mode` and `context`: see `CallOptions`.
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
        return await self._invocation(input, config, stream_mode, version, options)()

    def _invocation(
        self,
        given: Any,
        config: Config | None,
        stream_mode: StreamMode | Sequence[StreamMode],
        version: StreamVersion,
        options: CallOptions,
    ) -> Callable[[], Awaitable[Any]]:
        """Validate a call and return a function that runs it.

        In a node the order of calls identifies nested runs, so the run's place is taken here.
        """
        call = call_options("ainvoke", options)
        if stream_mode != "values":
            shown: Any = {**call, "output_keys": self._output_keys(call)}
            stream = self.astream(given, config, stream_mode=stream_mode, version=version, **shown)
            return partial(_chunks_of, stream)
        results.check_version(version)
        config = self._bound(config)
        printer = printer_of(call.get("print_mode", ()), debug=call.get("debug", self.debug))
        launch = self._launch(
            given,
            config,
            place=self._place(config),
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
        left = results.output_of(await execute(launch), launch.place)
        return results.result_of(self.plan, left, output_keys, version)

    def astream(
        self,
        input: Any,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        **options: Unpack[StreamOptions],
    ) -> ChunkStream:
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
        launch = self._launch(  # refuses bad arguments here, not at the first chunk
            input,
            config,
            place=place,
            options=call,
            default_keys=self.plan.state_keys,
            modes=tuple(reader.all_modes),
            broadcast=broadcast,
        )
        launch = launch.with_bare_output() if bare else launch

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


async def _chunks_of(stream: ChunkStream) -> list[Any]:
    async with stream:
        return [chunk async for chunk in stream]
