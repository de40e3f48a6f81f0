"""A program to kill, as `worker.py` is one: plain functions and blocking calls.

Started as `python -m tests.faults.plain_worker`, it reads a line "DB ORACLE MODE", starts a process
by fork, which is the program, prints its id, and when it has ended its status; then the next line.
A fork takes a tenth of the time of a start, so that hundreds can be killed.

Its graph is that of `worker.py`, and so are its labels. The main thread works through one thread
of checkpoints, and another thread of the process through each of the others.
"""

import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from actorgraph import Command, EmptyInputError, Send, StateGraph, interrupt
from actorgraph.testing import FaultySaver
from tests.faults.oracle import Oracle
from tests.faults.plain_scenarios import PlainOracle
from tests.faults.worker import TURNS, State, label_of, names, opened, saver_of


class FilePlainOracle(PlainOracle):
    """An oracle that another process reads."""

    def __init__(self, path: str, mode: str) -> None:
        super().__init__(staggers=mode != "exit")
        self._file = opened(path)

    def write(self, what: str, label: str) -> None:
        super().write(what, label)
        os.write(self._file, f"{what} {label}\n".encode())


def build(oracle: PlainOracle) -> StateGraph:
    """Plan, fan out to three, rank, ask, end."""

    def begin(state: Any, name: str) -> str:
        label = label_of(state["thread"], state["turn"], name)
        oracle.write("start", label)
        return label

    def node(name: str) -> Callable[[Any], Any]:
        def run(state: Any) -> dict[str, Any]:
            item = state.get("item")
            label = begin(state, name if item is None else f"{name}{item}")
            if item:
                about = (state["thread"], state["turn"], f"{name}{item - 1}")
                oracle.wait_a_moment(label_of(*about))
            oracle.write("done", label)
            return {"log": [label]}

        return run

    def ask(state: Any) -> dict[str, Any]:
        label = begin(state, "ask")
        interrupt("go on?")
        return {"log": [label]}

    def sends(state: Any) -> list[Send]:
        about = {"thread": state["thread"], "turn": state["turn"]}
        return [Send("work", {**about, "item": item}) for item in range(3)]

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    for name in ("plan", "work", "rank", "end"):
        graph.add_node(name, node(name))
    graph.set_entry_point("plan")
    graph.add_conditional_edges("plan", sends)
    for one, two in (("work", "rank"), ("rank", "ask"), ("ask", "end")):
        graph.add_edge(one, two)
    return graph


def turn(graph: Any, given: Any, thread: str, mode: str, oracle: Oracle) -> dict[str, Any]:
    """One run, and a second one to answer; in `sync` each delivered chunk is acknowledged."""
    config = {"configurable": {"thread_id": thread}}
    while True:
        if mode == "sync":
            for chunk in graph.stream(given, config, durability=mode):
                oracle.chunk(chunk)
        else:
            graph.invoke(given, config, durability=mode)
        state = graph.get_state(config)
        if not state.interrupts:
            oracle.write("return", thread)
            return state.values
        given = Command(resume="yes")


def finish(graph: Any, thread: str, mode: str, oracle: Oracle) -> list[str]:
    """Bring a thread to its end, from wherever it is; its log.

    Raises: AssertionError: a turn that had begun was not taken up.
    """
    begun = [label for label in oracle.labels("start") if label.startswith(f"{thread}.")]
    try:
        done = turn(graph, None, thread, mode, oracle)["turn"]
    except EmptyInputError:
        done = -1
    assert done >= max((int(label.split(".")[1]) for label in begun), default=-1)
    values: dict[str, Any] = {}
    for number in range(done + 1, TURNS):
        values = turn(graph, {"thread": thread, "turn": number}, thread, mode, oracle)
    config = {"configurable": {"thread_id": thread}}
    return (values or graph.get_state(config).values)["log"]


def main(database: str, path: str, mode: str) -> None:
    oracle = FilePlainOracle(path, mode)
    with FaultySaver(saver_of(database), on_stored=oracle.stored) as saver:
        graph = build(oracle).compile(checkpointer=saver)
        assert graph.plan.plain
        first, *others = names()
        beside = [
            threading.Thread(target=finish, args=(graph, thread, mode, oracle)) for thread in others
        ]
        for thread in beside:
            thread.start()
        finish(graph, first, mode, oracle)
        for thread in beside:
            thread.join()


def serve() -> None:
    """Start one process for each line of the input, one after the other."""
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            status = 1
            try:
                main(*line.split())
                status = 0
            except BaseException:  # noqa: BLE001 - the program has failed, and ends
                traceback.print_exc()
            os._exit(status)
        print(process, flush=True)
        print(os.waitpid(process, 0)[1], flush=True)


if __name__ == "__main__":
    serve()
