"""Workflows in plain functions: `@entrypoint`, `@task`, and steps inside a node or task.

The home of LangGraph's `langgraph.func`. Nothing is defined here.
"""

from actorgraph.api.functional.entrypoints import entrypoint
from actorgraph.api.functional.task_functions import TaskFunction, task
from actorgraph.runtime.task.functions import astep, get_idempotency_key, step
from actorgraph.runtime.task.futures import TaskFuture

__all__ = [
    "TaskFunction",
    "TaskFuture",
    "astep",
    "entrypoint",
    "get_idempotency_key",
    "step",
    "task",
]
