"""Find unregistered threads by their stored checkpoints and runs.

A registry in memory is empty after a restart, and programs start threads without any.
"""

from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from actorgraph.api.system import ActorSystem
from actorgraph.codec.records import decode_record
from actorgraph.errors import FormatVersionError
from actorgraph.errors.storage import DAMAGED
from actorgraph.runtime.hosting import host_of
from actorgraph.superstep.snapshot import iso
from actorgraph.values.commits import ListCheckpoints, StoredCheckpoint
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.web.registry import GRAPH, StoredThread


async def find_thread(system: ActorSystem, thread_id: str) -> StoredThread | None:
    """Find a thread that has checkpoints, or a pending or running run; None if it has neither.

    Its metadata has only its graph: the one that wrote its newest checkpoint, else the one of its
    newest known run.
    """
    runs = await system.runs(thread_id=thread_id)
    try:
        newest = await _newest(system, thread_id)
    except DAMAGED:
        if not runs:  # neither its age nor its graph is known
            raise
        newest = None
    else:
        if newest is None and all(run.status not in OPEN_STATUSES for run in runs):
            return None
    created = iso(newest.row.created) if newest is not None else runs[0].created_at.isoformat()
    names = [run.graph for run in runs if run.graph in system.graphs]
    name = _writer(system, newest) or (names[-1] if names else None)
    known = {} if name is None else thread_metadata_of(name)
    return StoredThread(thread_id, created, created, known, registered=False)


async def writer_of(system: ActorSystem, thread_id: str) -> str | None:
    """Return the name of the graph that wrote a thread's newest checkpoint; None if unknown."""
    return _writer(system, await _newest(system, thread_id))


async def _newest(system: ActorSystem, thread_id: str) -> StoredCheckpoint | None:
    query = ListCheckpoints(thread_id=thread_id, namespace="", limit=1, bare=True)
    (newest,) = await host_of(system.saver).reader.ask(query) or (None,)
    return newest


def thread_metadata_of(graph: str) -> dict[str, Any]:
    """Return the metadata that names a thread's graph."""
    return {GRAPH: graph, "assistant_id": assistant_id(graph)}


def assistant_id(graph: str) -> str:
    """Return the id of a graph's assistant: a UUID derived from its name."""
    return str(uuid5(_OURS, graph))


_OURS: UUID = uuid5(NAMESPACE_OID, "actorgraph.assistants")


def _writer(system: ActorSystem, stored: StoredCheckpoint | None) -> str | None:
    """Return the name of the graph that wrote a checkpoint, if it is one of the system's."""
    if stored is None:
        return None
    try:
        writer = decode_record(stored.row.record).graph
    except FormatVersionError:  # raised again where the state itself is read
        return None
    names = [name for name, graph in system.graphs.items() if graph.graph_id == writer]
    return names[0] if len(names) == 1 else None
