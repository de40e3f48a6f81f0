"""Databases with threads, for tests of commands."""

from typing import TypedDict

from actorgraph import END, START, SqliteSaver, StateGraph


class Count(TypedDict, total=False):
    """A state of plain data."""

    count: int


def add_one(state):
    return {"count": state.get("count", 0) + 1}


def counting(saver=None):
    builder = StateGraph(Count)
    builder.add_node("add", add_one)
    builder.add_edge(START, "add")
    builder.add_edge("add", END)
    return builder.compile(checkpointer=saver)


def run_thread(path, thread_id, times=1):
    """Run a graph of one node on a thread of a SQLite file; three checkpoints each time."""
    with SqliteSaver(path) as saver:
        for _ in range(times):
            counting(saver).invoke({"count": 1}, {"configurable": {"thread_id": thread_id}})


graph = counting()
