"""Answers to questions that a subgraph asked before its state was edited.

`update_state` makes a child of the checkpoint beside which the question is stored, and tasks that
follow it have other ids. The runs above still show the question under its old id, so that an answer
to it must find the task that is due instead: the one of the same node and path.
"""

from collections.abc import Mapping
from typing import Any

from actorgraph.superstep.begin import restore
from actorgraph.superstep.pending_writes import attempts
from actorgraph.superstep.replay import asked_at, carried, given_answers
from actorgraph.superstep.resume import go_on_with
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.snapshot import restored_state
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.checkpoint import Restored
from actorgraph.values.constants import CONTROL_INDEX, RESUME
from actorgraph.values.run import Effect, LedgerEntry

EDITS = frozenset(("update", "fork"))
"""Sources of checkpoints that are made from outside of a run."""


def is_edited(restored: Restored, routed: Mapping[str, Any]) -> bool:
    """Whether answers may be for questions that were asked at a checkpoint before this one.

    Args:
        routed: the answers that the run above has for its subgraphs, by interrupt id.
    """
    answered = any(row.index == CONTROL_INDEX[RESUME] for row in restored.ledger)
    return bool(routed) and only_edits(restored) and not answered


def only_edits(restored: Restored) -> bool:
    """Whether a checkpoint was made from outside, and no task that followed it has asked."""
    known = attempts(restored.ledger).values()
    return restored.source in EDITS and not any(attempt.interrupts for attempt in known)


def go_on_edited(state: RunState, restored: Restored, asked: Restored) -> list[Effect]:
    """Go on from an edited checkpoint with the answers to the questions from before the edit.

    Args:
        state: new; of a subgraph's run.
        asked: the newest checkpoint before the edits, maybe on another branch.
    """
    assert state.nested is not None
    restore(state, restored)
    rows = _rows(state, asked, state.nested.routed)
    return go_on_with(state, restored, rows)


def _rows(state: RunState, asked: Restored, routed: Mapping[str, Any]) -> tuple[LedgerEntry, ...]:
    before = restored_state(state.plan, asked, state.thread_id)
    before.nested = state.nested
    known = asked_at(before, asked)
    fitting = {identifier: routed[identifier] for identifier in known if identifier in routed}
    if not fitting:
        return ()
    answers = given_answers(before, asked, fitting)
    state.unaddressed_answer = list(answers.unaddressed)
    return carried(state, due_tasks(state, None), answers)
