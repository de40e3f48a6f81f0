"""langgraph-swarm: two agents that hand over to each other; the active one is remembered."""

from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.tools import InjectedToolCallId, tool
from langgraph_swarm import create_handoff_tool, create_swarm

from tests.ecosystem.scripted import ScriptedModel, call, did


@tool
def book(place: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Book a room."""
    did(tool_call_id)
    return f"booked {place}"


TURNS = ["travel to Oslo", "more of that", "home now"]


def build(saver: Any, store: Any) -> Any:
    """Alice hands over to Bob, who books and keeps the thread until he hands it back."""
    alice = create_agent(
        ScriptedModel(
            label="alice",
            scenes={"travel": [call("transfer_to_bob")], "home": ["Welcome home"]},
        ),
        tools=[create_handoff_tool(agent_name="bob")],
        system_prompt="You are Alice.",
        name="alice",
    )
    bob = create_agent(
        ScriptedModel(
            label="bob",
            scenes={
                "travel": [call("book", place="Oslo"), "Oslo is booked"],
                "more": [[call("book", place="Rome"), call("book", place="Bern")], "Both booked"],
                "home": [call("transfer_to_alice")],
            },
        ),
        tools=[book, create_handoff_tool(agent_name="alice")],
        system_prompt="You are Bob.",
        name="bob",
    )
    graph = create_swarm([alice, bob], default_active_agent="alice")
    return graph.compile(checkpointer=saver, store=store)
