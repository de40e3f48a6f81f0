"""Pending writes: the rows beside a checkpoint (its ledger), read as attempts of its tasks.

A task is finished when it has writes of its own. Errors, questions and answers are control
rows: the highest generation of each kind counts. A question of the task's own waits until
answers of a later generation exist; a question of its subgraph waits until some generation has
routed an answer to its id.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actorgraph.superstep.question_times import with_reminded
from actorgraph.values.checkpoint import StoredWrite
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import (
    CONTROL_INDEX,
    ERROR,
    ERROR_SOURCE_NODE,
    INTERRUPT,
    NO_WRITES,
    NULL_TASK,
    REMINDED,
    RESUME,
    ROUTED,
)
from actorgraph.values.ids import interrupt_id
from actorgraph.values.run import NOTHING_ROUTED, Task, TaskPath, Write


class Attempt(msgspec.Struct):
    """The stored state of one task.

    Attributes:
        path: of its first row.
        writes: its own, or None while it has not finished.
        error: the text of its last error, even if it has finished since; or None.
        interrupts: its last questions.
        waiting: whether they are unanswered.
        failed_since: whether it has failed after it asked them.
        answers: the resume values that it has got so far, in the order of its questions.
        routed: answers to questions of its subgraph, by interrupt id.
        handled: whether the error was left to the node's error handler.
    """

    path: TaskPath = ()
    writes: tuple[Write, ...] | None = None
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    waiting: bool = False
    failed_since: bool = False
    answers: tuple[Any, ...] = ()
    routed: Mapping[str, Any] = NOTHING_ROUTED
    handled: bool = False


def attempts(ledger: Iterable[StoredWrite]) -> dict[str, Attempt]:
    """Read the attempt of every task in the ledger, by task id; rows without a task are skipped."""
    by_task: dict[str, Attempt] = {}
    newest: dict[str, dict[int, StoredWrite]] = {}
    routed: list[StoredWrite] = []
    rows = ledger if isinstance(ledger, Sequence) else tuple(ledger)
    for row in rows:
        if row.task == NULL_TASK:
            continue
        attempt = by_task.setdefault(row.task, Attempt(path=row.path))
        if row.index >= 0:
            own = tuple(w for w in row.writes if w[0] != NO_WRITES)
            attempt.writes = (attempt.writes or ()) + own
            continue
        if row.index == CONTROL_INDEX[ROUTED]:
            routed.append(row)
            continue
        controls = newest.setdefault(row.task, {})
        known = controls.get(row.index)
        if known is None or known.generation <= row.generation:
            controls[row.index] = row
    for task, attempt in by_task.items():
        _read_controls(attempt, newest.get(task, {}))
    for row in sorted(routed, key=_generation):
        merged = {**by_task[row.task].routed, **row.writes[0][1]}
        if None in row.writes[0][1].values():
            for identifier in _taken_back(row, rows):
                del merged[identifier]
        by_task[row.task].routed = merged
    return by_task


def _taken_back(row: StoredWrite, rows: Iterable[StoredWrite]) -> set[str]:
    """The questions whose refused answers a row takes back: by None, and beside the question.

    That is asked again in a row of the same generation (`take_answer_back` in `answers.py`).
    Without it None is an answer, as of a sleep.
    """
    asked = {
        question.id
        for other in rows
        if (other.task, other.generation) == (row.task, row.generation)
        and other.index == CONTROL_INDEX[INTERRUPT]
        for question in other.writes[0][1]
    }
    return {i for i, answer in row.writes[0][1].items() if answer is None and i in asked}


def newest(ledger: Iterable[StoredWrite]) -> list[StoredWrite]:
    """Drop superseded rows: of each kind of control row of a task the newest one stays."""
    rows = list(ledger)
    last: dict[tuple[str, int], int] = {}
    for row in rows:
        if row.index < 0 and row.index != CONTROL_INDEX[ROUTED]:
            place = (row.task, row.index)
            last[place] = max(row.generation, last.get(place, 0))
    return [r for r in rows if r.generation == last.get((r.task, r.index), r.generation)]


def open_questions(task: Task, attempt: Attempt) -> tuple[Interrupt, ...]:
    """The unanswered questions of a task, its own and those of its subgraph."""
    if attempt.writes is not None:
        return ()
    asked = attempt.interrupts
    own = own_ids(task, len(attempt.answers) + len(asked))
    return tuple(
        i for i in asked if (attempt.waiting if i.id in own else i.id not in attempt.routed)
    )


def asked(ledger: Iterable[StoredWrite]) -> list[Interrupt]:
    """The questions of all tasks in the ledger, answered or not, as they were asked last."""
    return [question for attempt in attempts(ledger).values() for question in attempt.interrupts]


def only_waits(task: Task, attempt: Attempt) -> bool:
    """Whether a task's last attempt ended with questions, and none of them has an answer yet."""
    asked = attempt.interrupts
    if not asked or attempt.failed_since:
        return False
    # One answer is enough to run: a run that had brought it may have died before the task used it.
    return open_questions(task, attempt) == asked


def own_ids(task: Task, count: int) -> dict[str, int]:
    """Make the ids of a task's own first `count` questions -> their number, from 0."""
    return {interrupt_id(task.namespace, place): place for place in range(count)}


def _read_controls(attempt: Attempt, rows: dict[int, StoredWrite]) -> None:
    asked = rows.get(CONTROL_INDEX[INTERRUPT])
    answered = rows.get(CONTROL_INDEX[RESUME])
    failed = rows.get(CONTROL_INDEX[ERROR])
    reminded = rows.get(CONTROL_INDEX[REMINDED])
    if answered is not None:
        attempt.answers = tuple(answered.writes[0][1])
    if asked is not None:
        attempt.interrupts = tuple(asked.writes[0][1])
        if reminded is not None:
            times = reminded.writes[0][1]
            attempt.interrupts = tuple(with_reminded(q, times) for q in attempt.interrupts)
        attempt.waiting = attempt.writes is None and (
            answered is None or asked.generation >= answered.generation
        )
    if failed is not None:
        attempt.error = str(failed.writes[0][1])
        attempt.handled = CONTROL_INDEX[ERROR_SOURCE_NODE] in rows
        attempt.failed_since = asked is not None and failed.generation > asked.generation


def accepted(ledger: Iterable[StoredWrite]) -> list[tuple[Write, ...]]:
    """Read the writes of each Command that was given as input at the checkpoint, in order."""
    rows = sorted((r for r in ledger if r.task == NULL_TASK and r.index >= 0), key=_index)
    return [tuple(write for write in row.writes if write[0] != NO_WRITES) for row in rows]


def unaddressed_answer(ledger: Iterable[StoredWrite]) -> list[Any]:
    """Read an unused answer that was given before any question waited: [answer], or []."""
    rows = [r for r in ledger if r.task == NULL_TASK and r.index == CONTROL_INDEX[RESUME]]
    return list(max(rows, key=_generation).writes[0][1]) if rows else []


def fold_error(ledger: Iterable[StoredWrite]) -> str | None:
    """Read the error of a superstep whose tasks all finished but could not be folded; or None."""
    rows = [r for r in ledger if r.task == NULL_TASK and r.index == CONTROL_INDEX[ERROR]]
    return str(max(rows, key=_generation).writes[0][1]) if rows else None


def stored_ids(ledger: Iterable[StoredWrite]) -> frozenset[str]:
    """The ids of all tasks and questions in the ledger."""
    rows = list(ledger)
    asked = (q.id for r in rows if r.index == CONTROL_INDEX[INTERRUPT] for q in r.writes[0][1])
    return frozenset([*(row.task for row in rows), *asked])


def next_generation(ledger: Iterable[StoredWrite]) -> int:
    """The generation for the control rows of a new run: above every stored one."""
    return 1 + max((row.generation for row in ledger), default=0)


def next_null_index(ledger: Iterable[StoredWrite]) -> int:
    """The index for the row of the next Command's writes."""
    indexes = [row.index for row in ledger if row.task == NULL_TASK and row.index >= 0]
    return max(indexes, default=-1) + 1


def _index(row: StoredWrite) -> int:
    return row.index


def _generation(row: StoredWrite) -> int:
    return row.generation
