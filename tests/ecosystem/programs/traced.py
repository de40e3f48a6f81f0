"""A graph of the program's own: a router, a subgraph, Sends, a question, and a plain model call."""

import operator
from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Send, interrupt
from typing_extensions import TypedDict

from tests.ecosystem.scripted import ScriptedModel

TURNS = ["plan a trip", "thanks a lot"]


class Trip(TypedDict, total=False):
    """Messages, and what was found."""

    messages: Annotated[list[AnyMessage], add_messages]
    found: Annotated[list[str], operator.add]


def answer(interrupts: Any) -> Any:
    """Say yes to the question."""
    return f"yes, {interrupts[0].value}"


def build(saver: Any, store: Any) -> Any:
    """A graph that looks up places at once, asks, and writes a summary in a subgraph."""
    model = ScriptedModel(label="trip", scenes={"plan": ["A trip to Rome"], "thanks": ["Bye"]})

    def plan(state: Trip) -> Trip:
        return {"found": []}

    def route(state: Trip) -> Any:
        first = state["messages"][-1].text.startswith("plan")
        return [Send("look", {"place": place}) for place in ("Rome", "Oslo")] if first else "write"

    def look(given: dict[str, str]) -> Trip:
        return {"found": [given["place"]]}

    def ask(state: Trip) -> Trip:
        return {"found": [interrupt("now?")]}

    def say(state: Trip) -> Trip:
        return {"messages": [model.invoke(state["messages"])]}

    inner = StateGraph(Trip).add_node("say", say).add_edge(START, "say").compile(name="writer")
    builder = StateGraph(Trip)
    builder.add_node("plan", plan).add_node("look", look)
    builder.add_node("ask", ask).add_node("write", inner)
    builder.add_edge(START, "plan").add_conditional_edges("plan", route, ["look", "write"])
    builder.add_edge("look", "ask").add_edge("ask", "write").add_edge("write", END)
    return builder.compile(checkpointer=saver, store=store, name="trip")
