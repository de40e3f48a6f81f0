"""The way to LangChain's side, taken only by programs that have imported it."""

import sys
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any

from actorgraph.loops import on_trio
from actorgraph.plan.graph import NodePlan
from actorgraph.runtime.context import TaskScope

Inherit = Callable[[TaskScope, Context], None]


def inheritance_of(config: Mapping[str, Any]) -> Inherit | None:
    """What hands a task's config to the LangChain calls in it; None where it holds nothing."""
    if "langchain_core" not in sys.modules:
        return None
    if not (config.get("callbacks") or config.get("tags") or config.get("metadata")):
        return None
    from actorgraph.runtime import runnables

    return runnables.inherit


def runnable_here(node: NodePlan) -> NodePlan:
    """The node as the running event loop can call it."""
    if "langchain_core" not in sys.modules or not on_trio():
        return node
    from actorgraph.runtime import runnables

    return runnables.for_trio(node)
