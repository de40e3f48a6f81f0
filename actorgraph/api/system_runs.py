"""Set up runs of an ActorSystem: their launch, job and stored row."""

import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, cast

import msgspec

from actorgraph.api import results
from actorgraph.api.compiled import CompiledBase
from actorgraph.api.system_calls import StartCall
from actorgraph.codec import Codec, places
from actorgraph.codec.located import with_location
from actorgraph.codec.records import encode_json
from actorgraph.errors import RunCancelledError, SerializationError
from actorgraph.runtime.launch import Launch
from actorgraph.runtime.system.job import Job
from actorgraph.runtime.system.journal import Journal
from actorgraph.superstep.untracked import storable_update
from actorgraph.values.control import RunControl
from actorgraph.values.ids import as_text
from actorgraph.values.run import Cancelled, Interrupted, RunOutcome
from actorgraph.values.systems import RunRow

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


def codec_of(graph: CompiledBase) -> Codec:
    """Return the codec of a graph's threads."""
    return cast("Any", graph)._codec  # noqa: SLF001 - a peer


def launch_maker(
    graph: CompiledBase,
    call: StartCall,
    journal: Journal,
    *,
    run: bytes | None,
    owner: bytes | None,
    control: RunControl,
) -> Callable[[], Launch]:
    """Return a function that makes the run's launch.

    Args:
        graph: the graph.
        call: the arguments of `start`.
        journal: gets the run's chunks.
        run: the run's id, if it has one already.
        owner: the system's id, if its saver stores runs.
        control: lets the system stop the run.
    """
    options: Any = {**call.options, "control": control}
    bare = _bare(graph, options.get("output_keys"))
    keys = graph.plan.output_keys if graph.plan.bare_output else graph.plan.state_keys
    # The caller's context variables. Each launch gets a copy, since a run changes its own.
    context = copy_context()

    def make() -> Launch:
        launch: Launch = cast("Any", graph)._launch(  # noqa: SLF001 - a peer
            call.given,
            call.config,
            place=None,
            options=options,
            default_keys=keys,
            modes=tuple(journal.modes),
            broadcast=journal,
        )
        if bare:
            launch = launch.with_bare_output()
        identity = launch.run if run is None else run
        stored = owner if launch.host is not None else None
        return msgspec.structs.replace(launch, run=identity, owner=stored, context=context.copy())

    return make


def _bare(graph: CompiledBase, keys: object) -> bool:
    if keys is None:
        return graph.plan.bare_output or graph.plan.bare_state
    return isinstance(keys, str)


def result_maker(graph: CompiledBase, call: StartCall) -> Callable[[RunOutcome], Any]:
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


def payload_of(graph: CompiledBase, call: StartCall, run: bytes) -> bytes:
    """Encode a call, so that another process can start the run.

    A context or a config that can't be encoded is left out, and reported as `lacks`; values of
    UntrackedValue channels are left out, as everywhere.

    Raises:
        SerializationError: the input can't be encoded.
    """
    codec, place = codec_of(graph), places.call_of(run)
    given = storable_update(graph.plan.untracked, call.given)
    stored: dict[str, Any] = {
        "input": given,
        "config": {k: v for k, v in call.config.items() if k not in _LOCAL},
        "modes": list(call.modes),
        "subgraphs": call.subgraphs,
        "resumable": call.resumable,
    }
    if call.if_busy in ("interrupt", "rollback"):  # a process that takes the run over needs it
        stored["if_busy"] = call.if_busy
    options = {k: v for k, v in call.options.items() if k in STORED_OPTIONS and v is not None}
    codec.encode(given, "input")  # fails here, so that the error names the input
    try:
        return codec.encode({**stored, "options": options}, "the call", place)
    except SerializationError as error:
        stored["config"] = {"configurable": {"thread_id": call.thread_id}}
        return codec.encode({**stored, "options": {}, "lacks": error.what}, "the call", place)


def stored_call(graph: CompiledBase, row: RunRow, *, claimed: bool) -> tuple[StartCall, str]:
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
        raise with_location(error, where) from error.__cause__


def _decode_call(graph: CompiledBase, row: RunRow, *, claimed: bool) -> tuple[StartCall, str]:
    stored = codec_of(graph).decode(row.payload, places.call_of(row.run))
    call = StartCall(
        name=row.graph,
        thread_id=row.thread_id,
        given=None if claimed else stored["input"],
        config=stored["config"],
        options=stored["options"],
        modes=tuple(stored["modes"]),
        subgraphs=stored["subgraphs"],
        resumable=stored["resumable"],
        metadata=msgspec.json.decode(row.metadata),
        if_busy=stored.get("if_busy", "enqueue"),
    )
    return call, stored.get("lacks", "")


def row_of(call: StartCall, run: bytes, owner: bytes, payload: bytes) -> RunRow:
    """Make the row of a new run."""
    return RunRow(
        run=run,
        thread_id=call.thread_id,
        graph=call.name,
        status="pending",
        attempts=1,
        claimed=False,
        owner=owner,
        created=time.time_ns() // 1000,
        metadata=encode_json(call.metadata),
        payload=payload,
    )


def job_of(
    graph: CompiledBase,
    call: StartCall,
    journal: Journal,
    *,
    owner: bytes | None,
    row: RunRow | None = None,
) -> Job:
    """Make a job: a run that is validated and can be submitted.

    Args:
        graph: the graph.
        call: the arguments of `start`.
        journal: the run's.
        owner: the system's id, if its saver stores runs.
        row: of a run that was taken over; None for a new one.
    Raises:
        SerializationError: the input can't be stored.
        Exception: as `ainvoke` for bad arguments.
    """
    control = call.options.get("control") or RunControl()
    if row is None:
        # This launch only validates the call and gives the run its id, which the payload needs.
        identity = launch_maker(graph, call, journal, run=None, owner=owner, control=control)().run
        payload = payload_of(graph, call, identity) if owner is not None else b""
        row = row_of(call, identity, owner or b"", payload)
    make = launch_maker(graph, call, journal, run=row.run, owner=owner, control=control)
    return Job(
        row,
        journal=journal,
        make=make,
        shape=result_maker(graph, call),
        control=control,
        metadata=call.metadata,
        if_busy=call.if_busy,
    )
