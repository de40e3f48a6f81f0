"""Objects of LangGraph and LangChain as nodes: which can't run here, and dicts of functions.

Neither is imported here: while its modules aren't loaded, no node can be of its classes.
"""

import sys
from collections.abc import Mapping
from typing import Any

from actorgraph.bridges.langgraph_values import langgraph_module
from actorgraph.errors import GraphBuildError

_MOVE = "`python -m actorgraph.cli.codemod` moves its imports to actorgraph"


def check_node(name: str, action: Any) -> None:
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


def adapt_parallel(functions: Mapping[str, Any]) -> Any:
    """Make a dict of functions into the object that calls all of them, as LangChain does.

    Returns: None if the program has not imported it.
    """
    langchain = sys.modules.get("langchain_core.runnables")
    return None if langchain is None else langchain.RunnableParallel(functions)


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
