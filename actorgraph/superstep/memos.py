"""Steps: results of side effects inside a node, kept beside its superstep under a key.

A step's result is a row of pending writes, as that of a call is, under an id made of the task and
the key.
"""

from actorgraph.superstep.saves import keep, save
from actorgraph.superstep.state import RunState
from actorgraph.values.constants import CALL, PUSH, RETURN
from actorgraph.values.ids import TaskId, task_id
from actorgraph.values.run import AnswerCall, Effect, LedgerEntry, StepKept, Task, TaskPath


def step_id(task: Task, key: str) -> TaskId:
    """Make the id of a step; it is the same whenever its task runs again."""
    return task_id(b"", "step", task.id, key)


def step_path(task: Task, key: str) -> TaskPath:
    """Make the path of a step's row; it sorts behind its task's."""
    return (PUSH, *task.path, f"step {key}", CALL)


def on_step(state: RunState, event: StepKept) -> list[Effect]:
    """Store the result of a step; the node goes on when it is durable."""
    identifier = step_id(event.task, event.key)
    path = step_path(event.task, event.key)
    row = LedgerEntry(state.checkpoint, identifier, path, 0, 0, ((RETURN, event.value),))
    state.returned[identifier] = event.value
    if state.outcome is not None:  # the effect has taken place, so the final save must hold it
        state.unflushed.extend((row,) if state.has_saver else ())
        return [AnswerCall(identifier, event.value)]
    kept = keep(state, row)
    if not kept:
        return [AnswerCall(identifier, event.value)]
    effect = save(state, ledger=kept)
    state.steps.append((effect.number, identifier))
    return [effect]


def on_steps_saved(state: RunState) -> list[Effect]:
    """Answer the steps whose saves are durable now, so that their nodes go on."""
    effects: list[Effect] = []
    while state.steps and state.steps[0][0] <= state.durable:
        _, identifier = state.steps.popleft()
        effects.append(AnswerCall(identifier, state.returned.get(identifier)))
    return effects
