"""The chunks of each stream mode, made of states and results.

`values` the output after a superstep that changed it; `updates` one dict per finished task;
`tasks` its start and its result; `checkpoints` one per stored checkpoint; `debug` the last two,
wrapped. In sync mode a chunk is held until the save with its contents is durable
(`saves.chunk_gate`), so that a reader never sees what a crash could undo.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, Literal

from actorgraph.channels import EMPTY
from actorgraph.errors.texts import error_repr
from actorgraph.plan.plan import Plan
from actorgraph.superstep.apply import TaskWrites, apply
from actorgraph.superstep.deltas import counters_of
from actorgraph.superstep.nesting import PLACE_KEYS
from actorgraph.superstep.pending_writes import Attempt
from actorgraph.superstep.results import copied
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.saves import chunk_gate
from actorgraph.superstep.tasks import next_nodes
from actorgraph.superstep.untracked import storable_chunk
from actorgraph.values.alarms import shown_times
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import HANDED_UP, INTERRUPT, ROOT
from actorgraph.values.ids import GREGORIAN_OFFSET, as_text, ticks_of
from actorgraph.values.policies import Durability, StreamMode
from actorgraph.values.run import Effect, Emit, Task, TaskResult, Write
from actorgraph.values.stream_items import StreamItem, namespace_of

_PLACE_KEYS = PLACE_KEYS | {
    "thread_id",
    "checkpoint_id",
    "checkpoint_ns",
    "checkpoint_map",
    "langgraph_step",
    "langgraph_node",
    "langgraph_triggers",
    "langgraph_path",
    "langgraph_checkpoint_ns",
}
_NOTHING: Mapping[str, Attempt] = MappingProxyType({})
NO_PARENTS: Mapping[str, str] = MappingProxyType({})
_SHOW_TASKS: Final = frozenset({"tasks", "debug"})
"""The modes with chunks of each task's start and end."""

_SHOW_CHECKPOINTS: Final = frozenset({"checkpoints", "debug"})


def hold(state: RunState, mode: StreamMode, chunk: Any) -> None:
    """Queue a chunk for the readers of its mode, behind the newest save where it must wait."""
    # Chunks are stored with the run's events there; untracked values must not reach a store.
    if state.policy.stored_stream and state.plan.untracked:
        chunk = storable_chunk(state.plan.untracked, mode, chunk)
    if state.held is None:
        state.held = deque()
    state.held.append((chunk_gate(state), (namespace_of(state.namespace), mode, chunk)))


def hold_behind_save(state: RunState) -> None:
    """Let the queued chunks wait for the save just made, which stores their contents."""
    # The chunk of an input's checkpoint is queued before its save exists (see `begin`).
    gate = chunk_gate(state)
    state.held = deque((gate, chunk) for _, chunk in state.held or ())


def deliver(state: RunState) -> list[Effect]:
    """Hand over the chunks whose contents are durable; none once a save has failed."""
    if state.failure is not None:
        state.held = None
    ready: list[StreamItem] = []
    # In order: a chunk that waits holds back all behind it.
    while state.held and state.held[0][0] <= state.durable:
        ready.append(state.held.popleft()[1])
    return [Emit(tuple(ready))] if ready else []


def wants(state: RunState, mode: StreamMode) -> bool:
    """Whether this stream mode has a reader."""
    return mode in state.policy.modes


def output(state: RunState) -> Any:
    """Read the output: a dict of the keys that are available, or the bare value of the one key."""
    keys = state.policy.output_keys or state.plan.output_keys
    if state.policy.bare or keys == (ROOT,):
        value = state.read(keys[0])
        return None if value is EMPTY else value
    shown: dict[str, Any] = {}
    values, opaque = state.values, state.plan.opaque
    for key in keys:
        value = state.read(key) if key in opaque else values.get(key, EMPTY)
        if value is not EMPTY:
            shown[key] = value
    return shown


def last_output(state: RunState) -> Any:
    """Read the output of the last `values` chunk; None if no superstep changed an output key."""
    if state.preview is not None:
        return state.preview
    return output(state) if state.has_output else None


def hold_preview(state: RunState, ran: Sequence[TaskWrites]) -> None:
    """Queue the `values` chunk of a pause: the state with the writes of finished tasks."""
    keys = state.policy.output_keys or state.plan.output_keys
    # Nothing to show beyond the last chunk.
    if not any(channel in keys for task in ran for channel, _ in task.writes):
        return
    # `apply` changes the state that it is given, and this superstep is not over: its parts are
    # replaced by copies while it runs. An in-place reducer must not change the real values.
    before = (state.values, state.versions, state.seen, state.max_version, state.dirty)
    state.values = {k: copied(v) for k, v in state.values.items()}
    state.versions, state.seen, state.dirty = dict(state.versions), {}, set()
    try:
        apply(state, ran)
        state.preview = output(state)
    except Exception:  # noqa: BLE001 - a reducer's error is raised when the superstep ends
        return
    finally:
        state.values, state.versions, state.seen, state.max_version, state.dirty = before
    if wants(state, "values"):
        hold(state, "values", state.preview)


def hold_values(state: RunState, changed: AbstractSet[str]) -> None:
    """Queue the `values` chunk of a superstep, if it changed an output key."""
    keys = state.policy.output_keys or state.plan.output_keys
    if not changed.isdisjoint(keys):
        state.has_output = True
        # `modes` is empty in most runs; without readers the output is not made.
        if state.policy.modes and wants(state, "values"):
            hold(state, "values", output(state))


def hold_update(state: RunState, task: Task, result: TaskResult, *, folded: bool = False) -> None:
    """Queue the `updates` and `tasks` chunks of a finished task.

    Args:
        folded: whether its superstep is over, and the state is at the checkpoint after it.
    """
    # START is hidden too: it only moves the input into the state.
    if not state.policy.modes or state.plan.callable[task.name].hidden:
        return
    if all(channel == HANDED_UP for channel, _ in result.writes) and result.writes:
        return  # what goes up is shown as the result of the node above
    keys = state.policy.output_keys or state.plan.state_keys
    if wants(state, "updates"):
        bare = state.policy.bare or tuple(keys) == (ROOT,)
        update = {task.name: update_of(keys, result.writes, bare=bare)}
        if result.cached:
            update["__metadata__"] = {"cached": True}  # as LangGraph marks them
        hold(state, "updates", update)
    if not state.policy.modes.isdisjoint(_SHOW_TASKS):
        by_channel = grouped(state.plan.state_keys, result.writes)
        hold_task(state, task, result=by_channel, folded=folded)


def hold_restored(state: RunState) -> None:
    """Queue the `updates` chunks of tasks that an earlier run finished, marked as cached."""
    if not wants(state, "updates"):
        return
    keys = state.policy.output_keys or state.plan.state_keys
    bare = state.policy.bare or tuple(keys) == (ROOT,)
    for result in state.results.values():
        task = state.tasks[result.task]
        if not state.plan.callable[task.name].hidden:
            update = update_of(keys, result.writes, bare=bare)
            hold(state, "updates", {task.name: update, "__metadata__": {"cached": True}})


def update_of(keys: Sequence[str], writes: Sequence[Write], *, bare: bool = False) -> Any:
    """Make the update that a task's writes show: a dict, a list of dicts, or None for no writes.

    Args:
        keys: writes to other channels are left out.
        bare: show the value of the one key without the key.
    """
    shown = [(channel, value) for channel, value in writes if channel in keys]
    if not shown:
        return None  # not {}: as LangGraph shows a task that wrote nothing
    if bare:
        return shown[0][1] if len(shown) == 1 else [value for _, value in shown]
    update = dict(shown)
    # A dict could hold only the last of several writes to one key.
    return update if len(update) == len(shown) else [{key: value} for key, value in shown]


def grouped(keys: Sequence[str], writes: Sequence[Write]) -> dict[str, Any]:
    """Group a task's writes by key; several writes to one key as `{"$writes": [...]}`."""
    result: dict[str, Any] = {}
    counts = Counter(channel for channel, _ in writes)
    for channel, value in writes:
        if channel not in keys:
            continue
        if counts[channel] == 1:
            result[channel] = value
        else:
            result.setdefault(channel, {"$writes": []})["$writes"].append(value)
    return result


def result_of(plan: Plan, writes: Sequence[Write]) -> Any:
    """Make a finished task's result for a snapshot: as `grouped`, or the bare value."""
    if plan.bare_state:
        return next((value for channel, value in writes if channel == plan.state_keys[0]), None)
    return grouped(plan.state_keys, writes)


def hold_start(state: RunState, task: Task, input_value: Any) -> None:
    """Queue the `tasks` chunk of a task that starts."""
    if state.policy.modes.isdisjoint(_SHOW_TASKS) or state.plan.callable[task.name].hidden:
        return
    payload: dict[str, Any] = {
        "id": task.id,
        "name": task.name,
        "input": input_value,
        "triggers": task.triggers,
    }
    metadata = _metadata(state, task)
    if metadata:
        payload["metadata"] = metadata
    hold_debug(state, "tasks", "task", payload, state.step + 1)


def _metadata(state: RunState, task: Task) -> dict[str, Any]:
    """The caller's metadata and tags with the node's own; without the keys of the run's place.

    A config that went through LangChain has a copy of its place in its metadata.
    """
    own, policy = state.plan.callable[task.name].metadata, state.policy
    metadata = {k: v for k, v in policy.metadata.items() if k not in _PLACE_KEYS} | dict(own)
    tags = [*policy.tags, *own.get("tags", ())]
    return {**metadata, "tags": tags} if tags else metadata


def hold_task(
    state: RunState,
    task: Task,
    *,
    result: Any = None,
    error: BaseException | None = None,
    interrupts: Sequence[Interrupt] = (),
    folded: bool = False,
) -> None:
    """Queue the `tasks` chunk of a task that ended; `folded` as in `hold_update`."""
    if state.plan.callable[task.name].hidden:
        return
    payload = _result_payload(task, result, error, interrupts)
    # A task belongs to the superstep after the checkpoint that it started from.
    hold_debug(state, "tasks", "task_result", payload, state.step + (not folded))


def hold_call_ended(
    state: RunState, task: Task, *, result: Any = None, error: BaseException | None = None
) -> None:
    """Queue the `tasks` chunk of a `@task` call that ended."""
    payload = _result_payload(task, result, error, ())
    hold_debug(state, "tasks", "task_result", payload, state.step + 1)


def _result_payload(
    task: Task, result: Any, error: BaseException | None, interrupts: Sequence[Interrupt]
) -> dict[str, Any]:
    """A `TaskResultPayload`, without annotations until it is shown."""
    return {
        "id": task.id,
        "name": task.name,
        "error": None if error is None else error_repr(error),
        "result": {} if result is None else result,
        "interrupts": [_question(i) for i in interrupts],
    }


def hold_interrupt(state: RunState, interrupts: tuple[Interrupt, ...]) -> None:
    """Queue the chunks of open questions in `updates` and `values`; () for a breakpoint.

    A subgraph's breakpoint has no chunk of its own: it pauses the root run, which has one.
    """
    if not interrupts and state.nested is not None:
        return
    if wants(state, "updates"):
        hold(state, "updates", {INTERRUPT: interrupts})
    if interrupts and wants(state, "values"):
        # LangGraph's form: the questions are one more key of the output.
        values = output(state)
        shown: dict[str, Any] = values if isinstance(values, dict) else {}
        hold(state, "values", {**shown, INTERRUPT: interrupts})


def hold_checkpoint(
    state: RunState, tasks: Sequence[Task], known: Mapping[str, Attempt] = _NOTHING
) -> None:
    """Queue the `checkpoints` chunk of the newest checkpoint.

    Args:
        tasks: those that follow it.
        known: their stored attempts, by task id.
    """
    if not state.has_saver or state.policy.modes.isdisjoint(_SHOW_CHECKPOINTS):
        return
    keys = state.plan.state_keys
    values = {key: state.read(key) for key in keys if state.read(key) is not EMPTY}
    parent = state.parent
    if state.policy.durability is Durability.EXIT and state.checkpoint != state.head:
        parent = state.anchor  # the checkpoints between are never stored
    parents = state.nested.parents if state.nested else NO_PARENTS
    hold_debug(
        state,
        "checkpoints",
        "checkpoint",
        {
            "config": address(state.thread_id, state.namespace, state.checkpoint, parents),
            "parent_config": address(state.thread_id, state.namespace, parent, parents),
            "values": values.get(keys[0]) if state.plan.bare_state else values,
            "metadata": {
                **counters_of(state.deltas),
                "source": state.source,
                "step": state.step,
                "parents": dict(parents),
            },
            "next": list(next_nodes(state.plan, tasks)),
            "tasks": [_checkpoint_task(state, task, known.get(task.id)) for task in tasks],
        },
        state.step,
    )


def _checkpoint_task(state: RunState, task: Task, known: Attempt | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": task.id, "name": task.name}
    if known is not None and known.error:
        # As LangGraph shows a failed task: without `interrupts`.
        return {**shown, "error": known.error, "state": None}
    if known is not None and known.writes is not None:
        shown["result"] = result_of(state.plan, known.writes)
    asked = known.interrupts if known is not None else ()
    shown["interrupts"] = tuple(_question(i) for i in asked)
    below = below_config(state.thread_id, task) if task.name in state.plan.subgraphs else None
    return {**shown, "state": below}


def _question(asked: Interrupt) -> dict[str, Any]:
    shown = {"value": asked.value, "id": asked.id, "response_schema": asked.response_schema}
    return shown if asked.timing is None else {**shown, **shown_times(asked.timing)}


def address(
    thread_id: str,
    namespace: str,
    checkpoint: bytes | None,
    parents: Mapping[str, str] = NO_PARENTS,
) -> dict[str, Any] | None:
    """Make the config that addresses a checkpoint; None without one.

    Args:
        parents: of a subgraph's checkpoint: namespace -> checkpoint id of the runs above.
    """
    if checkpoint is None:
        return None
    place: dict[str, Any] = {"checkpoint_ns": namespace, "checkpoint_id": as_text(checkpoint)}
    if parents:
        # LangGraph's key: a subgraph's config leads back to the checkpoints above it.
        place["checkpoint_map"] = {**parents, namespace: place["checkpoint_id"]}
    return {"configurable": {"thread_id": thread_id, **place}}


def below_config(thread_id: str, task: Task) -> dict[str, Any]:
    """Make the config of the state of the subgraph that a task runs."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": task.namespace}}


def hold_debug(
    state: RunState,
    mode: Literal["tasks", "checkpoints"],
    kind: Literal["task", "task_result", "checkpoint"],
    payload: dict[str, Any],
    step: int,
) -> None:
    """Queue a payload for the readers of `mode` and, wrapped, for those of `debug`.

    Args:
        kind: its `type` in `debug`.
    """
    if wants(state, mode):
        hold(state, mode, payload)
    if wants(state, "debug"):
        # Out of the id instead of a clock: the core reads none, and a replay shows the same.
        stamp = timestamp(state.checkpoint)
        debug = {"step": step, "timestamp": stamp, "type": kind, "payload": payload}
        hold(state, "debug", debug)


def timestamp(checkpoint: bytes) -> str:
    """Read the time in a checkpoint's id, as ISO 8601 UTC with microseconds."""
    seconds = (ticks_of(checkpoint) - GREGORIAN_OFFSET) / 10_000_000
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
