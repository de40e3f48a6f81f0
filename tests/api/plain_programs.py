"""`python -m tests.api.plain_programs NAME`: programs of plain functions that must not deadlock.

Each prints what `repr` gives for its result; test_plain_programs.py runs it with a time limit.
"""

import asyncio
import gc
import os
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextvars import copy_context
from functools import partial
from typing import Any

import greenlet

from actorgraph import START, InMemorySaver, RetryPolicy, Send, StateGraph, entrypoint, task
from actorgraph.functional import step
from actorgraph.streams import get_stream_writer
from tests.support.gates import PATIENCE_S
from tests.support.graphs import AB, at, compiled, in_a_row, side_by_side


@task
def plus(number: int) -> int:
    """Add one."""
    return number + 1


def hidden_plus() -> Any:
    """The task, found in a way that reading code does not show."""
    return getattr(sys.modules.setdefault("hidden", types.SimpleNamespace(plus=plus)), "pl" + "us")


def said(*texts: object) -> dict[str, Any]:
    """An update of the state."""
    return {"bar": [str(text) for text in texts]}


def fan_out(node: Any, count: int, **options: Any) -> Any:
    """A graph that sends a number to a node, so often."""
    builder = StateGraph(AB)
    builder.add_node("node", node)
    builder.add_conditional_edges(START, lambda _: [Send("node", {"foo": n}) for n in range(count)])
    return builder.compile(**options)


def results() -> Any:
    """`result()` in a node and in two at once."""
    node = lambda _: said(plus(1).result())  # noqa: E731
    return in_a_row({"a": node}).invoke({})["bar"], side_by_side(
        dict.fromkeys("abcd", node)
    ).invoke({})["bar"]


def standard_tools() -> Any:
    """`wait` and `as_completed`."""

    @entrypoint()
    def flow(count: int) -> Any:
        done, left = wait([plus(n) for n in range(count)], timeout=PATIENCE_S)
        ended = as_completed([plus(n) for n in range(count)], timeout=PATIENCE_S)
        return sorted(f.result() for f in done), len(left), sorted(f.result() for f in ended)

    return flow.invoke(3)


def hidden_tools() -> Any:
    """The same where the task can't be found by reading the code."""

    def node(state: Any) -> Any:
        call = hidden_plus()
        done, _ = wait([call(n) for n in range(3)], timeout=PATIENCE_S)
        ended = as_completed([call(n) for n in range(3)], timeout=PATIENCE_S)
        now = wait([call(1)], timeout=0)  # ended or not: its thread may be quicker than this one
        counts = len(done), len(now.done) + len(now.not_done)
        return said(counts, sorted(f.result() for f in ended), call(5).result())

    return in_a_row({"node": node}).invoke({})["bar"], fan_out(node, 3).invoke({})["bar"][-1]


def own_threads() -> Any:
    """Results that threads of the node's own wait for."""

    def node(state: Any) -> Any:
        with ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(copy_context().run, lambda n=n: plus(n).result()) for n in (1, 2)]
            return said(sorted(call.result(PATIENCE_S) for call in calls))

    return in_a_row({"node": node}).invoke({})["bar"]


def running_beside() -> Any:
    """A task runs while the node that called it computes."""
    event = threading.Event()

    @task
    def sets() -> None:
        event.set()

    def node(state: Any) -> Any:
        sets()
        return said(event.wait(PATIENCE_S))

    return in_a_row({"node": node}).invoke({})["bar"]


def loop_of_its_own() -> Any:
    """A task awaited in `asyncio.run` inside of a plain node."""

    async def main(call: Any) -> Any:
        return await asyncio.gather(call(1), call(2))

    found = in_a_row({"node": lambda _: said(asyncio.run(main(plus)))})
    hidden = in_a_row({"node": lambda _: said(asyncio.run(main(hidden_plus())))})
    return found.invoke({})["bar"], hidden.invoke({})["bar"]


def steps() -> Any:
    """A step in a node, once."""
    ran: list[int] = []
    node = lambda _: said(step("once", lambda: ran.append(1) or 7))  # noqa: E731
    return in_a_row({"node": node}, checkpointer=InMemorySaver()).invoke({}, at())["bar"], ran


def barrier() -> Any:
    """Functions, nested graphs and retrying functions that wait for each other."""
    meet = threading.Barrier(8)

    def node(state: Any) -> Any:
        meet.wait(PATIENCE_S)
        return said(1)

    eight = dict.fromkeys("abcdefgh", node)
    inner = in_a_row({"node": node})
    flat = len(side_by_side(eight).invoke({})["bar"])
    nested = len(side_by_side(dict.fromkeys("abcdefgh", inner)).invoke({})["bar"])
    called = len(
        side_by_side(dict.fromkeys("abcdefgh", lambda _: inner.invoke({}))).invoke({})["bar"]
    )
    stored = side_by_side(eight, checkpointer=InMemorySaver())
    streamed = len([*stored.stream({}, at())])
    batched = len(inner.batch([{}] * 8))
    mixed = {name: inner if name in "ceg" else node for name in "abcdefgh"}
    beside = len(side_by_side(mixed).invoke({})["bar"])
    return flat, nested, called, streamed, batched, beside


def barrier_of_retries() -> Any:
    """Functions that fail once, and wait for each other in each attempt."""
    meet, failed = threading.Barrier(4), set[str]()
    builder = StateGraph(AB)

    def fails(name: str, _: Any) -> Any:
        meet.wait(PATIENCE_S)
        if name in failed:
            return said(name)
        failed.add(name)
        raise ValueError(name)

    policy = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ValueError)
    for name in "abcd":
        builder.add_node(name, partial(fails, name), retry_policy=policy)
        builder.add_edge(START, name)
    return builder.compile().invoke({})["bar"]


def many_threads() -> Any:
    """As many functions as threads are lent, all waiting for each other."""
    meet = threading.Barrier(200)

    def node(state: Any) -> Any:
        meet.wait(PATIENCE_S)
        return said(1)

    return len(fan_out(node, 200).invoke({})["bar"])


def nested_in_helpers() -> Any:
    """Helper threads run nested graphs, tasks and threads of their own, with a saver."""
    inner = in_a_row({"node": lambda _: said(plus(1).result())})
    graph = fan_out(lambda _: inner.invoke({}), 20, checkpointer=InMemorySaver())
    return len(graph.invoke({}, at())["bar"]), len([*graph.get_state_history(at())])


def alternating_threads() -> Any:
    """A stream whose items are read by one thread after the other, over waiting functions."""
    inner = in_a_row({"x": lambda _: said("x"), "y": lambda _: said("y")})
    graph = compiled(
        {
            "a": lambda _: inner.invoke({}),
            "b": lambda _: said("b"),
            "c": lambda _: inner.invoke({}),
        },
        [(START, "a"), (START, "b"), ("b", "c")],
        checkpointer=InMemorySaver(),
    )
    stream, read = graph.stream({}, at()), list[Any]()
    while True:
        with ThreadPoolExecutor(1) as pool:
            chunk = pool.submit(next, stream, None).result(PATIENCE_S)
        if chunk is None:
            return sorted(str(chunk) for chunk in read)
        read.append(chunk)


def application_threads() -> Any:
    """200 calls at once, of one graph and one saver, from 32 threads."""
    node = lambda _: said(1)  # noqa: E731
    graph = in_a_row(dict.fromkeys("abc", node), checkpointer=InMemorySaver())
    with ThreadPoolExecutor(32) as pool:
        ended = pool.map(lambda n: len(graph.invoke({}, at(str(n)))["bar"]), range(200))
        return sum(ended)


def live_chunks() -> Any:
    """A chunk of a running function arrives before the function ends."""
    read = threading.Event()

    def node(state: Any) -> Any:
        get_stream_writer()("one")
        return said(read.wait(PATIENCE_S))

    found: list[Any] = []
    for chunk in in_a_row({"node": node}).stream({}, stream_mode=["custom", "updates"]):
        found.append(chunk)
        read.set()
    return found


def freed_generator() -> Any:
    """A generator that is freed inside an event loop: its thread goes on later."""
    ran: list[str] = []

    def node(name: str, _: Any) -> Any:
        ran.append(name)
        return said(name)

    nodes = {name: partial(node, name) for name in "abc"}
    graph = in_a_row(nodes, checkpointer=InMemorySaver())

    async def main(streams: list[Any]) -> None:
        streams.clear()
        gc.collect()

    stream = graph.stream({}, at())
    next(stream)
    streams = [stream]
    del stream
    asyncio.run(main(streams))
    return graph.invoke(None, at())["bar"], ran


def forked() -> Any:
    """A process forked from one that has made a call makes its own."""
    graph = in_a_row({"a": lambda _: said("a")})
    graph.invoke({})
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, str(graph.invoke({})["bar"]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(read, 99), graph.invoke({})["bar"]


def greenlets() -> Any:
    """A node that uses greenlets, which call graphs and tasks; a call made in a greenlet."""
    inner = in_a_row({"x": lambda _: said("x")})

    def node(state: Any) -> Any:
        found: list[Any] = []
        here = greenlet.getcurrent()

        def work() -> None:
            found.append(inner.invoke({})["bar"])
            here.switch()
            found.append(hidden_plus()(1).result())

        other = greenlet.greenlet(work)
        other.gr_context = copy_context()
        other.switch()
        found.append("between")
        other.switch()
        return said(*found)

    graph, found = in_a_row({"node": node}, checkpointer=InMemorySaver()), list[Any]()
    greenlet.greenlet(lambda: found.append(graph.invoke({}, at())["bar"])).switch()
    return found


if __name__ == "__main__":
    print(repr(globals()[sys.argv[1]]()))
