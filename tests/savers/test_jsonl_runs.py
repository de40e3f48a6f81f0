"""The file in which a folder of JSON lines has the runs of ActorSystems."""

import zlib
from pathlib import Path
from typing import Any

import pytest

from actorgraph import FormatVersionError, JsonlSaver, StorageError
from actorgraph.errors import DamagedRowError
from actorgraph.savers.jsonl import systems
from actorgraph.values.retention import DeleteThread, KeepLast
from actorgraph.values.systems import ListRuns, SealRun, SetRun, StoreEvents, TrimRuns
from tests.savers.test_contract import claim, point, save
from tests.savers.test_system_rows import ONE, RUN, events, kinds, put


async def committed(folder: Path, *batches: list[Any]) -> list[Any]:
    """The record of a process: its batches, and the rows that it sees at its end."""
    saver = JsonlSaver(folder)
    await saver.open()
    for batch in batches:
        await saver.commit(batch)
    (rows,) = await saver.query([ListRuns()])
    await saver.close()
    return rows


def ended(head: int | None = None) -> list[list[Any]]:
    """The batches of a run that begins and ends."""
    begins = claim(RUN, head, point(1), owner=ONE)
    return [[put()], [begins], [save(RUN, 1, point(2, 1), epoch=2, ends="success", owner=ONE)]]


class TestRunsInFiles:
    async def test_they_outlive_the_process(self, tmp_path):
        """
        The next process reads the rows as they were, and their owners are dead.
        """
        first = await committed(tmp_path, *ended(), [put(b"x" * 16), events(1)])
        again = await committed(tmp_path)

        assert first == again
        assert [(row.status, row.alive) for row in again] == [
            ("success", False),
            ("pending", False),
        ]

    async def test_statuses_in_saves_survive_a_cut_file(self, tmp_path):
        """
        A file of runs that lacks what the threads' files have learns it from there.
        """
        before = await committed(tmp_path, *ended())
        log = tmp_path / systems.LOG_NAME
        lines = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(lines[0])

        assert await committed(tmp_path) == before
        assert len(lines) == 3

    async def test_known_saves_are_not_repeated(self, tmp_path):
        """
        The last row that a system wrote about a run after its last save holds.
        """
        waits = SetRun(RUN, "t", ONE, "pending", "drained")
        await committed(tmp_path, *ended(), [waits])

        assert [row.status for row in await committed(tmp_path)] == ["pending"]

    async def test_removals_take_no_status_away(self, tmp_path):
        """
        A run whose saves were removed stays as it was; a deleted thread takes its runs along.
        """
        rows = await committed(tmp_path, *ended(), [KeepLast("t", 1)])
        assert await committed(tmp_path) == rows
        assert rows[0].status == "success"
        assert await committed(tmp_path, [DeleteThread("t")]) == []
        assert await committed(tmp_path) == []

    @pytest.mark.parametrize("length", [1, 50, -1])
    async def test_a_torn_end_is_cut_off(self, tmp_path, length):
        """
        The half of a line that was never acknowledged goes with the next write.
        """
        await committed(tmp_path, [put()])
        log = tmp_path / systems.LOG_NAME
        whole = log.read_bytes()
        log.write_bytes(whole + whole[:length])

        assert len(await committed(tmp_path)) == 1
        assert len(await committed(tmp_path, [put(b"x" * 16)])) == 2
        assert len(await committed(tmp_path)) == 2

    @pytest.mark.parametrize(("old", "new"), [(b'"graph":"g"', b'"graph":"h"'), (b"\n", b"\n\n\n")])
    async def test_damage_is_named(self, tmp_path, old, new):
        """
        A line that was changed is an error with its number, and no run is made up.
        """
        await committed(tmp_path, [put(), put(b"x" * 16)])
        log = tmp_path / systems.LOG_NAME
        log.write_bytes(log.read_bytes().replace(old, new, 1))

        saver = JsonlSaver(tmp_path)
        await saver.open()
        (error,) = await saver.query([ListRuns()])
        outcomes = await saver.commit([put(b"y" * 16), claim(RUN, None, point(1))])
        await saver.close()

        assert isinstance(error, StorageError)
        assert "line" in str(error)
        assert kinds(outcomes)[0] is DamagedRowError

    async def test_a_later_format_is_refused(self, tmp_path):
        """
        A file of a later version is left alone.
        """
        await committed(tmp_path, [put()])
        log = tmp_path / systems.LOG_NAME
        body = log.read_bytes().replace(b'"v":1', b'"v":9')[: -len(b',"crc":"00000000"}\n')]
        log.write_bytes(body + b',"crc":"%08x"}\n' % zlib.crc32(body))
        saver = JsonlSaver(tmp_path)
        await saver.open()
        (error,) = await saver.query([ListRuns()])
        await saver.close()

        assert isinstance(error, FormatVersionError)

    async def test_a_resealed_payload_leaves_no_old_bytes(self, tmp_path):
        """
        A payload that is sealed anew leaves the file, and all that counts stays.
        """
        old, new = b"old" * 30, b"new" * 30
        kept = StoreEvents(RUN, "t", ONE, events(1, 2).rows, 10, 0)
        await committed(tmp_path, [put(payload=old)], *ended()[1:], [kept])
        size = (tmp_path / systems.LOG_NAME).stat().st_size
        (row,) = await committed(tmp_path, [SealRun(RUN, "t", new, ())])

        assert (row.payload, row.status) == (new, "success")
        assert (tmp_path / systems.LOG_NAME).stat().st_size <= size
        assert await committed(tmp_path) == [row]

    async def test_the_file_does_not_grow_for_nothing(self, tmp_path, monkeypatch):
        """
        Removed rows leave the file once they are the greater part of it.
        """
        monkeypatch.setattr(systems, "_SLACK", 5)
        await committed(tmp_path, [put()], *[[events(n, keep=1)] for n in range(1, 30)])
        lines = (tmp_path / systems.LOG_NAME).read_bytes().count(b"\n")
        assert lines < 12

        left = SetRun(RUN, "t", ONE, "error")
        assert await committed(tmp_path, [left], [TrimRuns(10)]) == []
