"""Choose the graph for a request: by an assistant's id, or for a thread.

Only graphs that the principal may see are chosen. A thread is read with its newest run's graph,
unless another graph wrote its newest checkpoint: the newest run may be pending or refused while the
thread is in the middle of an earlier graph's run. Then the checkpoint names the graph to read with.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.errors import SchemaMismatchError
from actorgraph.web.endpoint import ApiCall
from actorgraph.web.problems import NotFound
from actorgraph.web.thread_registry import GRAPH, StoredThread, assistant_id, writer_of

T = TypeVar("T")


def graph_of_assistant(call: ApiCall, assistant: str) -> tuple[str, CompiledStateGraph]:
    """Return name and graph for an assistant's id or a graph's name.

    Raises:
        NotFound: the principal may see none of them.
    """
    for name, graph in call.graphs.items():
        if assistant in (name, assistant_id(name)):
            return name, graph
    raise NotFound(f"assistant {assistant!r} not found")


def graph_of_thread(call: ApiCall, thread: StoredThread) -> CompiledStateGraph:
    """Return the graph of a thread's newest run, or the only one there is.

    Raises:
        NotFound: the thread has had no run, and there are several graphs.
    """
    name = thread.metadata.get(GRAPH)
    if isinstance(name, str) and name in call.graphs:
        return call.graphs[name]
    if len(call.graphs) == 1:
        return next(iter(call.graphs.values()))
    raise NotFound(f"thread {thread.thread_id!r} has no state yet: it has had no run of a graph")


async def with_graph(
    call: ApiCall, thread: StoredThread, use: Callable[[CompiledStateGraph], Awaitable[T]]
) -> T:
    """Call a function with a thread's graph, and return its result.

    Args:
        use: called again, with the graph that wrote the newest checkpoint, if the newest run's
            graph can't read it.
    Raises:
        NotFound: the thread has had no run, and there are several graphs.
        SchemaMismatchError: no graph of the system can read the checkpoint.
    """
    graph = graph_of_thread(call, thread)
    try:
        return await use(graph)
    except SchemaMismatchError:
        writer = await _writer(call, thread)
        if writer is None or writer is graph:
            raise
        return await use(writer)


async def history_graph(call: ApiCall, thread: StoredThread) -> CompiledStateGraph:
    """Return the graph to list a thread's history with.

    Looked up each time: listing with a graph that doesn't fit raises no error to fall back on.

    Raises:
        NotFound: the thread has had no run, and there are several graphs.
    """
    graph = graph_of_thread(call, thread)
    if len(call.graphs) == 1:
        return graph
    return await _writer(call, thread) or graph


async def _writer(call: ApiCall, thread: StoredThread) -> CompiledStateGraph | None:
    name = await writer_of(call.server.system, thread.thread_id)
    return None if name is None else call.graphs.get(name)
