"""ActorSystems with roles, builds, priorities and limits, over the dispatcher in memory."""

from typing import Any

import anyio
import msgspec
import pytest

from actorgraph import ActorSystem, InMemorySaver, InvalidConfigError, SqliteSaver, SystemBusyError
from actorgraph.api.system.prometheus import exposition
from actorgraph.api.system.run_handle import Run
from actorgraph.dispatch import InMemoryDispatcher, PGQueuerDispatcher
from actorgraph.errors import StorageBusyError
from actorgraph.runtime.saver.persistence import PersistenceActor
from actorgraph.runtime.system.stored_events import read_page
from actorgraph.values.dispatch import Hint
from actorgraph.values.ids import as_bytes, as_text
from actorgraph.values.systems import ListRuns, PutRun, RunEvent, RunRow
from tests.dispatch.fleet import fleet, soon
from tests.support.gates import Turnstile, settled
from tests.support.graphs import in_a_row, writer
from tests.support.wall_clock import forward

__all__ = ["fleet", "forward"]


async def row_of(system: ActorSystem, run: Run) -> RunRow:
    """The stored row of a run."""
    row = await system._row(as_bytes(run.id))  # noqa: SLF001 - no public view of it
    assert row is not None
    return row


class TestRoles:
    async def test_an_accepting_system_runs_nothing(self, fleet):
        """
        A run that it starts is stored without an owner, and its handle follows it to the worker.
        """
        async with fleet.system("accept") as web:
            run = await web.start("g", "t", {"bar": []})
            assert (web.statistics().active, run.status, run.attempt) == (0, "pending", 0)
            async with fleet.system("work"), soon():
                assert (await run.result())["bar"] == ["a"]
                kinds = [event.kind async for event in run.events()]
            assert (kinds[0], kinds[-1]) == ("metadata", "end")
            assert run.attempt == 1

    async def test_a_worker_starts_nothing(self, fleet):
        """
        `start` says which role to use instead.
        """
        async with fleet.system("work") as worker:
            with pytest.raises(InvalidConfigError, match='role="accept" or "both"'):
                await worker.start("g", "t", {"bar": []})

    async def test_a_full_system_leaves_runs_to_others(self, fleet):
        """
        With both roles a system runs what it starts, until its slots are taken.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with fleet.system("both", slow, max_runs=1) as first:
            mine = await first.start("g", "t1", {"bar": []})
            await slow.entered.wait()
            other = await first.start("g", "t2", {"bar": []})
            assert (mine.status, other.status) == ("running", "pending")
            async with fleet.system("work"), soon():
                assert (await other.result())["bar"] == ["a"]
            slow.out.set()
            async with soon():
                assert (await mine.result())["bar"] == ["slow"]


class TestRouting:
    async def test_a_build_runs_its_own_runs(self, fleet):
        """
        Workers of another build leave a run alone; one that is compatible takes it.
        """
        async with fleet.system("accept", build="v1") as web, fleet.system("work", build="v2"):
            run = await web.start("g", "t", {"bar": []})
            other = await web.dispatch_statistics()
            await settled()
            assert (run.status, other.waiting) == ("pending", 1)
            async with fleet.system("work", build="v3", builds=["v1"]), soon():
                assert (await run.result())["bar"] == ["a"]

    @pytest.mark.one_loop
    @pytest.mark.parametrize(
        ("role", "build", "taken"), [("accept", "v1", 0), ("work", "v2", 0), ("work", "v1", 1)]
    )
    async def test_recovery_asks_what_hints_ask(self, fleet, role, build, taken):
        """
        `recover` takes up an orphan only in a worker of its build.
        """
        stuck = Turnstile({})
        async with fleet.system("accept", build="v1") as web:
            async with fleet.system("work", stuck, build="v1") as worker:
                run = await web.start("g", "t", {"bar": []})
                await stuck.entered.wait()
                await worker.drain(0)
            fleet.dispatcher.queues.clear()
            async with fleet.system(role, build=build, lease_s=60.0) as other, soon():
                found = await other.recover()
                assert [one.id for one in found] == [run.id] * taken

    async def test_recovery_waits_for_a_runs_time(self, fleet):
        """
        `recover` of a worker leaves a run alone that no worker may begin yet.
        """
        async with fleet.system("accept") as web:
            run = await web.start("g", "t", {"bar": []}, delay_s=600)
            async with fleet.system("work") as worker:
                assert await worker.recover() == []
            assert run.status == "pending"

    async def test_own_runs_have_a_build_and_a_priority(self, fleet):
        """
        A run that a system starts itself is stored with both, for the worker that goes on with it.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with fleet.system("both", slow, build="v1") as system:
            run = await system.start("g", "t", {"bar": []}, priority=7)
            row = await system._row(as_bytes(run.id))  # noqa: SLF001 - no public view of it
            slow.out.set()
        assert (row.build, row.priority) == ("v1", 7)

    @pytest.mark.parametrize(
        "option",
        [
            {"priority": 100},
            {"priority": -1001},
            {"priority": 1.5},
            {"priority": True},
            {"priority": "9"},
            {"delay_s": -1},
            {"delay_s": float("nan")},
            {"delay_s": float("inf")},
            {"delay_s": "60"},
            {"delay_s": True},
        ],
    )
    async def test_bad_priorities_and_delays_are_refused(self, fleet, option):
        """
        The error names the argument, its value and its range; nothing is stored.
        """
        (name, value) = next(iter(option.items()))
        async with fleet.system("accept") as web:
            with pytest.raises(InvalidConfigError, match=f"{name} must be") as error:
                await web.start("g", "t", {"bar": []}, **option)
            assert repr(value) in str(error.value)
            assert await web.runs() == []

    async def test_higher_priorities_go_first(self, fleet):
        """
        A worker that comes later runs the waiting runs by priority, then by age.
        """
        began: list[str] = []

        async def node(state: Any) -> dict[str, Any]:
            began.append(state["bar"][0])
            return {"bar": []}

        async with fleet.system("accept") as web:
            runs = [
                await web.start("g", None, {"bar": [f"p{p}"]}, priority=p) for p in (0, 5, 1, 9)
            ]
            async with fleet.system("work", node, max_runs=1), soon():
                for run in runs:
                    await run.wait()
        assert began == ["p9", "p5", "p1", "p0"]

    @pytest.mark.one_loop
    async def test_a_delayed_run_waits(self, fleet):
        """
        No worker begins it before its time, and a sweep does not announce it either.
        """
        async with fleet.system("accept") as web, fleet.system("work", lease_s=0.3) as worker:
            run = await web.start("g", "t", {"bar": []}, delay_s=0.8)
            before = anyio.current_time()
            async with soon():
                await run.wait()
            assert anyio.current_time() - before >= 0.7
            assert (await worker.dispatch_statistics()).claimed == 1

    @pytest.mark.parametrize("if_busy", ["reject", "enqueue", "interrupt", "rollback"])
    async def test_runs_of_now_go_first(self, fleet, forward, if_busy):
        """
        A run to come is in the way of none, and is announced once: its hint comes in its time.
        """
        async with fleet.system("accept") as web, fleet.system("work") as worker, soon():
            late = await web.start("g", "t", {"bar": ["late"]}, delay_s=600)
            for _ in "ab":
                now = await web.start("g", "t", {"bar": ["now"]}, if_busy=if_busy)
                assert (await now.result())["bar"][-2:] == ["now", "a"]
            await settled()
            assert (late.status, late.waits_for_time) == ("pending", True)
            assert (await worker.dispatch_statistics()).announced_again == 0
            forward(700)

            assert (await late.result())["bar"] == ["now", "a", "now", "a", "late", "a"]

    async def test_a_time_that_comes_waits_for_a_running_one(self, fleet, forward):
        """
        No worker claims it while another one runs the thread; the end of that run lets it begin.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with fleet.system("accept") as web, soon():
            late = await web.start("g", "t", {"bar": ["late"]}, delay_s=600)
            async with fleet.system("work", slow) as one, fleet.system("work", slow) as two:
                now = await web.start("g", "t", {"bar": ["now"]})
                await slow.entered.wait()
                forward(700)
                row = await row_of(web, late)
                for worker in (one, two):
                    await worker._dispatch._claim((row.run,))  # noqa: SLF001 - as its hint does
                assert (slow.calls, (await row_of(web, late)).owner) == (1, None)
                slow.out.set()
                await now.result()

                assert (await late.result())["bar"] == ["now", "slow", "late", "slow"]

    async def test_savers_without_routing_refuse_it(self, tmp_path):
        """
        SQLite's tables have no builds: the options are refused before anything runs.
        """
        graph = in_a_row({"a": writer("a")})
        saver = SqliteSaver(tmp_path / "x.db")
        with pytest.raises(InvalidConfigError, match="build= needs"):
            ActorSystem({"g": graph}, saver=saver, dispatcher=InMemoryDispatcher(), build="v1")
        async with ActorSystem({"g": graph}, saver=saver) as system:
            with pytest.raises(InvalidConfigError, match="priority= needs"):
                await system.start("g", "t", {"bar": []}, priority=1)

    def test_bad_arguments_are_refused(self):
        """
        Roles, reserves and dispatchers that can't work are named.
        """
        graphs = {"g": in_a_row({"a": writer("a")})}
        with pytest.raises(InvalidConfigError, match="unknown role='accpet'"):
            ActorSystem(graphs, dispatcher=InMemoryDispatcher(), role="accpet")
        with pytest.raises(InvalidConfigError, match="need a dispatcher"):
            ActorSystem(graphs, role="work")
        with pytest.raises(InvalidConfigError, match="reserve must be"):
            ActorSystem(graphs, dispatcher=InMemoryDispatcher(), max_runs=5, reserve=5)
        for given in ({"build": "v\0"}, {"builds": ["\ud800"]}, {"build": 7}):
            with pytest.raises(InvalidConfigError, match="can't be the name of a build"):
                ActorSystem(graphs, dispatcher=InMemoryDispatcher(), **given)


class TestLimits:
    async def test_too_many_waiting_runs_are_refused(self, fleet):
        """
        An accepting system counts the runs without a worker, and says when to retry.
        """
        async with fleet.system("accept", max_queued=2, retry_after_s=7.0) as web:
            for _ in range(3):
                await web.start("g", None, {"bar": []})
            assert (await web.dispatch_statistics()).waiting == 3
            with pytest.raises(SystemBusyError, match="3 runs wait for a worker") as error:
                await web.start("g", None, {"bar": []})
            assert error.value.retry_after_s == 7.0
            assert web.statistics().refused == 1

    async def test_a_burst_is_counted_before_it_is_stored(self, fleet):
        """
        Of runs that are started at once, no more than the limit are accepted.
        """
        refused = []
        async with fleet.system("accept", max_queued=4) as web, soon():

            async def start() -> None:
                try:
                    await web.start("g", None, {"bar": []})
                except SystemBusyError as error:
                    refused.append(error)

            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(start)
            assert len(await web.runs()) == 5
        assert len(refused) == 15

    async def test_too_many_runs_of_a_thread_are_refused(self, fleet):
        """
        The runs that wait for one thread are limited where nothing runs too.
        """
        async with fleet.system("accept", max_waiting=2) as web:
            for _ in range(3):
                await web.start("g", "t", {"bar": []}, if_busy="enqueue")
            with pytest.raises(SystemBusyError, match="2 runs wait for thread 't'"):
                await web.start("g", "t", {"bar": []}, if_busy="enqueue")
            await web.start("g", "other", {"bar": []}, if_busy="enqueue")
            assert len(await web.runs()) == 4

    async def test_delayed_runs_are_not_counted(self, fleet):
        """
        A run that no worker may begin yet takes no place of one that may.
        """
        async with fleet.system("accept", max_queued=0) as web:
            await web.start("g", None, {"bar": []}, delay_s=600)
            await web.start("g", None, {"bar": []})  # counted since the last count: none
            assert (await web.dispatch_statistics()).waiting == 1

    async def test_reserved_slots_are_for_lost_runs(self, fleet):
        """
        New runs leave the reserve free; a run that was left by another worker gets it at once.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with fleet.system("accept") as web:
            stuck = Turnstile({})
            async with fleet.system("work", stuck) as worker:
                left = await web.start("g", "left", {"bar": []})
                await stuck.entered.wait()
                await worker.drain(0)
            new = [await web.start("g", None, {"bar": []}) for _ in range(3)]
            async with fleet.system("work", slow, max_runs=2, reserve=1) as worker, soon():
                while slow.calls < 2:  # noqa: ASYNC110 - runs begin on an idle loop
                    await anyio.sleep(0.01)
                assert worker.statistics().active == 2
                slow.out.set()
                for run in [left, *new]:
                    await run.wait()


class Unreadable(InMemorySaver):
    """Fails one read of adopted runs."""

    fails = False

    def query_now(self, queries: Any) -> list[Any]:
        """Read, or fail."""
        adopted = any(isinstance(q, ListRuns) and q.among for q in queries)
        if self.fails and adopted:
            self.fails = False
            raise StorageBusyError("the rows can't be read now", do="try again")
        return super().query_now(queries)


class TestAdoptedRuns:
    async def test_an_error_after_the_adoption_gives_them_back(self):
        """
        A system that has adopted a run and can't read it does not keep it: the next recovery, of
        any system, takes it up.
        """
        stuck = Turnstile({})
        async with Unreadable() as saver:
            async with ActorSystem({"g": in_a_row({"a": stuck})}, saver=saver) as first:
                run = await first.start("g", "t", {"bar": []})
                await stuck.entered.wait()
                await first.drain(0)
            graphs = {"g": in_a_row({"a": writer("a")})}
            async with ActorSystem(graphs, saver=saver) as living, soon():
                saver.fails = True
                with pytest.raises(StorageBusyError, match="can't be read now"):
                    await living.recover()
                await settled()
                async with ActorSystem(graphs, saver=saver) as other:
                    (found,) = await other.recover()
                    assert (found.id, await found.wait()) == (run.id, "success")


class TestLostHints:
    async def test_a_run_without_a_hint_is_found(self, fleet, monkeypatch):
        """
        A sweep announces a run whose hint never came.
        """
        monkeypatch.setattr("actorgraph.runtime.system.dispatch_actor.NEW_S", 0.0)
        async with fleet.system("accept") as web:
            run = await web.start("g", "t", {"bar": []})
            await anyio.wait_all_tasks_blocked()  # it is announced after it was accepted
            fleet.dispatcher.queues.clear()
            fleet.dispatcher.waiting.clear()
            async with fleet.system("work", lease_s=0.3) as worker, soon():
                await run.wait()
                assert (await worker.dispatch_statistics()).announced_again == 1

    async def test_hints_of_nothing_are_settled(self, fleet):
        """
        Hints of unknown, ended and doubled runs do no harm.
        """
        async with fleet.system("accept") as web, fleet.system("work") as worker, soon():
            run = await web.start("g", "t", {"bar": []})
            await run.wait()
            again = [Hint(b"?" * 16, "g"), Hint(web._actor.owner, "g")]  # noqa: SLF001
            fleet.dispatcher.put(again)
            last = await web.start("g", "t2", {"bar": []})
            await last.wait()
            assert (await worker.dispatch_statistics()).claimed == 2

    async def test_a_dispatcher_must_fit_the_saver(self, fleet):
        """
        PGQueuer over a saver in memory is refused when the system opens.
        """
        graph = in_a_row({"a": writer("a")})
        system = ActorSystem({"g": graph}, saver=fleet.saver, dispatcher=PGQueuerDispatcher())
        with pytest.raises(InvalidConfigError, match="needs a PostgresSaver"):
            async with system:
                raise AssertionError


class TestReaders:
    async def test_readers_of_one_handle_do_not_take_each_others_news(self, fleet, monkeypatch):
        """
        News that come while a reader looks are for it too, although another one was woken by them.
        """
        monkeypatch.setattr("actorgraph.rules.system.dispatching.LOOK_S", 600.0)
        looked, out = anyio.Event(), anyio.Event()

        async def slow_once(*place: Any) -> Any:
            page = await read_page(*place)
            if not looked.is_set():
                looked.set()
                await out.wait()
            return page

        monkeypatch.setattr("actorgraph.api.system.stored_runs.read_page", slow_once)
        slow, found = Turnstile({"bar": ["slow"]}), dict[str, RunEvent]()
        async with fleet.system("accept") as web, soon(), anyio.create_task_group() as group:
            run = await web.start("g", "t", {"bar": []})

            async def read(name: str) -> None:
                async with run.events() as events:
                    found[name] = await anext(events)

            group.start_soon(read, "late")
            await looked.wait()
            async with fleet.system("work", slow), anyio.create_task_group() as other:
                other.start_soon(read, "early")
                await slow.entered.wait()
                while "early" not in found:  # noqa: ASYNC110 - read by a task
                    await anyio.sleep(0.01)
                out.set()
                while "late" not in found:  # noqa: ASYNC110 - read by a task
                    await anyio.sleep(0.01)
                slow.out.set()
        assert found["late"] == found["early"]


class TestEnds:
    async def test_the_end_of_a_run_without_a_worker_wakes_its_readers(self, fleet, monkeypatch):
        """
        A waiting run that is cancelled ends for those who wait for it without a look at the store,
        and its thread's next run is announced.
        """
        monkeypatch.setattr("actorgraph.rules.system.dispatching.LOOK_S", 600.0)
        async with fleet.system("accept") as web, soon():
            first = await web.start("g", "t", {"bar": []})
            second = await web.start("g", "t", {"bar": []}, if_busy="enqueue")
            fleet.dispatcher.queues.clear()
            fleet.dispatcher.waiting.clear()
            async with anyio.create_task_group() as group:
                group.start_soon(first.wait)
                await settled()
                await web.cancel(first.id)
            async with fleet.system("work", lease_s=600.0):
                assert await second.wait() == "success"


class TestMetrics:
    async def test_waiting_runs_are_metrics(self, fleet, monkeypatch):
        """
        Prometheus gets the number and the age of the waiting runs, and what was claimed.
        """
        monkeypatch.setattr("actorgraph.runtime.system.dispatch_actor.COUNT_S", 0.01)
        async with fleet.system("accept") as web, soon():
            for _ in range(3):
                run = await web.start("g", None, {"bar": []})
            while web.statistics().dispatch.waiting < 3:  # noqa: ASYNC110 - counted by a task
                await anyio.sleep(0.01)
            text = exposition(web)[0].decode()
            assert "actorgraph_dispatch_waiting 3.0" in text
            assert "actorgraph_dispatch_oldest_seconds " in text
            async with fleet.system("work") as worker:
                await run.wait()
                text = exposition(worker)[0].decode()
                assert "actorgraph_dispatch_claimed_total 3.0" in text


class TestBusyThreads:
    @pytest.mark.parametrize("if_busy", ["interrupt", "rollback"])
    async def test_a_run_takes_the_place_of_another_workers(self, fleet, if_busy):
        """
        The run that a worker has is cancelled by what an accepting system has stored.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with fleet.system("accept") as web, fleet.system("work", slow, lease_s=0.3):
            first = await web.start("g", "t", {"bar": []})
            await slow.entered.wait()
            second = await web.start("g", "t", {"bar": []}, if_busy=if_busy)
            async with soon():
                assert await first.wait() == "cancelled"
                slow.out.set()
                assert await second.wait() == "success"

    @pytest.mark.parametrize("if_busy", ["interrupt", "rollback"])
    async def test_runs_accepted_meanwhile_are_replaced_too(self, fleet, monkeypatch, if_busy):
        """
        An older run that another process has stored shortly before the one that replaces it is
        cancelled too.
        """
        real = PersistenceActor.store

        async def after_another(writer: Any, *requests: Any) -> Any:
            monkeypatch.setattr(PersistenceActor, "store", real)
            (row,) = await web._host.reader.ask(ListRuns(open_of=("t",)))  # noqa: SLF001
            between = (int.from_bytes(row.run) + 1).to_bytes(16)
            await writer.store(PutRun(msgspec.structs.replace(row, run=between), "t"))
            older.extend([row.run, between])
            return await writer.store(*requests)

        older: list[Any] = []
        async with fleet.system("accept") as web, soon():
            await web.start("g", "t", {"bar": []})
            monkeypatch.setattr(PersistenceActor, "store", after_another)
            last = await web.start("g", "t", {"bar": []}, if_busy=if_busy)
            async with fleet.system("work"):
                assert await last.wait() == "success"
            found = [await web.run(as_text(identity)) for identity in older]
        assert [run.status for run in found] == ["cancelled", "cancelled"]

    async def test_a_busy_thread_refuses(self, fleet):
        """
        "reject" is decided on the stored runs.
        """
        async with fleet.system("accept") as web:
            await web.start("g", "t", {"bar": []})
            with pytest.raises(Exception, match="thread 't' has run"):
                await web.start("g", "t", {"bar": []})
            assert len(await web.runs(thread_id="t")) == 1
