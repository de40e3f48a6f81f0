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
from actorgraph.values.configs import nested_config
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


def below_chain(config: Mapping[str, Any] | None, scope: TaskScope | None) -> Any:
    """Merge a call's config over that of the LangChain Runnable that makes the call.

    Args:
        scope: the task that makes the call; None outside of a node. In a task only the callbacks
            are taken: its own config has everything else.
    Returns: `config` itself if no Runnable makes the call.
    """
    # getattr: another thread may be importing LangChain, so that the module is incomplete.
    variable = getattr(
        sys.modules.get("langchain_core.runnables.config"), "var_child_runnable_config", None
    )
    above = None if variable is None else variable.get()
    if not above:
        return config
    if scope is None:
        return nested_config(_without_place(above, config), config)
    if (config or {}).get("callbacks") or above.get("callbacks") is scope.config.get("callbacks"):
        return config
    return {**(config or {}), "callbacks": above.get("callbacks")}


_PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")


def _without_place(above: Mapping[str, Any], config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Leave out the `configurable` of a chain if it addresses another run than the call does."""
    own, place = (config or {}).get("configurable") or {}, above.get("configurable") or {}
    addressed = any(own.get(key) for key in _PLACE)
    of_langgraph = any(key.startswith("__pregel") for key in place)
    hidden = ("configurable",) if addressed or of_langgraph else ()
    return {key: value for key, value in above.items() if key not in (*hidden, *_RUN_KEYS)}


_RUN_KEYS = ("run_id", "run_name")


def feeds_event_stream(config: Mapping[str, Any]) -> bool:
    """Whether an event stream of LangChain's listens to a call."""
    callbacks = config.get("callbacks")
    if not callbacks or "langchain_core.tracers" not in sys.modules:
        return False
    from actorgraph.runtime.task.langchain import is_event_stream

    return any(map(is_event_stream, getattr(callbacks, "handlers", callbacks)))


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
