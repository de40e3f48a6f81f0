"""Graphs that LangGraph has deprecated."""

from typing import Annotated, Any

from actorgraph.api.graph.state_graph import StateGraph
from actorgraph.messages import add_messages


class MessageGraph(StateGraph):
    """A graph whose whole state is one list of messages."""

    def __init__(self) -> None:
        super().__init__(Annotated[list[Any], add_messages])
