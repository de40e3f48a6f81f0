"""Start a run of an ActorSystem: its arguments, checked, and their stored form.

The arguments become a call, the call a `Launch` and a `Job`. Its row has the call encoded, so
that another process can start or resume the run.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from datetime import datetime
from functools import partial
from typing import Any, cast

import msgspec

from actorgraph.api import config as configs
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.graph.run_setup import RunSetup, stopping_for
from actorgraph.api.graph.stored_contexts import (
    Note,
    migrated_context,
    note_of,
    refused_context,
)
from actorgraph.api.options import CallOptions, call_options
from actorgraph.api.streams import formats as results
from actorgraph.bridging import BRIDGE
from actorgraph.codec import Codec
from actorgraph.codec import encryption as places
from actorgraph.codec.conversions import migrated_input, noted
from actorgraph.codec.decode_errors import raise_located
from actorgraph.codec.records import encode_json
from actorgraph.errors import InvalidConfigError, RunCancelledError, SerializationError
from actorgraph.errors.excerpts import shown
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.system.job import Job
from actorgraph.runtime.system.journal import Journal
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.superstep.changes.waiting_inputs import INPUT_MIGRATED, refused_input
from actorgraph.superstep.untracked import storable_update
from actorgraph.values.alarms import as_microseconds
from actorgraph.values.commands import RunControl
from actorgraph.values.graph_changes import Finding
from actorgraph.values.ids import as_text
from actorgraph.values.policies import StreamMode
from actorgraph.values.run import Cancelled, Interrupted, RunOutcome
from actorgraph.values.shards import bucket_of, with_bucket
from actorgraph.values.systems import IfBusy, RunRow

_OWN = ("config", "stream_mode", "subgraphs", "metadata", "resumable", "priority", "delay_s", "at")
SHOWN: tuple[StreamMode, ...] = ("values", "updates")


class StartOptions(CallOptions, total=False):
    """Options of `ActorSystem.start`: those of `ainvoke` (`CallOptions`), and these.

    Attributes:
        config: as for `ainvoke`; callbacks in it are not stored, so a recovered run has none.
        stream_mode: the modes of the run's events; () for none. Default "values" and "updates".
        subgraphs: whether to include events of subgraphs. Default False.
        metadata: JSON values, shown when runs are listed.
        resumable: store the run's events, so that a late reader gets all of them, even after a
            restart of the process. Default False: the newest are kept in memory; True in a system
            with role "accept", whose readers are never where the run is.
        priority: of the run among those that wait for a worker, -1000 to 99; higher ones go
            first. Default 0.
        delay_s: seconds before which no worker begins the run, at most ten years. Until then other
            runs of its thread go on as if it wasn't there. Default 0.
        at: when it begins at the earliest, in place of `delay_s`: with a time zone, by the clock of
            the saver's store. A time that has passed means now.
    """

    config: Mapping[str, Any] | None
    stream_mode: StreamMode | Sequence[StreamMode] | tuple[()]
    subgraphs: bool
    metadata: Mapping[str, Any] | None
    resumable: bool
    priority: int
    delay_s: float
    at: datetime


PRIORITIES = range(-1000, 100)
"""The priorities of runs; those of runs that have lost their system are above them."""
DELAY_MAX_S = 10 * 365 * 86_400


def check_routing(options: StartOptions) -> None:
    """Refuse a priority or a delay that no store could keep.

    Raises:
        InvalidConfigError: it has another type, or is out of range.
    """
    priority, delay_s = options.get("priority", 0), options.get("delay_s", 0.0)
    if type(priority) is not int or priority not in PRIORITIES:
        raise InvalidConfigError(
            f"priority must be an integer from {PRIORITIES[0]} to {PRIORITIES[-1]}, "
            f"got {priority!r}",
            do="leave it out for 0; runs with a higher one go first",
        )
    if type(delay_s) not in (int, float) or not 0 <= delay_s <= DELAY_MAX_S:  # nor nan
        raise InvalidConfigError(
            f"delay_s must be a number of seconds from 0 to {DELAY_MAX_S} (ten years), "
            f"got {delay_s!r}",
            do="use seconds from now, such as 60",
        )


def with_delay(options: StartOptions, now: int) -> StartOptions:
    """Return options with the delay that `at` says.

    Args:
        now: by the store's clock, in microseconds since 1970-01-01 UTC.
    Raises:
        InvalidConfigError: `at` isn't a time with a time zone, or `delay_s` is given too.
    """
    at: Any = options.get("at")
    if at is None:
        return options
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidConfigError(
            f"at must be a datetime with a time zone, got {shown(at)}",
            do="at=datetime.now(UTC) + timedelta(days=1), for example",
        )
    if options.get("delay_s"):
        raise InvalidConfigError("at= and delay_s= can't be combined", do="leave one of them out")
    rest = options.copy()
    del rest["at"]
    rest["delay_s"] = max(0, as_microseconds(at) - now) / 1e6
    return rest


class StartCall(msgspec.Struct, frozen=True):
    """The validated arguments of one call of `start`.

    Attributes:
        name: of the graph in the system.
        thread_id: the thread.
        given: the input.
        config: with the thread's id in it.
        options: those of `ainvoke`.
        modes: stream modes of its events.
        subgraphs: whether events of subgraphs are included.
        resumable: whether its events are stored.
        metadata: of the run.
        if_busy: what to do if another run has the thread.
        accepted_by: id of the graph that accepted a stored input; "" if it is not noted.
        context_note: stored beside a context.
        migrated: sentences about what migrations have changed in a stored call.
    """

    name: str
    thread_id: str
    given: Any
    config: dict[str, Any]
    options: CallOptions
    modes: tuple[str, ...]
    subgraphs: bool
    resumable: bool
    metadata: dict[str, Any]
    if_busy: IfBusy = "enqueue"
    accepted_by: str = ""
    context_note: Note = {}
    migrated: tuple[str, ...] = ()


def config_with_thread(config: Mapping[str, Any] | None, thread_id: str) -> dict[str, Any]:
    """Return a call's config with the thread's id in it.

    Raises:
        InvalidConfigError: it is not a dict, or its `configurable` is not.
    """
    given = dict(configs.gathered(config))
    place = given.get("configurable") or {}
    if not isinstance(place, Mapping):
        raise InvalidConfigError(
            f'config["configurable"] must be a dict, got {place!r}',
            do="pass a dict, or leave it out",
        )
    given["configurable"] = {**place, "thread_id": thread_id}
    return given


def event_modes_of(stream_mode: str | Sequence[str]) -> tuple[str, ...]:
    """Return the stream modes of a run's events; none for an empty list.

    Raises:
        InvalidConfigError: one of them doesn't exist.
    """
    return configs.modes_of(stream_mode) if stream_mode else ()


def checked_call(
    name: str,
    thread_id: str,
    given: Any,
    options: StartOptions,
    *,
    keeps: bool,
    if_busy: IfBusy = "enqueue",
) -> StartCall:
    """Validate the arguments of `start`.

    Args:
        name: of the graph.
        thread_id: the thread.
        given: the input.
        options: see `StartOptions`.
        keeps: whether the saver stores events.
        if_busy: see `ActorSystem.start`.
    Raises:
        InvalidConfigError: an argument is invalid.
    """
    resumable = options.get("resumable", False)
    if resumable and not keeps:
        raise InvalidConfigError(
            "resumable=True needs a saver that stores events, which the system's saver doesn't",
            do="use e.g. SqliteSaver, or leave resumable out",
        )
    config = config_with_thread(options.get("config"), thread_id)
    configs.address_of(config, needs_thread=True)
    rest = {key: value for key, value in options.items() if key not in _OWN}
    return StartCall(
        name=name,
        thread_id=thread_id,
        given=BRIDGE.adapt_input(given) if BRIDGE.types_module in sys.modules else given,
        config=config,
        options=call_options("start", cast("Any", rest), sorted(_OWN)),
        modes=event_modes_of(options.get("stream_mode", SHOWN)),
        subgraphs=options.get("subgraphs", False),
        resumable=resumable,
        metadata=_json("metadata", options.get("metadata")),
        if_busy=if_busy,
    )


def _json(name: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a dict of JSON values as it will be read back.

    Raises:
        InvalidConfigError: it has values that JSON doesn't have.
    """
    try:
        return msgspec.json.decode(encode_json(dict(value or {})))
    except (TypeError, ValueError, SerializationError, msgspec.MsgspecError) as error:
        raise InvalidConfigError(
            f"{name} must be a dict of JSON values, got {shown(value)}: {error}",
            do="use strings, numbers, lists and dicts",
        ) from error


# The other options are objects of this process, such as `control` and `stores`.
STORED_OPTIONS = (
    "durability",
    "interrupt_before",
    "interrupt_after",
    "output_keys",
    "strict_resume",
    "context",
)
_LOCAL = ("callbacks",)


class LaunchMaker:
    """Makes the launches of one run: its call is validated once, each attempt gets a copy.

    Args:
        graph: the graph.
        call: the arguments of `start`.
        journal: gets the run's chunks.
        owner: the system's id, if its saver stores runs.
        control: lets the system stop the run.
    """

    def __init__(
        self,
        graph: CompiledStateGraph,
        call: StartCall,
        journal: Journal,
        *,
        owner: bytes | None,
        control: RunControl,
    ) -> None:
        self._graph = graph
        self._call = call
        self._journal = journal
        self._owner = owner
        self._options: Any = {**call.options, "control": control}
        # The caller's context variables. A node may start a run: that isn't a subgraph of its own.
        self._context = copy_context()
        if self._context.get(CURRENT) is not None:
            self._context.run(CURRENT.set, cast("Any", None))
        self._first: Launch | None = None

    def first(self) -> Launch:
        """Validate the call, unless that was done, and return the launch that all others copy.

        Raises: as `ainvoke` for bad arguments.
        """
        if self._first is None:
            self._first = self._context.run(self._validated)
        return self._first

    def make(self, run: bytes) -> Launch:
        """Return the launch of an attempt that begins now; raises as `first`.

        Args:
            run: the run's id.
        """
        launch = self.first()
        stored = self._owner if launch.host is not None else None
        # A run changes its own context variables.
        parts: dict[str, Any] = {"run": run, "owner": stored, "context": self._context.copy()}
        if self._options.get("deadline_s") is not None:  # counts from the beginning of an attempt
            parts["stopping"] = stopping_for(None, self._options)
        return msgspec.structs.replace(launch, **parts)

    def _validated(self) -> Launch:
        graph, plan = self._graph, self._graph.plan
        launch = RunSetup(graph).make_launch(
            self._call.given,
            self._call.config,
            place=None,
            options=self._options,
            default_keys=plan.output_keys if plan.bare_output else plan.state_keys,
            modes=tuple(self._journal.modes),
            broadcast=self._journal,
        )
        bare = _bare(graph, self._options.get("output_keys"))
        return launch.with_bare_output() if bare else launch


def _bare(graph: CompiledStateGraph, keys: object) -> bool:
    if keys is None:
        return graph.plan.bare_output or graph.plan.bare_state
    return isinstance(keys, str)


def result_maker(graph: CompiledStateGraph, call: StartCall) -> Callable[[RunOutcome], Any]:
    """Return a function that turns an outcome into the result, or raises its error."""
    keys = call.options.get("output_keys")
    plan = graph.plan

    def shape(outcome: RunOutcome) -> Any:
        if isinstance(outcome, Cancelled):
            raise RunCancelledError(
                f"the run of thread {call.thread_id!r} was cancelled",
                do="start another run; the thread has what this one did",
            )
        values, interrupts = results.output_of(outcome, None)
        if keys is None and isinstance(values, dict) and not _bare(graph, None):
            shown = cast("dict[str, Any]", values)
            values = {key: shown[key] for key in plan.output_keys if key in shown}
        waits = isinstance(outcome, Interrupted)
        return results.result_of(plan, (values, interrupts if waits else None), keys, "v1")

    return shape


def payload_of(graph: CompiledStateGraph, call: StartCall, run: bytes) -> bytes:
    """Encode a call, so that another process can start the run.

    Values of UntrackedValue channels are left out, as everywhere.

    Raises:
        SerializationError: the input, the context or the config has something that another process
            couldn't read: nothing would ever go on with the run of a process that has died. Over
            a store of this process alone, a context or a config that can't be encoded is left out,
            and reported as `lacks`.
    """
    lasts = getattr(graph.checkpointer, "durable", True)
    codec, place = graph.codec.for_any_process() if lasts else graph.codec, places.call_of(run)
    given = storable_update(graph.plan.untracked, call.given)
    stored: dict[str, Any] = {
        "input": given,
        "config": {k: v for k, v in call.config.items() if k not in _LOCAL},
        "modes": list(call.modes),
        "subgraphs": call.subgraphs,
        "resumable": call.resumable,
    }
    if given is not None:
        stored["graph"] = graph.plan.graph_id
    if graph.plan.renames.conversions:
        stored["converted"] = noted(graph.plan, {})
    if call.if_busy in ("interrupt", "rollback"):  # a process that takes the run over needs it
        stored["if_busy"] = call.if_busy
    options = {k: v for k, v in call.options.items() if k in STORED_OPTIONS and v is not None}
    if "context" in options and (note := note_of(graph.plan, options["context"])):
        stored["context"] = note
    codec.encode(given, "input")  # fails here, so that the error names the input
    try:
        return codec.encode({**stored, "options": options}, "the call", place)
    except SerializationError as error:
        if lasts:
            raise _unrecoverable(codec, options.get("context"), stored["config"]) from error
        stored["config"] = {"configurable": {"thread_id": call.thread_id}}
        return codec.encode({**stored, "options": {}, "lacks": error.what}, "the call", place)


def _unrecoverable(codec: Codec, context: Any, config: dict[str, Any]) -> SerializationError:
    """Error for a run that no other process could go on with; names what it could not read."""
    do = "declare the class: StateGraph(State, context_schema=...)"
    what = "the context"
    try:
        codec.encode(context, what)
        what, do = "the config", "pass it as context=, of the graph's context_schema"
        codec.encode(config, what)
    except SerializationError as error:
        return SerializationError(
            f"{error.what}, so that no other process could go on with the run",
            do=f"{do}; or {error.do}",
        )
    return SerializationError("the call can't be stored", do="pass plain data")


def stored_call(graph: CompiledStateGraph, row: RunRow, *, claimed: bool) -> tuple[StartCall, str]:
    """Decode the call of a stored run.

    Args:
        graph: the graph.
        row: the run's.
        claimed: whether its input is stored in the thread already.
    Returns: the call, and what could not be stored of it; empty if it is complete.
    Raises:
        CheckpointError: the stored call can't be decoded; the text names the run.
    """
    try:
        return _decode_call(graph, row, claimed=claimed)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged bytes may raise anything
        where = f"the start arguments of run {as_text(row.run)} of thread {row.thread_id!r}"
        raise_located(error, where)


def _decode_call(graph: CompiledStateGraph, row: RunRow, *, claimed: bool) -> tuple[StartCall, str]:
    stored = graph.codec.decode(row.payload, places.call_of(row.run))
    given = migrated_input(graph.plan, stored["input"], stored.get("converted", {}))
    options, note = stored["options"], stored.get("context", {})
    changed = [INPUT_MIGRATED] if given is not stored["input"] and not claimed else []
    if (context := options.get("context")) is not None:
        options["context"] = migrated_context(graph.plan, context, note)
        changed += ["the context of a run that waits is migrated"] * (
            options["context"] is not context
        )
    call = StartCall(
        name=row.graph,
        thread_id=row.thread_id,
        given=None if claimed else given,
        config=stored["config"],
        options=options,
        modes=tuple(stored["modes"]),
        subgraphs=stored["subgraphs"],
        resumable=stored["resumable"],
        metadata=msgspec.json.decode(row.metadata),
        if_busy=stored.get("if_busy", "enqueue"),
        accepted_by=stored.get("graph", ""),
        context_note=note,
        migrated=tuple(changed),
    )
    return call, stored.get("lacks", "")


def refused_call(graph: CompiledStateGraph, call: StartCall) -> Finding | None:
    """Find out why a stored call can't be run, if another version of the graph has accepted it."""
    what, context = "a run waits whose context", call.options.get("context")
    refused = refused_context(graph.plan, context, call.context_note, what)
    if refused is not None:
        return refused
    if not call.accepted_by or call.accepted_by == graph.plan.graph_id:
        return None
    return refused_input(graph.plan, call.given, "a run waits whose input")


class RunArguments(msgspec.Struct, frozen=True):
    """The arguments with which a run was started, as they are stored.

    Attributes:
        input: the input, or the Command.
        config: without callbacks, and with the thread's id.
        options: those of `ainvoke` that can be stored, e.g. "context" and "durability".
        stream_mode: modes of its events.
        subgraphs: whether events of subgraphs are included.
        resumable: whether its events are stored.
        if_busy: what to do if another run has the thread.
        lacks: what could not be stored of the config and the options; "" if they are complete.
    """

    input: Any
    config: dict[str, Any]
    options: dict[str, Any]
    stream_mode: tuple[str, ...]
    subgraphs: bool
    resumable: bool
    if_busy: str
    lacks: str = ""


def read_arguments(graph: CompiledStateGraph, row: RunRow) -> RunArguments:
    """Decode the arguments of a stored run.

    Raises:
        InvalidConfigError: the system's saver stores no runs.
        CheckpointError: they can't be decoded; the text names the run.
    """
    if not row.payload:
        raise InvalidConfigError(
            f"the arguments of run {as_text(row.run)} are not stored",
            do="give the system a saver that stores runs, e.g. SqliteSaver",
        )
    call, lacks = stored_call(graph, row, claimed=False)
    return RunArguments(
        input=call.given,
        config=call.config,
        options=dict(call.options),
        stream_mode=tuple(call.modes),
        subgraphs=call.subgraphs,
        resumable=call.resumable,
        if_busy=call.if_busy,
        lacks=lacks,
    )


def options_again(graph: CompiledStateGraph, row: RunRow) -> StartOptions:
    """Make the options for a run that goes on with what a stored run has begun.

    Without the place in the thread at which that one began, and how it took answers.

    Raises:
        CheckpointError: the stored arguments can't be decoded.
    """
    known = read_arguments(graph, row)
    places = ("checkpoint_id", "checkpoint_ns", "checkpoint_map", "thread_id")
    given: dict[str, Any] = known.config.get("configurable") or {}
    configurable = {key: value for key, value in given.items() if key not in places}
    options = cast("StartOptions", {**known.options})
    options.pop("strict_resume", None)
    options["config"] = {**known.config, "configurable": configurable}
    options["stream_mode"] = cast("Any", known.stream_mode)
    options["subgraphs"], options["resumable"] = known.subgraphs, known.resumable
    options["metadata"] = msgspec.json.decode(row.metadata or "{}")
    return options


def new_run_row(call: StartCall, run: bytes, owner: bytes, payload: bytes, created: int) -> RunRow:
    """Make the row of a new run, accepted at a time of the store's clock."""
    return RunRow(
        run=run,
        thread_id=call.thread_id,
        graph=call.name,
        status="pending",
        attempts=1,
        claimed=False,
        owner=owner,
        created=created,
        metadata=encode_json(call.metadata),
        payload=payload,
    )


def job_of(
    graph: CompiledStateGraph,
    call: StartCall,
    journal: Journal,
    *,
    owner: bytes | None,
    now: int,
    row: RunRow | None = None,
) -> Job:
    """Make a job: a run that is validated and can be submitted.

    Args:
        graph: the graph.
        call: the arguments of `start`.
        journal: the run's.
        owner: the system's id, if its saver stores runs.
        now: by the store's clock, in microseconds since 1970-01-01 UTC.
        row: of a run that was taken over; None for a new one.
    Raises:
        SerializationError: the input can't be stored.
        Exception: as `ainvoke` for bad arguments.
    """
    control = call.options.get("control") or RunControl()
    launches = LaunchMaker(graph, call, journal, owner=owner, control=control)
    if row is None:
        # The call is validated now, which also gives the run its id: the payload needs that.
        identity = with_bucket(launches.first().run, bucket_of(call.thread_id))
        payload = payload_of(graph, call, identity) if owner is not None else b""
        row = new_run_row(call, identity, owner or b"", payload, now)
    return Job(
        row,
        journal=journal,
        make=partial(launches.make, row.run),
        shape=result_maker(graph, call),
        control=control,
        arguments=partial(read_arguments, graph, row),
        metadata=call.metadata,
        if_busy=call.if_busy,
    )
