"""The rows in a store are all that a thread needs to go on: after a crash, elsewhere, later."""

import json
import shutil
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from actorgraph import Command, FormatVersionError
from actorgraph.codec.records import decode_record, encode_record
from actorgraph.errors import SaverBrokenError
from actorgraph.testing import FaultPlan, FaultySaver, GatedSaver
from actorgraph.values.commits import CheckpointRow, Commit, CommitOutcome, ListCheckpoints, Request
from tests.codec.test_formats import ALL, text_of
from tests.faults.oracle import Oracle
from tests.faults.scenarios import CONFIG, INPUT, NAMED, go_on, run_through
from tests.savers.test_thread_operations import asking
from tests.support.every_saver import Store, stored_in
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

FAN_OUT = NAMED["fan-out"]
SENDS = ["work0;", "work1;", "work2;"]


class Changing(GatedSaver):
    """A saver that stores other rows of checkpoints than it is given."""

    def __init__(self, inner: Any, change: Callable[[CheckpointRow], CheckpointRow]) -> None:
        super().__init__(inner, is_open=True)
        self._change = change

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Change the checkpoints of each commit, and store it."""
        return await super().commit(
            [
                replace(r, checkpoints=tuple(map(self._change, r.checkpoints)))
                if isinstance(r, Commit)
                else r
                for r in batch
            ]
        )


async def records(saver: Any, thread: str) -> list[str]:
    """A thread's records as the saver holds them, oldest first."""
    (found,) = await saver.query([ListCheckpoints(thread, oldest_first=True, bare=True)])
    return [stored.row.record for stored in found]


@pytest.fixture(params=["sqlite", "jsonl", "postgres"])
def lasting(request, tmp_path):
    """A place that outlives its process."""
    with stored_in(request, request.param, tmp_path) as made:
        yield made


class TestAfterACrash:
    @pytest.mark.promise("S063")
    async def test_sends_that_have_begun_are_run_each_once(self, store):
        """
        A process that dies while three Sends run leaves them all, and the next one runs each with
        its own argument.
        """
        oracle, plan = Oracle(), FaultPlan()
        async with FaultySaver(store.saver(), plan, on_stored=oracle.stored) as saver:
            graph = FAN_OUT.build(oracle).compile(checkpointer=saver)
            async with graph.astream(INPUT, CONFIG) as chunks:
                await anext(chunks)
                plan.fail_at = 1 + len(plan.operations)
                with pytest.raises(SaverBrokenError):
                    await anext(chunks)
        oracle = Oracle()
        async with store.again() as saver:
            graph = FAN_OUT.build(oracle).compile(checkpointer=saver)
            waiting = (await graph.aget_state(CONFIG)).next
            result = await graph.ainvoke(None, CONFIG)

        assert waiting == ("work",) * 3
        assert sorted(oracle.labels("start")) == ["gather;", *SENDS]
        assert result["log"] == ["plan;", *SENDS, "gather;"]

    @pytest.mark.one_loop
    @pytest.mark.promise("S063", "S072", "B1", "B2")
    @pytest.mark.parametrize("lasting", ["jsonl", "postgres"], indirect=True)
    async def test_a_crash_at_any_operation_changes_no_result(self, lasting, anyio_backend):
        """
        Whichever call of the store fails, before or after its effect, the thread then ends as in
        an undisturbed run, and nothing that was stored runs again.
        """
        first = {"asyncio": 1, "trio": 2}[anyio_backend]  # each loop has half of the points
        for when in ("before", "after"):
            for number in count(first, 2):
                plan = FaultPlan(number, when)
                with anyio.fail_after(3 * PATIENCE_S):
                    await self.crash(lasting, plan)
                if not plan.fired:
                    break
            assert number > 5

    async def crash(self, store, plan):
        """Crash where the plan says, and finish the thread over a new saver."""
        oracle = Oracle(staggers=True)
        told = oracle.stored
        try:
            async with FaultySaver(store.again(), plan, on_stored=told) as saver:
                graph = FAN_OUT.build(oracle).compile(checkpointer=saver)
                await run_through(graph, INPUT, "sync", oracle)
        except SaverBrokenError:
            assert plan.fired
        oracle.crash()
        async with FaultySaver(store.again(), on_stored=told) as saver:
            graph = FAN_OUT.build(oracle).compile(checkpointer=saver)
            result = await go_on(graph, "sync", oracle)
            await saver.adelete_thread("thread")
        assert result["log"] == [*FAN_OUT.log]
        assert oracle.run_again() == []


@pytest.fixture
def copied(lasting, request, tmp_path):
    """Copies the place's files, or the rows of its tables, as any other program would."""

    def copy() -> Store:
        there = tmp_path / "elsewhere"
        there.mkdir()
        if lasting.kind == "sqlite":
            shutil.copy(lasting.path, there)
        elif lasting.kind == "jsonl":
            shutil.copytree(lasting.path.with_name("threads"), there / "threads")
        else:
            return _copied_tables(request, lasting)
        return Store(lasting.kind, there)

    return copy


def _copied_tables(request: pytest.FixtureRequest, store: Store) -> Store:
    made = Store("postgres", store.path, store.url, request.getfixturevalue("lent"))
    with made.saver() as saver:
        assert saver.list_threads() == []  # its tables are there
    request.getfixturevalue("postgres").copy(store.schema, made.schema)
    return made


@pytest.mark.promise("S073")
def test_a_copied_database_is_all_that_a_resume_needs(lasting, copied):
    """
    A thread that waits in a graph inside goes on from copied files, or tables, as it does from
    their originals.
    """
    with lasting.saver() as saver:
        asking(saver).invoke({"foo": "x"}, at())
    elsewhere = copied()
    with lasting.again() as saver:
        graph = asking(saver)
        before = graph.get_state(at(), subgraphs=True)
        result = graph.invoke(Command(resume="me"), at())
    with elsewhere.again() as saver:
        graph = asking(saver)
        assert graph.get_state(at(), subgraphs=True) == before
        assert graph.invoke(Command(resume="me"), at()) == result

    assert result["bar"][-2:] == ["me", "z"]


class TestWhatFollowsFromTheRest:
    @pytest.mark.promise("S062", "S067", "C21")
    async def test_it_need_not_be_stored(self, store):
        """
        Without the stored names of what runs next and of what changed the same tasks are due, and
        a run ends as it would have.
        """

        def without(row: CheckpointRow) -> CheckpointRow:
            record = replace(decode_record(row.record), updated_channels=None)
            return replace(row, next="[]", record=encode_record(record))

        async with Changing(store.saver(), without) as saver:
            oracle = Oracle()
            builder = FAN_OUT.build(oracle)
            graph = builder.compile(checkpointer=saver, interrupt_before=["work", "gather"])
            await graph.ainvoke(INPUT, CONFIG)
            nexts = [(await graph.aget_state(CONFIG)).next]
            for _ in range(2):
                result = await graph.ainvoke(None, CONFIG)
                nexts.append((await graph.aget_state(CONFIG)).next)
            (found,) = await saver.query([ListCheckpoints("thread", bare=True)])

        assert {stored.row.next for stored in found} == {"[]"}
        assert nexts == [("work",) * 3, ("gather",), ()]
        assert result["log"] == [*FAN_OUT.log]


class TestOldRecords:
    @pytest.mark.promise("S069", "S070")
    @pytest.mark.langgraph("F-A20")
    async def test_a_record_of_each_format_loads_and_goes_on(self, store):
        """
        A record of format 1, 2, 3 or 4 is read as one of today, stays as it is stored, and what
        comes after it is written in the current format.
        """
        for version in ALL:
            async with Changing(store.again(), _with_record(text_of(version))) as saver:
                waits = ab(saver, interrupt_before=["b"])
                await waits.ainvoke({"foo": "x", "bar": ["1"]}, at(f"v{version}"))
        async with store.again() as saver:
            graph = ab(saver)
            for version in ALL:
                thread = at(f"v{version}")
                before = await records(saver, f"v{version}")
                assert json.loads(before[2])["v"] == version
                state = await graph.aget_state(thread)
                assert (state.values, state.next) == ({"foo": "a", "bar": ["1", "a"]}, ("b",))
                assert (await saver.aget_tuple(thread)).checkpoint["v"] == 4
                result = await graph.ainvoke(None, thread)
                again = await graph.ainvoke({"bar": ["2"]}, thread)
                after = await records(saver, f"v{version}")

                assert result == {"foo": "b", "bar": ["1", "a", "b"]}
                assert again["bar"] == ["1", "a", "b", "2", "a", "b"]
                assert after[:3] == before
                assert {json.loads(record)["v"] for record in after[3:]} == {4}

    @pytest.mark.promise("S070", "T37")
    async def test_an_unknown_format_is_refused(self, store):
        """
        A record of a format that isn't known yet, or never was, is an error that names both
        formats; nothing is written.
        """
        unknown = [-1, 0, 7, 99]
        for version in unknown:
            text = json.dumps({**json.loads(text_of(4)), "v": version})
            async with Changing(store.again(), _with_record(text)) as saver:
                waits = ab(saver, interrupt_before=["b"])
                await waits.ainvoke({"foo": "x", "bar": ["1"]}, at(f"v{version}"))
        async with store.again() as saver:
            for version in unknown:
                thread, named = at(f"v{version}"), f"format {version}; this version reads 1 to 6"
                with pytest.raises(FormatVersionError, match=named):
                    await ab(saver).ainvoke(None, thread)
                with pytest.raises(FormatVersionError):
                    await ab(saver).aget_state(thread)

                left = await records(saver, f"v{version}")
                assert [json.loads(record)["v"] for record in left] == [4, 4, version]


def _with_record(text: str) -> Callable[[CheckpointRow], CheckpointRow]:
    return lambda row: replace(row, record=text) if row.step == 1 else row
