"""Error handlers: a node's last failure becomes a task of its handler, in the same superstep.

The failed task counts as finished without writes; the handler's writes take their place. The
failure is stored before the handler starts: after a crash the handler runs again, not the node.
"""

from collections.abc import Mapping, Sequence

from actorgraph.errors import NodeError, StoredNodeError
from actorgraph.errors.telling import error_repr
from actorgraph.plan.graph import Plan
from actorgraph.superstep import chunks
from actorgraph.superstep.pending import Attempt
from actorgraph.superstep.saves import control_entry, keep, save
from actorgraph.superstep.state import RunState
from actorgraph.values.constants import ERROR, ERROR_SOURCE_NODE, HANDLER_MARK, PUSH
from actorgraph.values.ids import task_id
from actorgraph.values.run import Effect, LedgerEntry, Task, TaskResult


def handles(state: RunState, task: Task, error: BaseException) -> bool:
    """Whether a failure goes to a handler: not if it stops the program or is a handler's own."""
    node = state.plan.nodes.get(task.name)
    return node is not None and bool(node.handler) and isinstance(error, Exception)


def hand_over(state: RunState, task: Task, error: BaseException) -> list[Effect]:
    """Make the handler's task due; it starts once the failure is stored.

    A run that is leaving stores the failure only: the next run begins with the handler.
    """
    rows = failure_rows(state, task, error)
    chunks.hold_task(state, task, error=error)
    if state.outcome is not None:
        state.unflushed.extend(rows if state.has_saver else ())
        return []
    kept = keep(state, *rows)
    effects: list[Effect] = [save(state, ledger=kept)] if kept else []
    state.barrier = state.sent if kept else state.barrier
    state.results[task.id] = TaskResult(task.id, ())
    handler = handler_task(state, task)
    state.tasks[handler.id] = handler
    state.handled[handler.id] = NodeError(task.name, error)
    state.due.append(handler)
    return effects


def failure_rows(state: RunState, task: Task, error: BaseException) -> tuple[LedgerEntry, ...]:
    """Make the rows for a failure: its error, and that the node's handler handles it."""
    failed = control_entry(state, task, ERROR, error_repr(error))
    return failed, control_entry(state, task, ERROR_SOURCE_NODE, task.name)


def handler_task(state: RunState, failed: Task) -> Task:
    """Make the task that handles a failed one; its id is the same whenever it is made again."""
    name = state.plan.nodes[failed.name].handler
    identifier = task_id(state.checkpoint, state.namespace, name, PUSH, HANDLER_MARK, failed.id)
    return Task(
        id=identifier,
        name=name,
        path=(*failed.path[:3], HANDLER_MARK, False),
        triggers=(PUSH,),
        input=failed.input,
        timeout=state.plan.handlers[name].timeout,
        within=state.namespace,
    )


def is_handled(plan: Plan, task: Task, known: Mapping[str, Attempt]) -> bool:
    """Whether a task's stored failure is left to its handler."""
    attempt = known.get(task.id)
    if attempt is None or attempt.writes is not None or not attempt.handled:
        return False
    node = plan.nodes.get(task.name)
    return node is not None and bool(node.handler)


def with_handlers(
    state: RunState, tasks: Sequence[Task], known: Mapping[str, Attempt]
) -> list[Task]:
    """Append to due tasks the handlers of those whose stored failures are handled."""
    if not state.plan.handlers:
        return list(tasks)
    failed = [task for task in tasks if is_handled(state.plan, task, known)]
    return [*tasks, *(handler_task(state, task) for task in failed)]


def take_back_failure(state: RunState, failed: Task, attempt: Attempt) -> None:
    """Take over a failure that an earlier run stored; its handler gets the error's text."""
    state.results[failed.id] = TaskResult(failed.id, ())
    error = StoredNodeError(
        f"node {failed.name!r} failed in an earlier run: {attempt.error}",
        do="read the text: the exception itself was not stored",
    )
    state.handled[handler_task(state, failed).id] = NodeError(failed.name, error)
