"""Limits of the runs of one graph in a system, over the dispatcher in memory."""

from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem, InvalidConfigError
from tests.dispatch.fleet import fleet, soon
from tests.support.gates import Turnstile, settled
from tests.support.graphs import in_a_row, writer

__all__ = ["fleet"]


class TestGraphLimits:
    """A system has so many runs of a graph, and no more."""

    @pytest.fixture(autouse=True)
    def no_sweeps(self, monkeypatch):
        """
        Runs that wait are found by their hints alone.
        """
        monkeypatch.setattr("actorgraph.runtime.system.dispatch_actor.NEW_S", 600.0)

    async def test_other_graphs_go_on(self, fleet):
        """
        Runs above the limit of their graph wait, those of other graphs don't; each end lets one in.
        """
        slow, names = Turnstile({"bar": ["slow"]}), ("g", "h")
        async with fleet.system("accept", names=names) as web, soon():
            held = [await web.start("g", None, {"bar": []}) for _ in range(4)]
            async with fleet.system("work", slow, names=names, max_runs_of={"g": 1}) as worker:
                await slow.entered.wait()
                other = await web.start("h", None, {"bar": []})
                while slow.calls < 2:  # noqa: ASYNC110 - runs begin on an idle loop
                    await anyio.sleep(0.01)
                await settled()
                assert (slow.calls, worker.statistics().active) == (2, 2)
                slow.out.set()
                for run in [*held, other]:
                    assert await run.wait() == "success"

    async def test_no_more_than_the_limit_are_active(self, fleet):
        """
        Many hints at once don't exceed the limit, and two workers have twice as many runs.
        """
        active, most, full = 0, 0, anyio.Event()

        async def node(state: Any) -> dict[str, Any]:
            nonlocal active, most
            active += 1
            most = max(most, active)
            if active == 6:
                full.set()
            await full.wait()  # none ends before both workers have what they may have
            await anyio.sleep(0.01)  # so that runs end while others are claimed
            active -= 1
            return {"bar": []}

        async with fleet.system("accept") as web, soon():
            runs = [await web.start("g", None, {"bar": []}) for _ in range(40)]
            limited = {"max_runs_of": {"g": 3}}
            async with fleet.system("work", node, **limited), fleet.system("work", node, **limited):
                for run in runs:
                    assert await run.wait() == "success"
        assert most == 6

    async def test_a_limited_worker_leaves_runs_to_others(self, fleet):
        """
        A run that a worker has no room for is begun by another one at once.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with fleet.system("accept") as web, soon():
            runs = [await web.start("g", None, {"bar": []}) for _ in range(3)]
            async with fleet.system("work", slow, max_runs_of={"g": 1}):
                await slow.entered.wait()
                async with fleet.system("work") as other:
                    while other.statistics().left.get("success") != 2:  # noqa: ASYNC110 - counts
                        await anyio.sleep(0.01)
                slow.out.set()
                for run in runs:
                    assert await run.wait() == "success"

    async def test_a_burst_of_starts_keeps_the_limit(self, fleet):
        """
        Of runs that a system with both roles starts at once, those above the limit are left to
        workers, and come back when there is room.
        """
        slow = Turnstile({"bar": ["slow"]})
        runs = []
        async with fleet.system("both", slow, max_runs_of={"g": 2}) as system, soon():

            async def start() -> None:
                runs.append(await system.start("g", None, {"bar": []}))

            async with anyio.create_task_group() as group:
                for _ in range(10):
                    group.start_soon(start)
            await settled()
            assert (slow.calls, system.statistics().active) == (2, 2)
            slow.out.set()
            for run in runs:
                assert await run.wait() == "success"

    async def test_recovery_keeps_the_limit(self, fleet):
        """
        `recover` takes up no more orphans of a graph than the system has room for.
        """
        stuck, slow = Turnstile({}), Turnstile({})
        async with fleet.system("accept") as web, soon():
            async with fleet.system("work", stuck) as worker:
                for _ in range(3):
                    await web.start("g", None, {"bar": []})
                while stuck.calls < 3:  # noqa: ASYNC110 - runs begin on an idle loop
                    await anyio.sleep(0.01)
                await worker.drain(0)
            fleet.dispatcher.queues.clear()
            fleet.dispatcher.waiting.clear()
            async with fleet.system("work", slow, lease_s=60.0, max_runs_of={"g": 2}) as other:
                assert len(await other.recover()) == 2
                assert await other.recover() == []
                await other.drain(0)

    @pytest.mark.parametrize(
        ("given", "text"),
        [({"h": 1}, "'h', which is not a graph"), ({"g": 0}, "integer >= 1, got 0")],
    )
    async def test_bad_limits_are_refused(self, fleet, given, text):
        """
        A limit of an unknown graph, one below 1 and one without a dispatcher are named.
        """
        with pytest.raises(InvalidConfigError, match=text):
            fleet.system("work", max_runs_of=given)
        with pytest.raises(InvalidConfigError, match="max_runs_of= needs a dispatcher"):
            ActorSystem({"g": in_a_row({"a": writer("a")})}, max_runs_of={"g": 1})
