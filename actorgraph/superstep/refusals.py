"""An answer that doesn't fit: it is taken back, and its question waits again.

The task counts as paused, so its siblings run to their ends; then the run fails with what
refused the answer. What is taken back is a later generation of the row that brought it.
"""

from actorgraph.superstep import chunks, pending
from actorgraph.superstep.saves import control_entry
from actorgraph.superstep.state import RunState
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import INTERRUPT, RESUME, ROUTED
from actorgraph.values.run import Failed, LedgerEntry, Task


def take_answer_back(
    state: RunState, task: Task, question: Interrupt, error: BaseException
) -> tuple[LedgerEntry, ...]:
    """The rows after which the question of a task waits again.

    Args:
        task: the one that failed. question: its own, or one that was asked below it.
        error: what refused the answer.
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
    state.bare_answer = []  # it was given to whoever asks first
    return control_entry(state, None, RESUME, []), asked


def refused(state: RunState) -> Failed | None:
    """How a run ends that would pause, when an answer that it brought was refused."""
    return Failed(state.refused) if state.refused is not None else None
