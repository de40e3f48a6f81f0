"""Graphs in graphs, with questions at two levels; each answer reaches the one who asked."""

import json
from operator import add
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import START, Command, InMemorySaver, StateGraph, interrupt


class Trip(TypedDict, total=False):
    """A journey, as every level sees it."""

    to: str
    log: Annotated[list[str], add]


class Room(TypedDict, total=False):
    """State of the hotel's graph alone."""

    to: str
    beds: int


async def choose_beds(state: Room) -> dict[str, Any]:
    """Ask for the number of beds."""
    return {"beds": interrupt(f"how many beds in {state['to']}?")}


async def book_hotel(state: Trip) -> dict[str, Any]:
    """Call a graph of another shape; what it asks pauses the whole run."""
    room = await hotel.ainvoke({"to": state["to"]})
    return {"log": [f"hotel: {room['beds']} beds"]}


async def choose_seat(state: Trip) -> dict[str, Any]:
    """Ask for a seat."""
    return {"log": [f"train: {interrupt('window or aisle?')}"]}


async def plan(state: Trip) -> dict[str, Any]:
    """Say where it goes."""
    return {"log": [f"to {state['to']}"]}


async def sum_up(state: Trip) -> dict[str, Any]:
    """The end of it."""
    return {"log": ["all booked"]}


room = StateGraph(Room)
room.add_node("choose_beds", choose_beds)
room.add_edge(START, "choose_beds")
hotel = room.compile()

rides = StateGraph(Trip)
rides.add_node("choose_seat", choose_seat)
rides.add_edge(START, "choose_seat")

journey = StateGraph(Trip)
journey.add_node("plan", plan)
journey.add_node("book_hotel", book_hotel)
journey.add_node("train", rides.compile())
journey.add_node("sum_up", sum_up)
journey.add_edge(START, "plan")
journey.add_edge("plan", "book_hotel")
journey.add_edge("plan", "train")
journey.add_edge(["book_hotel", "train"], "sum_up")
graph = journey.compile(checkpointer=InMemorySaver())

ANSWERS = {"how many beds in Rome?": 2, "window or aisle?": "window"}


async def main() -> Any:
    """Both questions come at once; the second is answered first."""
    config = {"configurable": {"thread_id": "rome"}}
    await graph.ainvoke({"to": "Rome"}, config)
    state = await graph.aget_state(config, subgraphs=True)
    asked = sorted(question.value for question in state.interrupts)
    below = {task.name: task.state.next for task in state.tasks if hasattr(task.state, "next")}
    seat = next(i for i in state.interrupts if i.value == "window or aisle?")
    await graph.ainvoke(Command(resume={seat.id: ANSWERS[seat.value]}), config)
    left = (await graph.aget_state(config)).interrupts
    final = await graph.ainvoke(Command(resume={i.id: ANSWERS[i.value] for i in left}), config)
    return {
        "asked": asked,
        "next": state.next,
        "below": below,
        "then": [i.value for i in left],
        "log": final["log"],
    }


if __name__ == "__main__":
    print(json.dumps(anyio.run(main), indent=1))
