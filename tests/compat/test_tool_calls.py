"""Calls of LangChain's tools by the layer's ToolNode, in a process of their own."""

from tests.compat.test_packages import run

PROGRAM = """
import anyio
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

made, both = [], anyio.Event()

@tool
async def send(to: str) -> str:
    "Send."
    made.append(f"send {to}")
    if len(made) == 2:
        both.set()
    return f"sent to {to}"

@tool
async def ask() -> str:
    "Ask, when the other calls have been made."
    await both.wait()
    made.append("ask")
    return str(interrupt("may I?"))

@tool("send")
def send_now(to: str) -> str:
    "Send."
    made.append(f"send {to}")
    return f"sent to {to}"

@tool("ask")
def ask_now() -> str:
    "Ask."
    made.append("ask")
    return str(interrupt("may I?"))

CALLS = [
    {"name": "send", "args": {"to": "ann"}, "id": "1"},
    {"name": "ask", "args": {}, "id": "2"},
    {"name": "send", "args": {"to": "bob"}, "id": "3"},
]
AT = {"configurable": {"thread_id": "t"}}

def compiled(*tools):
    builder = StateGraph(MessagesState).add_node("tools", ToolNode(tools))
    return builder.add_edge(START, "tools").compile(checkpointer=InMemorySaver())

def show(asked, result):
    print([i.value for i in asked["__interrupt__"]], sorted(made))
    print([message.content for message in result["messages"][1:]])

async def awaited():
    graph = compiled(send, ask)
    asked = await graph.ainvoke({"messages": [AIMessage("", tool_calls=CALLS)]}, AT)
    show(asked, await graph.ainvoke(Command(resume="yes"), AT))

def blocking():
    graph = compiled(send_now, ask_now)
    asked = graph.invoke({"messages": [AIMessage("", tool_calls=CALLS)]}, AT)
    show(asked, graph.invoke(Command(resume="yes"), AT))
"""


class TestToolNode:
    # LangChain's awaited tools need asyncio. On trio, tests/prebuilt has the node's own tools.
    def test_a_call_that_has_ended_is_not_made_again(self):
        """
        When one of several calls asks a person, those that ended are not made again at the answer.
        """
        done = run(f"{PROGRAM}\nblocking()\nmade.clear()\nanyio.run(awaited)")

        shown = [
            "['may I?'] ['ask', 'ask', 'send ann', 'send bob']",
            "['sent to ann', 'yes', 'sent to bob']",
        ]
        assert done.stdout.splitlines() == [*shown, *shown], done.stderr
