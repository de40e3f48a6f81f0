"""LmdbSaver: checkpoints and runs in LMDB, written from docs/own-savers.md.

    saver = LmdbSaver("threads.lmdb")
    graph = builder.compile(checkpointer=saver)
    system = ActorSystem(saver)

Any number of processes of one machine may have the folder open: LMDB lets one of them write at a
time, and readers never wait. Runs of a killed process are taken over by the others.

A batch is one transaction, and each of its requests is a transaction inside that one: a refused
request leaves nothing. Whether a request is refused, and what a removal removes, is decided by the
library (`actorgraph.savers`): here are only rows.

A vacuum removes the epochs of deleted threads. LMDB uses the pages of removed rows again, but
never gives them back, and doesn't overwrite them before: copy the folder with `mdb_copy -c`.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import lmdb

from actorgraph.codec import Codec
from actorgraph.errors import (
    ActorGraphError,
    SaverBrokenError,
    SaverClosedError,
    StorageError,
    StorageFullError,
)
from actorgraph.savers.judge import one_by_one
from actorgraph.values.commits import CommitOutcome, Query, Refused, Request
from lmdb_saver.commits import carry_out
from lmdb_saver.reading import answer
from lmdb_saver.tables import Environment, Rows, acquire, release

GIGABYTE = 1 << 30


class LmdbSaver:
    """Stores checkpoints, and runs of an ActorSystem, in a folder of LMDB.

    Args:
        path: the folder; it is made if it is missing.
        codec: encodes values; default one with no types beyond the graph's own.
        size: the most bytes that the folder may grow to; the same in all processes.
    """

    durable = True
    immediate = False
    keeps_runs = True
    routes_runs = True

    def __init__(
        self, path: str | os.PathLike[str], *, codec: Codec | None = None, size: int = GIGABYTE
    ) -> None:
        self.path = Path(path).absolute()
        self.codec = codec or Codec()
        self._size = size
        self._open: Environment | None = None

    async def open(self) -> None:
        """Open the folder.

        Raises:
            StorageError: it can't be made or read.
        """
        try:
            self._open = await anyio.to_thread.run_sync(acquire, self.path, self._size)
        except (lmdb.Error, OSError) as error:
            raise StorageError(
                f"the folder {str(self.path)!r} can't be opened: {error}",
                do="name a folder of LMDB, or one that may be made",
            ) from error

    async def close(self) -> None:
        """Close the saver; the last one of this process closes the folder."""
        if self._open is not None:
            self._open = None
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(release, self.path)

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Store a batch in one transaction, which is on the disk when it ends."""
        return await anyio.to_thread.run_sync(self._commit, self._ready(), batch)

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """Answer queries from one view of the data."""
        return await anyio.to_thread.run_sync(self._query, self._ready(), queries)

    def _ready(self) -> Environment:
        if self._open is None:
            raise SaverClosedError(
                f"the saver of {str(self.path)!r} is closed", do="use it inside its `with` block"
            )
        return self._open

    def _commit(self, found: Environment, batch: Sequence[Request]) -> list[CommitOutcome]:
        with self._translated(), found.env.begin(write=True) as txn:
            rows = Rows(txn, found.tables)
            return one_by_one(batch, lambda request: _stored(found, rows, request))

    def _query(self, found: Environment, queries: Sequence[Query]) -> list[Any]:
        with self._translated(), found.env.begin() as txn:
            rows = Rows(txn, found.tables)
            return [answer(rows, query) for query in queries]

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Errors of LMDB as those that a saver may raise: see `ports.Saver.commit`."""
        try:
            yield
        except lmdb.MapFullError as error:
            raise StorageFullError(
                f"the folder {str(self.path)!r} has its {self._size:,} bytes",
                do="remove old threads, or give LmdbSaver a larger size in all processes",
            ) from error
        except lmdb.Error as error:
            raise SaverBrokenError(
                f"the folder {str(self.path)!r} failed: {error}", do="open the saver again"
            ) from error


def _stored(found: Environment, rows: Rows, request: Request) -> CommitOutcome:
    """Carry out one request in a transaction of its own, which is undone if it is refused."""
    with found.env.begin(write=True, parent=rows.txn) as txn:
        try:
            outcome = carry_out(rows.inside(txn), request)
        except ActorGraphError as error:  # of an encrypted row that can't be read, say
            outcome = Refused(error)
        if isinstance(outcome, Refused):
            txn.abort()
        return outcome
