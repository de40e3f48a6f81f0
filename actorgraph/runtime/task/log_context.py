"""Ids bound to the log records of nodes, in programs that have configured structlog.

They are bound in the contexts of the run and its tasks, so that tasks and worker threads which
nodes start have them too, but the caller's code hasn't.
"""

from contextvars import Context
from typing import Any

from actorgraph.runtime.log import imported_module
from actorgraph.runtime.task.scope import Inherit, RunContext, TaskScope
from actorgraph.values.ids import as_text


def bind_log_ids(
    inherit: Inherit | None, context: Context, run_context: RunContext
) -> Inherit | None:
    """Bind a run's ids, and return a function that binds node and step in each task's context.

    Args:
        inherit: called first by the returned function.
        context: the run's; its thread and run ids are bound there.
    Returns: `inherit` itself if structlog is not configured.
    """
    structlog = imported_module("structlog")
    if structlog is None or not structlog.is_configured():
        return inherit
    context.run(structlog.contextvars.bind_contextvars, **run_log_ids(run_context))

    def both(scope: TaskScope, inner: Context) -> None:
        if inherit is not None:
            inherit(scope, inner)
        inner.run(
            structlog.contextvars.bind_contextvars,
            node=scope.task.name,
            step=scope.run_context.step(),
        )

    return both


def run_log_ids(run_context: RunContext) -> dict[str, str]:
    """Log fields that identify a run: its id, and its thread's if it has one."""
    own = {"run_id": as_text(run_context.run)}
    return {"thread_id": run_context.thread_id, **own} if run_context.thread_id else own


def task_log_ids(scope: TaskScope) -> dict[str, Any]:
    """Log fields that identify a task: those of its run, its node and its step."""
    place = {"node": scope.task.name, "step": scope.run_context.step()}
    return {**run_log_ids(scope.run_context), **place}
