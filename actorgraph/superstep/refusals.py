"""Refused answers: each is taken back, and its question waits again."""

from actorgraph.superstep import chunks, pending
from actorgraph.superstep.saves import control_entry
from actorgraph.superstep.state import RunState
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import INTERRUPT, RESUME, ROUTED
from actorgraph.values.run import Failed, LedgerEntry, Task


def take_answer_back(
    state: RunState, task: Task, question: Interrupt, error: BaseException
) -> tuple[LedgerEntry, ...]:
    """Make the rows after which the question of a task waits again.

    Args:
        task: the task that failed.
        question: its own, or one of a subgraph that it runs.
        error: the error that refused the answer.
    """
    state.refused = error
    state.generation += 1
    state.interrupted[task.id] = (question,)
    chunks.hold_interrupt(state, (question,))
    chunks.hold_task(state, task, interrupts=(question,))
    asked = control_entry(state, task, INTERRUPT, [question])
    place = pending.own_ids(task, len(task.answers)).get(question.id)
    if place is not None:
        return control_entry(state, task, RESUME, list(task.answers[:place])), asked
    if question.id in task.routed:
        return control_entry(state, task, ROUTED, {question.id: None}), asked
    state.bare_answer = []  # neither its own nor routed: the answer was given without an id
    return control_entry(state, None, RESUME, []), asked


def refused(state: RunState) -> Failed | None:
    """Return the outcome of a run that brought a refused answer; None if it brought none."""
    return Failed(state.refused) if state.refused is not None else None
