"""Operating a saver: listings without values, counts, sizes, retention, backups, vacuum."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, cast

import anyio.to_thread

from actorgraph.api.blocking import block_on
from actorgraph.api.config import address_of, limit_of
from actorgraph.api.operations.requests import stored_bytes
from actorgraph.api.removals_log import told
from actorgraph.codec.records import decode_metadata, decode_names
from actorgraph.errors import InvalidConfigError, NotSupportedError
from actorgraph.ports import Saver
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.hosting import host_of
from actorgraph.superstep.snapshot import iso
from actorgraph.values.commits import (
    Committed,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Request,
    StoredCheckpoint,
)
from actorgraph.values.ids import as_text
from actorgraph.values.listing import CheckpointSummary
from actorgraph.values.retention import CountCheckpoints, Expire, ListThreads, Sweep, Vacuum

ORDERS = {"insertion": True, "newest": False}
TOGETHER_MAX = 32
"""Requests of maintenance handed over at once, so that those of runs come between."""


class UpkeepMethods:
    """Maintenance over the port. Runs may go on meanwhile."""

    async def alist_metadata(
        self,
        thread_id: str,
        *,
        order: Literal["insertion", "newest"] = "insertion",
        checkpoint_ns: str | None = None,
        limit: int | None = None,
    ) -> list[CheckpointSummary]:
        """A thread's checkpoints without values; none of these is read.

        Args:
            order: "insertion", as they were stored, or "newest" first.
            checkpoint_ns: only this namespace; default all of them.
            limit: how many at most, in that order; default all.
        Raises:
            InvalidConfigError: there is no such order, or the limit is no number.
        """
        if order not in ORDERS:
            raise InvalidConfigError(
                f"order={order!r} is none", do=f"use one of {', '.join(ORDERS)}"
            )
        most, oldest = limit_of(limit), ORDERS[order]
        query = ListCheckpoints(
            _thread(thread_id), checkpoint_ns, limit=most, bare=True, oldest_first=oldest
        )
        return [_summary(stored) for stored in await self._ask(query)]

    async def acount(self, thread_id: str, *, checkpoint_ns: str | None = None) -> int:
        """How many checkpoints a thread has, in all namespaces or one; 0 for an unknown thread."""
        return await self._ask(CountCheckpoints(_thread(thread_id), checkpoint_ns))

    async def acheckpoint_bytes(self, config: Mapping[str, Any]) -> int:
        """The stored bytes of one checkpoint: its record, its values, the writes beside it.

        Values that it shares with others count in full.

        Args:
            config: the checkpoint; without a checkpoint_id the newest of its namespace.
        Returns: 0 if there is none.
        """
        place = address_of(config, needs_thread=True)
        query = LoadCheckpoint(place.thread_id, place.namespace, place.checkpoint)
        loaded: Loaded = await self._ask(query)
        return 0 if loaded.checkpoint is None else stored_bytes(loaded.checkpoint)

    async def aretention(self, max_age: timedelta | float, keep_last: int = 1) -> int:
        """Remove what is older than `max_age` from all threads; call it once an hour or a day.

        Each namespace keeps its newest `keep_last` checkpoints whatever their age. With
        `keep_last=0` a thread all of whose checkpoints are older goes altogether, also if a run
        on it has been waiting for that long; that run gets a ConflictError at its next save.
        What a kept checkpoint's values are folded from stays. Call `avacuum` to give the space
        back and to have nothing of it left in the file.

        Args:
            max_age: seconds, or a timedelta.
        Returns: how many checkpoints were removed.
        Raises:
            InvalidConfigError: a number is negative.
        """
        seconds = max_age.total_seconds() if isinstance(max_age, timedelta) else max_age
        if not seconds >= 0 or type(keep_last) is not int or keep_last < 0:
            raise InvalidConfigError(
                f"max_age={max_age!r}, keep_last={keep_last!r}",
                do="use a time and a number of checkpoints, both from 0",
            )
        before = IDS.microseconds() - int(seconds * 1_000_000)
        threads = await self._ask(ListThreads(older=before))
        done = await self._carry_out([Expire(t, before, keep_last) for t in threads])
        return sum(stored.removed for stored in done)

    async def avacuum(self) -> int:
        """Remove rows that no checkpoint names, and give back the space of all that was removed.

        After it nothing of what was deleted can be read in the store's files, by whatever means.
        The store may need as much free space as it takes now, and saves wait meanwhile.

        Returns: how many rows of values and writes were removed.
        Raises:
            StorageBusyError: somebody else has been reading or writing for too long; what was
                removed is gone from the threads, and maybe still in the files.
        """
        threads = await self._ask(ListThreads())
        try:
            done = await self._carry_out([Sweep(thread_id) for thread_id in threads])
        finally:  # a thread that can't be read keeps its rows, and no other's
            await self._carry_out([Vacuum()])
        return sum(stored.freed for stored in done)

    async def abackup(self, dest: str | os.PathLike[str]) -> None:
        """Copy the store, as it is at one moment, to a new file; runs and reads go on meanwhile.

        SqliteSaver, PostgresSaver and InMemorySaver make an SQLite file, which SqliteSaver opens.
        JsonlSaver makes a folder, in which each thread is as it was at one moment. Encrypted values
        stay encrypted: a saver with the same keys reads them.

        Args:
            dest: a path where nothing is yet.
        Raises:
            NotSupportedError: the saver is somebody else's, or keeps objects; the text says what
                to do.
            StorageError: the copy can't be written.
            InvalidConfigError: there is something at `dest` already.
        """
        copy_to: Callable[[str], None] | None = getattr(self, "copy_to_file", None)
        if copy_to is None:
            raise NotSupportedError(
                f"{type(self).__name__} can't be backed up to a file",
                do="use the tools of what it keeps its checkpoints in, or one of actorgraph's "
                "savers",
            )
        await anyio.to_thread.run_sync(copy_to, os.fspath(dest))

    def list_metadata(
        self,
        thread_id: str,
        *,
        order: Literal["insertion", "newest"] = "insertion",
        checkpoint_ns: str | None = None,
        limit: int | None = None,
    ) -> list[CheckpointSummary]:
        """`alist_metadata`, blocking."""
        options: Any = {"order": order, "checkpoint_ns": checkpoint_ns, "limit": limit}
        return block_on("alist_metadata", lambda: self.alist_metadata(thread_id, **options))

    def count(self, thread_id: str, *, checkpoint_ns: str | None = None) -> int:
        """`acount`, blocking."""
        return block_on("acount", lambda: self.acount(thread_id, checkpoint_ns=checkpoint_ns))

    def checkpoint_bytes(self, config: Mapping[str, Any]) -> int:
        """`acheckpoint_bytes`, blocking."""
        return block_on("acheckpoint_bytes", lambda: self.acheckpoint_bytes(config))

    def retention(self, max_age: timedelta | float, keep_last: int = 1) -> int:
        """`aretention`, blocking."""
        return block_on("aretention", lambda: self.aretention(max_age, keep_last))

    def vacuum(self) -> int:
        """`avacuum`, blocking."""
        return block_on("avacuum", self.avacuum)

    def backup(self, dest: str | os.PathLike[str]) -> None:
        """`abackup`, blocking."""
        block_on("abackup", lambda: self.abackup(dest))

    async def _ask(self, query: Any) -> Any:
        return await host_of(cast("Saver", self)).reader.ask(query)

    async def _carry_out(self, requests: Sequence[Request]) -> list[Committed]:
        writer = host_of(cast("Saver", self)).writer
        done: list[Committed] = []
        failed: list[BaseException] = []
        for first in range(0, len(requests), TOGETHER_MAX):
            some = requests[first : first + TOGETHER_MAX]
            for request, outcome in zip(some, await writer.stored(*some), strict=True):
                if isinstance(outcome, Committed):
                    told(request, outcome)
                    done.append(outcome)
                else:
                    failed.append(outcome)
        if failed:
            raise failed[0]
        return done


def _thread(thread_id: str) -> str:
    return address_of({"configurable": {"thread_id": thread_id}}, needs_thread=True).thread_id


def _summary(stored: StoredCheckpoint) -> CheckpointSummary:
    row = stored.row
    return CheckpointSummary(
        thread_id=stored.thread_id,
        checkpoint_ns=stored.namespace,
        checkpoint_id=as_text(row.id),
        parent_id=None if row.parent is None else as_text(row.parent),
        sequence=stored.sequence,
        step=row.step,
        source=row.source,
        run_id=None if row.run is None else as_text(row.run),
        next=tuple(decode_names(row.next)),
        created_at=iso(row.created),
        metadata=decode_metadata(row.metadata),
    )
