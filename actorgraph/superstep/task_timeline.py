"""The timeline of a superstep, read from its pending writes: attempts, times, errors.

Every end of a task is a row: its result, an error, or questions. Errors and questions of each run
are kept beside the result of a later one, so the rows show all attempts.
"""

from collections.abc import Iterable

from actorgraph.superstep.tasks import path_key
from actorgraph.values.checkpoint import StoredWrite
from actorgraph.values.constants import CALL, CONTROL_INDEX, ERROR, INTERRUPT, NULL_TASK
from actorgraph.values.run import TaskPath
from actorgraph.values.timeline import TaskAttempt, TaskStatus, TimelineTask

_ENDS: dict[int, TaskStatus] = {CONTROL_INDEX[ERROR]: "failed", CONTROL_INDEX[INTERRUPT]: "waiting"}


def timeline_tasks(ledger: Iterable[StoredWrite]) -> tuple[TimelineTask, ...]:
    """Read the tasks that have ended at least once from the pending writes of one checkpoint.

    Args:
        ledger: all rows, those of earlier runs too, in any order.
    Returns: the tasks in path order; calls are behind the tasks of nodes.
    """
    rows: dict[str, list[StoredWrite]] = {}
    for row in ledger:
        if row.task != NULL_TASK and (row.index >= 0 or row.index in _ENDS):
            rows.setdefault(row.task, []).append(row)
    found = [_task(task, ends) for task, ends in rows.items()]
    return tuple(sorted(found, key=lambda task: (task.is_call, path_key(task.path), task.id)))


def _task(identifier: str, rows: list[StoredWrite]) -> TimelineTask:
    # A later attempt has a higher generation; a result is the last of all.
    rows = sorted(rows, key=lambda row: (row.index >= 0, row.generation, -row.index))
    attempts = [attempt for row in rows for attempt in _attempts(row)]
    attempts.sort(key=lambda attempt: attempt.start or 0)
    last = rows[-1]
    errors = [row.writes[0][1] for row in rows if row.index == CONTROL_INDEX[ERROR]]
    name, is_call = _name(last.path)
    return TimelineTask(
        id=identifier,
        name=name,
        path=last.path,
        status=_ENDS.get(last.index, "done"),
        attempts=tuple(attempts),
        error=str(errors[-1]) if errors else None,
        is_call=is_call,
    )


def _name(path: TaskPath) -> tuple[str, bool]:
    """Read the name of a task, and whether it is a call; a stored path of a call is one text."""
    text = path_key(path)
    if not text.endswith(f", {CALL}"):
        return (str(path[-1]) if path else ""), False
    return text.removesuffix(f", {CALL}").rpartition(", ")[2], True


def _attempts(row: StoredWrite) -> Iterable[TaskAttempt]:
    times, status = row.times, _ENDS.get(row.index, "done")
    for failed in times.failed if times is not None else ():
        yield TaskAttempt(failed.start, failed.end, "failed", failed.error)
    error = str(row.writes[0][1]) if status == "failed" else None
    start, end = (None, None) if times is None else (times.start, times.end)
    yield TaskAttempt(start, end, status, error)
