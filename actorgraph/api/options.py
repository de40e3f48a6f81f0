"""The keyword arguments of a call that runs a graph."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from actorgraph.api.reading import Modes, ReadingOptions
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.ports import Store
from actorgraph.values.control import RunControl
from actorgraph.values.policies import All, DurabilityMode

NodeNames = All | Sequence[str] | None


class CallOptions(TypedDict, total=False):
    """What every call that runs a graph takes.

    durability: "sync", "async" or "exit"; default the graph's, which is "sync".
    interrupt_before, interrupt_after: nodes to pause at, or "*"; default the graph's.
    output_keys: what to return of the state, or to show of it in "values" chunks. Default the
        output schema of `ainvoke`, the whole state of `astream`. One name gives the bare value.
    print_mode: stream modes whose chunks to print to standard output.
    debug: print "updates" and "values"; default what was given to `compile`.
    control: a `RunControl` with which somebody else may ask the run to stop and store itself.
    deadline_s: seconds after which the run starts no further superstep and leaves with
        `GraphDrained("deadline")`; what it did is stored. Default none.
    strict_resume: refuse a `Command(resume=)` that names a question which doesn't wait, or none,
        with `UnknownInterruptError`, before anything is written. Default: the answers that fit
        are taken.
    replay: "execute", the default, runs the nodes after the config's checkpoint again.
        "recorded" calls no node and writes nothing: it tells what was recorded after that
        checkpoint, the same chunks and the same result. The input must be None.
    stores: name -> store, for the nodes' `runtime.stores`; before those given to `compile`.
    context: for the nodes' `runtime.context`; a dict is made into the graph's `context_schema`.
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


class StreamOptions(CallOptions, ReadingOptions, total=False):
    """What `astream` takes: `CallOptions` and `ReadingOptions`."""


_CALL = tuple(CallOptions.__annotations__)
_READING = tuple(ReadingOptions.__annotations__)


def call_options(method: str, options: Mapping[str, Any]) -> CallOptions:
    """The options of a call, checked.

    Raises:
        InvalidConfigError: the method has no such argument.
    """
    return _known(method, options, _CALL)


def stream_options(options: Mapping[str, Any]) -> tuple[CallOptions, ReadingOptions]:
    """The options of a stream, checked: those of the call, and those of its reader.

    Raises:
        InvalidConfigError: `astream` has no such argument.
    """
    _known("astream", options, (*_CALL, *_READING))
    call: Any = {name: value for name, value in options.items() if name in _CALL}
    reading: Any = {name: value for name, value in options.items() if name in _READING}
    return call, reading


def _known(method: str, options: Mapping[str, Any], known: Sequence[str]) -> Any:
    for name in options:
        if name not in known:
            raise InvalidConfigError(
                f"{method}() has no argument {name!r}", do=did_you_mean(name, known)
            )
    return options
