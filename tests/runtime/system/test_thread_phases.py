"""Phases of threads, as operators see them, on every saver: one word by each way of looking."""

import sqlite3
from datetime import timedelta
from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import msgspec
import pytest

from actorgraph import START, ActorSystem, Send, StateGraph, interrupt
from actorgraph.api.savers.stored_states import list_stored, read_stored
from actorgraph.checkpoints import InMemorySaver, SqliteSaver
from actorgraph.cli import printed
from actorgraph.cli.command_line import main
from actorgraph.errors import InvalidConfigError, StorageFullError
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.studio.studio_reader import ListFilter, StudioReader
from actorgraph.testing import FaultPlan, FaultySaver
from actorgraph.values.commits import EPOCH_ANY, Claim, Commit, LoadCheckpoint
from actorgraph.values.ids import as_bytes
from actorgraph.values.systems import AdoptRun, DropOwner, ListRuns, SetRun
from actorgraph.values.thread_phase import RECENT_S
from tests.runtime.saves import full
from tests.support.gates import Turnstile
from tests.support.graphs import at
from tests.support.wall_clock import forward

__all__ = ["forward"]
OWN = b"\x05" * 16


class Log(TypedDict, total=False):
    """`log` appends."""

    log: Annotated[list[str], add]


def plan(_: Log) -> Log:
    return {"log": ["plan"]}


def fan(_: Log) -> list[Send]:
    return [Send("work", {"n": number}) for number in (1, 2)]


def fan_out(work: Any, saver: Any) -> Any:
    """A graph whose second superstep consists of two Sends."""
    builder = StateGraph(Log).add_node(plan).add_node("work", work, input_schema=dict)
    builder.add_edge(START, "plan").add_conditional_edges("plan", fan, ["work"])
    return builder.compile(checkpointer=saver)


async def phases(system: ActorSystem, thread_id: str = "t") -> set[str]:
    """The phase of a thread that the search finds, and that its filter finds the thread by."""
    (found,) = [one for one in await system.threads() if one.thread_id == thread_id]
    filtered = await system.threads(phase=found.phase)
    assert thread_id in [one.thread_id for one in filtered]
    assert len(filtered) == await system.count_threads(phase=found.phase)
    return {found.phase}


async def every_reader(graph: Any, saver: Any, system: ActorSystem) -> set[str]:
    """The phases of a thread by each way of looking."""
    own, head = await graph.aget_state(at("t")), await stored(saver)
    return {own.phase, head.phase, *await phases(system)}


async def head_of(saver: Any) -> bytes | None:
    """The newest checkpoint of a thread."""
    return (await host_of(saver).reader.ask(LoadCheckpoint("t"))).head


async def stored(saver: Any, thread_id: str = "t") -> Any:
    """A thread's head, read without its graph."""
    return await read_stored(host_of(saver), saver.codec, thread_id)


@pytest.mark.every_saver
class TestPhases:
    async def test_a_run_outside_of_a_system_is_running_while_it_works(self, saver, forward):
        """
        Its process knows it, although its last save is long ago: each reader says so and names the
        Sends that are left; when the run has left, its thread has ended.
        """
        seen: list[Any] = []
        looked = anyio.Event()

        async def work(state: dict[str, Any]) -> Log:
            if state["n"] == 2:
                await looked.wait()
            else:  # nothing of the superstep is stored yet
                forward(2 * RECENT_S)
                head = await stored(saver)
                seen.append((head.phase, head.next))
                own = await graph.aget_state(at("t"))
                seen.append((own.phase, own.next))
                seen.append(await phases(system))
                looked.set()
            return {"log": [str(state["n"])]}

        graph = fan_out(work, saver)
        async with ActorSystem({"fan": graph}, saver=saver) as system:
            await graph.ainvoke({"log": []}, at("t"))
            listed = list_stored(host_of(saver), saver.codec, "t")
            history = [step.next async for step in listed]

            now = ("running", ("work", "work"))
            assert seen == [now, now, {"running"}]
            assert history == [(), ("work", "work"), ("plan",), (START,)]
            assert ((await stored(saver)).phase, await phases(system)) == ("ended", {"ended"})

    async def test_an_input_that_only_a_claim_holds_is_running(self, saver):
        """
        A first run in "exit" mode stores no checkpoint before its end: its thread is known all the
        same, by the claim, and an index of threads finds it.
        """
        seen: list[Any] = []

        async def look(_: Log) -> Log:
            head = await stored(saver)
            indexed = getattr(saver, "indexes_threads", False)
            seen.append((head.phase, head.next))
            seen.append(await phases(system) if indexed else {"running"})
            return {"log": ["looked"]}

        builder = StateGraph(Log).add_node(look).add_edge(START, "look")
        graph = builder.compile(checkpointer=saver)
        async with ActorSystem({"look": graph}, saver=saver) as system:
            await graph.ainvoke({"log": []}, at("t"), durability="exit")

        assert seen == [("running", (START,)), {"running"}]

    async def test_a_claim_of_another_process_is_cut_off_once_it_is_old(self, saver, forward):
        """
        Neither its last checkpoint nor its claim is recent any more: then each reader says it.
        """
        graph = fan_out(lambda _: {}, saver)
        async with ActorSystem({"fan": graph}, saver=saver) as system:
            await graph.ainvoke({"log": []}, at("t"), interrupt_before=["work"])
            seen = [await every_reader(graph, saver, system)]
            head = await head_of(saver)
            claim = Claim(head, "sync")
            other = Commit("t", "", IDS.run(), EPOCH_ANY, 1, head, claim=claim)
            await saver.commit([other])  # past the actor, as another process does it
            seen.append(await every_reader(graph, saver, system))
            forward(2 * RECENT_S)
            seen.append(await every_reader(graph, saver, system))

        assert seen == [{"unfinished"}, {"running"}, {"cut_off"}]

    async def test_a_join_that_is_due_comes_next(self, saver):
        """
        A reader without the graph knows the node behind two others, which no edge's channel names.
        """
        builder = StateGraph(Log)
        for name in "abc":
            builder.add_node(name, lambda _: {"log": ["done"]})
        builder.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")
        graph = builder.compile(checkpointer=saver, interrupt_before=["c"])
        await graph.ainvoke({"log": []}, at("t"))

        head = await stored(saver)
        assert (head.next, head.phase) == (("c",), "unfinished")
        assert [task.name for task in head.tasks] == ["c"]

    async def test_questions_failures_and_breakpoints_have_three_words(self, saver):
        """
        Of two tasks one has ended and is left out of what comes next; the other asks, has failed or
        was never begun.
        """

        async def work(state: dict[str, Any]) -> Log:
            if state["n"] == 2 and mode == "waiting":
                interrupt("go on?")
            if state["n"] == 2 and mode == "failed":
                raise ValueError("out of paper")
            return {"log": [str(state["n"])]}

        graph, found = fan_out(work, saver), {}
        async with ActorSystem({"fan": graph}, saver=saver) as system:
            for mode in ("waiting", "failed", "unfinished"):
                stops = ["work"] if mode == "unfinished" else []
                run = await system.start("fan", mode, {"log": []}, interrupt_before=stops)
                await run.wait()
                head, own = await stored(saver, mode), await graph.aget_state(at(mode))
                assert (head.next, head.phase) == (own.next, own.phase)
                assert await phases(system, mode) == {own.phase}
                found[mode] = (own.phase, len(head.interrupts))
            old = timedelta(hours=1)
            assert await system.threads(phase="waiting", older_than=old) == []
            assert len(await system.threads(older_than=timedelta())) == 3
            with pytest.raises(InvalidConfigError):
                await system.threads(older_than=-old)

        assert found == {
            "waiting": ("waiting", 1),
            "failed": ("failed", 0),
            "unfinished": ("unfinished", 0),
        }

    async def test_a_run_of_a_system_is_running_cut_off_and_parked(self, saver):
        """
        The end of a lease changes no row of the thread, and the next search knows it.
        """
        slow = Turnstile({"log": ["slow"]})
        said: list[Any] = []
        builder = StateGraph(Log).add_node("slow", slow).add_edge(START, "slow")
        graph = builder.compile(checkpointer=saver)
        async with ActorSystem({"slow": graph}, saver=saver) as system:
            host = host_of(saver)
            run = await system.start("slow", "t", {"log": []})
            await slow.entered.wait()
            said.append(await phases(system))
            (row,) = await host.reader.ask(ListRuns(run=as_bytes(run.id)))
            await host.writer.store(DropOwner(row.owner))
            said.append(await phases(system))
            assert await system.count_threads(phase="running") == 0
            await host.writer.store(
                AdoptRun(row.run, "t", OWN, row.owner, 3, deaths=3),
                SetRun(row.run, "t", OWN, "parked", "3 processes have ended", 3, deaths=3),
            )
            said.append(await phases(system))
            slow.out.set()

        assert said == [{"running"}, {"cut_off"}, {"parked"}]


class TestOlderIndexes:
    async def test_rows_of_an_earlier_version_are_read_again(self, tmp_path):
        """
        An index without phases, as earlier versions have made it, finds its threads by them.
        """
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = fan_out(lambda _: {}, saver)
            async with ActorSystem({"fan": graph}, saver=saver) as system:
                await graph.ainvoke({"log": []}, at("t"))
                await system.threads()
        with sqlite3.connect(tmp_path / "runs.db") as older:
            older.execute("DROP TRIGGER thread_run_stored")
            older.execute(
                "DELETE FROM thread_facts WHERE fact IN "
                "(SELECT fact FROM facts WHERE name = 's.phase')"
            )
        older.close()
        saver = SqliteSaver(tmp_path / "runs.db")
        graph = fan_out(lambda _: {}, saver)
        async with saver, ActorSystem({"fan": graph}, saver=saver) as system:
            found = await system.threads(phase="ended")

        assert [one.thread_id for one in found] == ["t"]


class TestDamage:
    def test_a_thread_that_cannot_be_read_hides_no_other(self, tmp_path, capsys):
        """
        The list of the command, and that of the studio over a database, have it as failed, beside
        the others; the command's has the reason.
        """
        path = tmp_path / "runs.db"
        with SqliteSaver(path) as saver:
            for thread_id in ("good", "bad", "other"):
                fan_out(lambda _: {}, saver).invoke({"log": ["x" * 50]}, at(thread_id))
        with sqlite3.connect(path) as damaged:
            damaged.execute(
                "UPDATE blobs SET payload = x'c1c1', crc = NULL WHERE thread = "
                "(SELECT thread FROM threads WHERE thread_id = 'bad')"
            )
            damaged.execute(
                "UPDATE ranges SET payload = x'c1c1' WHERE thread = "
                "(SELECT thread FROM threads WHERE thread_id = 'bad')"
            )
        damaged.close()

        assert main(["threads", "--db", str(path), "--json"]) == 0
        lines = msgspec.json.decode(capsys.readouterr().out, type=printed.ThreadList).threads

        async def read() -> list[tuple[str, str]]:
            async def allows(_: Any) -> bool:
                return True

            async with SqliteSaver(path) as saver:
                reader = StudioReader(None, saver, "")
                page = await reader.threads(ListFilter(), {}, 0, allows)
                return [(one.thread_id, one.phase) for one in page.rows]

        told = {"good": "ended", "bad": "failed", "other": "ended"}
        assert {one.thread_id: one.phase for one in lines} == told
        assert [bool(one.error) for one in lines] == [one.thread_id == "bad" for one in lines]
        assert dict(anyio.run(read)) == told


class TestFailedSaves:
    async def test_a_run_that_ended_here_without_storing_its_end_is_cut_off_at_once(self):
        """
        Its process knows that it works no more, although its last save is recent.
        """
        plan_of_faults = FaultPlan(3, error=full, lasting=False)
        async with FaultySaver(InMemorySaver(), plan_of_faults) as saver:
            graph = fan_out(lambda _: {}, saver)
            with pytest.raises(StorageFullError):
                await graph.ainvoke({"log": []}, at("t"), durability="sync")

            assert (await graph.aget_state(at("t"))).phase == "cut_off"
