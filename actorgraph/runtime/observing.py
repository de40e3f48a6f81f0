"""The ids that what nodes log has, in a program that has configured structlog. Nothing elsewhere.

They are bound in the contexts of the run and its tasks, so that tasks and worker threads which
nodes start have them too, and the caller has none of them.
"""

from contextvars import Context
from typing import Any

from actorgraph.runtime.context import TaskScope
from actorgraph.runtime.interop import Inherit
from actorgraph.runtime.lineage import Lineage
from actorgraph.runtime.loaded import loaded
from actorgraph.values.ids import as_text


def observed(inherit: Inherit | None, context: Context, lineage: Lineage) -> Inherit | None:
    """What is done to each task's context: `inherit`, and node and step bound for logs.

    Args:
        context: the run's; its thread and its id are bound there.
    """
    structlog = loaded("structlog")
    if structlog is None or not structlog.is_configured():
        return inherit
    context.run(structlog.contextvars.bind_contextvars, **ids_of(lineage))

    def both(scope: TaskScope, inner: Context) -> None:
        if inherit is not None:
            inherit(scope, inner)
        inner.run(
            structlog.contextvars.bind_contextvars, node=scope.task.name, step=scope.lineage.step()
        )

    return both


def ids_of(lineage: Lineage) -> dict[str, str]:
    """The ids by which a run is found again: its own, and its thread's if it has one."""
    own = {"run_id": as_text(lineage.run)}
    return {"thread_id": lineage.thread_id, **own} if lineage.thread_id else own


def place_of(scope: TaskScope) -> dict[str, Any]:
    """The same of a task, with its node and its step."""
    place = {"node": scope.task.name, "step": scope.lineage.step()}
    return {**ids_of(scope.lineage), **place}
