"""Turn the outcome of a run into results, and stream items into chunks, in the shape asked for.

| asked for           | chunk                                           |
|---------------------|-------------------------------------------------|
| one mode            | `chunk`                                         |
| a list of modes     | `(mode, chunk)`                                 |
| one mode, subgraphs | `(namespace, chunk)`                            |
| both                | `(namespace, mode, chunk)`                      |
| version="v2"        | `{"type": mode, "ns": namespace, "data": chunk}`|
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from actorgraph.api import config as configs
from actorgraph.api.options import Modes, ReadingOptions
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.errors.tracebacks import from_program
from actorgraph.plan.plan import Plan
from actorgraph.runtime.broadcast import BUFFER_BYTES, BUFFER_MAX, Broadcast
from actorgraph.runtime.task.nested import NestedPlace, note_end, raise_above
from actorgraph.superstep.handover import raised
from actorgraph.values.commands import GraphOutput, Interrupt
from actorgraph.values.constants import INTERRUPT, START
from actorgraph.values.run import Escaped, Failed, Interrupted, RunOutcome, Succeeded
from actorgraph.values.stream_items import StreamItem, StreamVersion, WhenFull

RunOutput = tuple[Any, tuple[Interrupt, ...] | None]
"""A run's output, and its pending interrupts; None for a run that has ended."""


def check_version(version: str) -> None:
    """Check the version of a call's output.

    Raises:
        InvalidConfigError: it is unknown.
    """
    if version not in ("v1", "v2"):
        raise InvalidConfigError(
            f'unknown version={version!r}; expected "v1" or "v2"', do='use "v1" or "v2"'
        )


def output_of(outcome: RunOutcome, place: NestedPlace | None) -> RunOutput:
    """Return the output of a run, or raise the error that ended it.

    Args:
        place: where a nested run was called; its interrupts and errors are raised there.
    """
    match outcome:
        case Succeeded(values):
            return values, None
        case Interrupted(values, interrupts):
            if place is not None:
                raise_above(place, interrupts)
            return values, tuple(interrupts)
        case Failed(error):
            if place is not None:
                note_end(place, error)
            raise from_program(error)
        case Escaped(handed):
            raise raised(handed)
        case _:
            raise AssertionError("a cancelled run raises its caller's cancellation")


def result_of(plan: Plan, run: RunOutput, output_keys: object, version: str) -> Any:
    """Return a run's output in the shape that the call asks for.

    Args:
        output_keys: one name asks for its bare value; in "v1" a run that waits at an interrupt
            still returns the dict.
        version: "v2" makes it a `GraphOutput`.
    """
    values, interrupts = run
    if version == "v2":
        picked = _picked(values, output_keys)
        if isinstance(values, dict) and not isinstance(output_keys, str):
            picked = in_schema(plan.make_output, values)
        return GraphOutput(picked, interrupts or ())
    if not interrupts:
        return values if output_keys is None else _picked(values, output_keys)
    return {**(values if isinstance(values, dict) else {}), INTERRUPT: list(interrupts)}


def _picked(values: Any, output_keys: object) -> Any:
    return values.get(output_keys) if isinstance(output_keys, str) and values else values


def in_schema(make: Callable[..., Any] | None, state: dict[str, Any]) -> Any:
    """Convert a state to the user's schema; the dict if it doesn't fit, as before the input."""
    if make is None:
        return state
    try:
        return make(**state)
    except Exception:  # noqa: BLE001 - validators of the user's may raise anything
        return state


_VERSIONS: tuple[StreamVersion, ...] = ("v1", "v2")
_POLICIES: tuple[WhenFull, ...] = ("block", "drop_oldest", "close")
_PRINTED_BY_DEBUG = ("updates", "values")
_BOLD, _YELLOW, _PLAIN = "\033[1m", "\033[33;1m", "\033[0m"


class StreamFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The validated options of one reader.

    Attributes:
        modes: the modes that it reads.
        printed: the modes that are printed to standard output as well.
        tagged: whether chunks carry their mode.
        placed: whether chunks carry their namespace.
        version: of the chunks' shape, see above.
        buffer: chunks by which the run may be ahead of the reader.
        buffer_bytes: their approximate bytes.
        when_full: what happens when the buffer is full.
        make_output: converts v2 outputs to the user's schema; None leaves dicts.
        make_state: converts v2 checkpoint states likewise.
    """

    modes: frozenset[str]
    printed: frozenset[str] = frozenset()
    tagged: bool = False
    placed: bool = False
    version: StreamVersion = "v1"
    buffer: int = BUFFER_MAX
    buffer_bytes: int = BUFFER_BYTES
    when_full: WhenFull = "block"
    make_output: Callable[..., Any] | None = None
    make_state: Callable[..., Any] | None = None

    @property
    def all_modes(self) -> frozenset[str]:
        """The modes that the run must emit."""
        return self.modes | self.printed

    def broadcast(self) -> Broadcast:
        """Make the buffer between a run and this reader."""
        return Broadcast(
            self.all_modes,
            self.buffer,
            subgraphs=self.placed,
            when_full=self.when_full,
            buffer_bytes=self.buffer_bytes,
        )

    def shaped(self, item: StreamItem) -> Any:
        """Return a chunk in the shape that the reader asked for."""
        namespace, mode, chunk = item
        if self.version == "v2":
            return self._part(item)
        if self.placed:
            return item if self.tagged else (namespace, chunk)
        return (mode, chunk) if self.tagged else chunk

    def show(self, item: StreamItem) -> None:
        """Print a chunk if its mode is to be printed."""
        namespace, mode, chunk = item
        if mode in self.printed:
            place = f" {_YELLOW}[graph={namespace}]{_PLAIN}" if self.placed and namespace else ""
            print(f"{_BOLD}[{mode}]{_PLAIN}{place} {chunk!r}")  # noqa: T201 - asked for

    def _part(self, item: StreamItem) -> dict[str, Any]:
        namespace, mode, chunk = item
        part: dict[str, Any] = {"type": mode, "ns": namespace, "data": chunk}
        if mode == "values":
            part["interrupts"] = ()
            if isinstance(chunk, dict):
                state = dict(cast("dict[str, Any]", chunk))
                part["interrupts"] = tuple(state.pop(INTERRUPT, ()))
                part["data"] = in_schema(None if namespace else self.make_output, state)
        elif mode in ("checkpoints", "debug") and not namespace and self.make_state is not None:
            part["data"] = _with_state(self.make_state, chunk)
        return part


class Printer(Broadcast):
    """A buffer that prints each chunk at once: `print_mode` and `debug` of `ainvoke`."""

    def __init__(self, modes: frozenset[str], *, subgraphs: bool) -> None:
        super().__init__(modes, subgraphs=subgraphs)
        self._format = StreamFormat(modes=frozenset(), printed=modes, placed=subgraphs)

    def _put(self, chunk: StreamItem) -> None:
        super()._put(chunk)
        while self._items:
            item = self.take()
            if item is not None:
                self._format.show(cast("StreamItem", item))


def printer_of(
    print_mode: Modes, *, debug: bool = False, subgraphs: bool = False
) -> Printer | None:
    """Make a printer for these modes and those of `debug`; None without modes.

    Args:
        subgraphs: whether it prints the chunks of subgraphs too, with their namespaces.
    Raises:
        InvalidConfigError: a mode doesn't exist.
    """
    modes = configs.modes_of(print_mode) if print_mode else ()
    printed = frozenset((*modes, *(_PRINTED_BY_DEBUG if debug else ())))
    return Printer(printed, subgraphs=subgraphs) if printed else None


def stream_format_of(
    plan: Plan, stream_mode: Modes | None, options: ReadingOptions
) -> StreamFormat:
    """Validate the options of a call of `astream`.

    Raises:
        InvalidConfigError: a mode, the version or `when_full` is unknown, or a bound of the buffer
            is < 1.
    """
    wanted = "updates" if stream_mode is None else stream_mode
    print_mode = options.get("print_mode", ())
    printed = configs.modes_of(print_mode) if print_mode else ()
    buffer = options.get("buffer", BUFFER_MAX)
    if buffer < 1:
        raise InvalidConfigError(f"buffer must be >= 1, got {buffer!r}", do="use 1 chunk or more")
    buffer_bytes = options.get("buffer_bytes", BUFFER_BYTES)
    if buffer_bytes < 1:
        raise InvalidConfigError(
            f"buffer_bytes must be >= 1, got {buffer_bytes!r}", do="leave it out for 16 MB"
        )
    return StreamFormat(
        modes=frozenset(configs.modes_of(wanted)),
        printed=frozenset((*printed, *(_PRINTED_BY_DEBUG if options.get("debug") else ()))),
        tagged=not isinstance(wanted, str),
        placed=options.get("subgraphs", False),
        version=_one_of("version", options.get("version", "v1"), _VERSIONS),
        buffer=buffer,
        buffer_bytes=buffer_bytes,
        when_full=_one_of("when_full", options.get("when_full", "block"), _POLICIES),
        make_output=plan.make_output,
        make_state=plan.make_state,
    )


def _one_of(name: str, value: str, known: Sequence[Any]) -> Any:
    if value not in known:
        raise InvalidConfigError(
            f"unknown {name}={value!r}; expected one of {', '.join(known)}",
            do=did_you_mean(value, known),
        )
    return value


def _with_state(make: Callable[..., Any], chunk: dict[str, Any]) -> dict[str, Any]:
    """Convert the values of a checkpoint's payload, or of a debug chunk with one."""
    if chunk.get("type") == "checkpoint" and "payload" in chunk:
        return {**chunk, "payload": _with_state(make, chunk["payload"])}
    values = chunk.get("values")
    # Before the input is applied the state lacks keys that the schema may require.
    if not isinstance(values, dict) or START in chunk.get("next", ()):
        return chunk
    return {**chunk, "values": in_schema(make, cast("dict[str, Any]", values))}
