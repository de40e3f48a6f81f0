"""Holes in files of JSON lines: what no sync has covered is cut off, other damage is named."""

import os

import pytest

from actorgraph import StorageError
from actorgraph.savers.jsonl.files import MARKS_NAME, Files
from actorgraph.values.commits import Commit, Committed, ListCheckpoints
from actorgraph.values.retention import DeleteThread
from tests.savers.jsonl_folders import Direct, rows
from tests.savers.test_contract import point


def put(number):
    """A checkpoint from outside of runs, after the one before."""
    row = point(number, number - 1 or None, run=None)
    return Commit("t", "", None, 0, 0, None, checkpoints=(row,))


@pytest.fixture
def folder(tmp_path):
    """A thread of three lines, each synced, and of three more of one append."""
    with Direct(tmp_path / "threads") as direct:
        for number in (1, 2, 3):
            direct.commit(put(number))
        direct.commit(put(4), put(5), put(6))
    return tmp_path / "threads"


def listed(folder):
    """The thread's checkpoints, newest first, or the error."""
    with Direct(folder) as direct:
        found = direct.ask(ListCheckpoints("t"))
    return found if isinstance(found, StorageError) else rows(found)


def lines(folder):
    """The file's lines."""
    return (folder / "t.jsonl").read_bytes().splitlines(keepends=True)


def with_hole(folder, first, last):
    """Bytes from one to another are zero."""
    file = folder / "t.jsonl"
    data = bytearray(file.read_bytes())
    data[first:last] = bytes(last - first)
    file.write_bytes(data)


class TestHoles:
    @pytest.mark.parametrize("first", [4, 5, 6])
    def test_an_append_that_was_never_synced_is_cut_off(self, folder, first, capsys):
        """
        Wherever its hole is, the lines before it are read, the next save follows them, and a
        warning names the file and how much was cut off.
        """
        (folder / MARKS_NAME).unlink()
        start = sum(map(len, lines(folder)[: first - 1]))
        for at in (0, 20, len(lines(folder)[first - 1]) - 4):
            with_hole(folder, start + at, start + at + 4)
            assert listed(folder) == list(range(first - 1, 0, -1)), at
        with Direct(folder) as direct:
            assert isinstance(direct.commit(put(first))[0], Committed)
        assert listed(folder) == list(range(first, 0, -1))
        told = capsys.readouterr().err
        assert "unacknowledged_end_cut" in told
        assert "t.jsonl" in told

    def test_a_line_before_the_hole_needs_no_newline(self, folder):
        """
        A line whose newline was to come with the next append, which is missing, is kept.
        """
        (folder / MARKS_NAME).unlink()
        start = sum(map(len, lines(folder)[:5]))
        with_hole(folder, start - 1, start + 40)
        assert listed(folder) == [5, 4, 3, 2, 1]
        with Direct(folder) as direct:
            direct.commit(put(6))
        assert listed(folder) == [6, 5, 4, 3, 2, 1]

    def test_a_hole_in_what_was_acknowledged_is_named(self, folder):
        """
        A hole below the mark is damage of the disk; without marks so is one in front of a line
        that was written when the one with the hole was durable.
        """
        acknowledged = sum(map(len, lines(folder)[:5]))
        whole = (folder / "t.jsonl").read_bytes()
        with_hole(folder, acknowledged + 20, acknowledged + 40)
        assert "line 6 of" in str(listed(folder))
        (folder / MARKS_NAME).unlink()
        assert listed(folder) == [5, 4, 3, 2, 1]
        (folder / "t.jsonl").write_bytes(whole)
        with_hole(folder, 20, 40)
        assert "line 1 of" in str(listed(folder))

    def test_a_new_file_may_be_all_hole(self, folder):
        """
        A name that reached the disk before any byte is a thread without checkpoints.
        """
        (folder / MARKS_NAME).unlink()
        with_hole(folder, 0, (folder / "t.jsonl").stat().st_size - 1)
        assert listed(folder) == []
        with Direct(folder) as direct, direct.folder.reading:
            assert list(direct.folder.threads()) == []


class TestMarks:
    def test_a_removed_file_takes_its_mark_along(self, folder):
        """
        A file system gives the inode of a removed file to the next one: its mark is gone by then,
        on the disk too.
        """
        synced: list[int] = []

        class Told(Files):
            def remove(self, path):
                assert direct.folder.marks.size_of(path) == 0
                assert synced
                super().remove(path)

        with Direct(folder, Told()) as direct, pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fdatasync", synced.append)
            assert direct.folder.marks.size_of(direct.folder.file("t"))
            assert isinstance(direct.commit(DeleteThread("t"))[0], Committed)
        assert listed(folder) == []
