"""`python -m tests.runtime.ctrl_c_programs WHEN PATH`: a program that is interrupted, and goes on.

It prints the seconds from the last signal to KeyboardInterrupt; the nodes that had run and the
values stored by then; the values after a call that goes on; and whether the handler is back.
"""

import os
import signal
import sys
import threading
import time
from functools import partial
from typing import Any

from actorgraph import START, SqliteSaver, StateGraph
from tests.support.gates import PATIENCE_S
from tests.support.graphs import AB, at, in_a_row, side_by_side


class Program:
    """A graph whose node b is interrupted the first time."""

    def __init__(self, when: str, path: str) -> None:
        self.when, self.first = when, True
        self.ran: list[str] = []
        self.signalled = 0.0
        self.saver = SqliteSaver(path)
        nodes = {name: partial(self.node, name) for name in "abc"}
        build = side_by_side if when == "side_by_side" else in_a_row
        self.graph = build(nodes, checkpointer=self.saver)
        self.inner = in_a_row({"x": lambda _: None, "y": self.waits})

    def node(self, name: str, _: Any) -> Any:
        """One of the nodes."""
        self.ran.append(name)
        if self.first and (name == "b" or (self.when, name) == ("side_by_side", "c")):
            self.interrupted(name)
        return {"bar": [name]}

    def interrupted(self, name: str) -> None:
        """The part that is interrupted, by `when`."""
        match self.when:
            case "at_once":
                self.signal()
            case "nested":
                self.inner.invoke({})
            case "twice":
                self.signals(2)
                try:
                    time.sleep(PATIENCE_S)
                finally:
                    time.sleep(PATIENCE_S)
            case "side_by_side" if name == "c":
                time.sleep(PATIENCE_S)
            case "in_a_commit":
                # The lock of another connection holds the commit of this superstep.
                self.saver_is_locked()
                self.signals(1)
            case _:
                self.waits(None)

    def saver_is_locked(self) -> None:
        """Hold the database for a while, in another thread."""
        import sqlite3

        locked = threading.Event()

        def hold() -> None:
            other = sqlite3.connect(sys.argv[2], isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            locked.set()
            time.sleep(0.3)
            other.execute("ROLLBACK")

        threading.Thread(target=hold, daemon=True).start()
        locked.wait(PATIENCE_S)

    def waits(self, _: Any) -> None:
        """Wait for a signal, which another thread sends."""
        self.signals(1)
        threading.Event().wait(PATIENCE_S)

    def signals(self, count: int) -> None:
        """Send signals from another thread."""

        def send() -> None:
            for _ in range(count):
                time.sleep(0.1)
                self.signal()

        threading.Thread(target=send, daemon=True).start()

    def signal(self) -> None:
        """Press Ctrl-C."""
        self.signalled = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    def run(self) -> None:
        """Call the graph until it is interrupted, and again."""
        try:
            if self.when == "stream":
                for _ in self.graph.stream({"bar": []}, at()):
                    pass
            else:
                self.graph.invoke({"bar": []}, at())
        except KeyboardInterrupt:
            took = time.perf_counter() - self.signalled
            stored = self.graph.get_state(at())
            done = [task.name for task in stored.tasks if task.result is not None]
            print(took, self.ran, [*stored.values.get("bar", ()), *done])
        self.first = False
        again = self.graph.invoke(None, at())["bar"]
        print(again, signal.getsignal(signal.SIGINT) is signal.default_int_handler)


def between(path: str) -> None:
    """Interrupt a graph whose functions never wait, which goes on until it may end."""
    state: dict[str, Any] = {"on": True, "at": 0.0}
    begun = threading.Event()
    builder = StateGraph(AB)
    builder.add_node("node", lambda _: {"bar": ["x"]})
    builder.add_edge(START, "node")

    def after(values: AB) -> str:
        if len(values["bar"]) > 1:  # the first step is stored, however slow the machine is
            begun.set()
        return "node" if state["on"] else "__end__"

    builder.add_conditional_edges("node", after)
    graph = builder.compile(checkpointer=SqliteSaver(path))

    def press() -> None:
        begun.wait()
        time.sleep(0.3)
        state["at"] = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    try:
        graph.invoke({"bar": []}, at())
    except KeyboardInterrupt:
        print(time.perf_counter() - state["at"], [], [])
    stored = len(graph.get_state(at()).values["bar"])
    state["on"] = False
    added = graph.invoke(None, at())["bar"][stored:]
    print(added, signal.getsignal(signal.SIGINT) is signal.default_int_handler)


if __name__ == "__main__":
    when, path = sys.argv[1:]
    between(path) if when == "between" else Program(when, path).run()
