"""What observers of an ActorSystem's runs are told where a node begins. Nothing, when off."""

from collections.abc import Callable
from contextvars import Context, ContextVar

from actorgraph.runtime.context import TaskScope
from actorgraph.runtime.interop import Inherit

NODE_HOOK: ContextVar[Callable[[TaskScope, Context], None] | None] = ContextVar(
    "actorgraph_node_hook", default=None
)
"""Called with each attempt of a task and the context that it runs in; set per run."""


def observed(inherit: Inherit | None, context: Context) -> Inherit | None:
    """What is done to each task's context: `inherit`, and the hook of the run, if it has one."""
    hook = context.get(NODE_HOOK)
    if hook is None or inherit is None:
        return hook or inherit

    def both(scope: TaskScope, inner: Context) -> None:
        inherit(scope, inner)
        hook(scope, inner)

    return both


def bound_to_logs(scope: TaskScope, context: Context) -> None:
    """Bind node and step to what the task logs through structlog."""
    import structlog

    context.run(
        structlog.contextvars.bind_contextvars,
        node=scope.task.name,
        step=scope.lineage.step(),
    )
