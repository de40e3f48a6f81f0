"""Maintain a saver: summaries, counts, sizes, retention, vacuum, backups, rotation of keys."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

import anyio.to_thread

from actorgraph.api.blocking import block_on
from actorgraph.api.config import address_of, limit_of
from actorgraph.api.savers.host_access import HostAccess, innermost
from actorgraph.api.savers.requests import stored_bytes
from actorgraph.api.savers.thread_methods import checked_thread_id, log_removal
from actorgraph.codec.records import decode_metadata, decode_names
from actorgraph.codec.reencryption import ThreadResealer
from actorgraph.errors import CheckpointError, InvalidConfigError, NotSupportedError
from actorgraph.errors.storage import fails_every_request
from actorgraph.errors.texts import add_note, combine_errors
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.saver.resealing import reseal_runs
from actorgraph.storage.file_errors import checked_path
from actorgraph.superstep.snapshot import iso
from actorgraph.values.checkpoint import CheckpointSummary
from actorgraph.values.commits import (
    Committed,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Request,
    StoredCheckpoint,
)
from actorgraph.values.durations import seconds_of
from actorgraph.values.ids import as_text
from actorgraph.values.retention import CountCheckpoints, Expire, ListThreads, Reseal, Sweep, Vacuum

ORDERS = {"insertion": True, "newest": False}
REQUESTS_AT_ONCE_MAX = 32
"""Requests handed over at once; small, so that requests of runs are served in between."""


class MaintenanceMethods(HostAccess):
    """Maintenance over the port. Runs may be active meanwhile."""

    async def alist_metadata(
        self,
        thread_id: str,
        *,
        order: Literal["insertion", "newest"] = "insertion",
        checkpoint_ns: str | None = None,
        limit: int | None = None,
    ) -> list[CheckpointSummary]:
        """Return summaries of a thread's checkpoints; values are not read.

        Args:
            thread_id: the thread.
            order: "insertion", as they were stored, or "newest" first.
            checkpoint_ns: only this namespace; default all of them.
            limit: the most summaries, in that order; default all.
        Raises:
            InvalidConfigError: the order is unknown, or the limit negative.
        """
        if order not in ORDERS:
            raise InvalidConfigError(
                f"unknown order={order!r}; expected one of {', '.join(ORDERS)}",
                do=f"use one of {', '.join(ORDERS)}",
            )
        most, oldest = limit_of(limit), ORDERS[order]
        query = ListCheckpoints(
            checked_thread_id(thread_id), checkpoint_ns, limit=most, bare=True, oldest_first=oldest
        )
        return [_summary(stored) for stored in await self._ask(query)]

    async def acount(self, thread_id: str, *, checkpoint_ns: str | None = None) -> int:
        """Count a thread's checkpoints, in all namespaces or one; 0 for an unknown thread."""
        return await self._ask(CountCheckpoints(checked_thread_id(thread_id), checkpoint_ns))

    async def acheckpoint_bytes(self, config: Mapping[str, Any]) -> int:
        """Return the stored bytes of one checkpoint: its record, values and pending writes.

        Values that it shares with other checkpoints count in full.

        Args:
            config: the checkpoint; without a checkpoint_id the newest of its namespace.
        Returns: 0 if the checkpoint isn't stored.
        """
        place = address_of(config, needs_thread=True)
        query = LoadCheckpoint(place.thread_id, place.namespace, place.checkpoint)
        loaded: Loaded = await self._ask(query)
        return 0 if loaded.checkpoint is None else stored_bytes(loaded.checkpoint)

    async def aretention(self, max_age: timedelta | float, keep_last: int = 1) -> int:
        """Remove data older than `max_age` from all threads; call it once an hour or a day.

        Each namespace keeps its newest `keep_last` checkpoints regardless of their age. With
        `keep_last=0` a thread whose checkpoints are all older is removed, even if a run on it has
        been waiting for that long; that run gets a ConflictError at its next save. Checkpoints
        that a kept one's values are folded from stay. Call `avacuum` to release the space and to
        erase removed data from the file.

        Args:
            max_age: seconds, or a timedelta.
            keep_last: checkpoints to keep per namespace.
        Returns: the number of checkpoints removed.
        Raises:
            InvalidConfigError: a number is negative, or the age is above a hundred years.
        """
        seconds = seconds_of(max_age, zero=True)
        if seconds is None or type(keep_last) is not int or keep_last < 0:
            raise InvalidConfigError(
                "max_age and keep_last must be >= 0, "
                f"got max_age={max_age!r}, keep_last={keep_last!r}",
                do="use seconds or a timedelta, at most a hundred years, and an integer",
            )
        before = IDS.microseconds() - int(seconds * 1_000_000)
        threads = await self._ask(ListThreads(older=before))
        done = await self._store_all([Expire(t, before, keep_last) for t in threads])
        return sum(stored.removed for stored in done)

    async def avacuum(self) -> int:
        """Remove rows that no checkpoint uses, and release the space of all that was removed.

        Afterwards deleted data can't be recovered from the saver's files. This may need as much
        free disk space as the saver uses now, and saves wait meanwhile.

        Returns: the number of rows of values and writes removed.
        Raises:
            StorageBusyError: another process has been reading or writing for too long; removed
                data is gone from the threads, but may still be in the files.
        """
        threads = await self._ask(ListThreads())
        try:
            done = await self._store_all([Sweep(thread_id) for thread_id in threads])
        finally:  # also if a thread can't be read: it keeps its rows, the others are vacuumed
            await self._store_all([Vacuum()])
        return sum(stored.freed for stored in done)

    async def arotate_keys(self, thread_id: str | None = None) -> int:
        """Encrypt all stored values with the codec's first key; then older keys can be dropped.

        Values that weren't encrypted are encrypted too, if the codec has `reads_plain=True`. It
        must keep that for these threads: None, booleans and integers in the records of their old
        checkpoints stay as they are. Inputs of runs that have stored nothing else, and what an
        ActorSystem keeps (its runs, their events), are encrypted too.

        Each thread is changed in one transaction, and the call may be repeated. Runs may be
        active meanwhile if the codec of their saver has the new key first already. Call
        `avacuum` afterwards: the old bytes may still be in the free space of the files.

        Args:
            thread_id: only this thread; default all of them.
        Returns: the number of threads changed.
        Raises:
            InvalidConfigError: the codec has no keys.
            EncryptionError, SerializationError, DamagedRowError: a value can't be read; its
                thread stays as it is, all others are changed. Of several errors the first is
                raised, with a note for each other.
        """
        if not self.codec.encrypts:
            raise InvalidConfigError(
                "rotate_keys() encrypts with the first key, but this saver's codec has no keys",
                do="pass codec=Codec(keys={'new': ..., 'old': ...}) to the saver",
            )
        host = self._host()
        if thread_id is None:
            threads: list[str] = await host.reader.ask(ListThreads(inputs=True))
        else:
            threads = [checked_thread_id(thread_id)]
        failed: list[CheckpointError] = []
        for thread in threads:
            try:
                await host.writer.store(Reseal(thread, ThreadResealer(self.codec, thread, thread)))
            except CheckpointError as error:
                if fails_every_request(error):
                    raise
                add_note(error, f"thread {thread!r} stays as it is")
                failed.append(error)
        if getattr(self, "keeps_runs", False):
            failed += await reseal_runs(host, self.codec, thread_id)
        if failed:
            raise combine_errors(failed)
        return len(threads)

    async def abackup(self, dest: str | os.PathLike[str]) -> None:
        """Write a consistent copy of everything to a new file; runs and reads continue meanwhile.

        SqliteSaver, PostgresSaver and InMemorySaver write an SQLite file, which SqliteSaver
        opens. JsonlSaver writes a folder, in which each thread is consistent by itself. Encrypted
        values stay encrypted: a saver with the same keys reads them.

        Args:
            dest: a path that doesn't exist.
        Raises:
            NotSupportedError: the saver is of another library, or keeps unencoded objects.
            StorageError: the copy can't be written.
            InvalidConfigError: `dest` exists already.
        """
        copy_to: Callable[[str], None] | None = getattr(self, "copy_to_file", None)
        if copy_to is None:
            raise NotSupportedError(
                f"{type(innermost(self)).__name__} can't be backed up to a file",
                do="use the backup tools of its database, or one of actorgraph's savers",
            )
        await anyio.to_thread.run_sync(copy_to, checked_path(dest, "a backup"))

    def list_metadata(
        self,
        thread_id: str,
        *,
        order: Literal["insertion", "newest"] = "insertion",
        checkpoint_ns: str | None = None,
        limit: int | None = None,
    ) -> list[CheckpointSummary]:
        """Blocking version of `alist_metadata`."""
        options: Any = {"order": order, "checkpoint_ns": checkpoint_ns, "limit": limit}
        return block_on("alist_metadata", lambda: self.alist_metadata(thread_id, **options))

    def count(self, thread_id: str, *, checkpoint_ns: str | None = None) -> int:
        """Blocking version of `acount`."""
        return block_on("acount", lambda: self.acount(thread_id, checkpoint_ns=checkpoint_ns))

    def checkpoint_bytes(self, config: Mapping[str, Any]) -> int:
        """Blocking version of `acheckpoint_bytes`."""
        return block_on("acheckpoint_bytes", lambda: self.acheckpoint_bytes(config))

    def retention(self, max_age: timedelta | float, keep_last: int = 1) -> int:
        """Blocking version of `aretention`."""
        return block_on("aretention", lambda: self.aretention(max_age, keep_last))

    def vacuum(self) -> int:
        """Blocking version of `avacuum`."""
        return block_on("avacuum", self.avacuum)

    def rotate_keys(self, thread_id: str | None = None) -> int:
        """Blocking version of `arotate_keys`."""
        return block_on("arotate_keys", lambda: self.arotate_keys(thread_id))

    def backup(self, dest: str | os.PathLike[str]) -> None:
        """Blocking version of `abackup`."""
        block_on("abackup", lambda: self.abackup(dest))

    async def _store_all(self, requests: Sequence[Request]) -> list[Committed]:
        """Store all requests; raise only when all have been tried: each other error is a note."""
        writer = self._host().writer
        done: list[Committed] = []
        failed: list[BaseException] = []
        for first in range(0, len(requests), REQUESTS_AT_ONCE_MAX):
            some = requests[first : first + REQUESTS_AT_ONCE_MAX]
            for request, outcome in zip(some, await writer.store_each(*some), strict=True):
                if isinstance(outcome, Committed):
                    log_removal(request, outcome)
                    done.append(outcome)
                else:
                    failed.append(outcome)
        if failed:
            raise combine_errors(failed)
        return done


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
