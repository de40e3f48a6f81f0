"""Begin a run: from an input, from a Command, or by going on from a thread's head.

Every run with a saver first sends a save with its claim. With an input it also holds the input
checkpoint and, since moving the input into the state runs no user code unless START has
conditional edges, the checkpoint after that too: one transaction before the first node.
"""

from collections.abc import Collection
from typing import Any

from actorgraph.errors import EmptyInputError, SaverRequiredError, UnknownInterruptError
from actorgraph.superstep import chunks
from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.advance import new_superstep, next_superstep
from actorgraph.superstep.answers import answers, overdue, routed_answers
from actorgraph.superstep.apply import TaskWrites, apply, apply_command
from actorgraph.superstep.handover import hands_over
from actorgraph.superstep.inputs import (
    FIRST_STEP,
    by_names,
    clear_defaults,
    first_update,
    input_update,
    is_fresh,
    keep_defaults,
    known_writes,
)
from actorgraph.superstep.nesting import continues_stored
from actorgraph.superstep.question_times import timings_of
from actorgraph.superstep.replay import asked_at, is_replay, replay
from actorgraph.superstep.results import pairs_of, routes, stamped, updates_in, writes_of
from actorgraph.superstep.resume import go_on_with
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.saves import new_checkpoint, result_entry, save
from actorgraph.superstep.task_failures import with_handlers
from actorgraph.superstep.tasks import due_tasks, in_path_order
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import Command
from actorgraph.values.constants import INPUT, NULL_TASK, START
from actorgraph.values.ids import TaskId, as_text
from actorgraph.values.run import ClaimIntent, Effect, LedgerEntry, TaskResult, Write


def begin(state: RunState, restored: Restored | None, input_value: Any) -> list[Effect]:
    """Make the first effects of a run.

    Args:
        state: new. Takes over the contents of `restored`.
        restored: the checkpoint to start from, or None for a thread that has none.
        input_value: the input; None to go on; a Command.
    Raises:
        EmptyInputError: the input is None, and the thread has nothing to go on with.
        AlreadyResumedError, UnknownInterruptError: the Command's answer fits no question.
        InvalidUpdateError: the input or the Command's update can't be taken.
    """
    if restored is not None and not restored.id:
        # A run in exit mode claimed a new thread and died: only its input is stored.
        unsaved = restored.claim.input if restored.claim else None
        restored, input_value = None, unsaved if input_value is None else input_value
    if restored is not None:
        restore(state, restored)
        if state.nested is not None and continues_stored(state.nested, restored):
            rows, _ = routed_answers(state, restored, state.nested.routed)
            return go_on_with(state, restored, tuple(rows))
    if isinstance(input_value, Command):
        return _from_command(state, restored, input_value)
    if input_value is not None:
        return _from_input(state, restored, input_value)
    if restored is None:
        raise _nothing(state)
    if is_replay(restored):
        return replay(state, restored)
    if restored.claim is not None and restored.claim.has_input:
        return _from_input(state, restored, restored.claim.input)
    own = overdue(state, restored) if state.timings and state.now else {}
    if own:  # nothing else has answered them: no system runs, or none has looked yet
        rows, resumes = answers(state, restored, own)
        return go_on_with(state, restored, tuple(rows), resumes)
    return go_on_with(state, restored)


def begin_named(state: RunState, restored: Restored) -> list[Effect]:
    """Begin a subgraph's run at the checkpoint of its own that the call's config names.

    Answers that the runs above have got for it are used at an old checkpoint as at the newest.

    Args:
        state: at that checkpoint, with its place below other runs.
    """
    assert state.nested is not None
    routed = state.nested.routed
    if is_replay(restored):
        known = asked_at(state, restored)
        by_id = {identifier: routed[identifier] for identifier in known if identifier in routed}
        return replay(state, restored, (), by_id or None)
    rows, _ = routed_answers(state, restored, routed)
    return go_on_with(state, restored, tuple(rows))


def restore(state: RunState, restored: Restored) -> None:
    """Set a run's state to a checkpoint: its cells, versions, step and ids."""
    first = state.plan.initial_values() if state.plan.firsts else {}
    state.values = {**first, **restored.values}
    state.versions = dict(restored.versions)
    state.seen = {node: dict(seen) for node, seen in restored.seen.items()}
    state.max_version = max([restored.version_floor, *restored.versions.values()])
    state.step = restored.step
    state.source = restored.source
    state.checkpoint = restored.id
    state.parent = restored.parent
    state.head = restored.head or restored.id
    state.deltas = restored.deltas
    state.tasks = {}
    state.places, state.left = restored.places, restored.left
    if restored.whole:
        state.whole = restored.whole
    if state.plan.renames.tasks:
        state.stored_ids = pending.stored_ids(restored.ledger)
    state.generation = pending.next_generation(restored.ledger)
    state.unaddressed_answer = (
        pending.unaddressed_answer(restored.ledger) if restored.ledger else []
    )
    state.anchor = restored.id
    if restored.ledger:
        state.timings = timings_of(pending.asked(restored.ledger))
    # A thread that is not at its head may have an alarm that this checkpoint doesn't tell of.
    state.sets_alarm = bool(state.timings) or state.head != restored.id
    if first and state.step == FIRST_STEP and START in state.values:
        clear_defaults(state, first_update(state, state.values[START]))
    for writes in pending.accepted(restored.ledger) if restored.ledger else ():
        apply_command(state, writes)


def _from_input(state: RunState, restored: Restored | None, input_value: Any) -> list[Effect]:
    head, plan, start = state.head, state.plan, state.plan.start
    begins = bool(plan.defaults) and is_fresh(state)
    if type(input_value) is dict and not start.bare:
        input_value = _with_plain_keys(input_value)
    first = first_writes(state, input_value)
    update = input_value if plan.entry is not None else input_update(state, input_value)
    ran = [TaskWrites(INPUT, (), first)]
    if head is not None:  # on a new thread nothing is due
        ran = [*_discarded(state, restored), *ran]
    changed = apply(state, ran)
    default_keys = keep_defaults(state, update) if begins else ()
    tasks = new_superstep(state, "input", changed)
    if state.policy.modes:
        chunks.hold_checkpoint(state, tasks)
    keeps = state.saves_at_once
    stored = [new_checkpoint(state, tasks)] if keeps else []
    ledger: tuple[LedgerEntry, ...] = ()
    moves = not start.branches and state.plan.entry is None
    if moves:
        nested = state.nested is not None
        writes, state.dropped = writes_of(plan, start, update, nested=nested)
        if state.plan.stamps:
            writes = stamped(state.plan, writes, tasks[0].id)
        result = TaskResult(tasks[0].id, tuple(writes))
        ledger = (result_entry(state, tasks[0], result),) if keeps else ()
        changed = apply(state, [TaskWrites(START, tasks[0].triggers, result.writes)])
        tasks = new_superstep(state, "loop", changed)
        stored.extend([new_checkpoint(state, tasks)] if keeps else [])
    effects: list[Effect] = []
    if state.has_saver and (keeps or state.nested is None or state.nested.claims):
        mode = state.policy.durability.value
        claim = ClaimIntent(head, mode, None if keeps else input_value, not keeps)
        ends = "success" if keeps and not tasks else None
        points = tuple(stored)
        effects.append(save(state, claim=claim, checkpoints=points, ledger=ledger, ends=ends))
        # No step starts before this save is durable, in any mode: nothing is left unsaved.
        state.unsaved_steps.clear()
        if state.held:
            chunks.hold_behind_save(state)
    if moves:
        chunks.hold_values(state, changed.union(default_keys) if default_keys else changed)
        if state.policy.modes:
            chunks.hold_checkpoint(state, tasks)
    return next_superstep(state, effects)


def _with_plain_keys(input_value: dict[Any, Any]) -> dict[Any, Any]:
    """Return an input with keys of plain text: they are stored."""
    for key in input_value:
        if type(key) is not str:
            return dict(pairs_of(input_value))
    return input_value


def _discarded(state: RunState, restored: Restored | None) -> list[TaskWrites]:
    """End the due tasks, which a new input discards: they count as run, without writes.

    Only channels that ask for it get what the finished ones have written; if some of these have
    handed over to the graph above, so that no later superstep folded the others' writes, all keys.
    """
    due = due_tasks(state, None)
    keeping: Collection[str] = state.plan.keeping
    rows = restored.ledger if restored is not None and state.nested is not None else ()
    if due and any(hands_over(row.writes) for row in rows):
        keeping = state.plan.state_keys
    if not keeping or restored is None or not due:
        return [TaskWrites(task.name, task.triggers, ()) for task in due]
    known = pending.attempts(restored.ledger)
    tasks = in_path_order(with_handlers(state, due, known))
    ended: list[TaskWrites] = []
    for task in tasks:
        writes = known[task.id].writes if task.id in known else None
        remaining = tuple(write for write in writes or () if write[0] in keeping)
        ended.append(TaskWrites(task.name, task.triggers, remaining))
    return ended


def first_writes(state: RunState, input_value: Any) -> tuple[Write, ...]:
    """Make the writes of an input.

    Raises:
        InvalidUpdateError: the input is not an update of the state.
        EmptyInputError: it has none of the input channels.
    """
    start = state.plan.start
    if state.plan.entry is None:
        if type(input_value) is not dict:  # a dict is an update
            list(updates_in(start, input_value))
        return ((START, input_value),)
    nested = state.nested is not None
    writes, state.dropped = writes_of(state.plan, start, input_value, nested=nested)
    if not writes:
        raise EmptyInputError(
            f"Received no input for {sorted(start.writes)}", do="pass a dict with one of these keys"
        )
    return tuple(stamped(state.plan, writes, f"{as_text(state.checkpoint)}:{INPUT}"))


def _from_command(
    state: RunState, restored: Restored | None, command: Command[Any]
) -> list[Effect]:
    if command.graph is not None:
        raise UnknownInterruptError(
            "There is no parent graph: a Command with graph= can't be an input",
            do="leave graph= out",
        )
    if command.resume is not None and not state.has_saver:
        raise SaverRequiredError(
            f"Cannot use Command(resume=...) without a checkpointer: graph {state.plan.name!r} "
            "has none, so no run of it waits for an answer",
            do="compile(checkpointer=...), and resume with the thread_id of the run that asked",
        )
    index = pending.next_null_index(restored.ledger) if restored else 0
    update = by_names(state.plan, command.update)
    if restored is None:
        update = first_update(state, command.update)
    updates = updates_in(state.plan.start, update)
    writes: list[Write] = stamped(state.plan, updates, f"{as_text(state.checkpoint)}:{index}")
    writes.extend(routes(state.plan, "the input", command.goto))
    if restored is None:
        if not writes:
            raise _nothing(state) if command.resume is None else _nothing_to_resume(state)
        writes = known_writes(state, writes)
        return _from_writes(state, tuple(writes))
    writes = known_writes(state, writes)
    if is_replay(restored):
        return replay(state, restored, tuple(writes), command.resume)
    entries: list[LedgerEntry] = []
    resumes: tuple[str, ...] = ()
    if command.resume is not None:
        entries, resumes = answers(state, restored, command.resume)
    if writes:
        entries.append(
            LedgerEntry(state.checkpoint, TaskId(NULL_TASK), (), index, 0, tuple(writes))
        )
    return go_on_with(state, restored, tuple(entries), resumes)


def _from_writes(state: RunState, writes: tuple[Write, ...]) -> list[Effect]:
    """Start a thread with a Command's update and goto instead of an input."""
    clear_defaults(state, writes)
    changed = apply(state, [TaskWrites(INPUT, (), writes)])
    keep_defaults(state, writes)
    tasks = new_superstep(state, "input", changed)
    effects: list[Effect] = []
    if state.has_saver:
        claim = ClaimIntent(None, state.policy.durability.value)
        ends = None if tasks else "success"
        points = (new_checkpoint(state, tasks),)
        effects.append(save(state, claim=claim, checkpoints=points, ends=ends))
        state.unsaved_steps.clear()
    chunks.hold_values(state, changed)
    chunks.hold_checkpoint(state, tasks)
    return next_superstep(state, effects)


def _nothing(state: RunState) -> EmptyInputError:
    where = f" for thread {state.thread_id!r}, which has no checkpoint" if state.thread_id else ""
    return EmptyInputError(
        f"Received no input{where}",
        do="pass an input the first time; None goes on from a thread's newest checkpoint",
    )


def _nothing_to_resume(state: RunState) -> EmptyInputError:
    return EmptyInputError(
        f"Command(resume=...) has nothing to resume: thread {state.thread_id!r} has no checkpoint",
        do="use the thread_id and the checkpointer of the run that asked",
    )
