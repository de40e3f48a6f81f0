"""Files of an open saver that other programs change: the next save says so, or all is there."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from actorgraph import JsonlSaver, SqliteSaver
from actorgraph.errors import CheckpointError, SaverBrokenError, StorageError
from actorgraph.savers.jsonl import folder as jsonl_folder
from actorgraph.savers.jsonl.systems import LOG_NAME
from actorgraph.values.commits import Refused
from actorgraph.values.systems import ListRuns
from tests.savers.other_programs import CUT, DATABASE, LINES, LOG, Action
from tests.savers.test_system_rows import put
from tests.support.graphs import ab, at, in_a_row, writer

pytestmark = [pytest.mark.one_loop, pytest.mark.promise("B2", "B3")]


class Places:
    """Makes copies of a folder with a database and a folder of lines, and of older ones of both."""

    def __init__(self, template: Path) -> None:
        self.template = template
        self._fill("now", 1)
        shutil.copytree(template / "now", template / "old")
        self._fill("now", 2)

    def _fill(self, name: str, turns: int) -> None:
        folder = self.template / name
        folder.mkdir(exist_ok=True)
        for saver in (SqliteSaver(folder / "runs.db"), JsonlSaver(folder / "threads")):
            with saver:
                ab(saver).invoke({}, at("acked"))
                if turns > 1:
                    ab(saver).invoke({"foo": "x" * 40_000}, at("8"))

    def copy(self, tmp_path: Path, name: str) -> tuple[Path, Path]:
        """A place below a link to a folder, and an older copy of it."""
        shutil.copytree(self.template / "now", tmp_path / "real")
        shutil.copytree(self.template / "old", tmp_path / "old")
        (tmp_path / "home").symlink_to(tmp_path / "real")
        return tmp_path / "home" / name, tmp_path / "old" / name


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """One history for all tests."""
    return Places(tmp_path_factory.mktemp("template"))


async def steps(kind: type[Any], place: Path, *threads: str) -> list[int]:
    """How many steps of `ab` the next process finds in each thread."""
    async with kind(place) as saver:
        found = [await ab(saver).aget_state(at(thread)) for thread in threads]
    return [len(state.values.get("bar", ())) for state in found]


async def close(saver: Any) -> None:
    """Close a saver whose files may be gone."""
    with suppress(StorageError, OSError):
        await saver.__aexit__(None, None, None)


class TestDatabases:
    @pytest.mark.parametrize("done", DATABASE)
    async def test_a_database_that_others_change(self, places, tmp_path, done):
        """
        A database, or its log, that was removed, replaced or cut is an error of the next save,
        which says how; after what harms nothing the runs go on, and the next process finds them.
        """
        action, error = DATABASE[done]
        place, old = places.copy(tmp_path, "runs.db")
        saver = await SqliteSaver(place).__aenter__()
        await ab(saver).ainvoke({}, at("acked"))
        graph = in_a_row({"a": _acting(action, place, old), "b": writer("b")}, checkpointer=saver)
        try:
            if error:
                with pytest.raises(SaverBrokenError, match=error):
                    await graph.ainvoke({}, at("new"))
                with pytest.raises(CheckpointError):
                    await graph.ainvoke({}, at("acked"))
            else:
                await graph.ainvoke({}, at("new"))
        finally:
            await close(saver)

        if not error:
            assert await steps(SqliteSaver, place, "acked", "new", "8") == [6, 2, 2]

    @pytest.mark.parametrize("done", [name for name, case in DATABASE.items() if case[1] == LOG])
    async def test_a_log_that_is_gone_is_written_back(self, places, tmp_path, done):
        """
        Steps that were acknowledged before the log lost its name are there after a close.
        """
        if "emptied" in done or "cut" in done:
            pytest.skip("its content is gone, not its name")
        action, _ = DATABASE[done]
        place, old = places.copy(tmp_path, "runs.db")
        async with SqliteSaver(place) as saver:
            await ab(saver).ainvoke({}, at("acked"))
            action(place, old)
            with pytest.raises(SaverBrokenError, match=LOG):
                await ab(saver).ainvoke({}, at("new"))

        assert await steps(SqliteSaver, place, "acked") == [6]

    async def test_a_backup_of_a_file_that_is_gone(self, places, tmp_path):
        """
        A backup of a database whose file was removed is refused, and makes no empty file.
        """
        place, _ = places.copy(tmp_path, "runs.db")
        async with SqliteSaver(place) as saver:
            place.unlink()
            with pytest.raises(StorageError, match="removed or renamed"):
                await saver.abackup(tmp_path / "copy.db")
        with pytest.raises(StorageError):
            await SqliteSaver(tmp_path / "never.db").abackup(tmp_path / "copy.db")

        assert not place.exists()
        assert not (tmp_path / "copy.db").exists()

    async def test_leases_are_not_renewed_beside_a_lost_log(self, places, tmp_path):
        """
        The renewal of a lease, on a connection of its own, makes no second log.
        """
        place, _ = places.copy(tmp_path, "runs.db")
        async with SqliteSaver(place) as saver:
            await ab(saver).ainvoke({}, at("new"))
            place.with_name("runs.db-wal").unlink()
            with pytest.raises(SaverBrokenError, match=LOG):
                saver.renew_beside([])
            assert not place.with_name("runs.db-wal").exists()


def _acting(action: Action, place: Path, old: Path) -> Any:
    """A node that does something to the files, once."""
    left = [action]

    async def act(_: Any) -> dict[str, list[str]]:
        if left:
            left.pop()(place, old)
        return {"bar": ["a"]}

    return act


class TestLines:
    @pytest.mark.parametrize("kept", [256, 0])
    @pytest.mark.parametrize("done", LINES)
    async def test_a_folder_that_others_change(self, places, tmp_path, done, kept, monkeypatch):
        """
        A folder, its lock, or a thread's file that was changed is an error of the next save,
        whether the thread's index is in memory or not; other threads go on where only a file was.
        """
        monkeypatch.setattr(jsonl_folder, "INDEXES_MAX", kept)
        action, error = LINES[done]
        place, old = places.copy(tmp_path, "threads")
        saver = await JsonlSaver(place).__aenter__()
        await ab(saver).ainvoke({}, at("acked"))
        graph = in_a_row({"a": _acting(action, place, old), "b": writer("b")}, checkpointer=saver)
        try:
            if error:
                with pytest.raises(StorageError, match=error):
                    await graph.ainvoke({}, at("acked"))
                with pytest.raises(StorageError):
                    await graph.ainvoke({}, at("acked"))
            if error and not error.startswith("the "):
                await graph.ainvoke({}, at("new"))
            elif not error:
                await graph.ainvoke({}, at("acked"))
        finally:
            await close(saver)

        if not error:
            assert await steps(JsonlSaver, place, "acked", "8") == [8, 2]

    @pytest.mark.parametrize("done", ["removed", "replaced", "emptied", "extended"])
    async def test_the_log_of_runs(self, tmp_path, done):
        """
        A log of runs that was changed refuses the next request about a run, and is left as it is.
        """
        log = tmp_path / LOG_NAME
        saver = await JsonlSaver(tmp_path).__aenter__()
        await saver.commit([put()])
        {
            "removed": log.unlink,
            "replaced": lambda: (shutil.copy(log, tmp_path / "x"), (tmp_path / "x").replace(log)),
            "emptied": lambda: log.write_bytes(b""),
            "extended": lambda: log.write_bytes(log.read_bytes() + b"mine"),
        }[done]()
        left = log.read_bytes() if log.exists() else None
        (outcome,) = await saver.commit([put(b"x" * 16)])
        await saver.query([ListRuns()])
        await close(saver)

        assert isinstance(outcome, Refused)
        with pytest.raises(StorageError, match=rf"systems\.log' was .*{done[:5]}|shortened"):
            raise outcome.error
        assert (log.read_bytes() if log.exists() else None) == left


def test_the_table_has_all_kinds_of_harm():
    """
    Each way to lose a file is tried on a database and on a folder.
    """
    assert len(DATABASE) + len(LINES) > 35
    assert {error for _, error in DATABASE.values()} >= {CUT, LOG, ""}
