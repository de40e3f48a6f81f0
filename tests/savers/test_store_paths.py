"""Stores that aren't where or what they should be: typed errors that name them, nothing lost."""

import os
import shutil
import threading
from contextlib import suppress

import anyio
import pytest

from actorgraph import JsonlSaver, PostgresSaver, SqliteSaver
from actorgraph.errors import SaverBrokenError, StorageError
from tests.support.graphs import ab, at


async def use(saver):
    """Open a saver and run something."""
    async with saver:
        return await ab(saver).ainvoke({}, at())


@pytest.mark.parametrize(
    ("make", "culprit"),
    [
        (lambda p: SqliteSaver(p / "no" / "runs.db"), r"no/runs\.db"),
        (lambda p: SqliteSaver(p / "text"), "text"),
        (lambda p: JsonlSaver(p / "text"), "text"),
        (lambda p: JsonlSaver(p / "text" / "threads"), "text"),
    ],
)
async def test_unusable_paths_are_named(tmp_path, make, culprit):
    """
    A folder that isn't there, a file in the place of a folder, and another file are errors with
    the path, and stay as they were.
    """
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("mine" * 500)

    with pytest.raises(StorageError, match=culprit):
        await use(make(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "text"]
    assert (tmp_path / "text").read_text() == "mine" * 500


async def test_a_folder_that_is_not_there_is_made_for_files(tmp_path):
    """
    Files of JSON lines get their folder, whatever of its path is missing.
    """
    assert (await use(JsonlSaver(tmp_path / "a" / "b")))["bar"] == ["a", "b"]


class TestSqlite:
    def test_a_failed_open_leaves_no_thread(self, tmp_path, anyio_backend_name, monkeypatch):
        """
        When a database can't be opened its connection's thread has ended with the open, and looks
        for no event loop that has ended.
        """
        failed = []
        monkeypatch.setattr(threading, "excepthook", failed.append)
        before = set(threading.enumerate())

        def fails():
            with pytest.raises(StorageError, match="can't open"):
                anyio.run(use, SqliteSaver(tmp_path), backend=anyio_backend_name)

        for _ in range(5):
            fails()
        for thread in set(threading.enumerate()) - before:
            if "trio" not in thread.name.lower():
                thread.join(30)
                assert not thread.is_alive()
        assert not failed

    @pytest.mark.promise("B2", "B3")
    @pytest.mark.parametrize("how", ["removed", "replaced"])
    async def test_a_file_that_goes_while_it_is_open(self, tmp_path, how):
        """
        Commits to a database whose file was removed or replaced are not acknowledged: the error
        names it, and the other file is not touched.
        """
        path, other = tmp_path / "runs.db", tmp_path / "other.db"
        async with SqliteSaver(other) as saver:
            await ab(saver).ainvoke({}, at("theirs"))
        async with SqliteSaver(path) as saver:
            await ab(saver).ainvoke({}, at())
            if how == "removed":
                for file in tmp_path.glob("runs.db*"):
                    file.unlink()
            else:
                other.replace(path)
            for thread in ("t", "new"):
                with pytest.raises(SaverBrokenError, match=rf"runs\.db' was {how}"):
                    await ab(saver).ainvoke({}, at(thread))
        if how == "replaced":
            (tmp_path / "runs.db-wal").unlink(missing_ok=True)
            async with SqliteSaver(path) as saver:
                assert await saver.alist_threads() == ["theirs"]

    async def test_a_program_that_changes_its_folder(self, tmp_path, monkeypatch):
        """
        A path that is relative means what it meant when the saver was opened.
        """
        (tmp_path / "below").mkdir()
        monkeypatch.chdir(tmp_path)
        async with SqliteSaver("runs.db") as saver:
            await ab(saver).ainvoke({}, at())
            os.chdir("below")
            assert (await ab(saver).ainvoke({}, at()))["bar"] == ["a", "b"] * 2

    async def test_a_file_that_is_read_only(self, tmp_path):
        """
        Without the right to write the error says what to check, the state can be read, and the
        saver works again when it may write.
        """
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            await ab(saver).ainvoke({}, at())
            await saver._writer.run(lambda c: c.execute("PRAGMA query_only = ON"))  # noqa: SLF001
            with pytest.raises(StorageError, match="readonly") as found:
                await ab(saver).ainvoke({}, at())
            assert (await ab(saver).aget_state(at())).values["bar"] == ["a", "b"]
            await saver._writer.run(lambda c: c.execute("PRAGMA query_only = OFF"))  # noqa: SLF001
            again = await ab(saver).ainvoke({}, at())

        assert "permissions" in str(found.value)
        assert again["bar"] == ["a", "b"] * 2


def _shortened(folder):
    file = folder / "t.jsonl"
    (folder / "new").write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    (folder / "new").replace(file)


def _other(folder):
    file = folder / "t.jsonl"
    (folder / "new").write_bytes(b"x" * file.stat().st_size)
    (folder / "new").replace(file)


HARMS = {
    "removed": lambda folder: (folder / "t.jsonl").unlink(),
    "shorter": _shortened,
    "another": _other,
    "no folder": shutil.rmtree,
}


@pytest.mark.promise("B2", "B3")
@pytest.mark.parametrize("harm", HARMS)
async def test_a_file_of_lines_that_changes_while_it_is_open(tmp_path, harm):
    """
    A thread's file that was removed, cut, or replaced under an open saver is an error with its
    path; nothing is written to it.
    """
    folder = tmp_path / "threads"
    with suppress(FileNotFoundError):  # the saver's lock went with its folder
        async with JsonlSaver(folder) as saver:
            await ab(saver).ainvoke({}, at())
            HARMS[harm](folder)
            left = (folder / "t.jsonl").read_bytes() if (folder / "t.jsonl").exists() else None
            for _ in range(2):
                with pytest.raises(StorageError, match="threads"):
                    await ab(saver).ainvoke({}, at())
            with pytest.raises(StorageError, match="threads"):
                await ab(saver).aget_state(at())
            now = (folder / "t.jsonl").read_bytes() if (folder / "t.jsonl").exists() else None

    assert now == left


class TestPostgres:
    async def test_a_server_that_takes_no_writes(self, postgres, lent):
        """
        A session that may only read is an error that says so, and not a lost connection.
        """
        async with PostgresSaver(postgres.url, schema=lent):
            pass
        url = f"{postgres.url}&options=-c%20default_transaction_read_only%3Don"
        with pytest.raises(StorageError, match=r"refused to write.*read-only"):
            await use(PostgresSaver(url, schema=lent, reconnect_timeout_s=0.1))

    async def test_a_role_without_rights(self, postgres):
        """
        A role that may not make tables gets an error with the rights that it needs.
        """
        with postgres.connect() as db:
            db.execute("CREATE ROLE weak LOGIN")
        try:
            url = postgres.url.replace("postgres:@", "weak:@")
            assert "weak" in url
            with pytest.raises(StorageError, match="refused to write") as found:
                await use(PostgresSaver(url, schema="weak_ones"))
        finally:
            with postgres.connect() as db:
                db.execute("DROP ROLE weak")

        assert "CREATE on the database" in str(found.value)

    async def test_tables_that_go_while_it_is_open(self, postgres, schema):
        """
        Dropped tables are an error that says how to make them, for writes and for reads.
        """
        async with PostgresSaver(postgres.url, schema=schema) as saver:
            await ab(saver).ainvoke({}, at())
            postgres.drop(schema)
            for work in (ab(saver).ainvoke({}, at()), ab(saver).aget_state(at())):
                with pytest.raises(StorageError, match="tables are not there"):
                    await work
