"""What a node asks the runtime for: by a parameter's name, or by a function that it calls."""

import time
from typing import Any

from actorgraph.ports import Store
from actorgraph.runtime.context import TaskScope, current
from actorgraph.runtime.handle import ContextT, Runtime, beat_nothing
from actorgraph.values.execution import ExecutionInfo
from actorgraph.values.ids import as_text


def injected(names: tuple[str, ...], scope: TaskScope) -> dict[str, Any]:
    """The keyword arguments that fill in a node's declared parameters."""
    return {name: _PROVIDERS[name](scope) for name in names}


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """The `Runtime` of the running task: its context, store, stream writer and more.

    Args:
        context_schema: only says to type checkers what `context` is.
    Raises:
        OutsideRunError: not called in a node.
    """
    del context_schema
    return runtime_of(current("get_runtime()"))


def get_store() -> Store | None:
    """The store that was given to `compile(store=...)`, here or in the graph above; or None.

    Raises:
        OutsideRunError: not called in a node.
    """
    return current("get_store()").lineage.supplies.store


def runtime_of(scope: TaskScope) -> Runtime[Any]:
    """The `Runtime` of a task, made when it is first asked for."""
    runtime = getattr(scope, "runtime", None)
    if runtime is None or runtime.execution_info.node_attempt != scope.attempt:
        runtime = scope.runtime = _made(scope)
    return runtime


def _made(scope: TaskScope) -> Runtime[Any]:
    supplies = scope.lineage.supplies
    return Runtime(
        context=supplies.context,
        store=supplies.store,
        stream_writer=scope.write,
        heartbeat=getattr(scope, "heartbeat", beat_nothing),
        previous=getattr(scope, "previous", None),
        execution_info=_execution_info(scope),
        server_info=supplies.server_info,
        control=scope.lineage.control,
        stores=supplies.stores,
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
    "store": lambda scope: scope.lineage.supplies.store,
    "writer": lambda scope: scope.write,
}
