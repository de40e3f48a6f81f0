"""The saves of a run, and when each is sent: the durability modes as decisions on data.

| mode  | a task's writes | a superstep's checkpoint | the next superstep starts       |
|-------|-----------------|--------------------------|---------------------------------|
| sync  | sent at once    | sent at once             | after its acknowledgement       |
| async | sent at once    | sent at once             | at once, while few are unsaved  |
| exit  | at the end      | the last one, at the end | at once                         |

The last task's writes, the checkpoint and the head travel in one save, so that a crash leaves
whole supersteps. Saves are numbered; the saver acknowledges a number and thereby all before it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from actorgraph.channels import EMPTY
from actorgraph.superstep.deltas import NO_DELTA_CHOICE, choose_deltas
from actorgraph.superstep.question_times import next_time
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.tasks import next_nodes
from actorgraph.values.constants import (
    CALL,
    CONTROL_INDEX,
    HANDLER_MARK,
    NO_WRITES,
    NULL_TASK,
    PUSH,
)
from actorgraph.values.ids import TaskId
from actorgraph.values.policies import Durability
from actorgraph.values.run import (
    ClaimIntent,
    LedgerEntry,
    NewCheckpoint,
    Save,
    Task,
    TaskResult,
    TaskTimes,
    Write,
)


def result_entry(state: RunState, task: Task, result: TaskResult) -> LedgerEntry:
    """Make the ledger row of a finished task."""
    # A task without writes needs a row too, or it would run again after a crash.
    writes = result.writes or ((NO_WRITES, None),)
    path = task.path
    # A Send's path lacks the node, and a ledger may be read without its checkpoint's Sends.
    # The path of a call has both: its caller and its function.
    if (path[0] == PUSH or HANDLER_MARK in path) and path[-1] != CALL:
        path = (*path, task.name)
    return LedgerEntry(state.checkpoint, task.id, path, 0, 0, writes, result.times)


def control_entry(
    state: RunState,
    task: Task | None,
    kind: str,
    value: object,
    times: TaskTimes | None = None,
) -> LedgerEntry:
    """Make the ledger row of an error, a question or answers; a later generation replaces it.

    Args:
        times: when the task ran, if it has ended with this.
    """
    identifier, path = (task.id, task.path) if task else (TaskId(NULL_TASK), ())
    writes: tuple[Write, ...] = ((kind, value),)
    index = CONTROL_INDEX[kind]
    return LedgerEntry(state.checkpoint, identifier, path, index, state.generation, writes, times)


def rows_to_send(state: RunState, *entries: LedgerEntry) -> tuple[LedgerEntry, ...]:
    """Return the rows of tasks to send now; in exit mode none, they wait for the final save."""
    if state.failure is not None:
        return ()  # a save was refused: no later one would be acknowledged
    if state.saves_at_once:
        return entries
    if state.has_saver:
        state.unflushed.extend(entries)
    return ()


def new_checkpoint(
    state: RunState, next_tasks: list[Task], metadata: Mapping[str, Any] = MappingProxyType({})
) -> NewCheckpoint:
    """Make the newest checkpoint to store; clears the run's list of changed channels.

    Args:
        next_tasks: the tasks that follow it, finished or not.
        metadata: added to that of the run's policy.
    """
    rules, dumping, values = state.plan.channels, state.plan.dumping, state.values
    changed: dict[str, Any] = {}
    # Sorted, so that the rows don't depend on the order of a set.
    for channel in sorted(state.dirty) if len(state.dirty) > 1 else state.dirty:
        rule = rules[channel]
        if rule.stored:
            value = values.get(channel, EMPTY)
            dumps = channel in dumping and value is not EMPTY
            changed[channel] = rule.dump(value) if dumps else value
    # A channel that changed has the highest version. If none did, another branch may have it, and
    # new versions must not collide with that branch's.
    highest = 0 if state.dirty else state.max_version
    state.dirty.clear()
    deltas = choose_deltas(state, changed) if state.plan.deltas or state.deltas else NO_DELTA_CHOICE
    return NewCheckpoint(
        id=state.checkpoint,
        parent=state.parent,
        step=state.step,
        source=state.source,
        changed=changed,
        # Copies: the run goes on while this is on its way. The inner dicts of `seen` are shared,
        # because `apply` replaces them and never changes them.
        versions=dict(state.versions),
        seen=dict(state.seen),
        updated=state.updated,
        next=next_nodes(state.plan, next_tasks),
        metadata={**state.policy.metadata, **metadata} if metadata else state.policy.metadata,
        deltas=deltas.counters,
        folds=deltas.folds,
        unwritten=deltas.unwritten,
        highest=highest,
    )


def save(
    state: RunState,
    *,
    ledger: tuple[LedgerEntry, ...] = (),
    checkpoints: tuple[NewCheckpoint, ...] = (),
    claim: ClaimIntent | None = None,
    ends: str | None = None,
) -> Save:
    """Make the next save: give it its number, and move the run's head to its last checkpoint."""
    state.sent += 1
    # The head before this save: the saver refuses the save if another writer has moved it.
    head = state.head
    if state.nested is not None and not state.nested.claims:
        claim = ends = None  # the root run has claimed the thread, and ends the claim
    if checkpoints:
        state.head = state.anchor = checkpoints[-1].id
        if (
            state.policy.durability is Durability.ASYNC
        ):  # `next_superstep_may_start` asks in no other mode
            state.unsaved_steps.append(state.sent)
    alarm = None if ends is None or not state.sets_alarm else alarm_after(state)
    return Save(state.sent, head, claim, ledger, checkpoints, ends, alarm)


def alarm_after(state: RunState) -> int:
    """When the open questions of a run that leaves do something; 0 for never."""
    times = [next_time(question for asked in state.interrupted.values() for question in asked)]
    if any(i not in state.results and i not in state.interrupted for i in state.tasks):
        # A task that failed, or was stopped, before it could ask again still has its questions.
        times += [timing.next or 0 for timing in state.timings.values()]
    return min(filter(None, times), default=0)


def flush(state: RunState, next_tasks: list[Task], ends: str) -> Save:
    """Make the final save: all that has not been sent, and the run's status.

    `advance.continue_run` sends it once: when the run has an outcome and its last task has ended.
    In exit mode that is the last checkpoint, whose parent is the last one stored, and the
    writes of its unfinished superstep; its values contain those of complete supersteps.

    Args:
        ends: the status.
    """
    checkpoints: tuple[NewCheckpoint, ...] = ()
    if state.checkpoint != state.head:
        # The checkpoints in between were never stored.
        if state.head is not None or state.policy.durability is Durability.EXIT:
            state.parent = state.anchor
        checkpoints = (new_checkpoint(state, next_tasks),)
    # Rows beside an earlier checkpoint would be without their base.
    ledger = tuple(entry for entry in state.unflushed if entry.base == state.checkpoint)
    state.unflushed.clear()
    return save(state, ledger=ledger, checkpoints=checkpoints, ends=ends)


def has_unsaved(state: RunState) -> bool:
    """Whether a final save is needed: a run with a claim has at least its status to store."""
    if state.nested is None or state.nested.claims:
        return True
    return state.checkpoint != state.head or bool(state.unflushed)


def claim_is_stored(state: RunState) -> bool:
    """Whether the thread is this run's, so that saves may follow its claim, which is the first one.

    A system's run counts the epoch that its claim will give the thread. If the claim is refused,
    because another process has taken the run over, that is the epoch of the other process's claim:
    a save that was sent behind this one would pass for one of the other process.
    """
    if state.nested is not None and not state.nested.claims:
        return True
    return state.durable >= min(state.sent, 1)


def next_superstep_may_start(state: RunState) -> bool:
    """Whether the durability mode lets the next superstep's tasks start now."""
    if not state.has_saver:
        return True
    durability = state.policy.durability
    if durability is Durability.SYNC:
        return state.durable == state.sent
    # The first save is awaited in every mode, a subgraph's too: no node runs before the thread, or
    # the subgraph's state, is this run's and the input is stored.
    if state.durable < min(state.sent, 1):
        return False
    # Backpressure of async mode: a slow store slows the run down before memory fills.
    return (
        durability is Durability.EXIT or len(state.unsaved_steps) <= state.policy.max_unsaved_steps
    )


def acknowledged(state: RunState, number: int) -> None:
    """Record that every save up to `number` is durable."""
    # max: after a refused save `durable` equals `sent`, and a late event must not lower it.
    durable = state.durable = max(state.durable, number)
    unsaved = state.unsaved_steps
    while unsaved and unsaved[0] <= durable:
        unsaved.popleft()


def chunk_gate(state: RunState) -> int:
    """Return the number of the save that must be durable before a chunk made now is delivered.

    0 means at once. Rows that wait for the final save are in the next one.
    """
    if not state.has_saver or state.policy.durability is not Durability.SYNC:
        return 0
    return state.sent + bool(state.unflushed)
