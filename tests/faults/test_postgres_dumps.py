"""An older dump of a PostgreSQL database is put back under a saver that is open."""

import anyio
import anyio.to_thread
import pytest

from actorgraph import PostgresSaver
from tests.faults.scenarios import MODES
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at, chain
from tests.support.postgres_clusters import clusters

__all__ = ["clusters"]

THREADS = [f"{mode}{number}" for mode in MODES for number in range(5)]


async def run_all(saver, kind, steps="ab"):
    """Run a thread of a kind for each mode, several times; return their names."""
    graph = chain(steps, checkpointer=saver)
    for thread in THREADS:
        await graph.ainvoke({}, at(kind + thread), durability=thread.rstrip("0123456789"))
    return [kind + thread for thread in THREADS]


async def lists_of(saver, threads):
    """Thread -> the list of its newest state."""
    states = [await ab(saver).aget_state(at(thread)) for thread in threads]
    return [state.values.get("bar") for state in states]


@pytest.mark.parametrize("restored", ["once", "twice"])
async def test_an_older_dump_under_an_open_saver(clusters, restored):
    """
    Threads of the dump can be read and go on, those that came after it are gone, and all that is
    stored afterwards can be read, in each mode of durability.
    """
    server = clusters.server()
    call = anyio.to_thread.run_sync
    with anyio.fail_after(6 * PATIENCE_S):
        async with PostgresSaver(server.url) as saver:
            before = await run_all(saver, "before")
            await call(server.dump, "dump")
            for _ in range(1 if restored == "once" else 2):
                gone = await run_all(saver, "gone", "abc")
                await call(server.restore, "dump")
                after = await run_all(saver, "after", "abc")
            again = await run_all(saver, "before")
        async with PostgresSaver(server.url) as saver:
            found = [await lists_of(saver, threads) for threads in (gone, after, again)]
            listed = set(await saver.alist_threads())

    assert listed == {*before, *after}
    assert found[0] == [None] * len(gone)
    assert found[1] == [[*"abc"]] * len(after)
    assert found[2] == [[*"abab"]] * len(before)
