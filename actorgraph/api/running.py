"""Running a compiled graph: `ainvoke` and `astream`."""

from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Unpack

import msgspec

from actorgraph.api import results
from actorgraph.api.compiled import CompiledBase, Config, stopped_by
from actorgraph.api.options import CallOptions, StreamOptions, call_options, stream_options
from actorgraph.api.reading import printer_of, reading_of
from actorgraph.api.stream import EventStream
from actorgraph.runtime.launch import Launch
from actorgraph.runtime.nested import NestedPlace
from actorgraph.runtime.runs import execute
from actorgraph.values.policies import StreamMode
from actorgraph.values.streams import StreamVersion, namespace_of


class RunMethods(CompiledBase):
    """The methods that run the graph."""

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
            input: the input; None to go on where the thread stands; a Command.
            config: see the class.
            stream_mode: default "values": the last state; any other: the list of its chunks.
            version: "v2" returns a `GraphOutput`, or a list of typed stream parts.
            options: `durability`, `interrupt_before`, `interrupt_after`, `output_keys`,
                `print_mode` and `context`: see `CallOptions`.
        Returns: the output, with `"__interrupt__"` if the run waits for answers; None if no
            output key was ever written.
        Raises:
            EmptyInputError, InvalidUpdateError, InvalidConfigError, InvalidContextError,
                StoreRequiredError: nothing ran.
            ConflictError: another run has the thread; no node ran.
            GraphRecursionError: the limit was reached; what was done is stored.
            CheckpointError: a save failed; no node started after that.
            Exception: what a node raised.
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
        """A run, checked and ready: its place among the runs of its node is taken here."""
        asked = call_options("ainvoke", options)
        if stream_mode != "values":
            shown: Any = {**asked, "output_keys": self._output_keys(asked)}
            stream = self.astream(given, config, stream_mode=stream_mode, version=version, **shown)
            return partial(_chunks_of, stream)
        results.check_version(version)
        config = self._bound(config)
        printer = printer_of(asked.get("print_mode", ()), debug=asked.get("debug", self.debug))
        launch = self._launch(
            given,
            config,
            place=self._place(config),
            options=asked,
            default_keys=self.plan.output_keys,
            modes=tuple(printer.modes) if printer else (),
            broadcast=printer,
        )
        if self.plan.bare_output and asked.get("output_keys") is None:
            launch = launch.with_bare_output()
        return partial(self._outcome, launch, asked.get("output_keys"), version)

    def _output_keys(self, asked: CallOptions) -> str | Sequence[str]:
        """The keys that a call shows: those that it names, else the graph's output."""
        keys, own = asked.get("output_keys"), self.plan.output_keys
        if keys is not None:
            return keys
        return own[0] if self.plan.bare_output else own

    async def _outcome(self, launch: Launch, output_keys: object, version: str) -> Any:
        left = results.left(await execute(launch), launch.place)
        return results.result_of(self.plan, left, output_keys, version)

    def astream(
        self,
        input: Any,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        **options: Unpack[StreamOptions],
    ) -> EventStream:
        """Run the graph and read what happens as it happens.

        Args:
            input, config: as in `ainvoke`.
            stream_mode: default "updates". "values": the state after each superstep;
                "updates": what each task returned; "messages": pieces of messages as models
                make them; "custom": what nodes wrote to `get_stream_writer()`; "checkpoints",
                "tasks", "debug": the run's inside. With a list every chunk names its mode.
            options: those of `ainvoke`, see `CallOptions`, and `subgraphs`, `version`,
                `print_mode`, `debug`, `buffer` and `when_full`: see `ReadingOptions`.
        Returns: an async iterator, also usable as `async with`. In sync durability a chunk is
            delivered once what it tells is stored; custom chunks are delivered at once.
        Raises: what `ainvoke` raises; arguments are checked before this returns.
        """
        asked, reading = stream_options(options)
        stream_mode = self.stream_mode if stream_mode is None else stream_mode
        reading["debug"] = reading.get("debug", self.debug)
        reader = reading_of(self.plan, stream_mode, reading)
        config = self._bound(config)
        place = self._place(config)

        keys = asked.get("output_keys")
        bare = isinstance(keys, str) or (keys is None and self.plan.bare_state)

        broadcast = reader.broadcast()
        launch = self._launch(  # refuses bad arguments here, not at the first chunk
            input,
            config,
            place=place,
            options=asked,
            default_keys=self.plan.state_keys,
            modes=tuple(reader.all_modes),
            broadcast=broadcast,
        )
        launch = launch.with_bare_output() if bare else launch

        begun = partial(self._begun, launch, place, asked)
        return EventStream(begun, broadcast, reader, namespace_of(launch.address.namespace))

    def _begun(self, launch: Launch, place: NestedPlace | None, asked: CallOptions) -> Launch:
        """A run as it begins with the first chunk: in which loop, in which context, when."""
        return msgspec.structs.replace(
            launch,
            host=self._own_host() if place is None else launch.host,
            context=copy_context(),
            stopping=stopped_by(place, asked),
        )


async def _chunks_of(stream: EventStream) -> list[Any]:
    async with stream:
        return [chunk async for chunk in stream]
