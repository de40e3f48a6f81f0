"""Read the checkpoints recorded after one, for a replay that runs no node."""

from actorgraph.codec import Codec
from actorgraph.codec.restore import restore
from actorgraph.plan.graph import Plan
from actorgraph.runtime.hosting import Host
from actorgraph.values.commits import ListCheckpoints, Loaded, StoredCheckpoint
from actorgraph.values.records import Restored

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
        found = restore(codec, plan, Loaded(checkpoint=stored, head=stored.row.id))
        assert found is not None
        chain.append(found[0])
    return chain
