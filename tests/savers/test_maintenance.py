"""Operating every saver: listings without values, counts, sizes, retention, vacuum, backups."""

import random
import sqlite3
import string
from datetime import timedelta
from pathlib import Path

import pytest

from actorgraph import ActorSystem, InMemorySaver, InvalidConfigError, SqliteSaver
from actorgraph.errors import NotSupportedError, StorageBusyError, StorageError
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.savers.thread_facts import facts_of
from actorgraph.values.ids import as_text, ticks_of, uuid6
from actorgraph.values.thread_rows import FindThreads, PutThread
from tests.savers.test_langgraph_methods import checkpoint, metadata
from tests.savers.test_removals import Folded, meanwhile
from tests.savers.test_thread_operations import asking
from tests.support.gates import Turnstile
from tests.support.graphs import ab, at, chain, compiled, history, in_a_row, writer
from tests.support.stored_bytes import KINDS, bytes_of

pytestmark = pytest.mark.every_saver

HOUR_S = 3600.0
CANARY = "5ecre7-va1ue"


async def put_old(saver, thread: str, age_s: float, step: int = 0, **place) -> None:
    """Store a checkpoint that was made some time ago."""
    ticks = ticks_of(IDS.checkpoint(step, None)) - int(age_s * 10_000_000)
    point = checkpoint(step, version=step + 10) | {"id": as_text(uuid6(ticks, step, 1))}
    await saver.aput(at(thread, **place), point, metadata(step), point["channel_versions"])


@pytest.mark.every_loop
class TestListings:
    @pytest.mark.promise("S110", "C3")
    async def test_metadata_in_the_order_of_storing(self, saver):
        """
        Every checkpoint of all namespaces is listed as it was stored, or newest first.
        """
        graph = asking(saver)
        await graph.ainvoke({"foo": "x"}, at() | {"metadata": {"user": "ada"}})

        found = await saver.alist_metadata("t")
        root = await saver.alist_metadata("t", checkpoint_ns="", order="newest", limit=2)
        points = [p async for p in saver.alist(at(checkpoint_ns=""))]

        assert [s.sequence for s in found] == sorted(s.sequence for s in found)
        assert len(found) == await saver.acount("t") == 6
        assert [s.source for s in found][:2] == ["input", "loop"]
        assert {s.metadata["user"] for s in found} == {"ada"}
        assert [s.checkpoint_id for s in root] == [p.checkpoint["id"] for p in points[:2]]
        assert [s.config for s in root] == [p.config for p in points[:2]]
        assert [s.next for s in root] == [("inner",), ("a",)]
        assert root[0].parent_id == root[1].checkpoint_id

    @pytest.mark.promise("S018", "S020", "S097", "S211")
    async def test_no_value_is_decoded(self, saver, monkeypatch):
        """
        A listing of metadata and a count read no values.
        """
        await ab(saver).ainvoke({"foo": "x"}, at())
        monkeypatch.setattr(saver.codec, "decode", None)

        assert len(await saver.alist_metadata("t")) == await saver.acount("t") == 4
        assert await saver.acount("t", checkpoint_ns="other") == await saver.acount("u") == 0

    async def test_an_unknown_order_is_refused(self, saver):
        """
        It is refused with the names of the two there are.
        """
        with pytest.raises(InvalidConfigError, match="insertion, newest"):
            await saver.alist_metadata("t", order="oldest")

    @pytest.mark.promise("S200")
    async def test_the_size_of_a_checkpoint(self, store, saver):
        """
        A checkpoint's bytes grow with its values.
        """
        graph = ab(saver)
        await graph.ainvoke({"bar": ["x"]}, at("small"))
        text = "".join(random.Random(1).choices(string.ascii_letters, k=10_000))
        await graph.ainvoke({"bar": [text]}, at("large"))
        small, large = [await saver.acheckpoint_bytes(at(t)) for t in ("small", "large")]

        assert 100 < small < 1000
        least = 7_000 if store.kind == "postgres" else 9_999  # PostgreSQL's are compressed
        assert least <= large - small < 10_020
        assert await saver.acheckpoint_bytes(at("unknown")) == 0

    @pytest.mark.promise("S189")
    def test_blocking_twins(self, store, tmp_path):
        """
        Each operation does the same without a loop.
        """
        with store.saver() as saver:
            ab(saver).invoke({"foo": "x"}, at())
            found = (saver.count("t"), len(saver.list_metadata("t")))
            size = saver.checkpoint_bytes(at())
            saver.backup(tmp_path / "copy")
            removed = saver.retention(0.0, 0)
            freed = saver.vacuum()

        assert (found, removed, freed) == ((4, 4), 4, 0)
        assert size > 0


@pytest.mark.every_loop
class TestRetention:
    @pytest.mark.promise("S198", "S209")
    async def test_old_ones_go(self, saver):
        """
        Older checkpoints go, in every thread, but for the newest; threads idle for that long may go
        altogether.
        """
        for step in range(3):
            await put_old(saver, "idle", 9 * HOUR_S - step, step)
            await put_old(saver, "busy", 9 * HOUR_S - step, step)
        await put_old(saver, "busy", 0, 3)
        await put_old(saver, "busy", 9 * HOUR_S, 4, checkpoint_ns="memory")

        first = await saver.aretention(timedelta(hours=10))
        second = await saver.aretention(8 * HOUR_S, keep_last=2)
        counts = [await saver.acount(t) for t in ("idle", "busy")]
        third = await saver.aretention(8 * HOUR_S, keep_last=0)

        assert (first, second, counts) == (0, 3, [2, 3])
        assert third == 3
        assert await saver.alist_threads() == ["busy"]
        assert await saver.acount("busy", checkpoint_ns="memory") == 1

    async def test_a_thread_goes_on(self, saver):
        """
        A thread of which only the newest checkpoint is left goes on as it would have.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({"foo": "x"}, at())
        before = await graph.aget_state(at())

        assert await saver.aretention(0) == 4
        assert (await graph.aget_state(at())).values == before.values
        assert (await graph.ainvoke({"foo": "y"}, at()))["bar"] == [*"abcabc"]

    async def test_a_run_that_goes_on(self, saver):
        """
        A run under which everything old goes ends as it would have.
        """
        slow = Turnstile({"bar": ["slow"]})
        graph = in_a_row({"a": writer("a"), "slow": slow, "b": writer("b")}, checkpointer=saver)

        async def expire() -> None:
            assert await saver.aretention(0) == 2

        await meanwhile(graph, slow, expire, {"foo": "x"}, durability="sync")

        assert (await graph.aget_state(at())).values["bar"] == ["a", "slow", "b"]

    @pytest.mark.parametrize(("age", "keep"), [(-1, 1), (1, -1), (float("nan"), 1), (1, True)])
    async def test_numbers_out_of_range(self, saver, age, keep):
        """
        A negative time or number is refused.
        """
        with pytest.raises(InvalidConfigError):
            await saver.aretention(age, keep)


@pytest.mark.every_loop
class TestMaterializing:
    def graph(self, saver, *names):
        return in_a_row(
            {name: lambda _, name=name: {"log": [name]} for name in names},
            schema=Folded,
            checkpointer=saver,
        )

    @pytest.mark.promise("S122", "S124", "C2")
    async def test_one_checkpoint_is_left(self, saver):
        """
        With its graph a prune leaves one checkpoint of a thread whose values are folded from
        several, and it says the same.
        """
        graph = self.graph(saver, *"abc")
        await graph.ainvoke({"log": ["in"]}, at())
        await saver.acopy_thread("t", "u")
        before = await graph.aget_state(at())

        await saver.aprune(["t"], materialize=graph)
        await saver.aprune(["u"])

        assert await saver.acount("t") == 1 < await saver.acount("u")
        after = await graph.aget_state(at())
        assert (after.values, after.next, after.metadata["step"]) == (
            before.values,
            before.next,
            before.metadata["step"],
        )
        assert (await graph.ainvoke({"log": ["x"]}, at()))["log"] == [*("in", *"abc", "x", *"abc")]
        assert (await saver.aget_tuple(at())).checkpoint["channel_versions"]

    async def test_a_waiting_graph_inside(self, saver):
        """
        The checkpoints of a nested graph that waits are made whole too.
        """
        from actorgraph import START, Command, StateGraph, interrupt

        inner = StateGraph(Folded)
        inner.add_node("one", lambda _: {"log": ["one"]})
        inner.add_node("ask", lambda _: {"log": [interrupt("?")]})
        inner.add_edge(START, "one").add_edge("one", "ask")
        outer = StateGraph(Folded).add_node("first", lambda _: {"log": ["first"]})
        outer.add_node("inner", inner.compile())
        outer.add_edge(START, "first").add_edge("first", "inner")
        graph = outer.compile(checkpointer=saver)
        await graph.ainvoke({"log": ["in"]}, at("t"))
        await saver.acopy_thread("t", "u")

        await saver.aprune(["t"], materialize=graph)
        expected = await graph.ainvoke(Command(resume="!"), at("u"))

        assert await saver.acount("t") == 2
        assert await graph.ainvoke(Command(resume="!"), at("t")) == expected

    async def test_only_a_graph_can(self, saver):
        """
        Anything else is refused: a saver knows no reducers.
        """
        with pytest.raises(InvalidConfigError, match="pass the graph"):
            await saver.aprune(["t"], materialize=True)


class TestVacuum:
    @pytest.mark.promise("S209")
    @pytest.mark.parametrize("store", KINDS, indirect=True)
    @pytest.mark.parametrize("how", ["delete", "retention", "run", "checkpoints"])
    async def test_nothing_deleted_is_left_on_the_disk(self, store, how):
        """
        After a vacuum the files have none of a deleted thread's bytes, its id neither; other
        threads are as they were.
        """
        secret = CANARY
        async with store.saver() as saver:
            graph = ab(saver)
            await graph.ainvoke({"foo": secret, "bar": [secret] * 3}, at(f"of-{secret}"))
            await graph.ainvoke({"foo": "x"}, at("other"))
            before = await history(graph, at("other"))
            (point, *_) = points = await saver.alist_metadata(f"of-{secret}")
            assert secret.encode() in bytes_of(store, logged=False)
            if how == "delete":
                await saver.adelete_thread(f"of-{secret}")
            elif how == "run":
                await saver.adelete_for_runs([point.run_id])
            elif how == "checkpoints":
                ids = [p.checkpoint_id for p in points]
                await saver.adelete_checkpoints(f"of-{secret}", ids)
            else:
                assert await saver.aretention(0, 0) == 8
            await saver.avacuum()
            assert secret.encode() not in bytes_of(store, logged=False)
            if how != "retention":
                assert await history(graph, at("other")) == before

    @pytest.mark.promise("S209")
    @pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
    async def test_the_index_of_threads_keeps_nothing_deleted(self, store):
        """
        After searches, too: of a deleted thread, of the values of a deleted checkpoint, and of a
        registered thread all but its registration is gone; other threads are found as before.
        """
        async with store.saver() as saver:
            graph = ab(saver)
            async with ActorSystem({"g": graph}, saver=saver) as system:
                await host_of(saver).writer.store(PutThread("known", 1, '{"user": "ada"}'))
                for thread in (f"of-{CANARY}", "known", "kept", "other"):
                    given = "x" if thread == "other" else CANARY
                    await graph.ainvoke({"bar": [given]}, at(thread))
                secret = {"bar": [CANARY, "a", "b"]}
                assert len(await system.threads(values=secret)) == 3
                for thread in (f"of-{CANARY}", "known"):
                    await saver.adelete_thread(thread)
                points = await saver.alist_metadata("kept")
                await saver.adelete_checkpoints("kept", [p.checkpoint_id for p in points[-3:]])
                await saver.avacuum()
                index = await host_of(saver).reader.ask(FindThreads())

                assert sorted(row.thread_id for row in index) == ["kept", "known", "other"]
                assert (
                    await host_of(saver).reader.ask(FindThreads(facts=facts_of("v", secret))) == []
                )
                assert await found(system, metadata={"user": "ada"}, status="idle") == ["known"]
                assert await found(system, values={"bar": ["x", "a", "b"]}) == ["other"]
                await saver.adelete_thread("kept")
                await saver.avacuum()
                assert CANARY.encode() not in bytes_of(store, logged=False)
                assert await found(system) == ["known", "other"]

    @pytest.mark.promise("S209")
    async def test_a_reader_that_holds_the_log(self, tmp_path):
        """
        While another process reads an older state the file can't be rid of it: that is an error,
        and works later.
        """
        path, secret = tmp_path / "runs.db", "5ecre7-va1ue"
        async with SqliteSaver(path, busy_timeout_s=0) as saver:
            await ab(saver).ainvoke({"foo": secret}, at())
            reader = sqlite3.connect(path, isolation_level=None)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM checkpoints").fetchone()
            await saver.adelete_thread("t")
            with pytest.raises(StorageBusyError):
                await saver.avacuum()
            reader.close()
            await saver.avacuum()

            assert secret.encode() not in _bytes(tmp_path)

    @pytest.mark.every_loop
    async def test_it_frees_what_nothing_names(self, saver):
        """
        Writes beside checkpoints that don't exist are freed, and counted; nothing live is.
        """
        graph = asking(saver)
        await graph.ainvoke({"foo": "x"}, at())
        lost = at(checkpoint_id="1f000000-0000-6000-8000-000000000000")
        await saver.aput_writes(lost, [("foo", 1)], "1f000000-0000-6000-8000-000000000001")
        before = [p async for p in saver.alist(at())]

        assert [await saver.avacuum(), await saver.avacuum()] == [1, 0]
        assert [p async for p in saver.alist(at())] == before

    @pytest.mark.every_loop
    async def test_while_a_run_goes_on(self, saver):
        """
        A run under which a vacuum comes ends as it would have.
        """
        slow = Turnstile({"bar": ["slow"]})
        graph = compiled({"slow": slow}, [("__start__", "slow")], checkpointer=saver)

        await meanwhile(graph, slow, saver.avacuum, {"foo": "x"})

        assert (await graph.aget_state(at())).values["bar"] == ["slow"]


class TestBackup:
    @pytest.mark.every_loop
    async def test_invalid_backup_paths_are_refused(self, store, tmp_path):
        """
        A path where something is, and a folder that doesn't exist; nothing is left behind.
        """
        (tmp_path / "there").write_text("mine")
        async with store.saver() as saver:
            await ab(saver).ainvoke({}, at())
            before = sorted(tmp_path.iterdir())
            with pytest.raises(InvalidConfigError, match="already"):
                await saver.abackup(tmp_path / "there")
            with pytest.raises(StorageError, match="no-folder"):
                await saver.abackup(tmp_path / "no-folder" / "x.db")
            assert sorted(tmp_path.iterdir()) == before

        assert (tmp_path / "there").read_text() == "mine"

    async def test_arbitrary_objects_are_not_data(self, tmp_path):
        """
        A saver that keeps objects says that it can't store them.
        """
        with pytest.raises(NotSupportedError, match="copy='none'"):
            await InMemorySaver(copy="none").abackup(tmp_path / "x.db")


async def found(system: ActorSystem, **wanted) -> list[str]:
    """The ids of the threads that a search finds."""
    return sorted([thread.thread_id for thread in await system.threads(**wanted)])


def _bytes(folder: Path) -> bytes:
    """Everything in a folder's files."""
    return b"".join(path.read_bytes() for path in folder.iterdir())
