"""JsonlBackend: a folder with one file per thread, each line a save in JSON.

A batch is one hop into a worker thread, on asyncio and on trio alike, and one sync for each file
that it touches.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread

from actorgraph.codec import Codec
from actorgraph.codec.serializers import SerializerProtocol, codec_of
from actorgraph.errors import InvalidConfigError, SaverClosedError
from actorgraph.savers.jsonl.backup import copy_folder
from actorgraph.savers.jsonl.batch import run_batch
from actorgraph.savers.jsonl.files import Files, translate
from actorgraph.savers.jsonl.folder import Folder, enter, leave
from actorgraph.savers.jsonl.reading import run_queries
from actorgraph.values.commits import CommitOutcome, Query, Request

SYNCS_MAX = 8
"""Files that are synced at the same time."""


class JsonlBackend:
    """Stores checkpoints in files of JSON lines.

    Args:
        path: the folder, made with mode 0700 if it doesn't exist; its files have 0600. One process
            at a time may have it open.
        codec: how values are stored; default one with no types beyond the graph's own. Its values
            are JSON text, whatever its form; what a serializer of LangGraph's kind makes of them
            stands in base64.
    Raises:
        InvalidConfigError: the path is empty.
    """

    durable = True
    immediate = False
    keeps_runs = True
    files_class: type[Files] = Files
    """What changes files; a test's subclass may fail on purpose."""

    def __init__(
        self, path: str | os.PathLike[str], *, codec: Codec | SerializerProtocol | None = None
    ) -> None:
        self.codec = codec_of(codec).in_form("json")
        self.path = os.fspath(path)
        if not self.path:
            raise InvalidConfigError("the folder's path is empty", do="name a folder")
        self._files = self.files_class()
        self._folder: Folder | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._write_limiter = anyio.CapacityLimiter(1)
        self._read_limiter = anyio.CapacityLimiter(1)

    async def open(self) -> None:
        """Lock the folder.

        Raises:
            StorageBusyError: another process has it open.
            StorageError: it can't be made or used.
        """
        if self._folder is not None:
            return
        self._write_limiter, self._read_limiter = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)
        try:
            self._folder = await anyio.to_thread.run_sync(enter, self.path, self._files)
        except OSError as error:
            raise translate(error, self.path) from error
        self._pool = ThreadPoolExecutor(SYNCS_MAX, thread_name_prefix="actorgraph-sync")

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        folder, pool = self._ready(), self._pool
        assert pool is not None

        def run() -> list[CommitOutcome]:
            return run_batch(folder, self._files, pool, batch)

        return await anyio.to_thread.run_sync(run, limiter=self._write_limiter)

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        folder = self._ready()
        return await anyio.to_thread.run_sync(
            run_queries, folder, queries, limiter=self._read_limiter
        )

    def check_place(self) -> None:
        """See that the locked folder still is the one of its name; blocking, from any thread.

        Raises:
            SaverBrokenError: it was removed or replaced, or a save has failed.
        """
        self._ready().check()

    def copy_to_file(self, dest: str) -> None:
        """Copy the folder to a new one, each thread as it is at one moment; blocking.

        Raises: as `copy_folder`.
        """
        copy_folder(self.path, self._files, dest)

    async def close(self) -> None:
        """Let other processes in."""
        folder, self._folder = self._folder, None
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        if folder is not None:
            leave(folder)

    def _ready(self) -> Folder:
        if self._folder is None:
            raise SaverClosedError(
                f"the saver of {self.path!r} is not open", do="use it inside its `with` block"
            )
        return self._folder
