"""Which graph reads a thread: its newest run's, unless another one has written what is there.

A run of another graph may wait, or have been refused, while the thread stands in the middle of the
one before. Then the checkpoint says which graph can read it.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from actorgraph.api.graph import CompiledStateGraph
from actorgraph.errors import SchemaMismatchError
from actorgraph.web.finding import writer_of
from actorgraph.web.registry import Stored
from actorgraph.web.serving import Serving

T = TypeVar("T")


async def with_graph(
    serving: Serving, thread: Stored, use: Callable[[CompiledStateGraph], Awaitable[T]]
) -> T:
    """What a function makes of a thread's graph.

    Args:
        use: called again, with the graph that wrote the newest checkpoint, if that doesn't fit
            the newest run's graph.
    Raises:
        NotFound: no run has named a graph, and there are several.
        SchemaMismatchError: no graph of the system fits.
    """
    _, graph = serving.graph_for(thread)
    try:
        return await use(graph)
    except SchemaMismatchError:
        writer = await writer_of(serving.system, thread.thread_id)
        if writer is None or writer is graph:
            raise
        return await use(writer)


async def historian(serving: Serving, thread: Stored) -> CompiledStateGraph:
    """The graph that lists a thread's history: a misfit raises nothing there, so it is looked up.

    Raises:
        NotFound: no run has named a graph, and there are several.
    """
    _, graph = serving.graph_for(thread)
    if len(serving.graphs) == 1:
        return graph
    return await writer_of(serving.system, thread.thread_id) or graph
