"""The files in a folder of JSON lines."""

import json
import os
import tracemalloc
from functools import partial

import anyio
import pytest
from msgspec.structs import replace

from actorgraph import Codec, InMemorySaver, JsonlSaver, SerializationError, StorageError
from actorgraph.errors import InvalidConfigError, StorageBusyError
from actorgraph.savers.jsonl.files import file_name
from actorgraph.values.commits import BlobRow, Commit, Committed, ListCheckpoints
from actorgraph.values.ids import as_text
from tests.savers.jsonl_folders import Direct, rows
from tests.savers.test_contract import ident, point
from tests.support.graphs import ab, at
from tests.support.warm_processes import run

IDS = [
    *("../x", "a/b", "Ünï", "%41", "A", "a", "", ".", "..", "CON", "con", "Alice", "alice"),
    *(
        "x" * 300,
        "x" * 301,
        "漢" * 100,
        "a.writes",
        "a\nb",
        "a\r",
        "/etc/passwd",
        "\x00",
        "%",
        "%%",
    ),
]


def checkpoint(number, **values):
    """A checkpoint in LangGraph's shape."""
    return {
        "v": 4,
        "id": as_text(ident(number)),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, number),
        "versions_seen": {},
        "updated_channels": None,
    }


async def puts(saver, count, thread="t", first=1, **values):
    """Checkpoints, each the parent of the next."""
    config = at(thread, checkpoint_ns="")
    for number in range(first, first + count):
        made = checkpoint(number, **(values or {"x": number}))
        config = await saver.aput(config, made, {"source": "loop", "step": number}, {})
    return config


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "threads"


class TestLines:
    @pytest.mark.promise("S086", "S087")
    async def test_a_save_is_a_line_and_nothing_before_it_changes(self, folder):
        """
        Each put adds one line behind what is there, in the same file.
        """
        path = folder / "t.jsonl"
        before, inodes = b"", set()
        async with JsonlSaver(folder) as saver:
            for number in range(1, 6):
                await puts(saver, 1, first=number)
                now = path.read_bytes()
                inodes.add(path.stat().st_ino)
                assert now.startswith(before)
                assert now.count(b"\n") == number
                before = now

        assert len(inodes) == 1
        assert [json.loads(line)["checkpoints"][0]["sequence"] for line in before.splitlines()] == [
            *range(1, 6)
        ]

    @pytest.mark.promise("C23")
    async def test_other_programs_read_the_values(self, folder):
        """
        A line is a JSON object with its values as JSON, and ends with its checksum.
        """
        async with JsonlSaver(folder) as saver:
            await ab(saver).ainvoke({"foo": "hi", "bar": ["ä"]}, at())
        lines = [json.loads(line) for line in (folder / "t.jsonl").read_text().splitlines()]

        assert {line["thread_id"] for line in lines} == {"t"}
        assert [line["line"] for line in lines] == [*range(1, len(lines) + 1)]
        assert all(list(line)[-1] == "crc" for line in lines)
        parts = [part["items"] for line in lines for part in line.get("lists", ())]
        assert [item for items in parts for item in items] == [["ä"], ["a"], ["b"]]
        last = next(line for line in reversed(lines) if "checkpoints" in line)
        assert last["checkpoints"][0]["record"]["channel_versions"].keys() >= {"foo", "bar"}
        foo = [
            v["value"] for line in lines for v in line.get("values", ()) if v["channel"] == "foo"
        ]
        assert foo == ["hi", "a", "b"]

    async def test_the_files_are_the_owners(self, folder):
        """
        The folder has mode 0700, its files 0600.
        """
        async with JsonlSaver(folder) as saver:
            await puts(saver, 1)

        assert oct(folder.stat().st_mode)[-3:] == "700"
        assert {oct(path.stat().st_mode)[-3:] for path in folder.iterdir()} == {"600"}

    @pytest.mark.promise("S085")
    def test_it_outlives_its_process(self, folder):
        """
        Rows stored by a process are there after it is gone at once.
        """
        program = """
import os, sys
from actorgraph import JsonlSaver
from tests.support.graphs import ab, at
ab(JsonlSaver(sys.argv[1])).invoke({"foo": "hi", "bar": []}, at())
os._exit(0)
"""
        run(["-c", program, folder], check=True)

        with JsonlSaver(folder) as saver:
            assert ab(saver).get_state(at()).values == {"foo": "b", "bar": ["a", "b"]}

    @pytest.mark.promise("S093")
    async def test_a_value_that_is_not_data_is_named(self, folder):
        """
        A value that can't be stored is an error with its channel, and nothing is written; a saver
        in memory refuses it too, unless it is set to copy nothing.
        """
        for saver in (JsonlSaver(folder), InMemorySaver()):
            async with saver:
                with pytest.raises(SerializationError, match="'x'"):
                    await puts(saver, 1, x=lambda: 0)

        assert not (folder / "t.jsonl").exists()
        kept = lambda: 0  # noqa: E731
        async with InMemorySaver(copy="none") as saver:
            await puts(saver, 1, x=kept)
            found = await saver.aget_tuple(at())
        assert found.checkpoint["channel_values"]["x"] is kept

    async def test_encrypted_values_are_in_no_file(self, folder):
        """
        With keys the lines have no text of a value.
        """
        pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")
        async with JsonlSaver(folder, codec=Codec(keys={"k": b"k" * 32})) as saver:
            await ab(saver).ainvoke({"foo": "SECRET", "bar": ["SECRET"]}, at())
            assert (await ab(saver).aget_state(at())).values["bar"] == ["SECRET", "a", "b"]

        assert "SECRET" not in (folder / "t.jsonl").read_text()


class TestReading:
    @pytest.mark.promise("S088")
    def test_a_large_file_is_read_in_little_memory(self, folder):
        """
        Listing a file of 200 MB, and loading from it, takes less than 20 MB.
        """
        text = b'"' + b"x" * 1_000_000 + b'"'
        with Direct(folder) as direct:
            for number in range(1, 201):
                blobs = (BlobRow("x", number, text),)
                row = replace(point(number, number - 1 or None, run=None), blobs=blobs)
                direct.commit(Commit("t", "", None, 0, 0, None, checkpoints=(row,)))
        assert (folder / "t.jsonl").stat().st_size > 200_000_000

        tracemalloc.start()
        try:
            with Direct(folder) as direct:
                assert rows(direct.ask(ListCheckpoints("t", bare=True))) == [*range(200, 0, -1)]
                found = direct.ask(ListCheckpoints("t", limit=2))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert [c.blobs["x"] for c in found] == [text, text]
        assert peak < 20_000_000

    async def test_every_way_to_read_shows_pending_writes(self, folder):
        """
        `get_tuple` and `list` show the same pending writes.
        """
        async with JsonlSaver(folder) as saver:
            config = await puts(saver, 2)
            await saver.aput_writes(config, [("x", (1, b"2"))], as_text(b"t" * 16))
            (listed,) = [found async for found in saver.alist(at(), limit=1)]
            loaded = await saver.aget_tuple(at())

        assert listed == loaded
        assert loaded.pending_writes == [(as_text(b"t" * 16), "x", (1, b"2"))]


class TestNames:
    @pytest.mark.promise("S091", "T31", "D4")
    def test_each_id_has_a_file_of_its_own_inside_the_folder(self, folder):
        """
        Under any name of a thread, its file is in the folder and no other thread's, also
        where names differ in case alone.
        """
        outside = set(folder.parent.iterdir())
        with Direct(folder) as direct:
            for number, thread_id in enumerate(IDS, 1):
                row = point(number, run=None)
                commit = Commit(thread_id, "", None, 0, 0, None, checkpoints=(row,))
                assert isinstance(direct.commit(commit)[0], Committed)
        with Direct(folder) as direct:
            found = [rows(direct.ask(ListCheckpoints(thread_id))) for thread_id in IDS]
            assert sorted(direct.folder.threads()) == sorted(IDS)

        assert found == [[number] for number in range(1, len(IDS) + 1)]
        assert set(folder.parent.iterdir()) == outside | {folder}
        names = [path.name for path in folder.glob("*.jsonl")]
        assert len({name.lower() for name in names}) == len(IDS)
        assert max(map(len, names)) < 200

    def test_plain_ids_are_plain_names(self):
        """
        An id of letters, digits and dashes can be found in the folder by eye.
        """
        names = [file_name(thread_id) for thread_id in ("user-7", "a.b", "Bob", "con", "..")]
        assert names == [
            "user-7.jsonl",
            "a%2eb.jsonl",
            "%42ob.jsonl",
            "%63on.jsonl",
            "%2e%2e.jsonl",
        ]

    @pytest.mark.promise("S092")
    async def test_the_lines_say_whose_a_file_is(self, folder):
        """
        Threads are listed by what their lines say; files that hold no thread are passed over.
        """
        async with JsonlSaver(folder) as saver:
            await puts(saver, 1, "mine")
            await puts(saver, 1, "other")
        (folder / "mine.jsonl").rename(folder / "zzz.jsonl")
        (folder / "foreign.jsonl").write_text("{}\n")
        (folder / "torn.jsonl").write_bytes((folder / "other.jsonl").read_bytes()[:40])
        (folder / "notes.txt").write_text("notes")

        async with JsonlSaver(folder) as saver:
            assert await saver.alist_threads() == ["mine", "other"]

    async def test_a_file_of_another_thread_is_refused(self, folder):
        """
        A file under another thread's name is named as damaged, not read as that thread.
        """
        async with JsonlSaver(folder) as saver:
            await puts(saver, 1, "mine")
        (folder / "mine.jsonl").rename(folder / "yours.jsonl")

        async with JsonlSaver(folder) as saver:
            with pytest.raises(StorageError, match="belongs to thread 'mine'"):
                await saver.aget_tuple(at("yours"))


class TestRewriting:
    @pytest.mark.promise("S089")
    async def test_the_last_checkpoint_takes_the_file_along(self, folder):
        """
        A thread whose checkpoints are all removed has no file and is in no list.
        """
        async with JsonlSaver(folder) as saver:
            config = at(checkpoint_ns="")
            for number in (1, 2):
                await saver.aput(config, checkpoint(number, x=1), {"run_id": f"r{number}"}, {})
            assert await saver.adelete_by_run("t", "r1") == 1
            assert (folder / "t.jsonl").read_bytes().count(b"\n") == 1
            assert await saver.adelete_by_run("t", "r2") == 1
            assert not (folder / "t.jsonl").exists()
            assert await saver.alist_threads() == []

    @pytest.mark.promise("S090")
    async def test_a_copy_says_its_own_thread(self, folder):
        """
        Every line of a copy has the new thread's id; ids and parents are the same.
        """
        async with JsonlSaver(folder) as saver:
            await puts(saver, 3)
            await saver.acopy_thread("t", "copy")
        lines, copies = (
            [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
            for name in ("t", "copy")
        )

        assert {line["thread_id"] for line in copies} == {"copy"}
        assert [line["checkpoints"] for line in copies] == [line["checkpoints"] for line in lines]

    async def test_saves_and_removals_at_once_lose_nothing(self, folder):
        """
        A put that races a removal of older checkpoints is never lost.
        """
        async with JsonlSaver(folder) as saver:
            for turn in range(0, 200, 4):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(partial(puts, saver, 4, first=turn + 1))
                    tasks.start_soon(partial(saver.aprune, ["t"], strategy="keep_latest"))
                newest = await saver.aget_tuple(at())
                assert newest.checkpoint["channel_values"] == {"x": turn + 4}

    async def test_a_left_over_copy_is_cleared_away(self, folder):
        """
        The rest of a crashed rewrite is gone when the folder is opened, and was never read.
        """
        async with JsonlSaver(folder) as saver:
            await puts(saver, 2)
        (folder / ".t.jsonl.tmp").write_text("half")

        async with JsonlSaver(folder) as saver:
            assert (await saver.aget_tuple(at())).checkpoint["channel_values"] == {"x": 2}
        assert not list(folder.glob(".*.tmp"))


class TestLock:
    @pytest.mark.one_loop
    @pytest.mark.promise("C18")
    async def test_one_process_at_a_time(self, folder):
        """
        A second process gets an error that names the first; when that closes the folder, it may
        open it.
        """
        program = """
import sys
from actorgraph import JsonlSaver
from tests.support.graphs import at
with JsonlSaver(sys.argv[1]) as saver:
    print(saver.get_tuple(at()))
"""
        words = ["-c", program, folder]
        async with JsonlSaver(folder):
            refused = await anyio.to_thread.run_sync(run, words)
        admitted = await anyio.to_thread.run_sync(run, words)

        assert f"process {os.getpid()} has" in refused.stderr
        assert StorageBusyError.__name__ in refused.stderr
        assert (admitted.returncode, admitted.stdout) == (0, "None\n")

    async def test_savers_of_one_process_share_the_folder(self, folder):
        """
        Two open savers of a process see each other's saves, and the lock outlives the first.
        """
        async with JsonlSaver(folder) as first:
            async with JsonlSaver(folder) as second:
                await puts(first, 2)
                await puts(second, 1, first=3)
            assert (await first.aget_tuple(at())).checkpoint["channel_values"] == {"x": 3}

    def test_an_empty_path(self):
        """
        A saver without a folder's name is refused.
        """
        with pytest.raises(InvalidConfigError, match="empty"):
            JsonlSaver("")
