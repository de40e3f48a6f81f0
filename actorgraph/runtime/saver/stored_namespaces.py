"""The namespace of a subgraph's rows, among those that it had under old names of its nodes."""

from collections.abc import Iterable

from actorgraph.runtime.saver.hosting import Host
from actorgraph.values.commits import LoadCheckpoint, Loaded


async def stored_namespace(
    host: Host, thread_id: str, namespaces: Iterable[str], checkpoint: bytes | None = None
) -> str | None:
    """Return the first namespace that has a checkpoint; None if none has.

    Args:
        namespaces: see `names_of_namespace`.
        checkpoint: look for this one; default any.
    """
    for namespace in namespaces:
        query = LoadCheckpoint(thread_id, namespace, checkpoint)
        loaded: Loaded = await host.reader.ask(query)
        if loaded.checkpoint is not None:
            return namespace
    return None
