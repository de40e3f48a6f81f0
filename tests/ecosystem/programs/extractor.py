"""trustcall: an extractor whose first answer doesn't validate and is patched; then an update."""

from typing import Annotated, Any

from langgraph.graph import START, StateGraph
from pydantic import BaseModel, Field
from trustcall import create_extractor
from typing_extensions import TypedDict

from tests.ecosystem.scripted import ScriptedModel, call


class Person(BaseModel):
    """A person."""

    name: str
    age: int = Field(ge=0)
    likes: list[str] = []


def _patch(messages: list[Any]) -> Any:
    """Mend the age of the call that the last error names."""
    wrong = [m for m in messages if m.type == "tool"][-1]
    patch = {"op": "replace", "path": "/age", "value": 41}
    return call(
        "PatchFunctionErrors",
        json_doc_id=wrong.tool_call_id,
        planned_edits="the age is a number",
        patches=[patch],
    )


def _change(messages: list[Any]) -> Any:
    patch = {"op": "replace", "path": "/likes", "value": ["tea", "go"]}
    return call("PatchDoc", json_doc_id="Person", planned_edits="add go", patches=[patch])


class State(TypedDict):
    """The text to read, and what was read."""

    messages: Annotated[list[Any], lambda old, new: [*old, *new]]
    people: list[dict[str, Any]]


TURNS = ["read Ann", "change it"]
SUBGRAPHS_STORE = False
"""trustcall compiles its graph with `checkpointer=False`."""


def build(saver: Any, store: Any) -> Any:
    """A graph of one node that calls an extractor, which is a graph itself."""
    model = ScriptedModel(
        label="extract",
        scenes={
            "read": [call("Person", name="Ann", age=-1), _patch, _patch],
            "change": [_change],
            "*": [_patch],
        },
    )
    extractor = create_extractor(model, tools=[Person], tool_choice="Person")

    def read(state: State) -> Any:
        given: dict[str, Any] = {"messages": state["messages"][-1:]}
        if state.get("people"):
            given["existing"] = {"Person": state["people"][-1]}
        found = extractor.invoke(given)
        people = [one.model_dump() for one in found["responses"]]
        return {"people": people, "messages": found["messages"]}

    graph = StateGraph(State)
    graph.add_node("read", read)
    graph.add_edge(START, "read")
    return graph.compile(checkpointer=saver, store=store)
