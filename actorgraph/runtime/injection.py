"""Functions for code inside a node, and the values of a node's injected parameters.

get_runtime, get_store   of the running task
interrupt                pause the run with a question
astep, step              perform a side effect once per task, even if its node runs again
get_idempotency_key      for requests to services that drop duplicates

A node may run again: after a crash, a failure, an interrupt. The result of a step is stored, and
the next attempt gets it instead of performing the step. A crash is still possible between an
effect and the storing of its result; a service that gets the task's idempotency key drops the
second request then.
"""

import time
from typing import Any

from actorgraph.ports import Store
from actorgraph.runtime.context import TaskScope, current
from actorgraph.runtime.handle import ContextT, Runtime, beat_nothing
from actorgraph.values.execution import ExecutionInfo
from actorgraph.values.ids import as_text


def injected(names: tuple[str, ...], scope: TaskScope) -> dict[str, Any]:
    """Values for a node's injected parameters, by name."""
    return {name: _PROVIDERS[name](scope) for name in names}


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """Get the `Runtime` of the running task: its context, store, stream writer and more.

    Args:
        context_schema: the type of `context`, for type checkers only.
    Raises:
        OutsideRunError: not called in a node.
    """
    del context_schema
    return runtime_of(current("get_runtime()"))


def get_store() -> Store | None:
    """Get the store of `compile(store=...)`, of this graph or its parent; None if there is none.

    Raises:
        OutsideRunError: not called in a node.
    """
    return current("get_store()").lineage.resources.store


def runtime_of(scope: TaskScope) -> Runtime[Any]:
    """The `Runtime` of a task; made at the first request of each attempt."""
    runtime = getattr(scope, "runtime", None)
    if runtime is None or runtime.execution_info.node_attempt != scope.attempt:
        runtime = scope.runtime = _make_runtime(scope)
    return runtime


def _make_runtime(scope: TaskScope) -> Runtime[Any]:
    resources = scope.lineage.resources
    return Runtime(
        context=resources.context,
        store=resources.store,
        stream_writer=scope.write,
        heartbeat=getattr(scope, "heartbeat", beat_nothing),
        previous=getattr(scope, "previous", None),
        execution_info=_execution_info(scope),
        server_info=resources.server_info,
        control=scope.lineage.control,
        stores=resources.stores,
    )


def _execution_info(scope: TaskScope) -> ExecutionInfo:
    lineage, task = scope.lineage, scope.task
    began = getattr(scope, "first_attempt_time", None)
    if began is None:
        began = scope.first_attempt_time = time.time()
    thread_id = lineage.thread_id or None
    run_id = scope.base_config.get("run_id")
    return ExecutionInfo(
        checkpoint_id=as_text(lineage.base()),
        checkpoint_ns=task.namespace,
        task_id=task.id,
        thread_id=thread_id,
        run_id=as_text(lineage.run) if run_id is None else str(run_id),
        node_attempt=scope.attempt,
        node_first_attempt_time=began,
        idempotency_key=f"{thread_id}/{task.id}" if thread_id else task.id,
    )


_PROVIDERS: dict[str, Any] = {
    "config": lambda scope: scope.config,
    "error": lambda scope: getattr(scope, "error", None),
    "previous": lambda scope: getattr(scope, "previous", None),
    "runtime": runtime_of,
    "store": lambda scope: scope.lineage.resources.store,
    "writer": lambda scope: scope.write,
}
