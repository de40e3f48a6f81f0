"""langchain-mcp-adapters: tools of a server beside it, over standard input and output."""

import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient

from tests.ecosystem.scripted import ScriptedModel, call

SERVER = str(Path(__file__).parent.parent / "mcp_server.py")
TURNS = ["add and multiply", "fail once"]
SYNC = False
"""Its tools are async."""


async def build(saver: Any, store: Any) -> Any:
    """An agent with the tools that the server lists."""
    server = {"transport": "stdio", "command": sys.executable, "args": [SERVER]}
    tools = await MultiServerMCPClient({"sums": server}).get_tools()
    model = ScriptedModel(
        label="mcp",
        scenes={
            "add": [[call("add", a=2, b=3), call("multiply", a=2, b=3)], "5 and 6"],
            "fail": [call("multiply", a=-1, b=3), "It can't"],
        },
    )
    return create_agent(model, tools=tools, checkpointer=saver, store=store)
