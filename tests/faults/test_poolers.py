"""PgBouncer between savers and their server, killed in the middle of many runs."""

import time

import anyio
import pytest

from actorgraph import PostgresSaver
from tests.faults.crashes import report, row
from tests.support.graphs import ab, at, history
from tests.support.poolers import pooled
from tests.support.postgres_clusters import clusters

__all__ = ["clusters"]

RUNS = 1000
ROUNDS = 3
AT_ONCE = 50


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_all_runs_finish(clusters, mode, number, request, anyio_backend):
    """
    Runs over two savers all finish, and each checkpoint is stored once, though the pooler is
    killed when a third of them has ended.
    """
    server = clusters.server()
    began = time.monotonic()
    ended: list[str] = []
    third = anyio.Event()
    with pooled(server, mode) as pooler:
        async with PostgresSaver(pooler.url) as one, PostgresSaver(pooler.url) as other:
            free = anyio.CapacityLimiter(AT_ONCE)

            async def run(place: int) -> None:
                async with free:
                    thread = f"t{place}"
                    await ab((one, other)[place % 2]).ainvoke({}, at(thread))
                    ended.append(thread)
                    if len(ended) == RUNS // 3:
                        third.set()

            async with anyio.create_task_group() as runs:
                for place in range(RUNS):
                    runs.start_soon(run, place)
                await third.wait()
                pooler.kill()
                pooler.start()
            found = [len(await history(ab(one), at(thread))) for thread in ended]
    ((rows, different),) = server.sql(
        "SELECT count(*), count(DISTINCT (thread, id)) FROM actorgraph.points"
    )
    seconds = f"{time.monotonic() - began:.1f}"
    line = row(mode, anyio_backend, number + 1, len(ended), RUNS - found.count(4), seconds)
    report(request.config, "poolers", line)

    assert len(ended) == RUNS
    assert found == [4] * RUNS
    assert rows == different == 4 * RUNS
