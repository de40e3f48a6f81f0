"""JsonlBackend: a folder with one file of JSON lines per thread, one line per save.

A batch is one hop into a worker thread, on asyncio and trio alike, and one sync per file.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from actorgraph.codec import Codec
from actorgraph.codec.serializers import SerializerProtocol, codec_of
from actorgraph.errors import SaverClosedError
from actorgraph.savers.jsonl.backup import copy_folder
from actorgraph.savers.jsonl.batch import run_batch
from actorgraph.savers.jsonl.files import Files, translate
from actorgraph.savers.jsonl.folder import Folder, acquire_folder, release_folder
from actorgraph.savers.jsonl.reading import run_queries
from actorgraph.storage.file_errors import checked_path
from actorgraph.values.commits import CommitOutcome, Query, Request

SYNCS_MAX = 8
"""Number of files that are synced in parallel."""


class JsonlBackend:
    """Stores checkpoints in files of JSON lines.

    Args:
        path: the folder, created with mode 0700 if missing; its files have 0600. One process at a
            time may have it open.
        codec: encodes values; default one with no types beyond the graph's own. It is used in its
            JSON form; bytes of a serializer with LangGraph's interface are stored as base64.
    Raises:
        InvalidConfigError: the path is empty.
    """

    durable = True
    immediate = False
    keeps_runs = True
    routes_runs = True
    keeps_alarms = True
    local_reads = True
    files_class: type[Files] = Files
    """Class of the file operations; tests replace it to inject failures."""

    def __init__(
        self, path: str | os.PathLike[str], *, codec: Codec | SerializerProtocol | None = None
    ) -> None:
        self.codec = codec_of(codec).in_form("json")
        self.path = checked_path(path, "JsonlSaver")
        self._place = self.path  # absolute once open: the process may change its folder
        self._files = self.files_class()
        self._folder: Folder | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._write_limiter = anyio.CapacityLimiter(1)
        self._read_limiter = anyio.CapacityLimiter(1)

    async def open(self) -> None:
        """Lock the folder.

        Raises:
            StorageBusyError: another process has it open.
            StorageError: it can't be created or used.
        """
        if self._folder is not None:
            return
        self._write_limiter, self._read_limiter = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)

        def acquire() -> tuple[str, Folder]:
            return str(Path(self.path).absolute()), acquire_folder(self.path, self._files)

        try:
            self._place, self._folder = await anyio.to_thread.run_sync(acquire)
        except OSError as error:
            raise translate(error, self.path) from error
        self._pool = ThreadPoolExecutor(SYNCS_MAX, thread_name_prefix="actorgraph-sync")

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        folder, pool = self._ready(), self._pool
        assert pool is not None

        def run() -> list[CommitOutcome]:
            return run_batch(folder, self._files, pool, batch, self._place)

        return await anyio.to_thread.run_sync(run, limiter=self._write_limiter)

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        folder = self._ready()
        return await anyio.to_thread.run_sync(
            run_queries, folder, queries, limiter=self._read_limiter
        )

    def check_place(self) -> None:
        """Check that the path still names the locked folder; blocking, from any thread.

        Raises:
            SaverBrokenError: the folder was removed or replaced, or a save has failed.
        """
        self._ready().check(self._place)

    def copy_to_file(self, dest: str) -> None:
        """Copy the folder to a new one; blocking, from any thread. See `copy_folder`.

        Raises:
            InvalidConfigError: `dest` exists, or is inside the folder.
            StorageError: the folder can't be read, or the copy can't be written.
        """
        copy_folder(self.path, self._files, dest)

    async def close(self) -> None:
        """Close the saver; the last one of this process unlocks the folder."""
        folder, self._folder = self._folder, None
        pool, self._pool = self._pool, None
        if pool is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(pool.shutdown)
        if folder is not None:
            release_folder(folder)

    def _ready(self) -> Folder:
        if self._folder is None:
            raise SaverClosedError(
                f"the saver of {self.path!r} is closed", do="use it inside its `with` block"
            )
        return self._folder
