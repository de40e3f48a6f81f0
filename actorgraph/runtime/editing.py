"""The surroundings of conditional edges that an update from outside asks: a task that never ran."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from actorgraph.runtime.context import CURRENT, TaskScope
from actorgraph.runtime.handle import Supplies
from actorgraph.runtime.lineage import Lineage
from actorgraph.runtime.live import Writer
from actorgraph.superstep.state import RunState
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.ids import as_text, task_id
from actorgraph.values.run import NOTHING_ROUTED, Task


@contextmanager
def as_node(
    state: RunState, name: str, *, run: bytes, config: dict[str, Any], supplies: Supplies
) -> Generator[TaskScope]:
    """What the edges of a node see while an update stands for it: config, store, no readers.

    Args:
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
        supplies=supplies,
    )
    scope = TaskScope(task, config, Writer(None), [], lineage)
    token = CURRENT.set(scope)
    try:
        yield scope
    finally:
        CURRENT.reset(token)
