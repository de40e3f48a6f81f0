"""The way to LangChain's and LangGraph's side, taken only by programs that have imported them."""

import sys
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import replace
from typing import Any, cast

from actorgraph.errors import GraphInterrupt, ParentCommand
from actorgraph.errors.telling import note
from actorgraph.loops import on_trio
from actorgraph.plan.graph import NodePlan
from actorgraph.runtime.context import TaskScope
from actorgraph.values.interop import from_langgraph

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
    """The node as the running event loop can call it, and as its questions are heard."""
    if "langchain_core" not in sys.modules:
        return node
    theirs = node
    if on_trio():
        from actorgraph.runtime import runnables

        node = runnables.for_trio(node)
    if "langgraph.pregel" in sys.modules and hasattr(theirs.call, "__self__"):
        from actorgraph.runtime import agents

        node = agents.asking(node)
    return node


def translated(error: BaseException) -> BaseException:
    """What a node raised, with ours for LangGraph's questions and commands; also in a group."""
    theirs = sys.modules.get("langgraph.errors")
    if theirs is None:
        return error
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        parts = [translated(part) for part in group.exceptions]
        same = all(new is old for new, old in zip(parts, group.exceptions, strict=True))
        return error if same else BaseExceptionGroup(group.message, parts)
    ours = error
    if isinstance(error, theirs.GraphInterrupt):
        asked: Any = from_langgraph(list(error.args[0]) if error.args else [])
        ours = GraphInterrupt([replace(question, id="") for question in asked])
    elif isinstance(error, theirs.ParentCommand):
        ours = ParentCommand(from_langgraph(error.args[0]))
    elif isinstance(error, (RuntimeError, KeyError)) and _is_of_langgraph(error):
        note(error, _MIXED)
    if ours is not error:
        ours.__cause__ = error
    return ours


def passes_by(error: BaseException) -> bool:
    """Whether it is LangGraph's way to stop a node: no failure, whoever handles failures."""
    theirs = sys.modules.get("langgraph.errors")
    return theirs is not None and isinstance(error, theirs.GraphBubbleUp)


_MIXED = (
    "A function of LangGraph's was called in a node of actorgraph, whose runs it doesn't know.\n"
    "  Do this: import interrupt, get_config, get_store, get_stream_writer ... from actorgraph; "
    "`python -m actorgraph.cli.codemod` moves the imports"
)


def _is_of_langgraph(error: BaseException) -> bool:
    """Whether LangGraph's own code raised it because it runs in no graph of its own."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return module in ("langgraph.config", "langgraph.types", "langgraph.runtime")
