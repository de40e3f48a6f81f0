"""A human approves, edits or rejects before anything is sent.

The run pauses at `interrupt()`, however long; the answer comes with `Command(resume=...)`. A
breakpoint before `send` gives a second look.
"""

import json
from operator import add
from typing import Annotated, Any, Literal, TypedDict

import anyio

from actorgraph import END, START, Command, InMemorySaver, StateGraph, interrupt


class State(TypedDict, total=False):
    """A letter on its way."""

    to: str
    text: str
    log: Annotated[list[str], add]


async def draft(state: State) -> dict[str, Any]:
    """Write the letter."""
    return {"text": f"Dear {state['to']}, we agree.", "log": ["drafted"]}


async def review(state: State) -> Command[Literal["send", "__end__"]]:
    """Show the letter and do what the human says."""
    answer = interrupt({"question": "send this?", "text": state["text"]})
    match answer["action"]:
        case "approve":
            return Command(goto="send", update={"log": ["approved"]})
        case "edit":
            return Command(goto="send", update={"text": answer["text"], "log": ["edited"]})
        case _:
            return Command(goto=END, update={"log": ["rejected"]})


async def send(state: State) -> dict[str, Any]:
    """Send it."""
    return {"log": [f"sent: {state['text']}"]}


builder = StateGraph(State)
builder.add_node("draft", draft)
builder.add_node("review", review)
builder.add_node("send", send)
builder.add_edge(START, "draft")
builder.add_edge("draft", "review")
builder.add_edge("send", END)
graph = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["send"])


async def handle(thread: str, answer: dict[str, Any]) -> Any:
    """One letter from the draft to its end."""
    config = {"configurable": {"thread_id": thread}}
    await graph.ainvoke({"to": "Ada"}, config)
    paused = await graph.aget_state(config)
    asked, waiting = [question.value for question in paused.interrupts], paused.next
    await graph.ainvoke(Command(resume=answer), config)
    looked_at = (await graph.aget_state(config)).next
    if looked_at:
        await graph.ainvoke(None, config)
    final = await graph.aget_state(config)
    return {
        "asked": asked,
        "waiting": waiting,
        "before sending": looked_at,
        "log": final.values["log"],
        "left": final.next,
    }


async def main() -> Any:
    """One letter is edited, one is rejected."""
    return {
        "edit": await handle("one", {"action": "edit", "text": "Dear Ada, we agree, mostly."}),
        "reject": await handle("two", {"action": "reject"}),
    }


if __name__ == "__main__":
    print(json.dumps(anyio.run(main), indent=1))
