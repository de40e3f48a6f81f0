"""A claim that is stored late, after another system has taken the run over."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem, PostgresSaver, SqliteSaver
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.values.commits import CommitOutcome, Request
from actorgraph.values.ids import as_text
from actorgraph.values.systems import DropOwner, ListRuns, PutRun, RunRow
from tests.support.gates import PATIENCE_S
from tests.support.graphs import chain, in_a_row


class Held:
    """Stores the row of a run, and then nothing until it is freed: what comes waits together."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.reached, self.freed = anyio.Event(), anyio.Event()

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Store a batch."""
        found = await super().commit(batch)
        if any(isinstance(one, PutRun) for one in batch):
            self.reached.set()
            await self.freed.wait()
        return found


class HeldSqlite(Held, SqliteSaver):
    """Of SQLite."""


class HeldPostgres(Held, PostgresSaver):
    """Of PostgreSQL."""


@pytest.fixture(params=["sqlite", "postgres"])
def savers(request, tmp_path):
    """
    Two savers of one database; the first one is held.
    """
    if request.param == "sqlite":
        return HeldSqlite(tmp_path / "runs.db"), SqliteSaver(tmp_path / "runs.db")
    url, schema = request.getfixturevalue("postgres").url, request.getfixturevalue("schema")
    return HeldPostgres(url, schema=schema), PostgresSaver(url, schema=schema)


async def only_row(saver: Any) -> RunRow:
    """The row of the only run."""
    (row,) = await host_of(saver).reader.ask(ListRuns())
    return row


async def test_its_run_does_not_end_that_of_the_other_system(savers):
    """
    A run that is cancelled while its claim is on its way, and was taken over meanwhile, stores
    nothing: the other system's run of it goes on to its end.
    """
    late, saver = savers
    began, goes_on = anyio.Event(), anyio.Event()

    async def wait(_: Any) -> dict[str, list[str]]:
        began.set()
        await goes_on.wait()
        return {"bar": ["a"]}

    async with (
        ActorSystem({"g": chain("a")}, saver=late) as slow,
        ActorSystem({"g": in_a_row({"a": wait})}, saver=saver) as other,
        anyio.create_task_group() as group,
    ):
        try:
            with anyio.fail_after(PATIENCE_S):
                start = partial(slow.start, "g", "t", {"bar": []}, durability="exit")
                group.start_soon(start)
                await late.reached.wait()
                await anyio.wait_all_tasks_blocked()  # its claim waits to be stored
                row = await only_row(saver)
                await host_of(saver).writer.store(DropOwner(row.owner))
                (taken,) = await other.recover()
                await began.wait()
                run = await slow.run(as_text(row.run))
                await run.cancel(wait=False)
                await anyio.wait_all_tasks_blocked()
        finally:
            late.freed.set()
        with anyio.fail_after(PATIENCE_S):
            await run.wait()
            goes_on.set()
            found = await taken.result()

    assert found["bar"] == ["a"]
    assert await taken.wait() == "success"
