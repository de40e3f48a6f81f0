"""Steps: results of side effects inside a node, kept beside its superstep under a key.

A step's result is a row of the ledger, as that of a call is (`superstep/calls.py`), under an id
that follows from the task and the key. The node goes on once the row is durable, except in exit
mode, so a step whose result a node has seen is never done again.
"""

from actorgraph.superstep.saves import keep, save
from actorgraph.superstep.state import RunState
from actorgraph.values.constants import CALL, PUSH, RETURN
from actorgraph.values.ids import TaskId, task_id
from actorgraph.values.run import AnswerCall, Effect, LedgerEntry, Path, StepKept, Task


def step_id(task: Task, key: str) -> TaskId:
    """The id of a step: the same whenever its task runs again."""
    return task_id(b"", "step", task.id, key)


def step_path(task: Task, key: str) -> Path:
    """Where the row of a step stands: behind its task's."""
    return (PUSH, *task.path, f"step {key}", CALL)


def on_step(state: RunState, event: StepKept) -> list[Effect]:
    """A step is done: keep its result, and let the node go on when that is durable."""
    identifier = step_id(event.task, event.key)
    path = step_path(event.task, event.key)
    row = LedgerEntry(state.checkpoint, identifier, path, 0, 0, ((RETURN, event.value),))
    state.returned[identifier] = event.value
    if state.outcome is not None:  # the effect has taken place: the farewell tells of it
        state.unflushed.extend((row,) if state.has_saver else ())
        return [AnswerCall(identifier, event.value)]
    kept = keep(state, row)
    if not kept:
        return [AnswerCall(identifier, event.value)]
    effect = save(state, ledger=kept)
    state.steps.append((effect.number, identifier))
    return [effect]


def on_steps_saved(state: RunState) -> list[Effect]:
    """Let the nodes go on whose steps are durable now."""
    effects: list[Effect] = []
    while state.steps and state.steps[0][0] <= state.durable:
        _, identifier = state.steps.popleft()
        effects.append(AnswerCall(identifier, state.returned.get(identifier)))
    return effects
