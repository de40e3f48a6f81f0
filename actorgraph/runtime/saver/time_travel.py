"""Time travel: old checkpoints that subgraphs start from, and the record that a replay shows.

A run that begins at an old checkpoint of its thread is time travel for its subgraphs too. Each of
them, the first time that it runs, starts from the checkpoint that the config names for it
(`checkpoint_map`); a stateful one that isn't named starts from its newest checkpoint that is older
than the one at which the run began. After that they continue from this run's own checkpoints.
"""

from collections.abc import Mapping

import msgspec

from actorgraph.codec import Codec
from actorgraph.codec.restore import restore
from actorgraph.plan.plan import Plan
from actorgraph.runtime.saver.hosting import Host
from actorgraph.superstep.nesting import stable_namespace
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commits import ListCheckpoints, LoadCheckpoint, Loaded, StoredCheckpoint

HISTORY_PAGE = 50


class TimeTravel(msgspec.Struct):
    """The time travel of a root run and all runs inside it.

    Attributes:
        before: the sequence number that a stateful subgraph's checkpoint must be below; None: any.
        named: namespace without task ids -> the namespace and checkpoint that a config names.
        visited: the namespaces, without task ids, whose subgraph has run since.
    """

    before: int | None
    named: Mapping[str, tuple[str, bytes]]
    visited: set[str] = msgspec.field(default_factory=set[str])


async def time_travel_of(
    host: Host,
    thread_id: str,
    restored: Restored | None,
    named: Mapping[str, tuple[str, bytes]],
) -> TimeTravel | None:
    """The time travel of a run whose checkpoint was named; None if it resumes at the head.

    Args:
        restored: the checkpoint.
        named: see `TimeTravel`.
    """
    if restored is None or not restored.id:
        return None
    # An update or a fork is younger than the subgraphs' checkpoints that belong to its state, so
    # the place of its parent counts.
    made_outside = restored.source in {"update", "fork"} and not restored.ledger
    if restored.id == restored.head and not made_outside:
        return TimeTravel(None, named) if named else None
    before = restored.sequence
    if made_outside and restored.parent is not None:
        query = LoadCheckpoint(thread_id, restored.namespace, restored.parent)
        parent = (await host.reader.ask(query)).checkpoint
        before = parent.sequence if parent is not None else before
    return TimeTravel(before, named)


async def checkpoint_before(
    host: Host, thread_id: str, namespace: str, before: int
) -> StoredCheckpoint | None:
    """A namespace's newest checkpoint below a sequence number, else its oldest, else None."""
    bound: bytes | None = None
    oldest: StoredCheckpoint | None = None
    while True:
        query = ListCheckpoints(thread_id, namespace, bound, (), HISTORY_PAGE)
        page: list[StoredCheckpoint] = await host.reader.ask(query)
        for stored in page:
            oldest = stored
            if stored.sequence < before:
                return stored
        if len(page) < HISTORY_PAGE:
            return oldest
        bound = page[-1].row.id


def is_first_visit(time_travel: TimeTravel | None, namespace: str) -> bool:
    """Whether a subgraph runs for the first time in a time travel; marks it as visited."""
    key = stable_namespace(namespace)
    if time_travel is None or key in time_travel.visited:
        return False
    time_travel.visited.add(key)
    return True


REPLAY_PAGE = 100


async def recorded_after(
    host: Host, codec: Codec, plan: Plan, start: Restored, thread_id: str
) -> list[Restored]:
    """A checkpoint and the descendants that its supersteps have made, oldest first.

    At a branch the older child is followed: it is the original. A new input, an update and the
    marker of a fork end the record.
    """
    children: dict[bytes, StoredCheckpoint] = {}
    bound: bytes | None = None
    while True:
        query = ListCheckpoints(thread_id, start.namespace, bound, (), REPLAY_PAGE, ancestors=True)
        page: list[StoredCheckpoint] = await host.reader.ask(query)
        for stored in page:  # newest first, so that the oldest child is the one that stays
            if stored.sequence > start.sequence and stored.row.source == "loop":
                children[stored.row.parent or b""] = stored
        if len(page) < REPLAY_PAGE or page[-1].sequence <= start.sequence:
            break
        bound = page[-1].row.id
    chain = [start]
    while (stored := children.get(chain[-1].id)) is not None:
        restored = restore(codec, plan, Loaded(checkpoint=stored, head=stored.row.id))
        assert restored is not None
        chain.append(restored[0])
    return chain
