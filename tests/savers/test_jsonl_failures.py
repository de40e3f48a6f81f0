"""Failures of the disk under a saver of JSON lines: nothing is half there, nothing is lost."""

import errno
import os
from contextlib import suppress

import anyio
import pytest
from msgspec.structs import replace

from actorgraph import JsonlSaver
from actorgraph.errors import SaverBrokenError, StorageError, StorageFullError
from actorgraph.values.commits import Commit, Committed, ListCheckpoints, Refused
from actorgraph.values.retention import CopyThread, DeleteCheckpoints, DeleteThread
from actorgraph.values.systems import ListRuns, PutRun, RunRow
from tests.savers.jsonl_folders import Direct, Unsynced, rows
from tests.savers.test_contract import RUN, claim, ident, point, save
from tests.support.graphs import ab, at


class Failing(Unsynced):
    """Fails at one operation, counted from 1; a write that fails has written a part."""

    def __init__(self) -> None:
        self.left = 0
        self.error = errno.ENOSPC

    def fail(self, at: int, error: int = errno.ENOSPC) -> None:
        """Fail at the operation that comes so many from here."""
        self.left, self.error = at, error

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(self.error, "injected")

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        """A part of the data, if this fails."""
        if self.left == 1:
            super().write(descriptor, data[: len(data) // 2], offset)
        self._count()
        super().write(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        """Nothing, or fail."""
        self._count()

    def sync_folder(self, path: str) -> None:
        """Nothing, or fail."""
        self._count()

    def rename(self, source: str, target: str) -> None:
        """Rename, or fail before."""
        self._count()
        super().rename(source, target)


def put(number, thread="t"):
    """A checkpoint from outside of runs, after the one before."""
    row = point(number, number - 1 or None, run=None)
    return Commit(thread, "", None, 0, 0, None, checkpoints=(row,))


def listed(direct, thread="t"):
    return rows(direct.ask(ListCheckpoints(thread)))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "threads"


def test_the_names_of_all_new_folders_are_on_the_disk(tmp_path):
    """
    A folder that is made with those above it is synced into each of them, and the names in it, as
    a process that died may have left them unsynced.
    """
    synced: list[str] = []

    class Told(Unsynced):
        def sync_folder(self, path: str) -> None:
            synced.append(path)

    with Direct(tmp_path / "a" / "b" / "threads", Told()):
        pass

    made = tmp_path / "a" / "b" / "threads"
    assert set(synced) == {str(folder) for folder in (tmp_path, *made.parents[:2], made)}


@pytest.mark.promise("B2")
@pytest.mark.parametrize("at", [1, 2])
def test_a_full_disk_stores_nothing_of_a_batch_and_leaves_the_saver_usable(folder, at):
    """
    Without space for one of two files neither has changed, and with space again both are
    written.
    """
    files = Failing()
    with Direct(folder, files) as direct:
        direct.commit(put(1), put(1, "u"))
        before = {path: path.read_bytes() for path in folder.glob("*.jsonl")}
        files.fail(at)

        for outcome in direct.commit(put(2), put(2, "u")):
            assert isinstance(outcome, Refused)
            assert isinstance(outcome.error, StorageFullError)

        assert {path: path.read_bytes() for path in folder.glob("*.jsonl")} == before
        assert all(isinstance(o, Committed) for o in direct.commit(put(2), put(2, "u")))
        assert (listed(direct), listed(direct, "u")) == ([2, 1], [2, 1])


@pytest.mark.promise("B1")
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_failure_at_the_first_run_of_a_system_is_the_library_s_error(folder, at):
    """
    Of the file, of its sync, and of the sync of its new name in the folder: the run is there
    afterwards or not, and the saver is opened again.
    """
    files = Failing()
    fresh = {"claimed": False, "owner": None, "created": 1, "metadata": "{}", "payload": b""}
    row = RunRow(b"\1" * 16, "t", "g", "pending", 0, **fresh)
    with Direct(folder, files) as direct:
        files.fail(at, errno.EIO)
        with suppress(SaverBrokenError):
            (outcome,) = direct.commit(PutRun(row, "t"))
            assert isinstance(outcome, Refused)
            assert isinstance(outcome.error, StorageError)
    assert files.left <= 0
    with Direct(folder) as direct:
        assert [found.run for found in direct.ask(ListRuns())] in ([], [row.run])


@pytest.mark.promise("B1")
def test_a_failed_sync_closes_the_saver_until_it_is_opened_again(folder):
    """
    After a failed fsync nothing is written until the folder is opened and verified again.
    """
    files = Failing()
    with Direct(folder, files) as direct:
        direct.commit(put(1))
        files.fail(2, errno.EIO)
        with pytest.raises(SaverBrokenError):
            direct.commit(put(2))
        with pytest.raises(SaverBrokenError):
            direct.commit(put(2))
    with Direct(folder) as direct:
        assert listed(direct) in ([1], [2, 1])
        number = len(listed(direct)) + 1
        assert isinstance(direct.commit(put(number))[0], Committed)


def test_later_saves_of_a_run_with_a_refused_row_are_refused_too(folder):
    """
    A row that can't be written refuses its save and the run's later ones of the batch, no others.
    """
    bad = save(RUN, 1, replace(point(2, 1), source="\ud800"))
    with Direct(folder) as direct:
        outcomes = direct.commit(claim(RUN, None, point(1)), bad, save(RUN, 1), put(1, "u"))

    assert [isinstance(o, Committed) for o in outcomes] == [True, False, False, True]
    assert outcomes[1] == outcomes[2]


@pytest.mark.promise("S089")
@pytest.mark.parametrize(
    "request_of",
    [
        lambda: DeleteCheckpoints("t", "", frozenset({ident(1)})),
        lambda: CopyThread("copy", "t"),
    ],
    ids=["delete", "copy"],
)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_rewrite_that_fails_changes_nothing_or_everything(folder, request_of, error):
    """
    Wherever a removal or a copy fails, the old file or the new one is there, whole, and no
    other.
    """
    seen = set()
    for place in range(1, 8):
        files = Failing()
        with Direct(folder, files) as direct:
            direct.commit(put(1), put(2), put(3))
            files.fail(place, error)
            with suppress(SaverBrokenError):
                direct.commit(request_of())
        with Direct(folder) as direct:
            left = (listed(direct), listed(direct, "copy"))
            seen.add(str(left))
            direct.commit(put(4))
            assert listed(direct)[0] == 4
            assert not list(folder.glob(".*.tmp"))
            direct.commit(DeleteThread("t"), DeleteThread("copy"))
            assert not list(folder.glob("*.jsonl"))

    assert len(seen) == 2


class TestWithoutPermission:
    """Files and folders that the program may not use: errors that name them, nothing is lost."""

    async def test_a_file_that_may_not_be_written(self, folder):
        """
        A thread whose file is read-only is read; writing is an error that names it, and other
        threads go on.
        """

        class Guarded(Unsynced):
            def create(self, path: str) -> int:
                if path.endswith("/t.jsonl"):
                    raise PermissionError(errno.EACCES, "Permission denied", path)
                return super().create(path)

        class Saver(JsonlSaver):
            files_class = Guarded

        async with JsonlSaver(folder) as saver:
            await ab(saver).ainvoke({"foo": "", "bar": []}, at())
        async with Saver(folder) as saver:
            with pytest.raises(StorageError, match=r"t\.jsonl' can't be written.*\n.*permissions"):
                await ab(saver).ainvoke({"foo": "", "bar": []}, at())
            assert (await ab(saver).aget_state(at())).values["bar"] == ["a", "b"]
            assert (await ab(saver).ainvoke({"foo": "", "bar": []}, at("u")))["bar"] == ["a", "b"]

    def test_the_file_of_a_batch_that_may_not_be_written_is_the_one_named(self, folder):
        """
        Of a batch of several threads the error names the file that could not be written.
        """

        class Guarded(Unsynced):
            def create(self, path: str) -> int:
                if path.endswith("/u.jsonl"):
                    raise PermissionError(errno.EACCES, "Permission denied", path)
                return super().create(path)

        with Direct(folder, Guarded()) as direct:
            outcomes = direct.commit(put(1, "t"), put(1, "u"), put(1, "v"))
            assert all(
                isinstance(o, Refused) and "/u.jsonl' can't" in str(o.error) for o in outcomes
            )
            assert listed(direct) == listed(direct, "v") == []

    def test_a_folder_that_may_not_be_written(self, folder, anyio_backend_name):
        """
        A folder that the program may not use is refused at the opening, with its name.
        """

        async def opened():
            async with JsonlSaver(folder):
                pass

        folder.mkdir()
        folder.chmod(0o500)
        was = os.geteuid()
        os.seteuid(was or 65_534)  # root may do everything
        try:
            with pytest.raises(StorageError, match=r"threads' can't be written.*\n.*permissions"):
                anyio.run(opened, backend=anyio_backend_name)
        finally:
            os.seteuid(was)
