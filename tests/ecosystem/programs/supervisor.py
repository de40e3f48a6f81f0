"""langgraph-supervisor: hand-offs to two agents and back, over two turns of one thread."""

from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.tools import InjectedToolCallId, tool
from langgraph_supervisor import create_supervisor

from tests.ecosystem.scripted import ScriptedModel, call, did


@tool
def add(a: int, b: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> int:
    """Add two numbers."""
    did(tool_call_id)
    return a + b


@tool
def look_up(topic: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Look something up."""
    did(tool_call_id)
    return f"all about {topic}"


TURNS = ["add 3 and 4", "find rust and add 1 and 2", "again please"]
NAME = "supervisor"


def build(saver: Any, store: Any) -> Any:
    """A supervisor over a mathematician and a researcher."""
    math = create_agent(
        ScriptedModel(
            label="math",
            scenes={
                "add": [call("add", a=3, b=4), "It is 7"],
                "find": [call("add", a=1, b=2), "It is 3"],
            },
        ),
        tools=[add],
        name="math",
    )
    research = create_agent(
        ScriptedModel(
            label="research",
            scenes={"find": [[call("look_up", topic="rust"), call("look_up", topic="c")], "Found"]},
            streams=True,
        ),
        tools=[look_up],
        name="research",
    )
    lead = ScriptedModel(
        label="lead",
        scenes={
            "add": [call("transfer_to_math"), "The sum is 7"],
            "find": [call("transfer_to_research"), call("transfer_to_math"), "Rust, and 3"],
            "again": ["There were 7 and 3"],
        },
    )
    graph = create_supervisor([math, research], model=lead, prompt="You lead.")
    return graph.compile(checkpointer=saver, store=store)
