"""Graphs over a saver: questions, subgraphs, time travel, failures, a kill; prints the results.

    python [-m actorgraph.compat -m] tests.ecosystem.savers.graphs SAVER FOLDER [kill|resume]

With `kill` the process ends in the middle of a run, and with `resume` another one goes on.
"""

import asyncio
import json
import operator
import os
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, HumanMessage
from typing_extensions import TypedDict

from tests.ecosystem.normal import normal
from tests.ecosystem.savers.library import START, Command, Send, StateGraph, interrupt
from tests.ecosystem.savers.places import opened


@dataclass
class Order:
    """A value of the program's own class."""

    item: str
    count: int = 1
    notes: list[str] = field(default_factory=list)


class State(TypedDict, total=False):
    """The state of each graph."""

    log: Annotated[list[str], operator.add]
    messages: Annotated[list[Any], operator.add]
    order: Order
    tags: set[str]


def show(way: str, item: Any) -> None:
    """Print a line."""
    print(json.dumps({"way": way, "turn": 0, "item": normal(item)}), flush=True)


def at(thread: str) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread}}


def step(name: str) -> Any:
    """A node that writes its name."""

    def node(state: State) -> State:
        return {"log": [name], "messages": [AIMessage(f"from {name}", id=name)]}

    node.__name__ = name
    return node


def ask(name: str) -> Any:
    """A node that asks, and writes the answer."""

    def node(state: State) -> State:
        return {"log": [f"{name}={interrupt({'sure': name})}"]}

    node.__name__ = name
    return node


def state_of(state: Any) -> Any:
    """A snapshot, without ids."""
    tasks = [[task.name, [one.value for one in task.interrupts]] for task in state.tasks]
    meta = {k: (state.metadata or {}).get(k) for k in ("source", "step")}
    return [state.values, state.next, sorted(tasks), meta]


def given() -> State:
    """The input of a run."""
    order = Order("tea", 2, ["hot"])
    return {
        "log": ["begun"],
        "messages": [HumanMessage("hi", id="h")],
        "order": order,
        "tags": {"x"},
    }


def questions(saver: Any) -> None:
    """Two nodes ask at once; one is answered after the other, by id."""
    built = StateGraph(State).add_node("a", step("a")).add_edge(START, "a")
    for name in ("left", "right"):
        built.add_node(name, ask(name)).add_edge("a", name)
    built.add_node("end", step("end")).add_edge(["left", "right"], "end")
    graph, place = built.compile(checkpointer=saver), at("questions")
    show("questions: asked", graph.invoke(given(), place)["log"])
    for _ in range(2):
        state = graph.get_state(place)
        show("questions: state", state_of(state))
        asked = sorted(state.interrupts, key=lambda one: one.value["sure"])
        show(
            "questions: answered", graph.invoke(Command(resume={asked[0].id: "yes"}), place)["log"]
        )
    show("questions: end", state_of(graph.get_state(place)))
    show("questions: next turn", graph.invoke({"log": ["again"]}, place)["log"])


def subgraphs(saver: Any) -> None:
    """A subgraph asks; its state is read, and it goes on."""
    inner = StateGraph(State).add_node("one", step("one")).add_node("two", ask("two"))
    inner = inner.add_edge(START, "one").add_edge("one", "two").compile()
    built = StateGraph(State).add_node("inner", inner).add_node("end", step("end"))
    graph = built.add_edge(START, "inner").add_edge("inner", "end").compile(checkpointer=saver)
    place = at("subgraphs")
    graph.invoke({"log": ["begun"]}, place)
    state = graph.get_state(place, subgraphs=True)
    show("subgraphs: state", [state_of(state), state_of(state.tasks[0].state)])
    show("subgraphs: end", graph.invoke(Command(resume="go"), place)["log"])
    show("subgraphs: history", [state_of(one) for one in graph.get_state_history(place)])


def time_travel(saver: Any) -> None:
    """A run is replayed from an older checkpoint, edited there, and edited at its end."""
    built = StateGraph(State)
    for before, name in zip((START, "a", "b"), ("a", "b", "c"), strict=True):
        built.add_node(name, step(name)).add_edge(before, name)
    graph, place = built.compile(checkpointer=saver), at("travel")
    graph.invoke(given(), place)
    history = list(graph.get_state_history(place))
    show("travel: history", [state_of(one) for one in history])
    before_b = next(one for one in history if one.next == ("b",))
    show("travel: replay", graph.invoke(None, before_b.config)["log"])
    edited = graph.update_state(before_b.config, {"log": ["edited"]})
    show("travel: edited", state_of(graph.get_state(edited)))
    show("travel: from there", graph.invoke(None, edited)["log"])
    graph.update_state(place, {"log": ["end"], "order": Order("milk")}, as_node="c")
    show("travel: end", state_of(graph.get_state(place)))
    show("travel: steps", [one.metadata["step"] for one in graph.get_state_history(place, limit=3)])
    sources = graph.get_state_history(place, filter={"source": "update"})
    show("travel: filter", [state_of(one) for one in sources])


def failures(saver: Any) -> None:
    """One of several sent tasks fails once; only it runs again."""
    tried: list[int] = []

    def work(state: Any) -> State:
        tried.append(state["number"])
        if state["number"] == 2 and tried.count(2) == 1:
            raise ValueError("once")
        return {"log": [f"work {state['number']}"], "order": Order(str(state["number"]))}

    def spread(state: State) -> list[Any]:
        return [Send("work", {"number": number}) for number in range(1, 4)]

    class Kept(State, total=False):
        order: Annotated[Order, lambda _, new: new]

    built = StateGraph(Kept).add_node("work", work).add_node("begin", step("begin"))
    built.add_edge(START, "begin").add_conditional_edges("begin", spread, ["work"])
    graph, place = built.compile(checkpointer=saver), at("failures")
    try:
        graph.invoke({"log": []}, place)
    except ValueError as error:
        show("failures: raised", str(error))
    show("failures: end", graph.invoke(None, place))
    show("failures: tried", [tried.count(number) for number in (1, 2, 3)])


async def asynchronously(saver: Any) -> None:
    """The same by `ainvoke` and `astream`, if the saver has async methods."""
    graph = StateGraph(State).add_node("a", step("a")).add_node("b", ask("b"))
    graph = graph.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)
    place = at("async")
    async for chunk in graph.astream(given(), place, stream_mode="updates"):
        show("async: chunk", chunk if "__interrupt__" not in chunk else "asked")
    show("async: state", state_of(await graph.aget_state(place)))
    show("async: end", (await graph.ainvoke(Command(resume="ok"), place))["log"])
    show("async: history", [state_of(s) async for s in graph.aget_state_history(place)])


def removals(saver: Any) -> None:
    """A thread is removed, and begins anew; another stays."""
    graph = StateGraph(State).add_node("a", step("a")).add_edge(START, "a").compile(saver)
    for thread in ("gone", "stays"):
        graph.invoke({"log": [thread]}, at(thread))
    saver.delete_thread("gone")
    show("removals: gone", state_of(graph.get_state(at("gone"))))
    show("removals: anew", graph.invoke({"log": ["anew"]}, at("gone"))["log"])
    show("removals: stays", state_of(graph.get_state(at("stays"))))


def chain(saver: Any, folder: Path, *, killed: bool) -> Any:
    """A graph of four nodes that note in a file that they ran; the third may end the process."""

    def node(name: str) -> Any:
        def run(state: State) -> State:
            with (folder / "ran").open("a") as file:
                file.write(f"{name} ")
            if killed and name == "c":
                os._exit(9)
            return {"log": [name], "messages": [AIMessage(name, id=name)], "order": Order(name)}

        return run

    built = StateGraph(State)
    for before, name in zip((START, "a", "b", "c"), "abcd", strict=True):
        built.add_node(name, node(name)).add_edge(before, name)
    return built.compile(checkpointer=saver)


PROGRAMS = {
    "questions": questions,
    "subgraphs": subgraphs,
    "travel": time_travel,
    "failures": failures,
    "async": asynchronously,
    "removals": removals,
}


def main(name: str, folder: Path, part: str) -> None:
    """Run the programs; each on a thread of its own."""
    with opened(name, folder) as saver:
        if part == "kill":
            chain(saver, folder, killed=True).invoke(given(), at("kill"), durability="sync")
        if part == "resume":
            graph = chain(saver, folder, killed=False)
            show("kill: found", state_of(graph.get_state(at("kill"))))
            show("kill: end", graph.invoke(None, at("kill"), durability="sync"))
            show("kill: ran", (folder / "ran").read_text())
        if part != "all":
            return
        for way, program in PROGRAMS.items():
            try:
                done = program(saver)
                if done is not None:
                    asyncio.run(done)
            except Exception as error:  # noqa: BLE001 - is compared too
                text = str(error).splitlines()[0] if str(error) else ""
                show(f"{way}: failed", f"{type(error).__name__}: {text}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "all")
