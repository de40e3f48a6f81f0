"""How an ActorSystem sets a run up: the call that starts it, and what is stored of that."""

import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, cast

import msgspec

from actorgraph.api import results
from actorgraph.api.compiled import CompiledBase
from actorgraph.api.system_calls import Call
from actorgraph.codec import Codec, places
from actorgraph.codec.located import located
from actorgraph.codec.records import encode_json
from actorgraph.errors import RunCancelledError, SerializationError
from actorgraph.runtime.runs import Launch
from actorgraph.runtime.system.job import Job
from actorgraph.runtime.system.journal import Journal
from actorgraph.superstep.untracked import storable_update
from actorgraph.values.control import RunControl
from actorgraph.values.ids import as_text
from actorgraph.values.run import Cancelled, Interrupted, RunOutcome
from actorgraph.values.systems import RunRow

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
    """How values of a graph's threads are stored."""
    return cast("Any", graph)._codec  # noqa: SLF001 - a peer


def maker(
    graph: CompiledBase,
    call: Call,
    journal: Journal,
    *,
    run: bytes | None,
    owner: bytes | None,
    control: RunControl,
) -> Callable[[], Launch]:
    """A function that sets the run up.

    Args:
        run: its id, if it has one already. owner: the system, if its saver keeps runs.
    """
    options: Any = {**call.options, "control": control}
    bare = _bare(graph, options.get("output_keys"))
    keys = graph.plan.output_keys if graph.plan.bare_output else graph.plan.state_keys
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


def shaper(graph: CompiledBase, call: Call) -> Callable[[RunOutcome], Any]:
    """A function that makes the result of an outcome, or raises its error."""
    keys = call.options.get("output_keys")
    plan = graph.plan

    def shape(outcome: RunOutcome) -> Any:
        if isinstance(outcome, Cancelled):
            raise RunCancelledError(
                f"the run of thread {call.thread_id!r} was cancelled",
                do="start another one; the thread has what it did",
            )
        values, interrupts = results.left(outcome, None)
        if keys is None and isinstance(values, dict) and not _bare(graph, None):
            shown = cast("dict[str, Any]", values)
            values = {key: shown[key] for key in plan.output_keys if key in shown}
        waits = isinstance(outcome, Interrupted)
        return results.result_of(plan, (values, interrupts if waits else None), keys, "v1")

    return shape


def payload_of(graph: CompiledBase, call: Call, run: bytes) -> bytes:
    """What is stored of a call, so that another process can begin it.

    A context or a config that can't be stored is left out, and named; what is given for an
    UntrackedValue is left out as it is everywhere.

    Raises:
        SerializationError: the input can't be stored.
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
    if call.if_busy in ("interrupt", "rollback"):  # whoever takes it up must know
        stored["if_busy"] = call.if_busy
    options = {k: v for k, v in call.options.items() if k in STORED_OPTIONS and v is not None}
    codec.encode(given, "input")
    try:
        return codec.encode({**stored, "options": options}, "the call", place)
    except SerializationError as error:
        stored["config"] = {"configurable": {"thread_id": call.thread_id}}
        return codec.encode({**stored, "options": {}, "lacks": error.what}, "the call", place)


def call_of(graph: CompiledBase, row: RunRow, *, go_on: bool) -> tuple[Call, str]:
    """The call of a stored run, and why it can't be taken up, if it can't.

    Args:
        go_on: whether its input is in the thread already.
    Raises:
        CheckpointError: what it was started with can't be read; the text names it.
    """
    try:
        return _call_of(graph, row, go_on=go_on)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - bytes that no codec wrote may raise anything
        where = f"what run {as_text(row.run)} of thread {row.thread_id!r} was started with"
        raise located(error, where) from error.__cause__


def _call_of(graph: CompiledBase, row: RunRow, *, go_on: bool) -> tuple[Call, str]:
    stored = codec_of(graph).decode(row.payload, places.call_of(row.run))
    call = Call(
        name=row.graph,
        thread_id=row.thread_id,
        given=None if go_on else stored["input"],
        config=stored["config"],
        options=stored["options"],
        modes=tuple(stored["modes"]),
        subgraphs=stored["subgraphs"],
        resumable=stored["resumable"],
        metadata=msgspec.json.decode(row.metadata),
        if_busy=stored.get("if_busy", "enqueue"),
    )
    return call, stored.get("lacks", "")


def row_of(call: Call, run: bytes, owner: bytes, payload: bytes) -> RunRow:
    """The row of a new run."""
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
    call: Call,
    journal: Journal,
    *,
    owner: bytes | None,
    row: RunRow | None = None,
) -> Job:
    """A run, checked and ready, new or out of its row.

    Raises: whatever `ainvoke` refuses before it runs; SerializationError.
    """
    control = call.options.get("control") or RunControl()
    if row is None:
        # Checks the call, and gives the run its id.
        identity = maker(graph, call, journal, run=None, owner=owner, control=control)().run
        payload = payload_of(graph, call, identity) if owner is not None else b""
        row = row_of(call, identity, owner or b"", payload)
    make = maker(graph, call, journal, run=row.run, owner=owner, control=control)
    return Job(
        row,
        journal=journal,
        make=make,
        shape=shaper(graph, call),
        control=control,
        metadata=call.metadata,
        if_busy=call.if_busy,
    )
