"""Blocking streams of graphs whose functions start runs themselves: each one ends.

A function runs in the thread of its stream's reader, which can't read before the function has
ended; so nothing that the function waits for may wait for that reader.
"""

import contextvars
import operator
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, InMemorySaver, StateGraph, entrypoint, get_stream_writer, task
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at

MODES = [
    "values",
    "updates",
    "tasks",
    "debug",
    "custom",
    ["values", "tasks", "custom", "updates", "debug", "checkpoints", "messages"],
]
DURABILITIES = ("sync", "async", "exit")


class Log(TypedDict, total=False):
    """A list that grows."""

    log: Annotated[list[Any], operator.add]


def in_time(function: Callable[[], Any]) -> Any:
    """Call a function that fails if it hangs, without blocking other tests; returns its value."""
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(function()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it hangs"
    return got[0]


def leaf(state: Log) -> Log:
    """A plain node that writes a chunk."""
    get_stream_writer()("from below")
    return {"log": ["leaf"]}


async def waits(state: Log) -> Log:
    """An async node."""
    return {"log": ["leaf"]}


def row(*functions: Any, **options: Any) -> Any:
    """A graph of functions, one after the other."""
    builder = StateGraph(Log)
    names = [f"n{place}" for place in range(len(functions))]
    for name, function in zip(names, functions, strict=True):
        builder.add_node(name, function)
    for one, other in zip([START, *names], names, strict=False):
        builder.add_edge(one, other)
    return builder.compile(**options)


CHILD = row(leaf, leaf)
ASYNC_CHILD = row(waits, waits)
SAVED = row(leaf, leaf, checkpointer=InMemorySaver())


@task
def streams_in_task(mode: Any) -> int:
    """A task that streams a graph."""
    return read(CHILD, mode)


@entrypoint()
def calls_task(mode: Any) -> int:
    """A run whose task streams a graph."""
    return streams_in_task(mode).result()


@entrypoint()
def streams(mode: Any) -> int:
    """A run that streams a graph."""
    return read(CHILD, mode)


def read(graph: Any, mode: Any, given: Any = None, **options: Any) -> int:
    """Read a stream to its end; the number of its chunks."""
    given = {"log": []} if given is None else given
    return len(list(graph.stream(given, stream_mode=mode, **options)))


def leaves_early(mode: Any) -> int:
    """Leave a stream after its first chunk."""
    for _ in CHILD.stream({"log": []}, stream_mode=mode):
        break
    return 1


def reads_two(mode: Any) -> int:
    """Read two streams by turns."""
    both = [CHILD.stream({"log": []}, stream_mode=mode) for _ in range(2)]
    return sum(1 for _ in zip(*both, strict=True))


def in_threads(function: Callable[[], Any], *, inherits: bool) -> int:
    """Call a function in two threads of its own and wait for them."""
    calls = [contextvars.copy_context().run if inherits else _call for _ in range(2)]
    threads = [threading.Thread(target=call, args=(function,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1


def _call(function: Callable[[], Any]) -> Any:
    return function()


def two_levels(mode: Any) -> int:
    """Stream a graph whose function streams another one."""
    return read(row(lambda _: {"log": [read(CHILD, mode)]}), mode, subgraphs=True)


def invoked_level(mode: Any) -> Any:
    """Invoke a graph whose function streams another one."""
    return row(lambda _: {"log": [read(CHILD, mode)]}).invoke({"log": []})


WAYS: dict[str, Callable[[Any], Any]] = {
    "stream": lambda mode: read(CHILD, mode),
    "stream of all levels": lambda mode: read(CHILD, mode, subgraphs=True),
    "small buffer": lambda mode: read(CHILD, mode, buffer=1),
    "invoke": lambda mode: CHILD.invoke({"log": []}),
    "batch": lambda mode: CHILD.batch([{"log": []}] * 2),
    "async nodes": lambda mode: read(ASYNC_CHILD, mode),
    "async nodes invoked": lambda mode: ASYNC_CHILD.invoke({"log": []}),
    "own saver": lambda mode: read(SAVED, mode, config=at("own")),
    "left early": leaves_early,
    "two at a time": reads_two,
    "two levels": two_levels,
    "invoked level": invoked_level,
    "threads": lambda mode: in_threads(lambda: read(CHILD, mode), inherits=False),
    "threads with context": lambda mode: in_threads(lambda: read(CHILD, mode), inherits=True),
    "threads that invoke": lambda mode: in_threads(lambda: CHILD.invoke({}), inherits=True),
    "entrypoint": lambda mode: read(streams, mode, mode),
    "task": lambda mode: read(calls_task, mode, mode),
    "events": lambda mode: len(list(CHILD.stream_events({"log": []}, version="v3"))),
}


@pytest.mark.each_value
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_stream_of_each_reading_function_ends(way, mode):
    """
    In each mode, with and without chunks of all levels, the function's result comes.
    """
    graph = row(lambda _: {"log": [WAYS[way](mode) is not None]})

    def ends() -> list[int]:
        return [
            read(graph, mode, subgraphs=subgraphs, **buffer)
            for subgraphs in (True, False)
            for buffer in ({}, {"buffer": 1})
        ]

    counts = in_time(ends)

    assert counts[0] == counts[1] >= counts[2] == counts[3]
    assert in_time(lambda: graph.invoke({"log": []})) == {"log": [True]}


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_stored_stream_ends(mode, durability):
    """
    With a saver as well, however soon the run is stored.
    """
    graph = row(lambda _: {"log": [read(CHILD, mode)]}, checkpointer=InMemorySaver())
    given = {"config": at(), "subgraphs": True, "durability": durability}

    assert in_time(lambda: read(graph, mode, **given)) >= (mode != "messages")
    assert len(graph.get_state(at()).values["log"]) == 1


@pytest.mark.parametrize("subgraphs", [True, False])
@pytest.mark.parametrize("way", ["stream", "stream of all levels", "two levels", "async nodes"])
def test_streams_beside_each_other_end(way, subgraphs):
    """
    Two functions and one of a subgraph read in one superstep, each beside the others.
    """

    def node(state: Log) -> Log:
        return {"log": [WAYS[way]("tasks")]}

    builder = StateGraph(Log)
    for name, what in {"one": node, "other": node, "sub": row(node)}.items():
        builder.add_node(name, what)
        builder.add_edge(START, name)
    graph = builder.compile()

    counts = {in_time(lambda: read(graph, "debug", subgraphs=subgraphs)) for _ in range(10)}

    assert len(counts) == 1


def test_chunks_come_in_their_order():
    """
    The chunks of both levels are in the order in which they were sent: the child's between those
    of its node.
    """
    graph = row(lambda _: {"log": [read(CHILD, "values")]})

    told = in_time(lambda: list(graph.stream({"log": []}, stream_mode="values", subgraphs=True)))

    assert [(len(ns), len(chunk["log"])) for ns, chunk in told] == [
        (0, 0),
        (1, 0),
        (1, 1),
        (1, 2),
        (0, 1),
    ]


def test_no_chunk_is_lost_while_the_reader_is_away():
    """
    More chunks than the buffer holds wait until the function has ended.
    """
    big = row(*[leaf] * 20)
    graph = row(lambda _: big.invoke({"log": []}))

    told = in_time(
        lambda: list(graph.stream({"log": []}, stream_mode="updates", subgraphs=True, buffer=2))
    )

    assert [len(ns) for ns, _ in told] == [1] * 20 + [0]
