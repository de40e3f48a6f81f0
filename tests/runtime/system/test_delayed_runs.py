"""Runs of an ActorSystem that begin later, or that are stored once for many callers."""

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from actorgraph import ActorSystem, SqliteSaver, ThreadBusyError
from actorgraph.errors import InvalidConfigError
from tests.support.gates import PATIENCE_S
from tests.support.graphs import in_a_row, writer

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def system(path) -> ActorSystem:
    """A system over a file, as a process of its own would have it."""
    graph = in_a_row({"a": writer("a")})
    return ActorSystem({"g": graph}, saver=SqliteSaver(path), lease_s=0.6)


async def result(run) -> object:
    """The run's result, which comes in time."""
    with anyio.fail_after(PATIENCE_S):
        return await run.result()


class TestDelays:
    async def test_a_run_waits_without_a_dispatcher(self, tmp_path):
        """
        A delayed run is pending until its time, has its thread, and then runs.
        """
        async with system(tmp_path / "x.db") as one:
            before = anyio.current_time()
            run = await one.start("g", "t", {"bar": []}, delay_s=0.2)
            assert run.status == "pending"
            with pytest.raises(ThreadBusyError):
                await one.start("g", "t", {"bar": []})

            assert await result(run)
            assert anyio.current_time() - before >= 0.2

    async def test_a_restart_keeps_the_time(self, tmp_path):
        """
        The next process waits for the rest of the delay, and lists the run with its metadata.
        """
        async with system(tmp_path / "x.db") as one:
            await one.start("g", "t", {"bar": []}, delay_s=600, metadata={"by": "me"})
            soon = await one.start("g", "u", {"bar": []}, delay_s=0.3)
        async with system(tmp_path / "x.db") as two:
            assert await two.recover() == []
            found = {run.thread_id: run for run in await two.runs()}

            assert (found["t"].status, found["t"].metadata) == ("pending", {"by": "me"})
            assert await result(await two.run(soon.id))
            assert await found["t"].cancel() == "cancelled"

    @pytest.mark.filterwarnings("ignore::actorgraph.errors.warnings.ForeignSaverWarning")
    async def test_savers_without_runs_refuse_it(self):
        """
        A saver that stores no runs could not keep the time.
        """
        from langgraph.checkpoint.memory import MemorySaver

        graph = in_a_row({"a": writer("a")}, checkpointer=MemorySaver())
        async with ActorSystem({"g": graph}) as one:
            with pytest.raises(InvalidConfigError, match="a delayed run needs a saver"):
                await one.start("g", "t", {"bar": []}, delay_s=1)


class TestOnce:
    async def test_many_callers_store_one_run(self, tmp_path):
        """
        Of two systems that start the same run several times, one runs it, once.
        """
        async with system(tmp_path / "x.db") as one, system(tmp_path / "x.db") as two:

            async def begin(some: ActorSystem) -> None:
                run = await some.start_once("g", "t", {"bar": []}, key="k", moment=BEGINNING)
                ids.add(run.id)

            ids: set[str] = set()
            async with anyio.create_task_group() as group:
                for some in (one, two) * 3:
                    group.start_soon(begin, some)
            (identity,) = ids
            done = await result(await one.run(identity))
            await begin(two)
            other = await one.start_once("g", "t", {"bar": []}, key="l", moment=BEGINNING)

            assert done == {"foo": "a", "bar": ["a"]}
            assert [run.id for run in await two.runs()] == sorted([identity, other.id])
            assert (await one.run(identity)).attempt == 1
            assert await result(other)

    async def test_a_moment_to_come_is_a_delay(self, tmp_path):
        """
        A run for a later moment waits; one without a time zone is refused.
        """
        async with system(tmp_path / "x.db") as one:
            later = datetime.now(UTC) + timedelta(hours=1)
            run = await one.start_once("g", "t", {"bar": []}, key="k", moment=later)

            assert run.status == "pending"
            with pytest.raises(InvalidConfigError, match="time zone"):
                await one.start_once("g", "t", {}, key="k", moment=later.replace(tzinfo=None))
