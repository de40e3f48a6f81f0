"""A conversation over several calls: the thread remembers, and old messages are dropped.

`MessagesState` merges messages by id; a `RemoveMessage` takes one out.
"""

import json
from typing import Any

import anyio

from actorgraph import START, InMemorySaver, MessagesState, RemoveMessage, StateGraph

KEPT_MAX = 4


async def answer(state: MessagesState) -> dict[str, Any]:
    """A scripted model: it knows the name if the user has given it."""
    said = [message.content for message in state["messages"] if message.type == "human"]
    names = [text.rpartition(" ")[2] for text in said if text.startswith("I am")]
    reply = f"You are {names[-1]}." if names else "We have not met."
    return {"messages": [{"role": "assistant", "content": reply}]}


async def forget(state: MessagesState) -> dict[str, Any]:
    """Drop the oldest messages."""
    old = state["messages"][:-KEPT_MAX]
    return {"messages": [RemoveMessage(id=message.id) for message in old]}


builder = StateGraph(MessagesState)
builder.add_node("answer", answer)
builder.add_node("forget", forget)
builder.add_edge(START, "answer")
builder.add_edge("answer", "forget")
graph = builder.compile(checkpointer=InMemorySaver())


async def say(thread: str, text: str) -> list[list[str]]:
    """One turn; the conversation as it is then."""
    config = {"configurable": {"thread_id": thread}}
    final = await graph.ainvoke({"messages": [("user", text)]}, config)
    return [[message.type, message.content] for message in final["messages"]]


async def main() -> Any:
    """Two threads that know nothing of each other."""
    return {
        "ada 1": await say("ada", "Who am I?"),
        "ada 2": await say("ada", "I am Ada"),
        "bob 1": await say("bob", "Who am I?"),
        "ada 3": await say("ada", "Who am I?"),
    }


if __name__ == "__main__":
    print(json.dumps(anyio.run(main), indent=1))
