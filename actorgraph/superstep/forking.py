"""fork_state: one checkpoint becomes the root of another thread.

The copy has every cell, so it depends on nothing of its origin; it has no parent and none of
the origin's ledger: what was due is due again, under ids of its own.
"""

from collections.abc import Mapping

from actorgraph.superstep.begin import restore
from actorgraph.superstep.saves import new_checkpoint, save
from actorgraph.superstep.state import RunState
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.records import Restored
from actorgraph.values.run import ClaimIntent, Save


def fork(state: RunState, restored: Restored, origin: Mapping[str, str]) -> Save:
    """Make the save of the copy.

    Args:
        state: new; of the thread that the copy begins.
        restored: the checkpoint to copy.
        origin: thread, namespace and id of the origin, for the metadata.
    """
    restore(state, restored)
    state.head = state.anchor = state.parent = None
    state.source = "fork"
    state.checkpoint = state.mint(state.step, None)
    state.dirty = set(state.versions)
    state.updated = None
    point = new_checkpoint(state, due_tasks(state, None), {"forked_from": dict(origin)})
    return save(state, claim=ClaimIntent(None, "sync"), checkpoints=(point,), ends="updated")
