"""LangGraph's objects as nodes: which can't run here, known when the node is added.

LangGraph is never imported here: while its modules aren't loaded, no node can be of its classes.
"""

from typing import Any

from actorgraph.errors import GraphBuildError
from actorgraph.values.from_langgraph import langgraph_module

_MOVE = "`python -m actorgraph.cli.codemod` moves its imports to actorgraph"


def check_langgraph_node(name: str, action: Any) -> None:
    """Refuse a node that LangGraph's runtime alone can run.

    Raises:
        GraphBuildError: it is a graph that stops at breakpoints or shares the checkpointer of a
            graph of LangGraph's; a `@task` of LangGraph's; or a builder that isn't compiled.
    """
    if _is_a("langgraph.pregel", "Pregel", action):
        _check_graph(name, action)
    elif _is_a("langgraph.func", "_TaskFunction", action):
        raise GraphBuildError(
            f"node {name!r} is a @task of LangGraph's, which only its own runs can call",
            do=f"import task from actorgraph, or add the plain function `.func`; {_MOVE}",
        )
    elif _is_a("langgraph.graph", "StateGraph", action):
        raise GraphBuildError(
            f"node {name!r} is a StateGraph of LangGraph's that isn't compiled",
            do="add `builder.compile()`",
        )


def _check_graph(name: str, graph: Any) -> None:
    if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
        raise GraphBuildError(
            f"node {name!r} is a graph of LangGraph's with breakpoints, from which the run could "
            "not resume it",
            do=f"call interrupt() in its node instead; or {_MOVE}, then set them there",
        )
    if graph.checkpointer is True:
        raise GraphBuildError(
            f"node {name!r} is a graph of LangGraph's with checkpointer=True, which shares the "
            "checkpointer of a graph of LangGraph's above it",
            do=f"give it a checkpointer of its own; or {_MOVE}",
        )


def _is_a(module: str, name: str, thing: Any) -> bool:
    kind = getattr(langgraph_module(module), name, None)
    return isinstance(kind, type) and isinstance(thing, kind)
