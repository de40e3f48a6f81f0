"""Replay of a subgraph: a checkpoint of one namespace begins another."""

from actorgraph.superstep.advance import new_superstep
from actorgraph.superstep.continuing import set_out, take_back
from actorgraph.superstep.saves import new_checkpoint, save
from actorgraph.superstep.state import RunState
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.policies import Durability
from actorgraph.values.run import Effect


def transplant(state: RunState) -> list[Effect]:
    """Begin a new namespace with a checkpoint of another one; its due tasks run again.

    Args:
        state: at that checkpoint.
    """
    state.head = state.anchor = None
    state.seen[INTERRUPT] = dict(state.versions)
    state.dirty = set(state.versions)
    state.has_output = True
    new_superstep(state, "fork", set())
    state.parent = None
    tasks = due_tasks(state, None)
    take_back(state, tasks, (), ())
    effects: list[Effect] = []
    if state.has_saver and state.policy.durability is not Durability.EXIT:
        effects.append(save(state, checkpoints=(new_checkpoint(state, tasks),)))
        state.unsaved_steps.clear()
    return set_out(state, tasks, effects, ())
