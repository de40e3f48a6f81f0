"""The place of a task as metadata of callbacks, streamed messages and configs, as in LangGraph."""

from typing import Any, Protocol

from actorgraph.superstep.calls import shown_path
from actorgraph.values.configs import placed_metadata
from actorgraph.values.run import Task

TASK_PLACE = (
    "langgraph_step",
    "langgraph_node",
    "langgraph_triggers",
    "langgraph_path",
    "langgraph_checkpoint_ns",
)
"""The keys of `task_metadata`."""


class PlacedTask(Protocol):
    """A task's scope, as far as its place goes."""

    task: Task
    run_context: Any

    @property
    def base_config(self) -> dict[str, Any]:
        """The run's config."""
        ...


def task_metadata(task: Task, step: int) -> dict[str, Any]:
    """A task's place in its run."""
    values = step, task.name, task.triggers, shown_path(task.path), task.namespace
    return dict(zip(TASK_PLACE, values, strict=True))


def run_metadata(scope: PlacedTask) -> dict[str, Any]:
    """The place of a task's run: see `placed_metadata`."""
    placed, above = placed_metadata(scope.base_config), scope.run_context.above
    placed.pop("checkpoint_ns", None)  # a config of LangChain's has this task's own
    return placed if above is None else {**placed, "checkpoint_ns": outermost(above)}


def outermost(scope: PlacedTask) -> str:
    """The namespace of the task of the root run that a task is, or is below."""
    while (above := scope.run_context.above) is not None:
        scope = above
    return scope.task.namespace
