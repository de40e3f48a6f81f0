"""Reads of a folder of JSON lines while its files are rewritten and removed."""

import errno
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from actorgraph.savers.jsonl.folder import INDEXES_MAX, TEMPORARY
from actorgraph.savers.jsonl.reading import run_queries
from actorgraph.values.commits import Commit, Committed, ListCheckpoints, Refused
from actorgraph.values.retention import CopyThread, DeleteCheckpoints, ListThreads
from tests.savers.jsonl_folders import Direct, Unsynced, rows
from tests.savers.test_contract import ident, point

LOOKS_S = 0.05
"""Time given to a writer that should be blocked, to show that it is not."""


class Told(Unsynced):
    """Lets a reader begin once the new file is written; says when it has taken its place."""

    def __init__(self) -> None:
        self.written: Any = None
        self.changed = threading.Event()

    def sync(self, descriptor: int) -> None:
        """Let the reader begin."""
        if self.written is not None:
            self.written()

    def rename(self, source: str, target: str) -> None:
        """Rename, and say so."""
        super().rename(source, target)
        self.changed.set()

    def remove(self, path: str) -> None:
        """Remove, and say so."""
        super().remove(path)
        if not path.endswith(TEMPORARY):
            self.changed.set()


class Full(Unsynced):
    """Calls a function before a write to a file, then has no space."""

    def __init__(self) -> None:
        self.before: Any = None

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write; the second time, fail."""
        if self.before is not None:
            before, self.before = self.before, None
            super().write(descriptor, data, offset)
            before()
            raise OSError(errno.ENOSPC, "injected")
        super().write(descriptor, data, offset)


class Interrupted(list[Any]):
    """Two queries of one batch; something happens between them."""

    def __init__(self, query: Any, between: Any) -> None:
        super().__init__([query, query])
        self._between = between

    def __iter__(self) -> Iterator[Any]:
        yield self[0]
        self._between()
        yield self[1]


@pytest.mark.parametrize("gone", [{1}, {1, 2, 3}])
def test_a_batch_of_reads_sees_a_file_before_a_removal_or_after_it(tmp_path, gone):
    """
    A thread that is trimmed or emptied during a batch of reads is read whole, as it was.
    """
    answers: list[Any] = []
    among = threading.Event()
    with Direct(tmp_path, Told()) as direct:
        for number in (1, 2, 3):
            direct.commit(_put(number))

        def between() -> None:
            among.set()
            direct.files.changed.wait(LOOKS_S)

        def read() -> None:
            queries = Interrupted(ListCheckpoints("t"), between)
            answers.extend(run_queries(direct.folder, queries))

        def begin() -> None:
            reader.start()
            among.wait()

        reader = threading.Thread(target=read)
        direct.files.written = begin
        direct.commit(DeleteCheckpoints("t", "", frozenset(map(ident, gone))))
        reader.join()

        assert direct.files.changed.is_set()
        assert [rows(answer) for answer in answers] == [[3, 2, 1]] * 2


def test_saves_undone_by_a_full_disk_are_not_remembered(tmp_path):
    """
    A read that sees a save which is then undone does not keep the thread from going on.
    """
    with Direct(tmp_path, Full()) as direct:
        direct.commit(_put(1))

        def read_anew() -> None:
            direct.folder.forget("t")  # as if many other threads had been read
            direct.ask(ListCheckpoints("t"))

        direct.files.before = read_anew
        (refused,) = direct.commit(_put(2))
        (stored,) = direct.commit(_put(2))

        assert isinstance(refused, Refused)
        assert isinstance(stored, Committed)
        assert rows(direct.ask(ListCheckpoints("t"))) == [2, 1]


def _put(number: int, thread: str = "t") -> Commit:
    row = point(number, number - 1 or None, run=None)
    return Commit(thread, "", None, 0, 0, None, checkpoints=(row,))


class Watched(Unsynced):
    """Files that call a function while their bytes, or names, are not durable yet."""

    def __init__(self) -> None:
        self.look: Any = None

    def sync(self, descriptor: int) -> None:
        """Look, once."""
        del descriptor
        self._call()

    def sync_folder(self, path: str) -> None:
        """Look, once."""
        if not path.endswith("store"):  # of the folder itself
            return
        self._call()

    def _call(self) -> None:
        look, self.look = self.look, None
        if look is not None:
            look()


class TestDurability:
    def test_a_reader_sees_nothing_that_is_not_synced(self, tmp_path):
        """
        While a batch of more threads than are remembered is synced, each of them reads as it was
        before, and the new ones are not there.
        """
        names = [f"t{number}" for number in range(INDEXES_MAX + 50)]
        seen: list[Any] = []
        with Direct(tmp_path / "store", Watched()) as direct:
            direct.commit(*[_put(1, thread) for thread in names[::2]])

            def look() -> None:
                seen.append(direct.ask(ListThreads()))
                seen.append([rows(direct.ask(ListCheckpoints(thread))) for thread in names])
                seen.append(len(direct.ask(ListCheckpoints(bare=True))))

            direct.files.look = look
            direct.commit(*[_put(2 if n % 2 == 0 else 1, t) for n, t in enumerate(names)])

            assert seen[0] == sorted(names[::2])
            assert seen[1] == [[1] if n % 2 == 0 else [] for n in range(len(names))]
            assert seen[2] == len(names[::2])
            after = [rows(direct.ask(ListCheckpoints(thread))) for thread in names]
            assert after == [[2, 1] if n % 2 == 0 else [1] for n in range(len(names))]

    def test_a_copy_is_there_when_its_name_is_durable(self, tmp_path):
        """
        A thread that is being copied is not there before the folder is synced.
        """
        seen: list[Any] = []
        with Direct(tmp_path / "store", Watched()) as direct:
            direct.commit(_put(1))

            def synced() -> None:
                direct.files.look = look

            def look() -> None:
                seen.append((direct.ask(ListThreads()), direct.ask(ListCheckpoints("u"))))

            direct.files.look = synced
            direct.commit(CopyThread("u", "t"))

            assert seen == [(["t"], [])]
            assert direct.ask(ListThreads()) == ["t", "u"]
            assert rows(direct.ask(ListCheckpoints("u"))) == [1]
