"""LangChain's Runnables as nodes, and the config that a node's LangChain calls inherit."""

from contextvars import Context
from dataclasses import replace
from typing import cast

from langchain_core.runnables import Runnable
from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config

from actorgraph.plan.graph import NodePlan
from actorgraph.runtime.callbacks import manager_of
from actorgraph.runtime.context import TaskScope


def inherit_config(scope: TaskScope, context: Context) -> None:
    """Let a task's LangChain calls without a config inherit its callbacks, tags and metadata."""
    config = scope.config
    if config.get("callbacks"):
        scope.override({**config, "callbacks": manager_of(config["callbacks"])})
    context.run(var_child_runnable_config.set, cast("RunnableConfig", scope.config))


def for_trio(node: NodePlan) -> NodePlan:
    """Adapt a node to trio: a Runnable, which awaits asyncio objects, runs in a thread."""
    runnable = getattr(node.call, "__self__", None)
    if isinstance(runnable, Runnable) and node.is_async:
        return replace(node, call=runnable.invoke, is_async=False)
    return node
