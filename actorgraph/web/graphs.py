"""Which graph is meant: by an assistant's id, by a thread. Only those that the principal may see.

A thread is read by its newest run's graph, unless another one has written what is there: a run of
another graph may wait, or have been refused, while the thread stands in the middle of the one
before. Then the checkpoint says which graph can read it.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from actorgraph.api.graph import CompiledStateGraph
from actorgraph.errors import SchemaMismatchError
from actorgraph.web.endpoint import Call
from actorgraph.web.finding import assistant_id, writer_of
from actorgraph.web.problems import NotFound
from actorgraph.web.registry import GRAPH, Stored

T = TypeVar("T")


def graph_of(call: Call, assistant: str) -> tuple[str, CompiledStateGraph]:
    """The graph of an assistant's id, or of its own name.

    Raises:
        NotFound: there is none that the principal may see.
    """
    for name, graph in call.graphs.items():
        if assistant in (name, assistant_id(name)):
            return name, graph
    raise NotFound(f"assistant {assistant!r} not found")


def graph_for(call: Call, thread: Stored) -> CompiledStateGraph:
    """The graph that a thread is of: the one that its newest run named, or the only one.

    Raises:
        NotFound: it has had no run, and there are several graphs.
    """
    name = thread.metadata.get(GRAPH)
    if isinstance(name, str) and name in call.graphs:
        return call.graphs[name]
    if len(call.graphs) == 1:
        return next(iter(call.graphs.values()))
    raise NotFound(f"thread {thread.thread_id!r} has no state yet: no run has told its graph")


async def with_graph(
    call: Call, thread: Stored, use: Callable[[CompiledStateGraph], Awaitable[T]]
) -> T:
    """What a function makes of a thread's graph.

    Args:
        use: called again, with the graph that wrote the newest checkpoint, if that doesn't fit
            the newest run's graph.
    Raises:
        NotFound: no run has named a graph, and there are several.
        SchemaMismatchError: no graph of the system fits.
    """
    graph = graph_for(call, thread)
    try:
        return await use(graph)
    except SchemaMismatchError:
        writer = await _writer(call, thread)
        if writer is None or writer is graph:
            raise
        return await use(writer)


async def historian(call: Call, thread: Stored) -> CompiledStateGraph:
    """The graph that lists a thread's history: a misfit raises nothing there, so it is looked up.

    Raises:
        NotFound: no run has named a graph, and there are several.
    """
    graph = graph_for(call, thread)
    if len(call.graphs) == 1:
        return graph
    return await _writer(call, thread) or graph


async def _writer(call: Call, thread: Stored) -> CompiledStateGraph | None:
    name = await writer_of(call.serving.system, thread.thread_id)
    return None if name is None else call.graphs.get(name)
