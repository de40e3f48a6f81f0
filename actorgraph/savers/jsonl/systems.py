"""Runs, events and leases of ActorSystems in a folder: one log of requests, replayed at start.

Leases    are kept in memory only: the folder is locked, so the owner of any other lease is dead
Statuses  the saves of a run that begin or end it are lines of its thread's file. The log repeats
          them later, as notes; notes that a crash has lost are read from the threads' files
Compacts  when most lines are obsolete, or when payloads were re-encrypted
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from actorgraph.errors import CheckpointError, StorageError
from actorgraph.savers.jsonl.files import Files, Marks, broken, check_unchanged, translate
from actorgraph.savers.jsonl.index import ThreadIndex, damaged_line
from actorgraph.savers.jsonl.lost_appends import is_lost_append
from actorgraph.savers.jsonl.schema import (
    Forgotten,
    Noted,
    SystemRecord,
    decode_system_line,
    encode_system_line,
)
from actorgraph.savers.memory.systems import MemorySystems
from actorgraph.savers.systems import is_leased, refusal, refused_claim, refused_row, status_after
from actorgraph.storage.logged_problems import warn
from actorgraph.values.commits import Commit, CommitOutcome, Committed, Refused
from actorgraph.values.ids import as_text
from actorgraph.values.systems import (
    OPEN_STATUSES,
    AdoptRun,
    DropOwner,
    OpenRun,
    PutRun,
    RenewOwner,
    RunRow,
    SealRun,
    SetRun,
    StoreEvents,
    SystemRequest,
)

LOG_NAME = "systems.log"
_EVERYTHING = 1 << 62
_SLACK = 1000
"""Number of obsolete lines that don't cause a rewrite."""


class RunLog:
    """The log of a folder and its content. Changed by the folder's writer; reads hold `reading`.

    Args:
        path: of the file.
        index: returns a thread's index, to read the saves of its runs.
        marks: the folder's.

    Attributes:
        memory: durable runs and events; and leases.
    """

    def __init__(self, path: str, index: Callable[[str], ThreadIndex], marks: Marks) -> None:
        self.path = path
        self._marks = marks
        self.memory = MemorySystems()
        self._size = 0
        self._inode = 0  # of the file; 0 while it is missing
        self._tail = 0  # bytes behind its lines that were never acknowledged
        self._lines = 0
        self._durable_lines = 0
        self._notes: list[SystemRecord] = []
        self._counts: dict[bytes, int] = {}
        self._unsynced = False
        self._sealed = False
        self._load()
        marks.check(path, self._size)
        self._reconcile(index)

    # --- requests of a batch ---

    def stage(self) -> "Stage":
        """Return a new stage, which judges the requests of a batch."""
        return Stage(self.memory)

    def check_file(self) -> None:
        """Check that no other program has changed the file.

        Raises:
            StorageError: it was changed.
        """
        check_unchanged(self.path, self._inode, self._size, self._tail)

    def store(self, files: Files, records: list[SystemRecord], *, sync: bool = True) -> None:
        """Write records, after the notes that wait; the caller applies them.

        Args:
            sync: whether to wait until they are durable.
        Raises:
            StorageError: nothing was written.
            SaverBrokenError: the outcome is unknown.
        """
        records = [*self._notes, *records]
        unsynced = self._lines - self._durable_lines
        data = b"".join(
            encode_system_line(self._lines + 1 + n, record, unsynced + n)
            for n, record in enumerate(records)
        )
        is_new = not self._size
        self.check_file()
        try:
            descriptor = files.create(self.path)
        except OSError as error:
            raise translate(error, self.path) from error
        try:
            self._write(files, descriptor, data)
            self._unsynced = True
            if sync:
                self._sync(files, descriptor, named=not is_new)
                self._marks.put(LOG_NAME, os.fstat(descriptor).st_ino, self._size + len(data))
            self._inode, self._tail = os.fstat(descriptor).st_ino, 0
        finally:
            os.close(descriptor)
        self._size += len(data)
        self._lines += len(records)
        self._durable_lines = self._lines if sync else self._durable_lines
        self._notes = []

    def _write(self, files: Files, descriptor: int, data: bytes) -> None:
        try:
            torn = os.fstat(descriptor).st_size - self._size
            if torn:  # the end of a write; after a power cut its rest must not follow later lines
                files.truncate(descriptor, self._size)
                files.sync(descriptor)
                warn("unacknowledged_end_cut", path=self.path, position=self._size, bytes=torn)
            files.write(descriptor, data, self._size)
        except OSError as error:
            try:
                files.truncate(descriptor, self._size)
                files.sync(descriptor)
            except OSError as second:
                raise broken(second, self.path) from second
            raise translate(error, self.path) from error

    def _sync(self, files: Files, descriptor: int, *, named: bool = True) -> None:
        try:
            files.sync(descriptor)
            if not named:  # a new file is durable only when its name in the folder is
                files.sync_folder(str(Path(self.path).parent))
        except OSError as error:
            raise broken(error, self.path) from error
        self._unsynced = False

    def apply(self, records: list[SystemRecord]) -> None:
        """Show records, which are durable now, to readers. Under `reading`."""
        for record in records:
            self._apply(record)
            self._sealed = self._sealed or isinstance(record, SealRun)

    def note(self, commit: Commit) -> None:
        """Apply a save of a system's run, which is durable in its thread's file. Under `reading`.

        Its note is written to the log later.
        """
        self.memory.committed(commit)
        if commit.run is not None:
            self._notes.append(self._count(commit.run, commit.ends, commit.claim is not None))

    def _count(self, run: bytes, ends: str | None, claimed: bool) -> Noted:
        count = self._counts[run] = self._counts.get(run, 0) + 1
        return Noted(run, count, claimed, ends)

    def write_notes(self, files: Files, *, sync: bool) -> None:
        """Write the notes that wait.

        Args:
            sync: whether they must be durable, as the lines that they repeat are to be removed.
        """
        if self._notes or (sync and self._unsynced):
            self.store(files, [], sync=sync)

    def compact(self, files: Files) -> None:
        """Rewrite the log if payloads were re-encrypted, or most of its lines are obsolete."""
        if self._sealed or self._lines > 2 * self.memory.count + _SLACK:
            self._rewrite(files)
            self._sealed = False

    # --- the file ---

    def _apply(self, record: SystemRecord) -> None:
        if isinstance(record, Noted):
            self._counts[record.run] = record.count
            self.memory.noted(record.run, claimed=record.claimed, ends=record.ends)
        elif isinstance(record, Forgotten):
            self.memory.forget_thread(record.thread_id)
        else:
            self.memory.apply(record)

    def _load(self) -> None:
        marked = self._marks.size_of(self.path)
        with suppress(FileNotFoundError), Path(self.path).open("rb") as file:
            status = os.fstat(file.fileno())
            self._inode, self._tail = status.st_ino, status.st_size
            for text in file:
                if not text.endswith(b"\n"):
                    return  # the torn end of a write that was never acknowledged
                number, position = self._lines + 1, self._size
                try:
                    record = decode_system_line(text, number)
                except ValueError as error:
                    if is_lost_append(text, number, position, file, marked):
                        return
                    raise damaged_line(self.path, number, position, error) from error
                self._apply(record)
                self._size += len(text)
                self._tail -= len(text)
                self._lines = number
                if self._size <= marked:
                    self._durable_lines = number

    def _reconcile(self, index: Callable[[str], ThreadIndex]) -> None:
        """Apply saves of open runs whose notes are not in the log, from the threads' files."""
        for row in [row for row in self.memory.in_order() if row.status in OPEN_STATUSES]:
            text, known = as_text(row.run), self._counts.get(row.run, 0)
            # A thread that can't be read must not block the others: the error appears when its
            # run is taken up.
            with suppress(CheckpointError, OSError):
                for line in index(row.thread_id).lines():
                    if line.run != text or (line.claim is None and line.ends is None):
                        continue
                    if known:
                        known -= 1
                        continue
                    noted = self._count(row.run, line.ends, line.claim is not None)
                    self._apply(noted)
                    self._notes.append(noted)

    def _rewrite(self, files: Files) -> None:
        temporary = str(Path(self.path).with_name(f".{LOG_NAME}.tmp"))
        self.check_file()
        records = list(self._snapshot())
        data = b"".join(encode_system_line(n, record) for n, record in enumerate(records, 1))
        try:
            descriptor = files.create(temporary)
            try:
                os.ftruncate(descriptor, 0)
                files.write(descriptor, data, 0)
                files.sync(descriptor)
                inode = os.fstat(descriptor).st_ino
            finally:
                os.close(descriptor)
            self._marks.drop(LOG_NAME)
            files.rename(temporary, self.path)
        except OSError as error:
            with suppress(OSError):
                files.remove(temporary)
            raise translate(error, self.path) from error
        self._size, self._notes, self._unsynced = len(data), [], False
        self._inode, self._tail = inode, 0
        self._lines = self._durable_lines = len(records)
        try:
            files.sync_folder(str(Path(self.path).parent))
        except OSError as error:
            raise broken(error, self.path) from error

    def _snapshot(self) -> Iterator[SystemRecord]:
        for row in self.memory.in_order():
            yield PutRun(row, row.thread_id)
            if row.run in self._counts:
                yield Noted(row.run, self._counts[row.run])
            events = self.memory.events(row.run)
            if events:
                owner = row.owner or b""
                yield StoreEvents(row.run, row.thread_id, owner, events, _EVERYTHING, 0)


class Stage:
    """Judges the requests of one batch in order, each by the log and those before it.

    Attributes:
        records: accepted requests, to be stored.
    """

    def __init__(self, memory: MemorySystems) -> None:
        self._memory = memory
        self._owners: dict[bytes, bytes | None] = {}
        self._put: dict[str, list[RunRow]] = {}
        self._begun: set[bytes] = set()
        self._left: set[bytes] = set()
        self.records: list[SystemRecord] = []

    def take(self, request: SystemRequest) -> CommitOutcome:
        """Accept a request, or refuse it."""
        if isinstance(request, RenewOwner | DropOwner):
            return self._memory.apply(request)
        if isinstance(request, SetRun | AdoptRun | StoreEvents):
            known, owner = self._owner(request.run)
            refused = refusal(request, owner, known=known)
            if refused is not None:
                return Refused(refused)
        if isinstance(request, PutRun):
            others, now = self._open_runs(request.thread_id), time.time_ns() // 1000
            busy = refused_row(request, others, now)
            if busy is not None:
                return Refused(busy)
            # Stored without `if_busy`: replaying the log must not judge it again.
            request = PutRun(request.row, request.thread_id, request.size)
        try:
            encode_system_line(1, request)
        except (ValueError, TypeError) as cause:
            return Refused(_refused(request, cause))
        self._note(request)
        self.records.append(request)
        return Committed()

    def _note(self, request: SystemRequest) -> None:
        """Remember changes by which later requests of the batch are judged."""
        if isinstance(request, PutRun) and not self._owner(request.row.run)[0]:
            self._owners[request.row.run] = request.row.owner
            self._put.setdefault(request.thread_id, []).append(request.row)
        elif isinstance(request, AdoptRun):
            self._owners[request.run] = request.owner
        elif isinstance(request, SetRun) and request.status not in OPEN_STATUSES:
            self._left.add(request.run)

    def add_commit(self, commit: Commit) -> None:
        """Remember that an accepted commit of this batch has begun or ended its run."""
        if commit.run is None:
            return
        if commit.claim is not None:
            self._begun.add(commit.run)
        if commit.ends is not None and status_after(commit.ends) not in OPEN_STATUSES:
            self._left.add(commit.run)

    def claim_refusal(self, commit: Commit) -> Refused | None:
        """Refuse a claim if another system has the run, or has one whose turn is first."""
        known, owner = self._owner(commit.run or b"")
        others = self._open_runs(commit.thread_id) if commit.claim is not None else ()
        error = refused_claim(commit, owner, known=known, others=others)
        return None if error is None else Refused(error)

    def is_leased(self, thread_id: str, owner: bytes) -> bool:
        """Whether a thread's owner still has it: its lease is valid and its run is open."""
        return self._memory.is_alive(owner) and is_leased(owner, self._open_runs(thread_id))

    def _open_runs(self, thread_id: str) -> list[OpenRun]:
        open_runs = self._memory.open_runs(thread_id)
        for row in self._put.get(thread_id, ()):
            alive = self._memory.is_alive(row.owner)
            open_runs.append(OpenRun(row.run, row.owner, row.claimed, alive, row.due))
        return [
            msgspec.structs.replace(
                one,
                owner=self._owners.get(one.run, one.owner),
                claimed=one.claimed or one.run in self._begun,
            )
            for one in open_runs
            if one.run not in self._left
        ]

    def _owner(self, run: bytes) -> tuple[bool, bytes | None]:
        if run in self._owners:
            return True, self._owners[run]
        return self._memory.owner_of(run)


def _refused(request: SystemRequest, cause: Exception) -> StorageError:
    refused = StorageError(
        f"a request about a run of thread {request.thread_id!r} can't be written as JSON: {cause}",
        do="use ids, names and reasons that are valid Unicode text",
    )
    refused.__cause__ = cause
    return refused
