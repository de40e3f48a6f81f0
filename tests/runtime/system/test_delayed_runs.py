"""Runs of an ActorSystem that begin later, or that are stored once for many callers."""

import time
from datetime import UTC, datetime, timedelta

import anyio
import msgspec
import pytest

from actorgraph import ActorSystem, SqliteSaver, SystemBusyError, ThreadBusyError
from actorgraph.errors import InvalidConfigError, RunNotFoundError
from actorgraph.runtime.system import peers
from actorgraph.superstep.snapshot import iso
from actorgraph.values.ids import run_id_of
from actorgraph.values.systems import IfBusy, ListRuns, PutRun, RenewOwner
from actorgraph.web.registries.thread_registry import find_thread
from tests.savers.test_system_rows import HOUR_S, TWO, row
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import at, in_a_row, writer
from tests.support.systems import place, system_of, turnstile_first
from tests.support.wall_clock import forward

__all__ = ["forward", "place"]

GRAPH = in_a_row({"a": writer("a")})
IF_BUSY: tuple[IfBusy, ...] = ("reject", "enqueue", "interrupt", "rollback")
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def system(path) -> ActorSystem:
    """A system over a file, as a process of its own would have it."""
    graph = in_a_row({"a": writer("a")})
    return ActorSystem({"g": graph}, saver=SqliteSaver(path), lease_s=0.6)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems look for cancellations every twentieth of a second."""
    monkeypatch.setattr(peers, "LOOKS", 300)


async def result(run) -> object:
    """The run's result, which comes in time."""
    with anyio.fail_after(PATIENCE_S):
        return await run.result()


class TestDelays:
    async def test_a_run_waits_without_a_dispatcher(self, tmp_path):
        """
        A delayed run is pending until its time, and then runs.
        """
        async with system(tmp_path / "x.db") as one:
            before = anyio.current_time()
            run = await one.start("g", "t", {"bar": []}, delay_s=0.2)
            assert run.status == "pending"

            assert await result(run)
            assert anyio.current_time() - before >= 0.2

    async def test_a_run_begins_at_a_time(self, tmp_path):
        """
        A run with `at` waits for that time; one whose time has passed begins at once.
        """
        async with system(tmp_path / "x.db") as one:
            soon = datetime.now(UTC) + timedelta(seconds=0.2)
            run = await one.start("g", "t", {"bar": []}, at=soon)
            assert run.status == "pending"
            assert run.due_at is not None
            assert soon <= run.due_at < soon + timedelta(seconds=10)
            assert await result(await one.start("g", "u", {"bar": []}, at=BEGINNING))

            assert await result(run)
            assert datetime.now(UTC) >= soon

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ({"at": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001 - that is the point
            ({"at": "tomorrow"}, "time zone"),
            ({"at": BEGINNING, "delay_s": 1}, "can't be combined"),
        ],
    )
    async def test_another_time_is_refused(self, tmp_path, wrong, words):
        """
        A time without a zone, or beside a delay, is refused, and nothing is stored.
        """
        async with system(tmp_path / "x.db") as one:
            with pytest.raises(InvalidConfigError, match=words):
                await one.start("g", "t", {"bar": []}, **wrong)
            assert await one.runs() == []

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


class TestThreads:
    """A thread with a run that waits for its time."""

    @pytest.mark.every_saver
    async def test_a_run_of_now_goes_first(self, place, forward):
        """
        With each strategy it begins at once, and the delayed one stays and runs in its time.
        """
        async with system_of(place, GRAPH) as one:
            late = [await one.start("g", name, {"bar": ["late"]}, delay_s=600) for name in IF_BUSY]
            assert {found.status for found in await one.threads()} == {"idle"}
            for name in IF_BUSY:
                now = await one.start("g", name, {"bar": ["now"]}, if_busy=name)
                assert (await now.result())["bar"] == ["now", "a"]
            assert all(run.waits_for_time and run.status == "pending" for run in late)

            forward(700)
            assert not any(run.waits_for_time for run in late)
            assert {run.id for run in await one.recover()} == {run.id for run in late}
            for run in late:
                assert (await run.result())["bar"] == ["now", "a", "late", "a"]

    async def test_several_wait_for_their_times(self, place, forward):
        """
        None is in the way of another; they run in the order of their times, whenever they came.
        """
        async with system_of(place, GRAPH) as one:
            runs = [
                await one.start("g", "t", {"bar": [str(s)]}, delay_s=s) for s in (600, 300, 500)
            ]
            await anyio.wait_all_tasks_blocked()  # each waits for its time
            forward(700)
            await one.recover()
            for run in runs:
                await run.result()
            values = (await one.graphs["g"].aget_state(at())).values
        assert values["bar"] == ["300", "a", "500", "a", "600", "a"]

    async def test_a_time_that_has_come_holds_the_thread(self, place, forward):
        """
        Then a run with "reject" is refused, before the one whose time has come is taken up too.
        """
        slow = Turnstile({"bar": ["slow"]})  # the system may take it up by itself meanwhile
        async with system_of(place, turnstile_first(slow)) as one:
            late = await one.start("g", "t", {"bar": []}, delay_s=600)
            forward(700)
            with pytest.raises(ThreadBusyError, match=late.id):
                await one.start("g", "t", {"bar": []})
            slow.out.set()
            await one.recover()
            await late.result()

    async def test_a_time_that_comes_during_a_run(self, place):
        """
        The run whose time has come waits for its thread, and a later one replaces it too.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with system_of(place, turnstile_first(slow)) as one:
            feed = one.follow("t")
            running = await one.start("g", "t", {"bar": ["now"]})
            late = await one.start("g", "t", {"bar": []}, delay_s=0.05, if_busy="enqueue")
            assert [(await anext(feed)).id for _ in "ab"] == [running.id, late.id]
            feed.close()
            assert (late.status, slow.calls) == ("pending", 1)
            last = await one.start("g", "t", {"bar": ["last"]}, if_busy="interrupt")
            slow.out.set()

            assert (await last.result())["bar"] == ["now", "last", "slow", "b"]
            assert (await running.wait(), await late.wait()) == ("cancelled", "cancelled")

    @pytest.mark.parametrize("if_busy", ["interrupt", "rollback"])
    async def test_a_delayed_run_replaces_what_is_there_when_it_is_accepted(
        self, place, forward, if_busy, often
    ):
        """
        Not those that wait for their times, and not those that come while it waits.
        """
        slow, late = Turnstile({"bar": ["slow"]}), {"bar": ["late"]}
        async with system_of(place, turnstile_first(slow)) as one:
            old = await one.start("g", "t", {"bar": ["old"]})
            await slow.entered.wait()
            waits = await one.start("g", "t", late, delay_s=300, if_busy="enqueue")
            run = await one.start("g", "t", late, delay_s=600, if_busy=if_busy)
            assert (await old.wait(), waits.status) == ("cancelled", "pending")
            slow.entered = anyio.Event()
            now = await one.start("g", "t", {"bar": ["now"]})
            await slow.entered.wait()
            forward(700)
            await one.recover()
            slow.out.set()

            for each in (now, waits, run):
                await each.result()
                assert each.status == "success"

    async def test_a_reminder_says_nothing_about_its_thread(self, place):
        """
        A thread has the graph of its newest run of now, and the age of its first run.
        """
        now, graphs = (
            time.time_ns() // 1000,
            {"chat": GRAPH, "remind": in_a_row({"z": writer("z")})},
        )
        due = now + 3_600_000_000
        chat = row(run_id_of(now // 1000, "chat"), TWO, created=now)
        reminder = row(run_id_of(due // 1000, "remind"), None, created=now - 5_000_000, due=due)
        rows = {"chat": chat, "remind": reminder}
        requests = [
            PutRun(msgspec.structs.replace(one, graph=name), "t") for name, one in rows.items()
        ]
        async with ActorSystem(graphs, saver=place.again()) as one:
            await one._host.writer.store(RenewOwner(TWO, HOUR_S), *requests)  # noqa: SLF001
            (listed,) = await one.threads()
            found = await find_thread(one, "t")

        assert (listed.graph, listed.status) == ("chat", "busy")
        assert found is not None
        assert found.metadata["graph_id"] == "chat"
        assert found.created_at == iso(now - 5_000_000)

    async def test_a_delayed_run_that_has_begun_elsewhere_is_replaced(self, place):
        """
        Also if the clock of the system that has begun it is ahead of this one's.
        """
        due = time.time_ns() // 1000 + 60_000_000
        begun = row(run_id_of(due // 1000, "reminder"), TWO, due=due)
        async with system_of(place, GRAPH) as one:
            writer_of_rows = one._host.writer  # noqa: SLF001 - as the other system does
            await writer_of_rows.store(RenewOwner(TWO, HOUR_S), PutRun(begun, "t"))
            (there,) = await one.runs(thread_id="t")
            assert not there.waits_for_time
            run = await one.start("g", "t", {"bar": []}, delay_s=600, if_busy="interrupt")
            (asked,) = await one._host.reader.ask(ListRuns(asked_of=TWO))  # noqa: SLF001

        assert (asked.run, asked.cancel) == (begun.run, f"run {run.id} took its place")

    @pytest.mark.parametrize("goes_on", [True, False])
    async def test_a_delayed_rollback_never_cuts_the_history(self, place, forward, goes_on, often):
        """
        Steps of the run that it replaces are removed at its time, unless a run went on from them.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with system_of(place, turnstile_first(slow)) as one:
            old = await one.start("g", "t", {"bar": ["old"]})
            await slow.entered.wait()
            late = await one.start("g", "t", {"bar": ["late"]}, delay_s=600, if_busy="rollback")
            assert await old.wait() == "cancelled"
            slow.out.set()
            if goes_on:
                await (await one.start("g", "t", {"bar": ["now"]})).result()
            forward(700)
            await one.recover()
            values = (await result(late))["bar"]
            graph = one.graphs["g"]
            points = [point async for point in graph.aget_state_history(at("t"))]

        assert values[:2] == (["old", "now"] if goes_on else ["late", "slow"])
        steps = [(point.metadata or {})["step"] for point in points]
        assert steps == [*range(len(points) - 2, -2, -1)]  # whole
        ids = [point.config["configurable"]["checkpoint_id"] for point in points]
        parents = [point.parent_config for point in points]
        assert [p and p["configurable"]["checkpoint_id"] for p in parents] == [*ids[1:], None]

    async def test_too_many_are_refused(self, place):
        """
        As many runs of a thread may wait for their times as may wait for the thread; others go on.
        """
        async with system_of(place, GRAPH, max_waiting=2) as one:
            for _ in range(2):
                await one.start("g", "t", {"bar": []}, delay_s=600)
            with pytest.raises(SystemBusyError, match="2 runs wait for thread 't'"):
                await one.start("g", "t", {"bar": []}, delay_s=600)
            moment = datetime.now(UTC) + timedelta(hours=1)
            with pytest.raises(SystemBusyError):
                await one.start_once("g", "t", {"bar": []}, key="k", moment=moment)
            assert await (await one.start("g", "t", {"bar": []}, if_busy="enqueue")).result()
            assert one.statistics().refused == 2

    async def test_a_batch_runs_the_thread(self, place):
        """
        A batch doesn't wait for a reminder on one of its threads.
        """
        async with system_of(place, GRAPH) as one:
            late = await one.start("g", "b:0", {"bar": []}, delay_s=600)
            found = [each async for each in one.map("g", [{"bar": ["x"]}], name="b")]
            assert [each.status for each in found] == ["done"]
            assert late.status == "pending"

    async def test_the_run_goes_with_its_thread(self, place):
        """
        A deleted thread leaves no run that begins in its time.
        """
        async with system_of(place, GRAPH) as one:
            late = await one.start("g", "t", {"bar": []}, delay_s=600)
            await one.saver.adelete_thread("t")
            assert await one.runs() == []
            with pytest.raises(RunNotFoundError):
                await one.run(late.id)


@pytest.mark.every_saver
class TestTwoSystems:
    """Systems of two processes; each decides by the rows of the store."""

    async def test_one_whose_time_comes_waits_for_a_running_one(self, place, forward):
        """
        It is taken up by one system while the other one runs the thread, and begins after that.
        """
        slow, held = Turnstile({"bar": ["slow"]}), anyio.Event()
        async with (
            system_of(place, turnstile_first(slow)) as one,
            system_of(place, turnstile_first(slow)) as other,
        ):
            late = await one.start("g", "t", {"bar": ["late"]}, delay_s=600)
            now = await other.start("g", "t", {"bar": ["now"]})
            await slow.entered.wait()
            forward(700)
            one._actor.on_held.append(lambda _: held.set())  # noqa: SLF001 - its claim was refused
            await one.recover()
            await held.wait()
            assert (slow.calls, late.status) == (1, "pending")
            slow.out.set()
            await now.result()

            assert (await late.result())["bar"] == ["now", "slow", "b", "late", "slow", "b"]

    async def test_a_dead_process_leaves_both(self, place, forward):
        """
        The run that it had begun goes on first, then the one whose time has come meanwhile.
        """
        slow = Turnstile({"bar": ["slow"]})
        async with system_of(place, turnstile_first(slow)) as one:
            late = await one.start("g", "t", {"bar": ["late"]}, delay_s=600)
            now = await one.start("g", "t", {"bar": ["now"]})
            await slow.entered.wait()
            await one._drop_lease(one._host)  # noqa: SLF001 - as when it is dead
            forward(700)
            again = Turnstile({"bar": ["again"]})
            again.out.set()
            async with system_of(place, turnstile_first(again)) as two:
                assert [run.id for run in await two.recover()] == [now.id, late.id]
                values = await (await two.run(late.id)).result()
            await one.drain(0)

        assert values["bar"] == ["now", "again", "b", "late", "again", "b"]


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
