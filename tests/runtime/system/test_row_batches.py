"""RowBatches: rows of runs that are asked for together."""

import anyio
import msgspec

from actorgraph import InMemorySaver
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.runtime.system.row_batches import RowBatches
from actorgraph.values.systems import ListRuns, PutRun, RunRow

ROW = RunRow(
    run=b"\0" * 16,
    thread_id="t",
    graph="g",
    status="pending",
    attempts=0,
    claimed=False,
    owner=None,
    created=1,
    metadata="{}",
    payload=b"",
)


class Noting(InMemorySaver):
    """Notes what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[object] = []

    def query_now(self, queries):
        self.asked += queries
        return super().query_now(queries)


async def test_rows_that_are_asked_for_together_are_read_by_one_query():
    """
    Each caller gets the row of its run; an unknown run is looked for alone, and is None.
    """
    rows = [msgspec.structs.replace(ROW, run=bytes([n]) * 16) for n in range(5)]
    found: dict[bytes, object] = {}
    async with Noting() as saver:
        host = host_of(saver)
        await host.writer.store(*(PutRun(row, row.thread_id) for row in rows))
        batches = RowBatches(host)

        async def ask(run: bytes) -> None:
            found[run] = await batches.row(run)

        async with anyio.create_task_group() as group:
            for row in rows:
                group.start_soon(ask, row.run)
        (query,) = saver.asked
        assert isinstance(query, ListRuns)
        assert set(query.among) == {row.run for row in rows}
        assert found == {row.run: row for row in rows}
        assert await batches.row(b"\xff" * 16) is None
