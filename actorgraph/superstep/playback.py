"""Playback: the chunks of a recorded run, made again from its checkpoints and pending writes.

No node, edge or reducer is called and nothing is written: the values are those of the recorded
checkpoints, the results of tasks those of their pending writes. Questions that were answered since
are left out; where the record ends with an open one, the playback ends as the run did. The tasks
of one superstep are shown in path order: the order in which they ended is not stored.
"""

from collections.abc import Sequence
from itertools import pairwise

from actorgraph.channels import EMPTY
from actorgraph.superstep import chunks
from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.advance import end_run
from actorgraph.superstep.begin import restore
from actorgraph.superstep.resume import restore_tasks
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.tasks import due_tasks, in_path_order, input_of
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import Interrupt
from actorgraph.values.run import Effect, Interrupted, Succeeded, Task


def play_back(state: RunState, chain: Sequence[Restored]) -> list[Effect]:
    """Make the chunks and the outcome of a recorded run.

    Args:
        state: new. Ends at the last checkpoint.
        chain: a checkpoint and its recorded children, oldest first.
    """
    tasks = _move_to(state, chain[0])
    for before, after in pairwise(chain):
        _hold_tasks(state, tasks)
        tasks = _move_to(state, after)
        chunks.hold_values(state, _changed(state, before, after))
        chunks.hold_checkpoint(state, tasks, pending.attempts(after.ledger))
    _hold_tasks(state, tasks)
    asked = _waiting(tasks, chain[-1])
    if asked:
        chunks.hold_interrupt(state, asked)
    ends = Interrupted(chunks.output(state), asked) if tasks else Succeeded(chunks.output(state))
    state.due.clear()
    return end_run(state, ends, saved=True)


def _move_to(state: RunState, restored: Restored) -> list[Task]:
    restore(state, restored)
    tasks = due_tasks(state, None)
    restore_tasks(state, tasks, restored.ledger, ())
    return tasks


def _changed(state: RunState, before: Restored, after: Restored) -> set[str]:
    return {
        channel
        for channel, version in after.versions.items()
        if before.versions.get(channel) != version and state.read(channel) is not EMPTY
    }


def _hold_tasks(state: RunState, tasks: Sequence[Task]) -> None:
    ended = [task for task in tasks if task.id in state.results]
    for task in ended:
        if state.policy.modes:
            chunks.hold_start(state, task, input_of(state, task))
    for task in in_path_order(ended):
        chunks.hold_update(state, task, state.results[task.id])


def _waiting(tasks: Sequence[Task], restored: Restored) -> tuple[Interrupt, ...]:
    known = pending.attempts(restored.ledger)
    return tuple(
        question
        for task in tasks
        if task.id in known
        for question in pending.open_questions(task, known[task.id])
    )
