"""A task scope for conditional edges that a state update evaluates: of a task that never ran."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from actorgraph.runtime.context import CURRENT, TaskScope
from actorgraph.runtime.handle import RunResources
from actorgraph.runtime.lineage import Lineage
from actorgraph.runtime.live import Writer
from actorgraph.superstep.state import RunState
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.ids import as_text, task_id
from actorgraph.values.run import NOTHING_ROUTED, Task


@contextmanager
def edge_scope(
    state: RunState, name: str, *, run: bytes, config: dict[str, Any], resources: RunResources
) -> Generator[TaskScope]:
    """Set up the scope of a node's conditional edges during an update as that node.

    They see the config and the stores; chunks that they send are dropped.

    Args:
        name: of the node.
        run: id of the run that the update counts as.
        config: the caller's.
    """
    identifier = task_id(state.checkpoint, state.namespace, name, INTERRUPT)
    task = Task(identifier, name, (INTERRUPT, name), (), None, within=state.namespace)
    lineage = Lineage(
        thread_id=state.thread_id,
        namespace=state.namespace,
        run=run,
        epoch=0,
        host=None,
        policy=state.policy,
        broadcast=None,
        parents=lambda: {state.namespace: as_text(state.checkpoint)},
        base=lambda: state.checkpoint,
        step=lambda: state.step + 1,
        loaded=None,
        routed=NOTHING_ROUTED,
        resources=resources,
    )
    scope = TaskScope(task, config, Writer(None), [], lineage)
    token = CURRENT.set(scope)
    try:
        yield scope
    finally:
        CURRENT.reset(token)
