"""The run as a state machine without I/O: (state, event) -> effects, in order.

The supervisor is a loop around `advance`; every decision about a run is made here and in the
functions that it calls. Events may arrive in any order and late; each is legal in every state.

A superstep: `_start_due` starts its tasks, `_on_success` takes each result, `_end_superstep` folds
them all and makes the next checkpoint. `end_run` ends the run: it stops what runs, `continue_run`
then sends the final save and, when everything sent is durable, `Finish`.

A task's writes arrive with its `TaskSucceeded`, all at once. So a cancelled task, which reports
`TaskCancelled`, leaves none; one that succeeds although the run is leaving is stored as finished.
"""

from typing import assert_never

from actorgraph.errors import InvalidUpdateError
from actorgraph.errors.texts import add_note, error_repr
from actorgraph.superstep import chunks
from actorgraph.superstep.answers import consumed, refused, take_answer_back
from actorgraph.superstep.apply import TaskWrites, apply
from actorgraph.superstep.calls import (
    Ending,
    Settled,
    abandon,
    drop,
    is_call,
    on_call,
    on_step,
    on_steps_saved,
    places_taken,
    settle,
    start_calls,
)
from actorgraph.superstep.handover import hand_over_of, handed_by
from actorgraph.superstep.limits import drained, on_drained, on_step_timeout, pauses, stop_before
from actorgraph.superstep.nesting import saves_at_end
from actorgraph.superstep.question_times import with_first_times
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.saves import (
    acknowledged,
    claim_is_stored,
    control_entry,
    flush,
    has_unsaved,
    new_checkpoint,
    next_superstep_may_start,
    result_entry,
    rows_to_send,
    save,
)
from actorgraph.superstep.task_failures import (
    error_rows,
    handles,
    mark_input_stored,
    start_handler,
    with_input_advice,
)
from actorgraph.superstep.tasks import due_tasks, in_path_order, input_of
from actorgraph.values.alarms import NO_TIMINGS
from actorgraph.values.commands import refused_question
from actorgraph.values.constants import INTERRUPT, START
from actorgraph.values.policies import Durability
from actorgraph.values.run import (
    CallDropped,
    Cancelled,
    CancelRequested,
    CancelTasks,
    Effect,
    Escaped,
    Event,
    Failed,
    Finish,
    HandOver,
    Interrupted,
    LedgerEntry,
    RunOutcome,
    Saved,
    SaveFailed,
    StartHandler,
    StartTask,
    StepKept,
    StepTimedOut,
    Succeeded,
    Task,
    TaskCalled,
    TaskCancelled,
    TaskDrained,
    TaskEscaped,
    TaskFailed,
    TaskInterrupted,
    TaskResult,
    TaskSucceeded,
    status_of,
)

CONTINUED_ELSEWHERE = Cancelled(to_others=True)
"""The outcome of a run that another process continues."""


def advance(state: RunState, event: Event) -> list[Effect]:
    """Handle one event: change the state and return the effects to carry out, in order."""
    # The two events of every superstep come first, without `match`: a class pattern costs more.
    if isinstance(event, TaskSucceeded) and state.calls is None:
        return _on_success(state, event.result)
    if isinstance(event, Saved):
        acknowledged(state, event.number)
        return on_steps_saved(state) + continue_run(state) if state.steps else continue_run(state)
    match event:
        case SaveFailed(number, error):
            return _on_save_failure(state, number, error)
        case CancelRequested(to_others):
            return end_run(state, Cancelled(to_others))
        case TaskCalled():
            return on_call(state, event) + continue_run(state)
        case CallDropped(task):
            return _settled(state, drop(state, task))
        case StepKept():
            return on_step(state, event) + continue_run(state)
        case StepTimedOut(step):
            late = on_step_timeout(state, step)
            return continue_run(state) if late is None else end_run(state, late)
        case _:
            return _settled(state, settle(state, event))


def _settled(state: RunState, settled: Settled) -> list[Effect]:
    effects, ending = settled
    return effects + (continue_run(state) if ending is None else _on_end(state, ending))


def _on_end(state: RunState, event: Ending) -> list[Effect]:
    """Handle the end of a task of a node or handler (the ends of calls stay in `calls`)."""
    match event:
        case TaskSucceeded(result):
            return _on_success(state, result)
        case TaskInterrupted():
            return _on_interrupt(state, event)
        case TaskFailed():
            return _on_failure(state, event)
        case TaskCancelled(task):
            state.running.pop(task, None)
            return continue_run(state)
        case TaskEscaped(task, error):
            state.running.pop(task, None)
            return end_run(state, Escaped(handed_by(error)))
        case TaskDrained(task, error):
            on_drained(state, task, error)
            return continue_run(state)
        case _:
            assert_never(event)


def _on_success(state: RunState, result: TaskResult) -> list[Effect]:
    task = state.running.pop(result.task, None)
    if task is None:
        return []  # a late duplicate: the task has ended already
    state.results[task.id] = result
    # Without a saver no row is made: it would be dropped in each superstep.
    entries: tuple[LedgerEntry, ...] = (
        (result_entry(state, task, result),) if state.has_saver else ()
    )
    if result.answers or result.took_unaddressed:
        entries = (*entries, *consumed(state, task, result.answers, result.took_unaddressed))
    # Other tasks of the superstep are unfinished: this task's row is saved alone, so that a crash
    # does not run it again. The last task's row travels with the checkpoint that it completes.
    if state.running or state.due or state.interrupted or state.outcome:
        rows = rows_to_send(state, *entries)
        effects: list[Effect] = [save(state, ledger=rows)] if rows else []
        chunks.hold_update(state, task, result)
        return effects + continue_run(state)
    return _end_superstep(state, task, result, entries)


def _on_interrupt(state: RunState, event: TaskInterrupted) -> list[Effect]:
    task = state.running.pop(event.task, None)
    if task is None:
        return []
    questions = with_first_times(event.interrupts, state.timings)
    if any(question.timing is not None for question in questions):
        state.sets_alarm = True
    state.interrupted[task.id] = questions
    asked = control_entry(state, task, INTERRUPT, list(questions), event.times)
    used = consumed(state, task, event.answers, event.took_unaddressed)
    effects = _send_rows(state, (*used, asked))
    if questions:  # a breakpoint of a subgraph has one chunk, when the run pauses
        chunks.hold_interrupt(state, questions)
    chunks.hold_task(state, task, interrupts=questions)
    return effects + continue_run(state)


def _on_failure(state: RunState, event: TaskFailed) -> list[Effect]:
    task, error = state.running.pop(event.task, None), event.error
    if task is None:
        return []
    mark_input_stored(state, error)
    # Before error handlers: a refused answer is the caller's mistake and no failure of the node.
    if (question := refused_question(error)) is not None:
        return _send_rows(state, take_answer_back(state, task, question, error)) + continue_run(
            state
        )
    if state.plan.handlers and handles(state, task, error):
        return start_handler(state, task, event) + continue_run(state)
    effects = _send_rows(state, error_rows(state, task, error, event.times))
    chunks.hold_task(state, task, error=error)
    return effects + end_run(state, Failed(error))


def _send_rows(state: RunState, rows: tuple[LedgerEntry, ...]) -> list[Effect]:
    """Save rows now; those of the last task to end travel with the run's final save instead."""
    # Nothing else runs or will start, so the run leaves next: one write instead of two.
    if not state.running and not (state.due and state.outcome is None):
        state.unflushed.extend(rows if state.has_saver else ())
        return []
    unsent = rows_to_send(state, *rows)
    return [save(state, ledger=unsent)] if unsent else []


def _on_save_failure(state: RunState, number: int, error: BaseException) -> list[Effect]:
    """End a run whose state can't be saved, with the saver's error as its outcome."""
    if number <= state.durable:
        return []  # an earlier save was refused, and this one was given up then
    error = state.failure = with_input_advice(state, error)
    state.final_save_due = False  # it would be refused too
    if isinstance(state.outcome, Failed):
        add_note(error, f"before that, the run had failed with {error_repr(state.outcome.error)}")
    state.outcome = Failed(error)
    state.due.clear()
    gone = abandon(state) if state.calls is not None else []
    # Later saves are refused as well and never acknowledged: `Finish` must not wait for them.
    state.durable = state.sent
    return [*gone, CancelTasks(), *continue_run(state)]


def _end_superstep(
    state: RunState, last: Task, result: TaskResult, entries: tuple[LedgerEntry, ...]
) -> list[Effect]:
    """Fold the results, plan the next superstep, and save the checkpoint between them."""
    if state.nested is not None:
        handed = hand_over_of(state)
        if handed is not None:
            return _hand_up(state, last, result, entries, handed)
    ran = in_path_order(state.tasks.values()) if len(state.tasks) > 1 else [last]
    try:
        if len(ran) == 1:
            changed = apply(state, [TaskWrites(last.name, last.triggers, result.writes)])
        else:
            changed = apply(state, [_ran(state, task) for task in ran])
    except BaseException as error:  # noqa: BLE001 - a user's reducer may raise anything
        # The results are stored although they conflict: a retry or update_state() can use them.
        # The error row belongs to no task, because the failure lies in their combination.
        if state.has_saver:
            state.unflushed.extend((*entries, *error_rows(state, None, error)))
        return end_run(state, Failed(error))
    rows = rows_to_send(state, *entries)
    tasks = new_superstep(state, "loop", changed)
    # In exit mode rows wait here; this superstep is complete, so its values contain them.
    state.unflushed = []
    policy = state.policy
    stops = bool(policy.interrupt_after) and pauses(state, policy.interrupt_after, ran)
    effects: list[Effect] = []
    if state.saves_at_once:
        # The last superstep's save carries the final status too: no further write at the end.
        ends = None if tasks else "success"
        point = new_checkpoint(state, tasks)
        effects.append(save(state, ledger=rows, checkpoints=(point,), ends=ends))
    # Chunks are queued after the save, so that in sync mode they wait for this checkpoint.
    if policy.modes:
        chunks.hold_update(state, last, result, folded=True)
    chunks.hold_values(state, changed)
    if policy.modes:
        chunks.hold_checkpoint(state, tasks)
    if stops:
        chunks.hold_interrupt(state, ())
    if stops and tasks:
        return effects + end_run(state, Interrupted(chunks.last_output(state), ()))
    return next_superstep(state, effects)


def _hand_up(
    state: RunState,
    last: Task,
    result: TaskResult,
    entries: tuple[LedgerEntry, ...],
    handed: HandOver,
) -> list[Effect]:
    """End a subgraph's run whose tasks command the graph above.

    Its superstep stays as it is, with all rows, so that the run hands over the same again if the
    node above has to.
    """
    if state.has_saver:
        state.unflushed.extend(entries)
    if state.policy.modes:
        chunks.hold_update(state, last, result)
    return end_run(state, Escaped(handed))


def new_superstep(state: RunState, source: str, changed: set[str]) -> list[Task]:
    """Move to the next checkpoint and plan the tasks that follow it.

    Args:
        source: of the checkpoint: "input", "loop", "update" or "fork".
        changed: the channels that `apply` has returned.
    """
    state.step += 1
    state.source, state.timings = source, NO_TIMINGS
    # The id that a new RunState is made with (step -2) is never stored and can't be a parent.
    state.parent = state.checkpoint if state.step > -1 or state.head else None
    state.checkpoint = state.mint(state.step, state.checkpoint)
    state.updated = tuple(sorted(changed) if len(changed) > 1 else changed)
    state.send_round = 0
    tasks = due_tasks(state, changed)
    state.tasks = {}
    for task in tasks:
        state.tasks[task.id] = task
    state.results = {}
    state.due.clear()
    state.due.extend(tasks)
    state.open = False
    if state.handled:
        state.handled = {}
    if state.calls is not None or state.returned or state.stored_calls:
        state.calls, state.returned, state.stored_calls = None, {}, {}
    return tasks


def _ran(state: RunState, task: Task) -> TaskWrites:
    return TaskWrites(task.name, task.triggers, state.results[task.id].writes)


def next_superstep(state: RunState, effects: list[Effect]) -> list[Effect]:
    """Go on to the due tasks; leave if none are due, or at a breakpoint or a limit.

    Args:
        effects: go in front of the new ones.
    """
    if not state.due:
        done = Succeeded(chunks.last_output(state))
        return effects + end_run(state, done, saved=state.policy.durability is not Durability.EXIT)
    before = state.policy.interrupt_before
    if before and pauses(state, before, state.due):
        state.pause = "interrupt_before"
        chunks.hold_interrupt(state, ())
        return effects + end_run(state, Interrupted(chunks.last_output(state), ()))
    # START is alone in its superstep, which counts against no limit.
    if state.due[0].name != START:
        stopped = stop_before(state)
        if stopped is not None:
            return effects + end_run(state, stopped)
    return effects + continue_run(state)


def end_run(state: RunState, outcome: RunOutcome, *, saved: bool = False) -> list[Effect]:
    """End the run: stop its tasks, save the rest, finish when it is durable.

    Args:
        saved: the last save has the final status already, or nothing is to be saved.
    """
    if state.outcome is not None:
        # The first outcome counts. After `Finish`, each further event gets it again.
        return continue_run(state)
    state.outcome = outcome
    state.due.clear()
    gone = abandon(state) if state.calls is not None else []
    # A root run that has sent nothing has stored no claim, and so no status to end.
    # A subgraph's run makes no claim: the rows of its last tasks may be all that it stores.
    some = state.sent > 0 or bool(state.unflushed)
    some = some or saves_at_end(state.nested, state.policy.durability, outcome)
    state.final_save_due = state.has_saver and not saved and some
    effects: list[Effect] = [CancelTasks()] if state.running else []
    return gone + effects + continue_run(state)


def continue_run(state: RunState) -> list[Effect]:
    """Start the tasks and deliver the chunks that may go now; finish when nothing is left."""
    effects: list[Effect] = []
    if state.outcome is None:
        if state.calls is not None and state.calls.due:
            effects.extend(start_calls(state, state.calls))
        if state.due:
            effects.extend(_start_due(state))
        elif state.interrupted and not state.running:
            return end_run(state, drained(state) or refused(state) or _interrupted(state))
        elif not state.running and _is_restored_whole(state) and claim_is_stored(state):
            return _finish_restored(state)
    # Only after the last task has ended: its rows travel in the final save.
    may_flush = state.final_save_due and not state.running and claim_is_stored(state)
    if state.outcome is not None and may_flush:
        state.final_save_due = False
        if has_unsaved(state):
            # A run that another process continues is not stored as cancelled.
            status = "drained" if state.outcome == CONTINUED_ELSEWHERE else status_of(state.outcome)
            # A checkpoint's `next` names nodes; the tasks of error handlers are left out.
            nodes = [t for t in state.tasks.values() if t.id not in state.handled]
            effects.append(flush(state, nodes, status))
    if state.held:
        effects.extend(chunks.deliver(state))
    # In every mode: no outcome is reported before all that was sent is durable.
    if state.outcome is not None and not state.running and state.durable >= state.sent:
        effects.append(Finish(state.outcome))
    return effects


def _is_restored_whole(state: RunState) -> bool:
    """Whether all tasks of the superstep have results."""
    return bool(state.results) and len(state.results) == len(state.tasks)


def _start_due(state: RunState) -> list[Effect]:
    # Durability is checked once per superstep: the rows that its tasks save meanwhile must not
    # hold back their siblings. `barrier` is the exception: a handler waits for its cause.
    if (not state.open and not next_superstep_may_start(state)) or state.durable < state.barrier:
        return []
    state.open = True
    effects: list[Effect] = []
    limit = state.policy.max_concurrency
    while state.due and (limit is None or places_taken(state) < limit):
        task = _next_below_node_limit(state)
        if task is None:
            break
        try:
            input_value = input_of(state, task)
        except InvalidUpdateError as error:
            return [*effects, *end_run(state, Failed(error))]
        if state.policy.modes:
            chunks.hold_start(state, task, input_value)
        state.running[task.id] = task
        if state.handled and task.id in state.handled:
            effects.append(StartHandler(task, input_value, state.handled[task.id]))
        else:
            effects.append(StartTask(task, input_value))
    return effects


def _next_below_node_limit(state: RunState) -> Task | None:
    """Take the first due task whose node has not reached its own `max_concurrency`; else None."""
    nodes = state.plan.callable
    if nodes[state.due[0].name].max_concurrency is None:
        return state.due.popleft()
    for place, task in enumerate(state.due):
        limit = nodes[task.name].max_concurrency
        if limit is None or _calls_of(state, task.name) < limit:
            del state.due[place]
            return task
    return None


def _calls_of(state: RunState, node: str) -> int:
    """The running tasks of a node; a function that tasks call may have the same name."""
    return sum(t.name == node and not is_call(t.path) for t in state.running.values())


def _interrupted(state: RunState) -> Interrupted:
    """Make the outcome of a pause: the open questions in task-path order, and the output.

    The output shows the writes of the tasks that finished. The run's own cells don't have them
    yet, because the superstep is not over.
    """
    tasks = in_path_order(state.tasks[i] for i in state.interrupted)
    asked = tuple(i for task in tasks for i in state.interrupted[task.id])
    # At the end, not when the run begins: a reader that stops at the first question must not miss
    # the work of the tasks that got their answers.
    for task in tasks if state.left_waiting else ():
        if task.id in state.left_waiting:
            chunks.hold_interrupt(state, state.interrupted[task.id])
    done = in_path_order(state.tasks[i] for i in state.results)
    chunks.hold_preview(state, [_ran(state, task) for task in done])
    if not asked:
        chunks.hold_interrupt(state, ())
    return Interrupted(chunks.last_output(state), asked)


def _finish_restored(state: RunState) -> list[Effect]:
    """Complete a restored superstep whose tasks had all finished; only its checkpoint is missing.

    Its rows are stored already, so none are saved again.
    """
    last = in_path_order(state.tasks.values())[-1]
    return _end_superstep(state, last, state.results[last.id], ())
