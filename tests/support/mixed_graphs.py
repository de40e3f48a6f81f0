"""Graphs with nodes that use LangGraph's functions, and a way to answer their questions."""

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from actorgraph import (
    START,
    Command,
    InMemorySaver,
    StateGraph,
    add_messages,
)
from tests.support.graphs import at


class Log(TypedDict, total=False):
    count: int
    log: Annotated[list, operator.add]
    messages: Annotated[list, add_messages]


def then(state):
    return {"log": ["then"]}


def graph_of(*nodes, store: Any = None, saver: Any = None, **options: Any) -> Any:
    """The nodes beside each other, and one after them that says that it ran."""
    builder = StateGraph(Log).add_node("then", then)
    for place, node in enumerate(nodes):
        builder.add_node(f"n{place}", node).add_edge(START, f"n{place}")
    builder.add_edge([f"n{place}" for place in range(len(nodes))], "then")
    saver = InMemorySaver() if saver is None else saver
    return builder.compile(checkpointer=saver or None, store=store, **options)


async def answered(graph: Any, *answers: Any, given: Any = None) -> tuple[list, Any]:
    """Run a graph, answering each question by its id; what was asked, and the result."""
    asked = []
    result = await graph.ainvoke(given or {"log": []}, at())
    left = list(answers)
    while "__interrupt__" in result and len(asked) <= len(answers):
        (question,) = (await graph.aget_state(at())).interrupts
        asked.append(question.value)
        result = await graph.ainvoke(Command(resume={question.id: left.pop(0)}), at())
    return asked, result
