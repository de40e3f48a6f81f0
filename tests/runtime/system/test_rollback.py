"""Rows that a rollback removes, and runs that wait for that."""

import anyio
import pytest

from actorgraph import ActorSystem, InMemorySaver, StorageError, ThreadBusyError
from actorgraph.testing import GatedSaver
from actorgraph.values.retention import DeleteRuns
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import in_a_row, writer
from tests.support.systems import kinds, turnstile_first


class Unremovable(GatedSaver):
    """A saver from which no run can be removed."""

    async def commit(self, batch):
        """Refuse removals."""
        if any(isinstance(request, DeleteRuns) for request in batch):
            raise StorageError("nothing is removed here", do="nothing")
        return await super().commit(batch)


class SlowRemovals(GatedSaver):
    """A saver whose removals of runs wait: `asked` says that one does, `allowed` lets it go on."""

    def __init__(self):
        super().__init__(InMemorySaver(), is_open=True)
        self.asked, self.allowed = anyio.Event(), anyio.Event()

    async def commit(self, batch):
        """Hold removals."""
        if any(isinstance(request, DeleteRuns) for request in batch):
            self.asked.set()
            await self.allowed.wait()
        return await super().commit(batch)


class TestRollbacks:
    async def test_a_rollback_that_fails_fails_the_run_that_waits_for_it(self):
        """
        If what a run stored can't be removed, the next one fails, and its readers hear that.
        """
        slow = Turnstile()
        place = Unremovable(InMemorySaver(), is_open=True)
        with anyio.fail_after(PATIENCE_S):
            async with ActorSystem({"g": turnstile_first(slow)}, saver=place) as system:
                await system.start("g", "t", {"bar": ["x"]})
                await slow.entered.wait()
                second = await system.start("g", "t", {"bar": ["y"]}, if_busy="rollback")
                told = await kinds(second.events())
                with pytest.raises(StorageError, match="nothing is removed here"):
                    await second.result()

        assert told == ["error", "end"]

    @pytest.mark.parametrize("cancelled_first", [True, False])
    async def test_a_run_during_a_rollback_waits_for_it(self, cancelled_first):
        """
        If the run that asked for a rollback is cancelled, the next one still begins after it.
        """
        slow = Turnstile()
        async with SlowRemovals() as saver:
            graph = in_a_row({"a": writer("a"), "b": slow})
            with anyio.fail_after(PATIENCE_S):
                async with ActorSystem({"g": graph}, saver=saver) as system:
                    first = await system.start("g", "t", {"bar": ["x"]})
                    await slow.entered.wait()
                    slow.out.set()
                    second = await system.start("g", "t", {"bar": ["y"]}, if_busy="rollback")
                    if cancelled_first:
                        await second.cancel()
                    await saver.asked.wait()
                    await second.cancel()
                    third = await system.start("g", "t", {"bar": ["z"]})
                    with pytest.raises(ThreadBusyError, match=third.id):
                        await system.start("g", "t", {"bar": ["w"]})
                    saver.allowed.set()
                    result = await third.result()

        assert (first.status, second.status) == ("cancelled", "cancelled")
        assert result["bar"] == ["z", "a"]
