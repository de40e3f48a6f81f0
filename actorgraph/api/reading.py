"""How a reader wants its chunks: which modes, in which shape, printed or not, how far behind.

| asked for          | chunk                                           |
|--------------------|-------------------------------------------------|
| one mode           | `chunk`                                         |
| a list of modes    | `(mode, chunk)`                                 |
| one mode, subgraphs| `(namespace, chunk)`                            |
| both               | `(namespace, mode, chunk)`                      |
| version="v2"       | `{"type": mode, "ns": namespace, "data": chunk}`|
"""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, cast

import msgspec

from actorgraph.api import config as configs
from actorgraph.api.results import in_schema
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.plan.graph import Plan
from actorgraph.runtime.broadcast import BUFFER_MAX, Broadcast
from actorgraph.values.constants import INTERRUPT, START
from actorgraph.values.policies import StreamMode
from actorgraph.values.streams import StreamItem, StreamVersion, WhenFull

_VERSIONS: tuple[StreamVersion, ...] = ("v1", "v2")
_POLICIES: tuple[WhenFull, ...] = ("block", "drop_oldest", "close")
_PRINTED_BY_DEBUG = ("updates", "values")
_BOLD, _YELLOW, _PLAIN = "\033[1m", "\033[33;1m", "\033[0m"

Modes = StreamMode | Sequence[StreamMode]


class ReadingOptions(TypedDict, total=False):
    """The keyword arguments of `astream` that say how its chunks are read.

    subgraphs: read the runs below this one too; every chunk names its namespace.
    version: "v2" makes every chunk a `StreamPart` dict; default "v1", see the module's table.
    print_mode: modes to print to standard output as well.
    debug: print "updates" and "values".
    buffer: chunks that the run may be ahead of the reader; default 256.
    when_full: what happens then. "block", the default, lets the run wait; "drop_oldest" drops
        the chunk that has waited longest; "close" ends the run, and the stream with
        `SlowReaderError`.
    """

    subgraphs: bool
    version: StreamVersion
    print_mode: Modes
    debug: bool
    buffer: int
    when_full: WhenFull


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One reader's wishes.

    Attributes:
        modes: what it reads; printed: what goes to standard output besides.
        tagged: whether chunks name their mode; placed: whether they name their namespace.
        make_output, make_state: make v2 states into the user's schemas; None leaves dicts.
        buffer: chunks that the run may be ahead of the reader.
    """

    modes: frozenset[str]
    printed: frozenset[str] = frozenset()
    tagged: bool = False
    placed: bool = False
    version: StreamVersion = "v1"
    buffer: int = BUFFER_MAX
    when_full: WhenFull = "block"
    make_output: Callable[..., Any] | None = None
    make_state: Callable[..., Any] | None = None

    @property
    def all_modes(self) -> frozenset[str]:
        """The modes that the run must tell."""
        return self.modes | self.printed

    def broadcast(self) -> Broadcast:
        """The way from a run to this reader."""
        return Broadcast(
            self.all_modes, self.buffer, subgraphs=self.placed, when_full=self.when_full
        )

    def shaped(self, item: StreamItem) -> Any:
        """A chunk as the reader gets it."""
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
    """A reader that prints what it reads, at once."""

    def __init__(self, modes: frozenset[str]) -> None:
        super().__init__(modes)
        self._reading = Reading(modes=frozenset(), printed=modes)

    def _put(self, chunk: StreamItem) -> None:
        super()._put(chunk)
        while (item := self._chunks.get_nowait()) is not None:
            self._reading.show(item)


def printer_of(print_mode: Modes, *, debug: bool = False) -> Printer | None:
    """What prints these modes, and those of `debug`; None where there are none.

    Raises:
        InvalidConfigError: one of them doesn't exist.
    """
    modes = configs.modes_of(print_mode) if print_mode else ()
    printed = frozenset((*modes, *(_PRINTED_BY_DEBUG if debug else ())))
    return Printer(printed) if printed else None


def reading_of(plan: Plan, stream_mode: Modes | None, options: ReadingOptions) -> Reading:
    """What a call of `astream` asks for, checked.

    Raises:
        InvalidConfigError: a mode, the version, the buffer or the policy doesn't
            exist.
    """
    wanted = "updates" if stream_mode is None else stream_mode
    print_mode = options.get("print_mode", ())
    printed = configs.modes_of(print_mode) if print_mode else ()
    buffer = options.get("buffer", BUFFER_MAX)
    if buffer < 1:
        raise InvalidConfigError(f"buffer={buffer!r} is less than 1", do="use 1 chunk or more")
    return Reading(
        modes=frozenset(configs.modes_of(wanted)),
        printed=frozenset((*printed, *(_PRINTED_BY_DEBUG if options.get("debug") else ()))),
        tagged=not isinstance(wanted, str),
        placed=options.get("subgraphs", False),
        version=_one_of("version", options.get("version", "v1"), _VERSIONS),
        buffer=buffer,
        when_full=_one_of("when_full", options.get("when_full", "block"), _POLICIES),
        make_output=plan.make_output,
        make_state=plan.make_state,
    )


def _one_of(name: str, value: str, known: Sequence[Any]) -> Any:
    if value not in known:
        raise InvalidConfigError(
            f"{name}={value!r} is none of {', '.join(known)}", do=did_you_mean(value, known)
        )
    return value


def _with_state(make: Callable[..., Any], chunk: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint's payload, or a debug chunk with one, with its values in the schema."""
    if chunk.get("type") == "checkpoint" and "payload" in chunk:
        return {**chunk, "payload": _with_state(make, chunk["payload"])}
    values = chunk.get("values")
    if not isinstance(values, dict) or START in chunk.get("next", ()):
        return chunk
    return {**chunk, "values": in_schema(make, cast("dict[str, Any]", values))}
