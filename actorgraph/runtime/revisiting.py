"""Time travel through nested runs: what a graph inside of a replaying run takes up.

A run that begins at an old checkpoint of its thread is a journey back for the graphs inside too.
Each of them, the first time that it runs, takes the checkpoint that the config names for it
(`checkpoint_map`); a stateful one without such takes its newest checkpoint that is older than the
one at which the run began. From then on they stand where this run has brought them.
"""

from collections.abc import Mapping

import msgspec

from actorgraph.runtime.hosting import Host
from actorgraph.superstep.nesting import stable_namespace
from actorgraph.values.commits import ListCheckpoints, LoadCheckpoint, StoredCheckpoint
from actorgraph.values.records import Restored

PAGE_SIZE = 50


class Revisit(msgspec.Struct):
    """One journey, shared by a root run and all runs inside of it.

    Attributes:
        before: the sequence that a stateful graph's checkpoint must be below; None: any.
        named: namespace without task ids -> the namespace and checkpoint that a config names.
        visited: the namespaces, without task ids, that have been taken up already.
    """

    before: int | None
    named: Mapping[str, tuple[str, bytes]]
    visited: set[str] = msgspec.field(default_factory=set[str])


async def revisit_of(
    host: Host,
    thread_id: str,
    restored: Restored | None,
    named: Mapping[str, tuple[str, bytes]],
) -> Revisit | None:
    """The journey of a root run whose checkpoint was named; None if it goes on at the head.

    An update or a fork that was made on purpose is younger than what the graphs inside had done
    by then, so its parent's place counts.
    """
    if restored is None or not restored.id:
        return None
    made_outside = restored.source in {"update", "fork"} and not restored.ledger
    if restored.id == restored.head and not made_outside:
        return Revisit(None, named) if named else None
    before = restored.sequence
    if made_outside and restored.parent is not None:
        query = LoadCheckpoint(thread_id, restored.namespace, restored.parent)
        parent = (await host.reader.ask(query)).checkpoint
        before = parent.sequence if parent is not None else before
    return Revisit(before, named)


async def earlier(
    host: Host, thread_id: str, namespace: str, before: int
) -> StoredCheckpoint | None:
    """A namespace's newest checkpoint below a sequence, else its oldest; None if it has none."""
    bound: bytes | None = None
    oldest: StoredCheckpoint | None = None
    while True:
        query = ListCheckpoints(thread_id, namespace, bound, (), PAGE_SIZE)
        page: list[StoredCheckpoint] = await host.reader.ask(query)
        for stored in page:
            oldest = stored
            if stored.sequence < before:
                return stored
        if len(page) < PAGE_SIZE:
            return oldest
        bound = page[-1].row.id


def is_first_visit(revisit: Revisit | None, namespace: str) -> bool:
    """Whether a namespace is yet to be taken up; from now on it counts as taken up."""
    key = stable_namespace(namespace)
    if revisit is None or key in revisit.visited:
        return False
    revisit.visited.add(key)
    return True
