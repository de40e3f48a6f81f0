"""One program that LangGraph and actorgraph both run, and threads of it in every state."""

import operator
from typing import Annotated, Any, NamedTuple, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph import graph as lg
from langgraph import types as lg_types

import actorgraph as ag
from tests.support.graphs import at


class Log(TypedDict, total=False):
    log: Annotated[list, operator.add]
    n: int


class Library(NamedTuple):
    """The parts of a library that the program uses."""

    state_graph: Any
    send: Any
    interrupt: Any
    command: Any


THEIRS = Library(lg.StateGraph, lg_types.Send, lg_types.interrupt, lg_types.Command)
OURS = Library(ag.StateGraph, ag.Send, ag.interrupt, ag.Command)


def says(text):
    return lambda _: {"log": [text]}


def inner_graph(by: Library):
    """A graph inside, whose second node asks."""
    builder = by.state_graph(Log)
    builder.add_node("first", says("first"))
    builder.add_node("ask", lambda _: {"log": [by.interrupt("inside?")]})
    builder.add_edge(ag.START, "first")
    builder.add_edge("first", "ask")
    return builder.compile()


def program(by: Library, saver: Any) -> Any:
    """Sends, one of which asks twice; a join; a graph inside, that asks."""

    def plan(_):
        return {"log": [HumanMessage("hi", id="1"), AIMessage("yes?", id="2")], "n": 3}

    def route(state):
        return [*(by.send("item", {"n": n}) for n in range(state["n"])), "quiet"]

    def item(state):
        if state["n"] != 2:
            return {"log": [state["n"]]}
        return {"log": [by.interrupt({"item": 2}) + by.interrupt("second")]}

    builder = by.state_graph(Log)
    builder.add_node("plan", plan)
    builder.add_node("item", item)
    builder.add_node("inside", inner_graph(by))
    for name in ("quiet", "left", "right", "end"):
        builder.add_node(name, says(name))
    builder.add_edge(ag.START, "plan")
    builder.add_conditional_edges("plan", route, ["item", "quiet"])
    builder.add_edge("quiet", "inside")
    builder.add_edge("quiet", "left")
    builder.add_edge("item", "right")
    builder.add_edge(["left", "right"], "end")
    return builder.compile(checkpointer=saver)


ANSWERS = ["A", "B", "C"]
STATES = {"first question": 0, "second question": 1, "inside": 2, "finished": 3}
"""Threads -> how many answers they have had."""


def fill(saver: Any, *, durability: Any = None) -> Any:
    """Make LangGraph run the threads; returns its graph."""
    graph = program(THEIRS, saver)
    for thread, answers in STATES.items():
        graph.invoke({"log": ["in"]}, at(thread), durability=durability)
        for answer in ANSWERS[:answers]:
            graph.invoke(THEIRS.command(resume=answer), at(thread), durability=durability)
    return graph


def shown(snapshots: list[Any]) -> list[Any]:
    """The common part of two libraries' histories of a thread."""
    return [(s.values, s.next, s.metadata["step"], s.metadata["source"]) for s in snapshots]
