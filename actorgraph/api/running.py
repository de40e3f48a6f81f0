"""Running a compiled graph: `ainvoke` and `astream`."""

from collections.abc import Sequence
from typing import Any, Unpack, cast

from actorgraph.api import config as configs
from actorgraph.api.compiled import CompiledBase, Config, NodeNames
from actorgraph.api.reading import ReadingOptions, reading_of
from actorgraph.api.stream import EventStream
from actorgraph.errors import ParentCommand
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.nested import NestedPlace, raise_above
from actorgraph.runtime.runs import Launch, execute
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.policies import DurabilityMode, StreamMode
from actorgraph.values.run import Escaped, Failed, Interrupted, Outcome, Succeeded


class RunMethods(CompiledBase):
    """The methods that run the graph."""

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
            options: dict[str, Any] = {"durability": durability, "output_keys": output_keys}
            options |= {"interrupt_before": interrupt_before, "interrupt_after": interrupt_after}
            stream = self.astream(input, config, stream_mode=stream_mode, **options)
            async with stream:
                return [chunk async for chunk in stream]
        launch = self._launch(
            input,
            config,
            place=self._place(config),
            durability=durability,
            before=interrupt_before,
            after=interrupt_after,
            output_keys=configs.keys_of(self.plan, output_keys) or self.plan.output_keys,
        )
        return _picked(_result(await execute(launch), launch.place), output_keys)

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
        **reading: Unpack[ReadingOptions],
    ) -> EventStream:
        """Run the graph and read what happens as it happens.

        Args:
            stream_mode: default "updates". "values": the state after each superstep;
                "updates": what each task returned; "messages": pieces of messages as models
                make them; "custom": what nodes wrote to `get_stream_writer()`; "checkpoints",
                "tasks", "debug": the run's inside. With a list every chunk names its mode.
            reading: `subgraphs`, `version`, `print_mode`, `debug`, `buffer` and `when_full`: see
                `ReadingOptions`.
            Others: as in `ainvoke`.
        Returns: an async iterator, also usable as `async with`. In sync durability a chunk is
            delivered once what it tells is stored; custom chunks are delivered at once.
        Raises: what `ainvoke` raises; arguments are checked before this returns.
        """
        reader = reading_of(self.plan, stream_mode, reading)
        place = self._place(config)

        def launch(broadcast: Broadcast | None) -> Launch:
            made = self._launch(
                input,
                config,
                place=place,
                durability=durability,
                before=interrupt_before,
                after=interrupt_after,
                output_keys=configs.keys_of(self.plan, output_keys) or self.plan.state_keys,
                modes=tuple(reader.all_modes),
                broadcast=broadcast,
            )
            return made.with_bare_output() if isinstance(output_keys, str) else made

        launch(None)  # refuses bad arguments here, not at the first chunk
        return EventStream(launch, reader)


def _picked(result: Any, output_keys: object) -> Any:
    """The bare value where one key was asked for by its name; a pause keeps the dict."""
    if isinstance(output_keys, str) and isinstance(result, dict) and INTERRUPT not in result:
        return cast("dict[str, Any]", result).get(output_keys)
    return result


def _result(outcome: Outcome, place: NestedPlace | None) -> Any:
    match outcome:
        case Succeeded(values):
            return values
        case Interrupted(values, interrupts):
            if place is not None:
                raise_above(place, interrupts)
            if not interrupts:
                return values
            state = values if isinstance(values, dict) else {}
            return {**state, INTERRUPT: list(interrupts)}
        case Failed(error):
            raise error
        case Escaped(command):
            raise ParentCommand(command)
        case _:
            raise AssertionError("a cancelled run raises its caller's cancellation")
