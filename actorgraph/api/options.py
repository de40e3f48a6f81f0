"""Keyword arguments of the methods that run a graph."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Literal, TypedDict, cast

from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.ports import Store
from actorgraph.values.commands import RunControl
from actorgraph.values.policies import All, DurabilityMode, StreamMode
from actorgraph.values.stream_items import StreamVersion, WhenFull

NodeNames = All | Sequence[str] | None
Modes = StreamMode | Sequence[StreamMode]


class CallOptions(TypedDict, total=False):
    """Options of every method that runs a graph.

    Attributes:
        durability: "sync", "async" or "exit"; default the graph's, which is "sync".
        interrupt_before: nodes to pause before, or "*"; default the graph's.
        interrupt_after: nodes to pause after, or "*"; default the graph's.
        output_keys: keys of the state to return, or to show in "values" chunks. Default the
            output schema for `ainvoke`, the whole state for `astream`. One name gives the bare
            value.
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
    output_keys: str | Sequence[str] | None
    control: RunControl | None
    deadline_s: float | None
    strict_resume: bool
    replay: Literal["execute", "recorded"]
    context: Any
    stores: Mapping[str, Store] | None
    print_mode: Modes
    debug: bool


class InvokeOptions(CallOptions, total=False):
    """Options of `ainvoke`: `CallOptions` and one about chunks.

    Attributes:
        subgraphs: with a `stream_mode` other than "values": also return the chunks of subgraphs,
            each with its namespace. The output is that of the graph itself, in any case.
    """

    subgraphs: bool


class ReadingOptions(TypedDict, total=False):
    """Options of `astream` about how its chunks are read.

    Attributes:
        subgraphs: also read the runs of subgraphs; every chunk then carries its namespace.
        version: "v2" makes every chunk a `StreamPart` dict; default "v1": bare chunks or tuples.
        print_mode: modes to print to standard output as well.
        debug: print "updates" and "values".
        buffer: chunks by which the run may be ahead of the reader; default 256.
        when_full: backpressure when the buffer is full. "block", the default, makes the run
            wait; "drop_oldest" drops the oldest unread chunk; "close" ends the run, and the
            stream raises `SlowReaderError`.
    """

    subgraphs: bool
    version: StreamVersion
    print_mode: Modes
    debug: bool
    buffer: int
    when_full: WhenFull


class StreamOptions(CallOptions, ReadingOptions, total=False):
    """Options of `astream`: `CallOptions` and `ReadingOptions`."""


_CALL = tuple(CallOptions.__annotations__)
CALL_NAMES = frozenset(_CALL)
_READING = tuple(ReadingOptions.__annotations__)
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


def call_options(method: str, options: Mapping[str, Any]) -> CallOptions:
    """Check that a method has these options.

    Raises:
        InvalidConfigError: the method has no such argument.
    """
    known: Any = options
    return known if options.keys() <= CALL_NAMES else _known(method, options, _CALL)


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
        kinds = signature(twin).parameters.values()
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
            do = f"pass it in the config: {_PLACES[name]}" if name in _PLACES else None
            raise InvalidConfigError(
                f"{method}() has no argument {name!r}", do=do or did_you_mean(name, known)
            )
    return options


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
