"""Record that open questions of a thread have reminded, from outside of a run."""

from collections.abc import Collection
from typing import Any

from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.question_times import next_time, with_reminded
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.saves import control_entry
from actorgraph.superstep.task_failures import with_handlers
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import REMINDED
from actorgraph.values.ids import TaskId
from actorgraph.values.run import LedgerEntry, Save


def open_questions(state: RunState, restored: Restored) -> dict[TaskId, list[Interrupt]]:
    """The open questions of a thread, by the id of the task that asks; those without are left out.

    Args:
        state: at the thread's head.
    """
    known = pending.attempts(restored.ledger)
    tasks = with_handlers(state, due_tasks(state, None), known)
    asked = {t.id: list(pending.open_questions(t, known[t.id])) for t in tasks if t.id in known}
    return {task: questions for task, questions in asked.items() if questions}


def reminded(state: RunState, restored: Restored, ids: Collection[str], now: int) -> Save:
    """Make the save with which questions have reminded, and the thread's next alarm.

    Args:
        state: at the thread's head.
        ids: of the questions; those that are not open any more are left out.
        now: microseconds since 1970-01-01 UTC.
    """
    known = pending.attempts(restored.ledger)
    tasks = {t.id: t for t in with_handlers(state, due_tasks(state, None), known)}
    rows: list[LedgerEntry] = []
    left: list[Interrupt] = []
    for task, questions in open_questions(state, restored).items():
        times: dict[str, Any] = {}
        for question in questions:
            if question.timing is None:
                continue
            own = (*question.timing.reminded, *((now,) if question.id in ids else ()))
            if own:
                times[question.id] = list(own)
        left += [with_reminded(question, times) for question in questions]
        if ids and not times.keys().isdisjoint(ids):
            rows.append(control_entry(state, tasks[task], REMINDED, times))
    return Save(0, state.head, ledger=tuple(rows), alarm=next_time(left))
