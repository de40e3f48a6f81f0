"""LangGraph's compiled graphs as nodes: their interrupts pause the run, which answers them.

Used only if LangGraph's own runtime is imported. Such a graph keeps its state with its own
checkpointer, on the thread of the run, so it can be resumed at its interrupt.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Never

from actorgraph.errors import GraphInterrupt, InvalidUpdateError
from actorgraph.plan.plan import NodePlan
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.from_langgraph import from_langgraph

_PLACE = ("checkpoint_ns", "checkpoint_id", "checkpoint_map")


def pausing_node(node: NodePlan) -> NodePlan:
    """Wrap a node that is a graph of LangGraph's so that it pauses when the graph does.

    Other nodes are returned unchanged.
    """
    graph: Any = getattr(node.call, "__self__", None)
    if not isinstance(graph, sys.modules["langgraph.pregel"].Pregel):
        return node
    call = _async(graph, node.call) if node.is_async else _sync(graph, node.call)
    return replace(node, call=call)


def _async(graph: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    async def run(given: Any, **extra: Any) -> Any:
        answers: dict[str, Any] = {}
        if CURRENT.get().routed:
            answers = _answers(await graph.aget_state(_thread(extra)))
        returned = await call(_resumed(answers) if answers else given, **extra)
        if _may_stop(graph):
            _check_ended(await graph.aget_state(_thread(extra)))
        return _checked(graph, returned)

    return run


def _sync(graph: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    def run(given: Any, **extra: Any) -> Any:
        answers: dict[str, Any] = {}
        if CURRENT.get().routed:
            answers = _answers(graph.get_state(_thread(extra)))
        returned = call(_resumed(answers) if answers else given, **extra)
        if _may_stop(graph):
            _check_ended(graph.get_state(_thread(extra)))
        return _checked(graph, returned)

    return run


def _resumed(answers: dict[str, Any]) -> Any:
    """The input with which LangGraph resumes."""
    return sys.modules["langgraph.types"].Command(resume=answers)


def _thread(extra: dict[str, Any]) -> dict[str, Any]:
    """The config that addresses the graph's newest state, which it keeps as a root graph does."""
    config = extra.get("config") or CURRENT.get().config
    place = {k: v for k, v in (config.get("configurable") or {}).items() if k not in _PLACE}
    return {**config, "configurable": place}


def _answers(state: Any) -> dict[str, Any]:
    """The answers to interrupts of the graph that wait, by interrupt id."""
    routed = CURRENT.get().routed
    waiting = [question.id for task in state.tasks for question in task.interrupts]
    return {identifier: routed[identifier] for identifier in waiting if identifier in routed}


def _may_stop(graph: Any) -> bool:
    """Whether the graph has breakpoints, at which it returns without an interrupt."""
    return bool(graph.interrupt_before_nodes or graph.interrupt_after_nodes) and graph.checkpointer


def _check_ended(state: Any) -> None:
    """Refuse a graph that has stopped at a breakpoint: its return value is not its result.

    Raises:
        InvalidUpdateError: it has paused without an interrupt.
    """
    if state.next and not any(task.interrupts for task in state.tasks):
        raise InvalidUpdateError(
            f"node {CURRENT.get().task.name!r} is a graph of LangGraph's that stopped at its "
            f"breakpoint before {', '.join(state.next)}, from which the run can't resume it",
            do="call interrupt() in its node instead, or migrate it with "
            "`python -m actorgraph.cli.codemod` and set the breakpoint there",
        )


def _checked(graph: Any, returned: Any) -> Any:
    """The graph's return value, unless it has paused.

    Raises:
        GraphInterrupt: it has paused at an interrupt.
        InvalidUpdateError: it has, and can't be resumed.
    """
    asked = returned.get(INTERRUPT) if isinstance(returned, dict) else None
    if asked:
        _pause(graph, asked)
    return returned


def _pause(graph: Any, asked: Any) -> Never:
    scope = CURRENT.get()
    questions = from_langgraph(list(asked))
    if not graph.checkpointer:
        raise InvalidUpdateError(
            f"node {scope.task.name!r} is a graph of LangGraph's that asks "
            f"{questions[0].value!r} and has no checkpointer: it can't be resumed",
            do="compile it with a checkpointer, or migrate it with "
            "`python -m actorgraph.cli.codemod`",
        )
    scope.raised.extend(questions)
    raise GraphInterrupt(questions)
