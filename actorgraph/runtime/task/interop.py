"""Interoperation with LangChain and LangGraph, in programs that have imported them."""

import sys
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import replace
from typing import Any, cast

from actorgraph.errors import GraphInterrupt, ParentCommand
from actorgraph.errors.texts import add_note
from actorgraph.loops import on_trio
from actorgraph.plan.plan import NodePlan
from actorgraph.runtime.task.scope import TaskScope
from actorgraph.values.from_langgraph import from_langgraph, langgraph_module

Inherit = Callable[[TaskScope, Context], None]


def inheritance_of(config: Mapping[str, Any]) -> Inherit | None:
    """A function that passes a task's config to the LangChain calls in it.

    None if LangChain isn't imported, or the config has no callbacks, tags and metadata.
    """
    if "langchain_core" not in sys.modules:
        return None
    if not (config.get("callbacks") or config.get("tags") or config.get("metadata")):
        return None
    from actorgraph.runtime.task.langchain import inherit_config

    return inherit_config


def runnable_here(node: NodePlan) -> NodePlan:
    """The node, adapted to the running event loop, and so that LangGraph's interrupts pause it."""
    if "langchain_core" not in sys.modules:
        return node
    theirs = node
    if on_trio():
        from actorgraph.runtime.task.langchain import for_trio

        node = for_trio(node)
    if langgraph_module("langgraph.pregel") and hasattr(theirs.call, "__self__"):
        from actorgraph.runtime.task.langgraph import pausing_node

        node = pausing_node(node)
    return node


def translated(error: BaseException) -> BaseException:
    """A node's error, with LangGraph's interrupts and commands, also in groups, made ours."""
    theirs = langgraph_module("langgraph.errors")
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
        add_note(error, _MIXED)
    if ours is not error:
        ours.__cause__ = error
    return ours


def is_control_flow(error: BaseException) -> bool:
    """Whether it is control flow of LangGraph's, which error handling must let through."""
    theirs = langgraph_module("langgraph.errors")
    return theirs is not None and isinstance(error, theirs.GraphBubbleUp)


_MIXED = (
    "A function of LangGraph's was called in a node of actorgraph; it works only in LangGraph's "
    "runs.\n"
    "  Do this: import interrupt, get_config, get_store, get_stream_writer ... from actorgraph; "
    "`python -m actorgraph.cli.codemod` moves the imports"
)


def _is_of_langgraph(error: BaseException) -> bool:
    """Whether LangGraph's code raised it because it was called outside of a LangGraph run."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return module in ("langgraph.config", "langgraph.types", "langgraph.runtime")
