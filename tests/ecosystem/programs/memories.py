"""langmem: tools that keep and find memories in a store, a namespace per thread."""

from typing import Any

from langchain.agents import create_agent
from langmem import create_manage_memory_tool, create_search_memory_tool

from tests.ecosystem.scripted import ScriptedModel, call

NAMESPACE = ("memories", "{thread_id}")
TURNS = ["remember that I like tea", "keep two things", "what do I like"]


def build(saver: Any, store: Any) -> Any:
    """An agent with both tools."""
    model = ScriptedModel(
        label="memory",
        scenes={
            "remember": [call("manage_memory", content="likes tea", action="create"), "Noted"],
            "keep": [
                [
                    call("manage_memory", content="has a dog", action="create"),
                    call("manage_memory", content="has a cat", action="create"),
                ],
                "Noted both",
            ],
            "what": [call("search_memory", query="tea", filter={"content": "likes tea"}), "Tea"],
        },
    )
    tools = [create_manage_memory_tool(NAMESPACE), create_search_memory_tool(NAMESPACE)]
    return create_agent(model, tools=tools, checkpointer=saver, store=store)
