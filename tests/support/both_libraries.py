"""The names of LangGraph and of this library, for programs that run under both."""

from types import SimpleNamespace
from typing import Any

import langgraph.checkpoint.memory
import langgraph.errors
import langgraph.func
import langgraph.graph
import langgraph.pregel
import langgraph.types

import actorgraph

THEIRS = SimpleNamespace(
    Command=langgraph.types.Command,
    InMemorySaver=langgraph.checkpoint.memory.InMemorySaver,
    Pregel=langgraph.pregel.Pregel,
    StateGraph=langgraph.graph.StateGraph,
    entrypoint=langgraph.func.entrypoint,
    interrupt=langgraph.types.interrupt,
    task=langgraph.func.task,
)

OURS = SimpleNamespace(
    Command=actorgraph.Command,
    InMemorySaver=actorgraph.InMemorySaver,
    Pregel=actorgraph.Pregel,
    StateGraph=actorgraph.StateGraph,
    entrypoint=actorgraph.entrypoint,
    interrupt=actorgraph.interrupt,
    task=actorgraph.task,
)


def one_node(lib: Any, schema: Any, node: Any, **options: Any) -> Any:
    """A compiled graph with one node "n"; `options` go to `compile`."""
    builder = lib.StateGraph(schema).add_node("n", node)
    return builder.add_edge("__start__", "n").compile(**options)
