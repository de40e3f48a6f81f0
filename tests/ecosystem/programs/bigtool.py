"""langgraph-bigtool: tools are found in a store, then bound.

They aren't called: version 0.0.3 calls a method that ToolNode of langgraph-prebuilt 1.1 lost.
"""

from typing import Any

from langchain_core.tools import tool
from langgraph.store.memory import InMemoryStore
from langgraph_bigtool import create_agent

from tests.ecosystem.scripted import ScriptedModel, call


@tool
def power(base: int, exponent: int) -> int:
    """Raise to a power."""
    return base**exponent


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


TOOLS = {"power": power, "double": double}
TURNS = ["compute something", "next one"]


def build(saver: Any, store: Any) -> Any:
    """An agent over a store that holds a description of each tool."""
    shelf = InMemoryStore()
    for key, one in TOOLS.items():
        shelf.put(("tools",), key, {"description": f"{one.name}: {one.description}"})
    model = ScriptedModel(
        label="big",
        scenes={
            "compute": [
                call("retrieve_tools", query="power"),
                [call("retrieve_tools", query="a"), call("retrieve_tools", query="b")],
                "I could compute",
            ],
            "next": ["I know both"],
        },
    )
    return create_agent(model, TOOLS, limit=2).compile(checkpointer=saver, store=shelf)
