"""The graph that the web examples serve: it drafts an answer, asks a person, and sends it.

It needs no language model, so that it runs everywhere: `draft` streams words of its own.
"""

from operator import add
from typing import Annotated, Any, TypedDict

from actorgraph import END, START, StateGraph, get_stream_writer, interrupt


class Chat(TypedDict, total=False):
    """The question, the draft, and the messages sent so far."""

    question: str
    draft: str
    sent: Annotated[list[str], add]


async def draft(state: Chat) -> dict[str, Any]:
    """Write an answer, word by word."""
    write = get_stream_writer()
    words = f"You asked: {state['question']}".split()
    for word in words:
        write({"word": word})
    return {"draft": " ".join(words)}


async def send(state: Chat) -> dict[str, Any]:
    """Send it, if a person agrees; the run waits for that as long as it takes."""
    verdict = interrupt({"send?": state["draft"]})
    return {"sent": [state["draft"]] if verdict == "yes" else []}


builder = StateGraph(Chat)
builder.add_node("draft", draft)
builder.add_node("send", send)
builder.add_edge(START, "draft")
builder.add_edge("draft", "send")
builder.add_edge("send", END)
