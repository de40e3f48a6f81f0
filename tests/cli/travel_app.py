"""A graph that the tests of the command run: it drafts, asks, and publishes or fails."""

from typing import TypedDict

from actorgraph import END, START, StateGraph, interrupt


class Trip(TypedDict):
    text: str
    ok: bool


def draft(state):
    return {"text": f"{state['text']}, drafted"}


def review(state):
    return {"ok": interrupt({"question": "publish?", "text": state["text"]})}


def publish(state):
    if not state["ok"]:
        raise ValueError("the printer is out of paper")
    return {"text": f"{state['text']}, published"}


builder = StateGraph(Trip)
builder.add_sequence([draft, review, publish])
builder.add_edge(START, "draft")
builder.add_edge("publish", END)
graph = builder.compile()
