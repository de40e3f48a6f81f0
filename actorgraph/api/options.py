"""Keyword arguments of the methods that run a graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, Required, TypedDict, cast

from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.errors.signatures import signature_of
from actorgraph.plan.annotations import declared_names
from actorgraph.ports import Saver, Store
from actorgraph.values.commands import RunControl
from actorgraph.values.configs import Config
from actorgraph.values.policies import All, DurabilityMode, StreamMode
from actorgraph.values.schema_types import ContextT
from actorgraph.values.stream_items import StreamVersion, WhenFull

NodeNames = All | Sequence[str] | None
Modes = StreamMode | Sequence[StreamMode]
OtherMode = Literal["updates", "messages", "custom", "checkpoints", "tasks", "debug", "tools"]
"""Each stream mode but "values", with which `ainvoke` returns a list of chunks."""


class RunOptions(TypedDict, Generic[ContextT], total=False):
    """Options of every method that runs a graph; `CallOptions` has one more.

    Attributes:
        durability: "sync", "async" or "exit"; default the graph's, which is "sync".
        interrupt_before: nodes to pause before, or "*"; default the graph's.
        interrupt_after: nodes to pause after, or "*"; default the graph's.
        print_mode: stream modes whose chunks to print to standard output.
        debug: print "updates" and "values"; default the argument of `compile`.
        control: a `RunControl` with which other code can ask the run to store and stop.
        deadline_s: seconds after which the run starts no further superstep and raises
            `DeadlineError`, a `GraphDrained` and a `TimeoutError`; its finished work is stored.
            Default none.
        strict_resume: refuse a `Command(resume=)` that names no waiting interrupt with
            `UnknownInterruptError`, before anything is written. Default: answers that match are
            used and the others ignored.
        replay: "execute", the default, runs the nodes after the config's checkpoint again.
            "recorded" calls no node and writes nothing: it returns the steps recorded after that
            checkpoint, the same chunks and the same result. The input must be None.
        stores: name -> store, for the nodes' `runtime.stores`; they take precedence over those
            given to `compile`.
        context: for the nodes' `runtime.context`; a dict is converted to the graph's
            `context_schema`.
    """

    durability: DurabilityMode | None
    interrupt_before: NodeNames
    interrupt_after: NodeNames
    control: RunControl | None
    deadline_s: float | None
    strict_resume: bool
    replay: Literal["execute", "recorded"]
    context: ContextT | None
    stores: Mapping[str, Store] | None
    print_mode: Modes
    debug: bool


class CallOptions(RunOptions[ContextT], Generic[ContextT], total=False):
    """Options of every method that runs a graph: `RunOptions`, and the keys that it returns.

    Attributes:
        output_keys: keys of the state to return, or to show in "values" chunks. Default the
            output schema for `ainvoke`, the whole state for `astream`. One name gives the bare
            value.
    """

    output_keys: str | Sequence[str] | None


class InvokeOptions(CallOptions[ContextT], Generic[ContextT], total=False):
    """Options of `ainvoke`: `CallOptions` and one about chunks.

    Attributes:
        subgraphs: with a `stream_mode` other than "values": also return the chunks of subgraphs,
            each with its namespace. The output is that of the graph itself, in any case.
    """

    subgraphs: bool


class FlatRunOptions(RunOptions[ContextT], Generic[ContextT], total=False):
    """Options of `ainvoke` that don't change the type of its result."""

    subgraphs: bool


class BufferOptions(TypedDict, total=False):
    """Options of `astream` about the buffer between the run and its reader.

    Attributes:
        print_mode: modes to print to standard output as well.
        debug: print "updates" and "values".
        buffer: chunks by which the run may be ahead of the reader; default 256.
        buffer_bytes: approximate bytes by which it may; default 16 MB. One chunk may be larger.
        when_full: backpressure when the buffer is full. "block", the default, makes the run
            wait; "drop_oldest" drops the oldest unread chunk; "close" ends the run, and the
            stream raises `SlowReaderError`.
    """

    print_mode: Modes
    debug: bool
    buffer: int
    buffer_bytes: int
    when_full: WhenFull


class ReadingOptions(BufferOptions, total=False):
    """Options of `astream` about how its chunks are read: `BufferOptions`, and their shape.

    Attributes:
        subgraphs: also read the runs of subgraphs; every chunk then carries its namespace.
        version: "v2" makes every chunk a `StreamPart` dict; default "v1": bare chunks or tuples.
    """

    subgraphs: bool
    version: StreamVersion


class StreamOptions(CallOptions[ContextT], ReadingOptions, Generic[ContextT], total=False):
    """Options of `astream`: `CallOptions` and `ReadingOptions`."""


class ChunkOptions(RunOptions[ContextT], BufferOptions, Generic[ContextT], total=False):
    """Options of `astream` that don't change the type of its chunks."""


class FlatOptions(ChunkOptions[ContextT], Generic[ContextT], total=False):
    """Options of `astream` with which its chunks are bare, or pairs with their mode."""

    subgraphs: Literal[False]
    version: Literal["v1"]


class NestedOptions(ChunkOptions[ContextT], Generic[ContextT], total=False):
    """Options of `astream` with which its chunks carry their namespace."""

    subgraphs: Required[Literal[True]]
    version: Literal["v1"]


class PartOptions(ChunkOptions[ContextT], Generic[ContextT], total=False):
    """Options of `astream` with which each chunk is a `StreamPart`."""

    subgraphs: bool
    version: Required[Literal["v2"]]


class EventOptions(CallOptions[ContextT], BufferOptions, Generic[ContextT], total=False):
    """Options of `astream_events`: `CallOptions`, `BufferOptions`, and filters of version "v2".

    Attributes:
        include_names: only events of runnables with these names; likewise the next ones.
        include_types: of these types, such as "chain".
        include_tags: with one of these tags.
        exclude_names: no event of runnables with these names; likewise the next ones.
        exclude_types: of these types.
        exclude_tags: with one of these tags.
    """

    include_names: Sequence[str] | None
    include_types: Sequence[str] | None
    include_tags: Sequence[str] | None
    exclude_names: Sequence[str] | None
    exclude_types: Sequence[str] | None
    exclude_tags: Sequence[str] | None


class ThreadOptions(TypedDict, total=False):
    """Options that address a thread, or one of its checkpoints, instead of a config.

    Attributes:
        thread_id: the thread.
        checkpoint_id: the checkpoint; default the newest.
    """

    thread_id: str | None
    checkpoint_id: str | None


class UpdateOptions(ThreadOptions, total=False):
    """Options of `aupdate_state`: the thread (`ThreadOptions`), and one about the node.

    Attributes:
        strict: refuse an update if it is not known which node it is from.
    """

    strict: bool


class ForkOptions(ThreadOptions, total=False):
    """Options of `afork_state`: the source thread (`ThreadOptions`), and the target's saver.

    Attributes:
        saver: where to store the new thread, e.g. that of another compiled graph; default the
            graph's own.
    """

    saver: Saver | None


class TimelineOptions(TypedDict, total=False):
    """Options of `aget_timeline`.

    Attributes:
        thread_id: the thread, instead of `config`.
        before: a config or a checkpoint id; only steps of older checkpoints.
        limit: the most checkpoints to read; None for all.
    """

    thread_id: str | None
    before: Config | str | None
    limit: int | None


class HistoryOptions(TimelineOptions, total=False):
    """Options of `aget_state_history`.

    Attributes:
        thread_id: the thread, instead of `config`.
        before: a config or a checkpoint id; only checkpoints older than that one.
        limit: the most snapshots; default all.
        filter: metadata that must be equal, e.g. `{"source": "loop"}`.
        lineage: list only the newest checkpoint, or the one in `config`, and its ancestors.
    """

    filter: Mapping[str, Any] | None
    lineage: bool


_CALL = declared_names(CallOptions)
CALL_NAMES = frozenset(_CALL)
_READING = declared_names(ReadingOptions)
_OLD_DURABILITY = "checkpoint_during"
"""LangGraph's argument before `durability`: True is "async", False is "exit"."""


_PASSED_ON = {
    "invoke": ("stream_mode", "version"),
    "stream": ("stream_mode",),
    "abatch": (),
    "aresume": (),
    "aresume_from": (),
    "aretry": (),
    "resume": (),
    "resume_from": (),
    "retry": (),
    "stream_events": ("stream_mode",),
    "astream_events": ("stream_mode",),
    "batch": ("return_exceptions", "stream_mode", "version"),
}
"""Methods that pass their options on -> the named arguments among them."""


def call_options(method: str, options: Mapping[str, Any], own: Sequence[str] = ()) -> CallOptions:
    """Check that a method has these options.

    Args:
        own: other options of the method, for the error.
    Raises:
        InvalidConfigError: the method has no such argument.
    """
    known: Any = options
    return known if options.keys() <= CALL_NAMES else _known(method, options, (*own, *_CALL))


def invoke_options(options: Mapping[str, Any]) -> tuple[CallOptions, bool]:
    """Check the options of `ainvoke`. Returns those of the run, and `subgraphs`.

    Raises:
        InvalidConfigError: `ainvoke` has no such argument.
    """
    known: dict[str, Any] = dict(_known("ainvoke", options, (*_CALL, "subgraphs")))
    subgraphs, call = bool(known.pop("subgraphs", False)), cast("CallOptions", known)
    return call, subgraphs


def check_names(method: str, options: Mapping[str, Any]) -> None:
    """Refuse an argument that a method lacks, for a method that passes its options on to another.

    Without this the error would name the other one, such as `ainvoke()` for a blocking `invoke()`.

    Raises:
        InvalidConfigError: the method has no such argument.
    """
    if options.keys() <= CALL_NAMES:
        return
    own = _PASSED_ON[method]
    known = (*_CALL, *(_READING if "stream" in method else ("subgraphs",)), *own)
    _known(method, {name: value for name, value in options.items() if name not in own}, known)


def check_twin(method: str, twin: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse an argument that the async version of a blocking method lacks.

    Raises:
        InvalidConfigError: the method has no such argument.
    """
    if options:
        kinds = signature_of(twin).parameters.values()
        _known(method, options, [each.name for each in kinds])


def stream_options(options: Mapping[str, Any]) -> tuple[CallOptions, ReadingOptions]:
    """Check the options of a stream and split them: those of the run, those of its reader.

    Raises:
        InvalidConfigError: `astream` has no such argument.
    """
    options = _known("astream", options, (*_CALL, *_READING))
    call: Any = {name: value for name, value in options.items() if name in _CALL}
    reading: Any = {name: value for name, value in options.items() if name in _READING}
    return call, reading


def _known(method: str, options: Mapping[str, Any], known: Sequence[str]) -> Any:
    if _OLD_DURABILITY in options:
        options = _with_durability(method, options)
    for name in options:
        if name not in known:
            raise unknown_argument(method, name, known)
    return options


def unknown_argument(method: str, name: str, known: Sequence[str]) -> InvalidConfigError:
    """Make the error for an argument that a method lacks, with its home or a similar one.

    Args:
        known: the arguments that it has.
    """
    if name in _PLACES:
        do = f"pass it in the config: {_PLACES[name]}"
    else:
        homes = [home for home, names in HOMES.items() if name in names]
        do = f"{' and '.join(homes)} has it" if homes else did_you_mean(name, known)
    return InvalidConfigError(f"{method}() has no argument {name!r}", do=do)


HOMES: Mapping[str, Sequence[str]] = {
    "compile()": ("cache", "checkpointer", "migrations", "store", "strict"),
    "ActorSystem.start()": ("if_busy", "resumable", "priority", "delay_s", "at"),
}
"""Arguments that belong to a graph, or to a run of a system, not to a call."""


_PLACES = {
    "thread_id": '{"configurable": {"thread_id": "..."}}',
    "checkpoint_id": '{"configurable": {"thread_id": "...", "checkpoint_id": "..."}}',
    "recursion_limit": '{"recursion_limit": ...}',
    "max_concurrency": '{"max_concurrency": ...}',
    "configurable": '{"configurable": {...}}',
    "metadata": '{"metadata": {...}}',
    "tags": '{"tags": [...]}',
    "callbacks": '{"callbacks": [...]}',
}
"""Arguments that calls lack because they belong to the config -> their place in it."""


def _with_durability(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `checkpoint_during` by the durability that it meant."""
    left = dict(options)
    during = left.pop(_OLD_DURABILITY)
    if during is None:
        return left
    if left.get("durability") is not None:
        raise InvalidConfigError(
            f"{method}() got both {_OLD_DURABILITY}= and durability=",
            do=f"leave {_OLD_DURABILITY}= out",
        )
    return {**left, "durability": "async" if during else "exit"}
