"""Tasks and runs that call LangChain or LangGraph, or are called by them: hooks of runs.

This module imports neither; the ones that do are imported when the program has imported LangChain.
"""

import sys
from collections.abc import Mapping, Sequence
from contextvars import Context
from typing import Any, cast

from actorgraph.bridges.langgraph_values import adapt, langgraph_module
from actorgraph.errors import GraphDrained, InvalidUpdateError, ParentCommand
from actorgraph.errors.texts import add_note
from actorgraph.loops import on_trio
from actorgraph.plan.plan import NodePlan
from actorgraph.runtime.run.launch import Launch, RunCallbacks
from actorgraph.runtime.task.call_errors import translated
from actorgraph.runtime.task.scope import CURRENT, Inherit, TaskScope
from actorgraph.values.commands import Interrupt, is_invalid_resume, mark_invalid_resume
from actorgraph.values.configs import nested_config
from actorgraph.values.constants import LANGGRAPH_TASK


def enter_task(config: Mapping[str, Any]) -> Inherit | None:
    """A function that passes a task's config to the LangChain and LangGraph calls in it.

    None if neither is imported; or only LangChain is, and the config has no callbacks, tags and
    metadata.
    """
    if "langchain_core" not in sys.modules:
        return None
    if langgraph_module("langgraph.config"):
        from actorgraph.bridges.langgraph_tasks import show_task

        return show_task
    if not (config.get("callbacks") or config.get("tags") or config.get("metadata")):
        return None
    from actorgraph.bridges.langchain_tasks import inherit_config

    return inherit_config


def below_call(config: Mapping[str, Any] | None, scope: TaskScope | None) -> Any:
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


def wrap_node(node: NodePlan) -> NodePlan:
    """The node, adapted to the running event loop, and to LangGraph if it is a graph of it."""
    if "langchain_core" not in sys.modules:
        return node
    if on_trio():
        from actorgraph.bridges.langchain_tasks import for_trio

        node = for_trio(node)
    if langgraph_module("langgraph.pregel") and hasattr(node.call, "__self__"):
        from actorgraph.bridges.langgraph_tasks import with_own_store

        node = with_own_store(node)
    return node


async def begin_run(launch: Launch) -> RunCallbacks | None:
    """Report to LangChain's callbacks that a run begins; None if nothing listens."""
    if "langchain_core.callbacks" not in sys.modules:
        return None
    from actorgraph.bridges.run_callbacks import begin

    return await begin(launch)


def translate_error(error: BaseException, name: str) -> BaseException:
    """A node's error, with LangGraph's interrupts and commands, also in groups, made ours.

    Args:
        name: of the node, for errors; "" for that of the running task.
    """
    theirs = langgraph_module("langgraph.errors")
    if theirs is None:
        return error
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        parts = [translated(part, name) for part in group.exceptions]
        same = all(new is old for new, old in zip(parts, group.exceptions, strict=True))
        return error if same else BaseExceptionGroup(group.message, parts)
    ours = error
    if isinstance(error, theirs.GraphInterrupt):
        from actorgraph.bridges.langgraph_tasks import questions_of

        ours = questions_of(error, name or CURRENT.get().task.name)
    elif isinstance(error, theirs.ParentCommand):
        ours = ParentCommand(adapt(error.args[0]))
    elif isinstance(error, theirs.GraphDrained):
        reason: str = getattr(error, "reason", "")
        ours = GraphDrained(
            f"a graph of LangGraph's in a node stopped: {reason}",
            do="resume the thread to go on",
            reason=reason,
        )
    elif _refuses_answer(theirs, error) and not is_invalid_resume(error):
        from actorgraph.bridges.langgraph_tasks import refused_question

        mark_invalid_resume(error, refused_question(error))
    elif isinstance(error, (RuntimeError, KeyError)) and _is_of_langgraph(error):
        add_note(error, _MIXED)
    if ours is not error:
        ours.__cause__ = error
    return ours


def check_pause(context: Context, thread_id: str, name: str, asked: Sequence[Interrupt]) -> None:
    """Refuse a pause in a task of LangGraph's: its run would go on without an answer.

    Args:
        context: the caller's.
        thread_id: of the run that pauses; "" if it has none.
        name: of its graph.
        asked: its questions; none at a breakpoint.
    Raises:
        InvalidUpdateError: a node of LangGraph's runs the graph, on no thread of its own.
    """
    if not langgraph_module("langgraph.pregel") or context.get(CURRENT) is not None:
        return
    from langchain_core.runnables.config import var_child_runnable_config

    place = (context.get(var_child_runnable_config) or {}).get("configurable") or {}
    if LANGGRAPH_TASK not in place or thread_id not in ("", str(place.get("thread_id"))):
        return
    what = f"asks {asked[0].value!r}" if asked else "stopped at a breakpoint"
    raise InvalidUpdateError(
        f"graph {name!r} {what} in a node of a graph of LangGraph's, which can't resume it",
        do="move the graph around it to actorgraph (`python -m actorgraph.cli.codemod`), ask with "
        "langgraph.types.interrupt in that node, or run it with a thread_id of its own",
    )


def _refuses_answer(theirs: Any, error: BaseException) -> bool:
    """Whether LangGraph's `interrupt` raised it, about an answer; older versions check none."""
    check = getattr(theirs, "is_invalid_resume", None)
    return check is not None and check(error)


def is_control_flow(error: BaseException | None) -> bool:
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
