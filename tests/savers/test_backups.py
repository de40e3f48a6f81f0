"""Backups of every saver, made while runs write: whole, readable, and gone on with."""

import sqlite3
import stat
from contextlib import closing

import anyio
import pytest

from actorgraph import END, START, ActorSystem, Codec, Command, JsonlSaver, SqliteSaver, StateGraph
from actorgraph.errors import (
    EncryptionError,
    InvalidConfigError,
    StorageBusyError,
    StorageError,
)
from actorgraph.savers.jsonl.files import Files
from actorgraph.storage.part_files import locked_part
from tests.savers.test_removals import Folded, meanwhile
from tests.savers.test_thread_operations import asking
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import ab, at, history, in_a_row, writer

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


def opened(store, path, **options):
    """A saver over a backup of a store."""
    return (JsonlSaver if store.kind == "jsonl" else SqliteSaver)(path, **options)


async def told(graph, thread: str):
    """A thread's history and its ledger."""
    return await history(graph, at(thread))


def folding(saver):
    """A graph with a DeltaChannel."""
    builder = StateGraph(Folded)
    builder.add_sequence([(f"n{n}", lambda _, n=n: {"log": [n]}) for n in range(8)])
    return builder.add_edge(START, "n0").add_edge("n7", END).compile(checkpointer=saver)


class TestBackup:
    @pytest.mark.promise("S205")
    async def test_everything_of_a_thread(self, store, tmp_path):
        """
        A backup has each thread's history, lists, questions, namespaces and metadata, and the
        thread goes on from there.
        """
        async with store.saver() as saver:
            question = asking(saver)
            await question.ainvoke({"foo": "x"}, at("asks"))
            for _ in range(6):
                await ab(saver).ainvoke({"bar": ["x"] * 40}, {**at("long"), "metadata": {"k": 1}})
            await ab(saver).ainvoke({}, at("gone"))
            await saver.adelete_thread("gone")
            await saver.abackup(tmp_path / "copy")
            before = [await told(question, "asks"), await told(ab(saver), "long")]
            listed = [await saver.alist_metadata(t) for t in ("asks", "long")]
            await ab(saver).ainvoke({}, at("later"))
        async with opened(store, tmp_path / "copy") as copy:
            assert await copy.alist_threads() == ["asks", "long"]
            assert [await told(asking(copy), "asks"), await told(ab(copy), "long")] == before
            assert [await copy.alist_metadata(t) for t in ("asks", "long")] == listed
            await asking(copy).ainvoke(Command(resume="yes"), at("asks"))
            again = await ab(copy).ainvoke({"bar": ["y"]}, at("long"))

        assert again["bar"][-3:] == ["y", "a", "b"]

    @pytest.mark.promise("S205")
    async def test_while_a_run_writes(self, store, tmp_path):
        """
        A backup that is made in the middle of a run, while others write, is whole, and that run
        is gone on with from it.
        """
        slow = Turnstile({"bar": ["slow"]})
        nodes = {"a": writer("a"), "slow": slow, "b": writer("b")}
        async with store.saver() as saver, anyio.create_task_group() as group:
            graph, other = in_a_row(nodes, checkpointer=saver), ab(saver)

            async def busy() -> None:
                while not slow.out.is_set():
                    await other.ainvoke({"foo": "x"}, at("busy"))

            async def back_up() -> None:
                await other.ainvoke({"foo": "x"}, at("busy"))
                group.start_soon(busy)
                await saver.abackup(tmp_path / "copy")

            with anyio.fail_after(PATIENCE_S):
                await meanwhile(graph, slow, back_up, {"foo": "x"}, durability="sync")
        if store.kind != "jsonl":
            with closing(sqlite3.connect(tmp_path / "copy")) as db:
                assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        async with opened(store, tmp_path / "copy") as copy:
            graph = in_a_row(nodes, checkpointer=copy)
            assert (await graph.aget_state(at())).next == ("slow",)
            assert (await graph.ainvoke(None, at()))["bar"] == ["a", "slow", "b"]
            points = await history(ab(copy), at("busy"))

        assert [p.metadata["step"] for p in points] == [*range(len(points) - 2, -2, -1)]

    @pytest.mark.promise("S205")
    async def test_it_is_for_its_owner_only(self, store, tmp_path):
        """
        Only the owner may read a backup.
        """
        async with store.saver() as saver:
            await ab(saver).ainvoke({}, at())
            await saver.abackup(tmp_path / "copy")
        made = [tmp_path / "copy", *(tmp_path / "copy").glob("*")]

        assert [oct(p.stat().st_mode & 0o077) for p in made] == ["0o0"] * len(made)
        assert (tmp_path / "copy").is_dir() is (store.kind == "jsonl")
        assert not stat.S_ISLNK((tmp_path / "copy").lstat().st_mode)

    async def test_encrypted_values_stay_encrypted(self, store, tmp_path):
        """
        A backup is read with the keys of the store, and with no others.
        """
        pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")
        codec = Codec(keys={"k": b"1" * 32})
        async with store.saver() as saver:
            saver.codec = codec.in_form("json" if store.kind == "jsonl" else "msgpack")
            await ab(saver).ainvoke({"foo": "x"}, at())
            await saver.abackup(tmp_path / "copy")
        async with opened(store, tmp_path / "copy") as copy:
            with pytest.raises(EncryptionError, match="encrypted"):
                await ab(copy).aget_state(at())
        async with opened(store, tmp_path / "copy", codec=codec) as copy:
            assert (await ab(copy).aget_state(at())).values["foo"] == "b"

    async def test_runs_of_systems(self, store, tmp_path):
        """
        The runs of a system and their events are in the backup, without an owner.
        """
        if not getattr(store.saver(), "keeps_runs", False):
            pytest.skip("it keeps no runs")
        async with (
            store.saver() as saver,
            ActorSystem({"g": ab(saver)}, saver=saver) as system,
        ):
            run = await system.start("g", "t", {}, resumable=True)
            await run.wait()
            events = [event async for event in run.events()]
            await saver.abackup(tmp_path / "copy")
        async with (
            opened(store, tmp_path / "copy") as copy,
            ActorSystem({"g": ab(copy)}, saver=copy) as system,
        ):
            found = await system.run(run.id)
            assert found.status == "success"
            assert [event async for event in found.events()] == events

    async def test_delta_channels(self, store, tmp_path):
        """
        Values that are folded from their ancestors are folded from the backup's.
        """
        async with store.saver() as saver:
            graph = folding(saver)
            for _ in range(2):
                await graph.ainvoke({"log": ["in"]}, at())
            await saver.abackup(tmp_path / "copy")
            before = await history(graph, at())
        async with opened(store, tmp_path / "copy") as copy:
            assert await history(folding(copy), at()) == before


class Full(Files):
    """A disk that is full after some writes."""

    left = 10**9

    def write(self, descriptor, data, offset):
        self.left -= len(data)
        if self.left < 0:
            raise OSError(28, "No space left on device")
        super().write(descriptor, data, offset)


async def test_a_full_disk_leaves_nothing(tmp_path):
    """
    A backup of files that doesn't fit is an error, and nothing of it is left; the store goes on.
    """
    async with JsonlSaver(tmp_path / "threads") as saver:
        await ab(saver).ainvoke({}, at())
        saver._files = full = Full()  # noqa: SLF001 - the file system is what the test has
        full.left = 100
        with pytest.raises(StorageError, match="copy"):
            await saver.abackup(tmp_path / "copy")
        full.left = 10**9
        await ab(saver).ainvoke({}, at("again"))

    assert [path.name for path in tmp_path.iterdir()] == ["threads"]


async def test_no_copy_inside_of_the_folder(tmp_path):
    """
    A folder is not copied into itself.
    """
    async with JsonlSaver(tmp_path / "threads") as saver:
        with pytest.raises(InvalidConfigError, match="inside"):
            await saver.abackup(tmp_path / "threads" / "copy")


class TestParts:
    async def test_a_killed_backup_is_made_anew(self, store, tmp_path):
        """
        A part that a killed process has left, whole tables or files of another state in it, is
        emptied: the next backup is made at once, and has this state alone.
        """
        folder, copy = store.kind == "jsonl", tmp_path / "copy"
        async with store.saver() as saver:
            await ab(saver).ainvoke({}, at("gone"))
            await saver.abackup(copy)
            copy.rename(tmp_path / "copy.part")
            await saver.adelete_thread("gone")
            await ab(saver).ainvoke({}, at("there"))
            await saver.abackup(copy)
        async with opened(store, copy) as found:
            assert await found.alist_threads() == ["there"]
        assert copy.is_dir() == folder
        assert not (tmp_path / "copy.part").exists()

    async def test_one_backup_at_a_time_is_made_in_one_place(self, store, tmp_path):
        """
        A second one that begins meanwhile is refused, and the first is whole.
        """
        copy = tmp_path / "copy"
        async with store.saver() as saver:
            await ab(saver).ainvoke({}, at("there"))
            first = locked_part(str(copy), folder=store.kind == "jsonl")
            with first, pytest.raises(StorageBusyError, match="copy"):
                await saver.abackup(copy)
            await saver.abackup(copy)
        async with opened(store, copy) as found:
            assert await found.alist_threads() == ["there"]
