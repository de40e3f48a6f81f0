"""A folder of JSON lines without actors or event loops, for tests that open one many times."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from actorgraph.savers.jsonl.batch import run_batch
from actorgraph.savers.jsonl.files import Files
from actorgraph.savers.jsonl.folder import Folder, acquire_folder, release_folder
from actorgraph.savers.jsonl.reading import run_queries
from actorgraph.values.commits import CommitOutcome, Query, Request


class Unsynced(Files):
    """Files of tests that lose no power."""

    def sync(self, descriptor: int) -> None:
        """Nothing."""

    def sync_folder(self, path: str) -> None:
        """Nothing."""


class Direct:
    """An open folder."""

    def __init__(self, path: Path, files: Files | None = None) -> None:
        self.files = files or Unsynced()
        self.pool = ThreadPoolExecutor(2)
        self.folder: Folder = acquire_folder(str(path), self.files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        release_folder(self.folder)
        self.pool.shutdown()

    def commit(self, *batch: Request) -> list[CommitOutcome]:
        """The outcomes of a batch."""
        return run_batch(self.folder, self.files, self.pool, batch)

    def ask(self, query: Query) -> Any:
        """The answer, or the error, of one query."""
        return run_queries(self.folder, [query])[0]


def rows(found: Sequence[Any]) -> list[int]:
    """The numbers of listed checkpoints, newest first."""
    return [int.from_bytes(checkpoint.row.id, "big") for checkpoint in found]
