"""LangChain's Runnables as nodes, and what the LangChain calls of a node inherit.

Imported only where `langchain_core` already is: a program that doesn't use LangChain pays nothing.
"""

from contextvars import Context
from dataclasses import replace
from typing import cast

from langchain_core.runnables import Runnable
from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config

from actorgraph.plan.graph import NodePlan
from actorgraph.runtime.callbacks import manager_of
from actorgraph.runtime.context import TaskScope


def inherit(scope: TaskScope, context: Context) -> None:
    """Let the LangChain calls of a task that name no config have its callbacks, tags, metadata."""
    config = scope.config
    if config.get("callbacks"):
        scope.override({**config, "callbacks": manager_of(config["callbacks"])})
    context.run(var_child_runnable_config.set, cast("RunnableConfig", scope.config))


def for_trio(node: NodePlan) -> NodePlan:
    """The node as it can run on trio: a Runnable, which awaits asyncio's things, in a thread."""
    runnable = getattr(node.call, "__self__", None)
    if isinstance(runnable, Runnable) and node.is_async:
        return replace(node, call=runnable.invoke, is_async=False)
    return node
