"""Resume at a thread's head: finished tasks keep their writes, the others run.

The pending writes of the checkpoint are matched with the tasks that it makes due: results, answers,
and failures that an error handler handles. A run from any other checkpoint is a replay
(`superstep.replay`).

A run that brings answers by id, and nothing else, leaves the tasks alone whose questions got none:
they would run to the same questions again. So k questions of k tasks that are answered one by one
take 2k calls of their nodes. A run with no answer (None) calls them again, and so does one whose
Command also updates the state, since with other values a node may ask something else. So do the
later runs from that checkpoint: the run may have ended before a node could ask again.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from actorgraph.superstep import chunks
from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.advance import continue_run, end_run, new_superstep, next_superstep
from actorgraph.superstep.apply import apply_command
from actorgraph.superstep.calls import restore_calls
from actorgraph.superstep.deltas import note_left_over
from actorgraph.superstep.pending_writes import Attempt
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.saves import new_checkpoint, save
from actorgraph.superstep.task_failures import is_handled, take_back_failure, with_handlers
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.checkpoint import Restored, StoredWrite
from actorgraph.values.constants import CONTROL_INDEX, INTERRUPT, NULL_TASK, RESUME, ROUTED
from actorgraph.values.ids import TaskId
from actorgraph.values.run import (
    ClaimIntent,
    Effect,
    LedgerEntry,
    NewCheckpoint,
    Succeeded,
    Task,
    TaskResult,
)


def go_on_with(
    state: RunState,
    restored: Restored,
    entries: tuple[LedgerEntry, ...] = (),
    resumes: tuple[str, ...] = (),
) -> list[Effect]:
    """Go on from the head.

    Args:
        entries: the rows that this run brings: answers, and the writes of a Command.
        resumes: the ids of the questions that it answers.
    """
    head = state.head
    own = tuple(w for e in entries if e.task == NULL_TASK and e.index >= 0 for w in e.writes)
    changed = apply_command(state, own) if own else set[str]()
    tasks = due_tasks(state, None)
    state.has_output = True
    state.answering = (
        state.nested.answering
        if state.nested
        else _only_answers(entries) and not any(pending.accepted(restored.ledger))
    )
    if not tasks and not own and not state.left:
        return nothing_due(state)
    # The breakpoint that the thread has stopped at must not pause this run again.
    state.seen[INTERRUPT] = dict(state.versions)
    stored: tuple[NewCheckpoint, ...] = ()
    if not tasks and own:
        tasks = new_superstep(state, "update", changed)
        entries = ()
        stored = (new_checkpoint(state, tasks),) if state.has_saver else ()
    restore_tasks(state, tasks, restored.ledger, entries)
    effects: list[Effect] = []
    if state.has_saver and (stored or entries or state.nested is None or state.nested.claims):
        claim = ClaimIntent(head, state.policy.durability.value, resumes=resumes)
        ends = None if tasks or state.left else "success"
        effects.append(save(state, claim=claim, checkpoints=stored, ledger=entries, ends=ends))
        state.unsaved_steps.clear()  # no step starts before the claim is durable
    return start_from_head(state, tasks, effects, restored.ledger)


def nothing_due(state: RunState) -> list[Effect]:
    """End the run at a finished checkpoint, with its values and without a write."""
    if chunks.wants(state, "values"):
        chunks.hold(state, "values", chunks.output(state))
    chunks.hold_checkpoint(state, [])
    return end_run(state, Succeeded(chunks.output(state)), saved=True)


def start_from_head(
    state: RunState, tasks: list[Task], effects: list[Effect], ledger: Iterable[StoredWrite]
) -> list[Effect]:
    """Queue the chunks of the checkpoint that a run starts from, and start its tasks.

    Args:
        tasks: those that follow the checkpoint, finished or not.
        effects: go in front of the new ones.
        ledger: the checkpoint's pending writes.
    """
    if chunks.wants(state, "values"):
        chunks.hold(state, "values", chunks.output(state))
    chunks.hold_checkpoint(state, tasks, pending.attempts(ledger))
    chunks.hold_restored(state)
    if state.tasks and not state.due:
        return effects + continue_run(state)
    return next_superstep(state, effects)


def restore_tasks(
    state: RunState,
    tasks: list[Task],
    rows: Iterable[StoredWrite],
    entries: tuple[LedgerEntry, ...],
) -> None:
    """Match pending writes with the tasks: the finished ones are results, the others are due.

    Args:
        rows: stored beside the checkpoint.
        entries: the rows that this run brings.
    """
    known = pending.attempts(rows)
    state.tasks, state.results, state.due, state.handled = {}, {}, deque(), {}
    fresh = _fresh(entries, RESUME)
    routed = _fresh(entries, ROUTED)
    for task in with_handlers(state, tasks, known):
        attempt = known.get(task.id, Attempt())
        is_answered = task.id in fresh or task.id in routed
        if state.answering and not is_answered and pending.only_waits(task, attempt):
            state.tasks[task.id] = task
            state.interrupted[task.id] = attempt.interrupts
            state.left_waiting = (*state.left_waiting, task.id)
            continue
        if attempt.handled and is_handled(state.plan, task, known):
            state.tasks[task.id] = task
            take_back_failure(state, task, attempt)
            continue
        answers = tuple(fresh.get(task.id, attempt.answers))
        below = {**attempt.routed, **routed.get(task.id, {})}
        ready = task
        if answers or below:
            ready = msgspec.structs.replace(task, answers=answers, routed=below)
        state.tasks[task.id] = ready
        if attempt.writes is not None:
            state.results[task.id] = TaskResult(task.id, attempt.writes, answers)
        else:
            state.due.append(ready)
    for identifier, path, writes in state.left:
        # With START's name, as the graph has no such node: it is hidden, and its writes count.
        own_id = TaskId(identifier)
        state.tasks[own_id] = Task(own_id, state.plan.start.name, path, (), None)
        state.results[own_id] = TaskResult(own_id, writes)
    state.left = ()
    restore_calls(state, known)
    if state.plan.deltas:
        note_left_over(state, known)


def _only_answers(entries: tuple[LedgerEntry, ...]) -> bool:
    """Whether a run brings answers by id, and neither an update nor an answer without an id."""
    return bool(entries) and all(entry.task != NULL_TASK for entry in entries)


def _fresh(entries: tuple[LedgerEntry, ...], kind: str) -> dict[str, Any]:
    """The values of this run's own control rows of one kind, by task."""
    index = CONTROL_INDEX[kind]
    return {e.task: e.writes[0][1] for e in entries if e.index == index and e.task != NULL_TASK}
