"""Snapshots of checkpoints: the stored state of one, or the live view of a thread's head.

The live view (no checkpoint id given) counts finished tasks of the unfinished superstep as
done: their writes are in the values, and `next` names the others. The view of a given checkpoint
shows the values at the start of the superstep, all its tasks, and every question that was asked.
The timeline of a superstep has the attempts of its tasks, their times and errors.

`stored_snapshot` is for a reader that doesn't have the graph. Which nodes run next is stored with
each checkpoint, Sends among them. Reducers are the graph's: its values are those at the start of
the superstep, without the writes of its finished tasks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, cast

from actorgraph.channels import EMPTY
from actorgraph.plan.plan import Plan
from actorgraph.superstep.apply import TaskWrites, apply
from actorgraph.superstep.begin import restore
from actorgraph.superstep.calls import shown_path
from actorgraph.superstep.chunks import address, below_config, grouped, result_of
from actorgraph.superstep.deltas import counters_of
from actorgraph.superstep.pending_writes import Attempt, attempts, fold_error, open_questions
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.task_failures import handler_task, is_handled, with_handlers
from actorgraph.superstep.tasks import as_shown, due_tasks, in_path_order, next_nodes
from actorgraph.values.checkpoint import Restored, StoredWrite
from actorgraph.values.constants import (
    CALL,
    CONTROL_INDEX,
    ERROR,
    HANDLER_MARK,
    INTERRUPT,
    NULL_TASK,
    PUSH,
    START,
    TASKS,
)
from actorgraph.values.ids import CheckpointId, TaskId, as_text
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import Task, TaskPath, path_key
from actorgraph.values.state_snapshot import (
    HeldSnapshot,
    LateSnapshot,
    PregelTask,
    StateSnapshot,
    WorkedOnSnapshot,
)
from actorgraph.values.timeline import TaskAttempt, TaskStatus, TimelineTask


def empty_snapshot(config: dict[str, Any]) -> StateSnapshot:
    """Make the snapshot of a thread without a checkpoint."""
    return StateSnapshot({}, (), config, None, None, None, (), ())


def unsaved_snapshot(config: dict[str, Any], *, works: bool = False) -> StateSnapshot:
    """Make the snapshot of a thread whose input is stored with a claim, not in a checkpoint.

    Args:
        works: whether the run that has claimed it still works.
    """
    return _class_of(held=True, works=works)(*empty_snapshot(config)._replace(next=(START,)))


def _class_of(*, held: bool, works: bool) -> type[StateSnapshot[Any]]:
    return (WorkedOnSnapshot if works else HeldSnapshot) if held else StateSnapshot


def restored_state(plan: Plan, restored: Restored, thread_id: str) -> RunState:
    """Make a run state at a checkpoint, only to read it."""
    state = RunState(plan, RunPolicy(), _no_mint, has_saver=False)
    state.thread_id = thread_id
    state.namespace = restored.namespace
    restore(state, restored)
    return state


def _no_mint(_: int, __: bytes | None) -> CheckpointId:
    return CheckpointId(b"\0" * 16)


def snapshot(
    plan: Plan,
    restored: Restored,
    thread_id: str,
    *,
    live: bool,
    parent_ledger: Iterable[StoredWrite] = (),
    held: bool = False,
    works: bool = False,
) -> StateSnapshot:
    """Make the snapshot of a checkpoint.

    Args:
        live: make the live view (see the module) rather than that of the checkpoint.
        parent_ledger: the pending writes of the checkpoint's parent, for `metadata["writes"]`.
        held: whether a run has claimed the thread and has not left.
        works: whether that run still works.
    """
    state = restored_state(plan, restored, thread_id)
    tasks = as_shown(plan, due_tasks(state, None))
    known = attempts(restored.ledger)
    handlers = with_handlers(state, tasks, known)[len(tasks) :] if plan.handlers else []
    # A handler's task is shown once it has rows, until it has a result.
    ended = [t for t in handlers if t.id in known and not _finished(known[t.id])]
    shown = tuple(
        _task(plan, task, known.get(task.id), live=live)._replace(
            state=below_config(thread_id, task) if task.name in plan.subgraphs else None
        )
        for task in (*tasks, *ended)
    )
    unfinished = [t for t in tasks if not live or not _settled(state, t, known)]
    stuck = None if unfinished or not restored.ledger else fold_error(restored.ledger)
    if stuck is not None:
        # Every task has finished and the superstep has not: it is what comes next.
        unfinished, shown = tasks, tuple(task._replace(error=stuck) for task in shown)
    elif live and (known or restored.left):
        _apply_finished(state, [*tasks, *handlers], known)
    interrupts = tuple(i for task in shown for i in task.interrupts)
    parents: dict[str, str] = restored.metadata.get("parents", {})
    return _class_of(held=held, works=works)(
        values=values_of(state),
        # In a cancelled run all may have finished without being folded: they are next again.
        next=next_nodes(plan, unfinished or tasks),
        config=address(thread_id, restored.namespace, restored.id, parents) or {},
        metadata=metadata_of(plan, restored, parent_ledger),
        created_at=iso(restored.created),
        parent_config=address(thread_id, restored.namespace, restored.parent, parents),
        tasks=shown,
        interrupts=interrupts,
    )


def with_late_writes(
    shown: StateSnapshot, plan: Plan, restored: Restored, parent_ledger: Iterable[StoredWrite]
) -> StateSnapshot:
    """Give a snapshot its parent's pending writes, which it iterates over when looked at."""
    return LateSnapshot.of(shown, partial(_writes, plan, restored, parent_ledger))


def values_of(state: RunState) -> Any:
    """Read the state: a dict of the keys that are available, or the bare value of the one key."""
    keys = state.plan.state_keys
    if state.plan.opaque.isdisjoint(keys):
        values = {key: state.values[key] for key in keys if key in state.values}
    else:
        pairs = ((key, state.read(key)) for key in keys)
        values = {key: value for key, value in pairs if value is not EMPTY}
    return values.get(keys[0]) if state.plan.bare_state else values


def metadata_of(
    plan: Plan, restored: Restored, parent_ledger: Iterable[StoredWrite] = ()
) -> dict[str, Any]:
    """Make a snapshot's metadata; its `writes` are read from the parent's pending writes."""
    return {
        **restored.metadata,
        **(counters_of(restored.deltas) if restored.deltas else {}),
        "source": restored.source,
        "step": restored.step,
        "parents": restored.metadata.get("parents", {}),
        "run_id": restored.metadata.get("run_id") or (restored.run and as_text(restored.run)),
        "writes": _writes(plan, restored, parent_ledger),
    }


def _writes(plan: Plan, restored: Restored, ledger: Iterable[StoredWrite]) -> dict[str, Any] | None:
    """Node -> the writes that made a checkpoint; None for an input's or a fork's."""
    if restored.source == "loop":
        return writes_by_node(plan, ledger)
    writes = writes_by_node(plan, ledger) if restored.source == "update" else None
    authors = restored.metadata.get("as_node")
    authors = authors if isinstance(authors, list) else [authors]
    return {name: writes[name] for name in authors if name in writes} or None if writes else None


def writes_by_node(plan: Plan, ledger: Iterable[StoredWrite]) -> dict[str, Any] | None:
    """Group a superstep's writes by node; a list for several tasks of one node; None if empty."""
    by_node: dict[str, list[Any]] = {}
    for row in ledger:
        name = row.path[-1] if row.path else None
        if row.index < 0 or name == START or name not in plan.callable or not isinstance(name, str):
            continue
        by_node.setdefault(name, []).append(grouped(plan.state_keys, row.writes))
    return {name: own[0] if len(own) == 1 else own for name, own in by_node.items()} or None


def iso(microseconds: int) -> str:
    """Format microseconds since 1970 as ISO 8601 UTC."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat()


def _finished(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.writes is not None


def _settled(state: RunState, task: Task, known: Mapping[str, Attempt]) -> bool:
    """Whether a task, or the handler of its failure, has finished."""
    if state.plan.handlers and is_handled(state.plan, task, known):
        return _finished(known.get(handler_task(state, task).id))
    return _finished(known.get(task.id))


def _task(plan: Plan, task: Task, attempt: Attempt | None, *, live: bool) -> PregelTask:
    shown = PregelTask(task.id, task.name, shown_path(task.path))
    if attempt is None:
        return shown
    asked = open_questions(task, attempt) if live else attempt.interrupts
    result = None if attempt.writes is None else result_of(plan, attempt.writes)
    return shown._replace(error=attempt.error, interrupts=asked, result=result)


def _apply_finished(state: RunState, tasks: list[Task], known: dict[str, Attempt]) -> None:
    """Fold finished tasks' writes. If they conflict, the values stay those of the checkpoint."""
    done: dict[str, Any] = {
        t.id: known[t.id].writes or () for t in tasks if _finished(known.get(t.id))
    }
    left = [Task(TaskId(i), state.plan.start.name, path, (), None) for i, path, _ in state.left]
    done.update({i: writes for i, _, writes in state.left})
    # Without triggers nothing ages: the superstep is not over.
    ran = [
        TaskWrites(t.name, (), done[t.id]) for t in in_path_order([*tasks, *left]) if t.id in done
    ]
    try:
        apply(state, ran)
    except Exception:  # noqa: BLE001 - a user's reducer may raise anything
        return


_TASK_ENDS: dict[int, TaskStatus] = {
    CONTROL_INDEX[ERROR]: "failed",
    CONTROL_INDEX[INTERRUPT]: "waiting",
}


def timeline_tasks(ledger: Iterable[StoredWrite]) -> tuple[TimelineTask, ...]:
    """Read the tasks that have ended at least once from the pending writes of one checkpoint.

    Every end of a task is a row: its result, an error, or questions. Errors and questions of each
    run are kept beside the result of a later one, so the rows show all attempts.

    Args:
        ledger: all rows, those of earlier runs too, in any order.
    Returns: the tasks in path order; calls are behind the tasks of nodes.
    """
    rows: dict[str, list[StoredWrite]] = {}
    for row in ledger:
        if row.task != NULL_TASK and (row.index >= 0 or row.index in _TASK_ENDS):
            rows.setdefault(row.task, []).append(row)
    tasks = [_timeline_task(task, ends) for task, ends in rows.items()]
    return tuple(sorted(tasks, key=lambda task: (task.is_call, path_key(task.path), task.id)))


def _timeline_task(identifier: str, rows: list[StoredWrite]) -> TimelineTask:
    # A later attempt has a higher generation; a result is the last of all.
    rows = sorted(rows, key=lambda row: (row.index >= 0, row.generation, -row.index))
    attempts = [attempt for row in rows for attempt in _timeline_attempts(row)]
    attempts.sort(key=lambda attempt: attempt.start or 0)
    last = rows[-1]
    errors = [row.writes[0][1] for row in rows if row.index == CONTROL_INDEX[ERROR]]
    name, is_call = row_name(last.path)
    return TimelineTask(
        id=identifier,
        name=name,
        path=last.path,
        status=_TASK_ENDS.get(last.index, "done"),
        attempts=tuple(attempts),
        error=str(errors[-1]) if errors else None,
        is_call=is_call,
    )


def row_name(path: TaskPath) -> tuple[str, bool]:
    """Read the name of a task from the path of its rows, and whether it is a call.

    A stored path of a call is one text.
    """
    text = path_key(path)
    if not text.endswith(f", {CALL}"):
        return (str(path[-1]) if path else ""), False
    return text.removesuffix(f", {CALL}").rpartition(", ")[2], True


def _timeline_attempts(row: StoredWrite) -> Iterable[TaskAttempt]:
    times, status = row.times, _TASK_ENDS.get(row.index, "done")
    for failed in times.failed if times is not None else ():
        yield TaskAttempt(failed.start, failed.end, "failed", failed.error)
    error = str(row.writes[0][1]) if status == "failed" else None
    start, end = (None, None) if times is None else (times.start, times.end)
    yield TaskAttempt(start, end, status, error)


EDGE: Final = "branch:to:"
"""The beginning of the names of channels that start a node."""
HIDDEN: Final = (EDGE, "__")


def stored_snapshot(
    restored: Restored, thread_id: str, *, live: bool, held: bool = False, works: bool = False
) -> StateSnapshot:
    """Make the snapshot of a checkpoint.

    Args:
        restored: read by the rules of no graph.
        live: whether its finished tasks count as done, as in the live view of a thread's head.
        held: whether a run has claimed the thread and has not left.
        works: whether that run still works.
    """
    following = _following(restored)
    known = {
        task: attempt
        for task, attempt in attempts(restored.ledger).items()
        if not row_name(attempt.path)[1]
    }
    named = [(_stored_task(i, one, following), one) for i, one in known.items()]
    done = Counter(task.name for task, one in named if live and one.writes is not None)
    left = _without(following, done)
    stuck = fold_error(restored.ledger) if not left else None
    shown = [_stored_view(task, one, live=live) for task, one in named if task.name]
    begun = Counter(task.name for task, _ in named)
    shown += [PregelTask(name, name, ()) for name in _without(following, begun)]
    if stuck is not None:
        shown = [task._replace(error=stuck) for task in shown]
    parents: dict[str, str] = restored.metadata.get("parents", {})
    return _class_of(held=held, works=works)(
        values={k: v for k, v in restored.values.items() if not k.startswith(HIDDEN)},
        # In a cancelled run all may have finished without being folded: they are next again.
        next=left or following,
        config=address(thread_id, restored.namespace, restored.id, parents) or {},
        metadata=_stored_metadata(restored),
        created_at=iso(restored.created),
        parent_config=address(thread_id, restored.namespace, restored.parent, parents),
        tasks=tuple(shown),
        interrupts=tuple(asked for task in shown for asked in task.interrupts),
    )


def _stored_metadata(restored: Restored) -> dict[str, Any]:
    metadata = {
        "parents": {},
        **restored.metadata,
        **counters_of(restored.deltas),
        "source": restored.source,
        "step": restored.step,
    }
    return metadata if restored.run is None else {**metadata, "run_id": as_text(restored.run)}


def _following(restored: Restored) -> tuple[str, ...]:
    """Return the nodes that run next; of a checkpoint of another library as its channels say."""
    if restored.next:
        return restored.next
    values = restored.values
    sends = cast("Sequence[Any]", values.get(TASKS) or ())
    names = [str(send.node) for send in sends if hasattr(send, "node")]
    names += [name.removeprefix(EDGE) for name in values if name.startswith(EDGE)]
    return tuple(names) or ((START,) if START in values else ())


def _without(names: Sequence[str], gone: Mapping[str, int]) -> tuple[str, ...]:
    """Leave out names, each as often as it is gone."""
    left, remaining = Counter(gone), list[str]()
    for name in names:
        if left[name] > 0:
            left[name] -= 1
        else:
            remaining.append(name)
    return tuple(remaining)


def _stored_task(identifier: str, attempt: Attempt, following: Sequence[str]) -> Task:
    """Make the task of some rows; its name is one of several where the rows don't say it."""
    path = attempt.path
    name = row_name(path)[0]
    if len(path) == 2 and path[0] == PUSH and isinstance(path[1], int):
        name = following[path[1]] if path[1] < len(following) else ""
    if name not in following or HANDLER_MARK in path:
        name = following[0] if len(following) == 1 else " or ".join(dict.fromkeys(following))
    return Task(TaskId(identifier), name or "a task", path, (), None)


def _stored_view(task: Task, attempt: Attempt, *, live: bool) -> PregelTask:
    asked = open_questions(task, attempt) if live else attempt.interrupts
    writes = {k: v for k, v in attempt.writes or () if not k.startswith(HIDDEN)}
    result = None if attempt.writes is None else writes
    return PregelTask(task.id, task.name, (), attempt.error, asked, None, result)
