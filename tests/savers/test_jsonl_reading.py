"""Reads of a folder of JSON lines while its files are rewritten and removed."""

import errno
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from actorgraph.savers.jsonl.folder import TEMPORARY
from actorgraph.savers.jsonl.reading import run_queries
from actorgraph.values.commits import Commit, ListCheckpoints, Refused, Stored
from actorgraph.values.retention import DeleteCheckpoints
from tests.savers.jsonl_folders import Direct, Unsynced, rows
from tests.savers.test_contract import ident, point

LOOKS_S = 0.05
"""How long a writer that should stand gets to show that it does not."""


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
    """Calls a function when told to write to a file, then has no space."""

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


def test_what_a_full_disk_has_undone_is_not_remembered(tmp_path):
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
        assert isinstance(stored, Stored)
        assert rows(direct.ask(ListCheckpoints("t"))) == [2, 1]


def _put(number: int) -> Commit:
    row = point(number, number - 1 or None, run=None)
    return Commit("t", "", None, 0, 0, None, checkpoints=(row,))
